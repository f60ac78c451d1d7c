//! The frame of a chart: plot area, axes, grid, lines and labels.

use std::error::Error as StdError;

use plotters::coord::Shift;
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::{DrawingArea, IntoDrawingArea, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, ShapeStyle};

use super::axis::{Axis, AxisSpec, Scale};
use super::{Dash, Point, Series, Weight};

/// The drawing's size in its own units; pages scale it.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    width: u32,
    height: u32,
    /// The size of letters.
    font: i32,
}

impl Size {
    /// A third of a page: letters of 10 px where the chart is 320 px wide.
    pub const WIDE: Self = Self { width: 760, height: 440, font: 24 };
    /// A quarter of a page: letters of 11 px where the chart is 304 px wide.
    pub const SMALL: Self = Self { width: 608, height: 500, font: 22 };
}

impl Default for Size {
    fn default() -> Self {
        Self::WIDE
    }
}

/// Mean width of a letter, in font sizes.
const LETTER: f64 = 0.58;
/// Colours of series; more repeat.
pub const COLORS: usize = 6;

// Placeholders; `themed` makes CSS of them. Each channel pattern occurs nowhere else.
const INK: RGBColor = RGBColor(1, 1, 1);
const MUTED: RGBColor = RGBColor(2, 2, 2);
const GRID: RGBColor = RGBColor(3, 3, 3);
const CARD: RGBColor = RGBColor(5, 5, 5);
const LIMIT: RGBColor = RGBColor(6, 6, 6);

/// A limit beyond this many times the data's greatest value is drawn at the top edge, so that the data
/// keep their resolution: on a linear scale, and on a logarithmic one.
const LIMIT_IN_RANGE: (f64, f64) = (3.0, 30.0);

type Fallible<T> = std::result::Result<T, Box<dyn StdError>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What a chart of lines shows.
#[derive(Debug, Clone, Default)]
pub struct Spec {
    /// For `<title>`: what a screen reader says first.
    pub title: String,
    /// For `<desc>`: what the chart shows, in a sentence.
    pub description: String,
    /// Across.
    pub x: AxisSpec,
    /// Up.
    pub y: AxisSpec,
    /// The lines.
    pub series: Vec<Series>,
    /// Vertical marks, with their intervals.
    pub marks: Vec<Mark>,
    /// Limits of the SLO, in the unit of `y`.
    pub limits: Vec<Limit>,
    /// A second scale on the right: its values times this factor are values of `y`.
    pub right: Option<f64>,
    /// How large it is.
    pub size: Size,
}

/// A limit that the values are held to.
#[derive(Debug, Clone)]
pub struct Limit {
    /// Its value.
    pub y: f64,
    /// What it is: `SLO 200 ms`.
    pub label: String,
}

/// A vertical mark.
#[derive(Debug, Clone)]
pub struct Mark {
    /// Where.
    pub x: f64,
    /// Its interval.
    pub interval: Option<(f64, f64)>,
    /// What it is.
    pub label: String,
}

/// The placeholder of a series' colour, and of the dash of its line.
fn series_color(index: usize, dash: Dash) -> RGBColor {
    let dash = match dash {
        Dash::Solid => 0,
        Dash::Long => 1,
        Dash::Dots => 2,
    };
    #[allow(clippy::cast_possible_truncation)] // below COLORS
    RGBColor(4, dash, (index % COLORS) as u8)
}

/// Draws `spec`. Where it cannot be drawn the text says so: a chart is never a reason to fail.
#[must_use]
pub fn draw(spec: &Spec) -> String {
    let mut svg = String::new();
    let drawn = {
        let area = SVGBackend::with_string(&mut svg, (spec.size.width, spec.size.height))
            .into_drawing_area();
        Frame::new(&area, spec)
            .and_then(|frame| frame.draw(spec))
            .and_then(|()| Ok(area.present()?))
    };
    match drawn {
        Ok(()) => themed(&svg, spec),
        Err(_) => String::from("<p class=\"muted\">this chart could not be drawn</p>"),
    }
}

struct Frame<'a, 'b> {
    area: &'a Area<'b>,
    x: Axis,
    y: Axis,
    font: i32,
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

impl<'a, 'b> Frame<'a, 'b> {
    fn new(area: &'a Area<'b>, spec: &Spec) -> Fallible<Self> {
        let points = || spec.series.iter().flat_map(|s| &s.points);
        let y_values = points().flat_map(|p| {
            let (low, high) = p.interval.unwrap_or((p.y, p.y));
            [low, p.y, high]
        });
        let marks = spec.marks.iter().map(|m| m.x);
        let x = Axis::fit(&spec.x, points().map(|p| p.x).chain(marks));
        let greatest = y_values.clone().filter(|y| y.is_finite()).fold(0.0, f64::max);
        let in_range = match spec.y.scale {
            Some(Scale::Log) => LIMIT_IN_RANGE.1,
            _ => LIMIT_IN_RANGE.0,
        };
        let limits = spec.limits.iter().map(|l| l.y).filter(|y| *y <= in_range * greatest);
        let y = Axis::fit(&spec.y, y_values.chain(limits));
        let font = spec.size.font;
        let width = |text: &str| text_width(text, font);
        let widest = y.ticks.iter().map(|t| width(&t.1)).max().unwrap_or(0);
        let ends = spec.series.iter().filter_map(|s| s.end_label.as_deref());
        let end = ends.map(width).max().unwrap_or(0);
        let end = if spec.right.is_some() { end.max(3 * font) } else { end };
        let title = if spec.y.label.is_empty() { 6 } else { font };
        Ok(Self {
            area,
            x,
            y,
            font,
            left: widest.max(font) + 18,
            right: i32::try_from(spec.size.width)? - end - 22,
            top: title + 22,
            bottom: i32::try_from(spec.size.height)? - 2 * font - 22,
        })
    }

    fn draw(&self, spec: &Spec) -> Fallible<()> {
        self.grid(spec)?;
        if let Some(factor) = spec.right {
            self.right_scale(factor)?;
        }
        for mark in &spec.marks {
            self.mark(mark)?;
        }
        for limit in &spec.limits {
            self.limit(limit)?;
        }
        let is_category = !spec.x.names.is_empty();
        for series in &spec.series {
            self.line(series, is_category)?;
        }
        for series in &spec.series {
            self.point_labels(&series.points)?;
        }
        self.end_labels(spec)
    }

    fn at(&self, x: f64, y: f64) -> (i32, i32) {
        (self.x_pixel(x), self.y_pixel(y))
    }

    fn x_pixel(&self, x: f64) -> i32 {
        self.left + pixels(self.x.place(x), self.right - self.left)
    }

    fn y_pixel(&self, y: f64) -> i32 {
        self.bottom - pixels(self.y.place(y), self.bottom - self.top)
    }

    fn grid(&self, spec: &Spec) -> Fallible<()> {
        for (value, text) in &self.y.ticks {
            let y = self.y_pixel(*value);
            self.path(&[(self.left, y), (self.right, y)], GRID.stroke_width(2))?;
            self.text(text, (self.left - 12, y), MUTED, HPos::Right, VPos::Center)?;
        }
        let letter = LETTER * f64::from(self.font) / f64::from(self.right - self.left);
        for (value, text) in self.x.roomy_ticks(letter) {
            let x = self.x_pixel(*value);
            self.path(&[(x, self.bottom), (x, self.bottom + 8)], MUTED.stroke_width(2))?;
            self.text(text, (x, self.bottom + 14), MUTED, HPos::Center, VPos::Top)?;
        }
        self.path(&[(self.left, self.bottom), (self.right, self.bottom)], MUTED.stroke_width(2))?;
        self.text(&spec.y.label, (4, 4), MUTED, HPos::Left, VPos::Top)?;
        let below = self.bottom + self.font + 22;
        match spec.x.names.is_empty() {
            true => self.text(&spec.x.label, (self.right, below), MUTED, HPos::Right, VPos::Top),
            false => {
                let middle = (self.left + self.right) / 2;
                self.text(&spec.x.label, (middle, below), MUTED, HPos::Center, VPos::Top)
            }
        }
    }

    /// Ticks of a second scale, at most as many as the first has.
    fn right_scale(&self, factor: f64) -> Fallible<()> {
        let top = self.y.value_at(1.0) / factor;
        for (value, text) in Axis::round_ticks(0.0, top) {
            let at = (self.right + 12, self.y_pixel(value * factor));
            self.text(&text, at, MUTED, HPos::Left, VPos::Center)?;
        }
        Ok(())
    }

    /// A long-dashed line across; at the top edge if its value lies above the scale.
    fn limit(&self, limit: &Limit) -> Fallible<()> {
        let is_above = limit.y > self.y.value_at(1.0) * 1.001;
        let y = if is_above { self.top } else { self.y_pixel(limit.y) };
        self.path(&[(self.left, y), (self.right, y)], LIMIT.stroke_width(3))?;
        let text = match is_above {
            true => format!("{}, above the scale", limit.label),
            false => limit.label.clone(),
        };
        let has_room_above = y - self.font - 6 > 0 && !is_above;
        let (dy, v) = if has_room_above { (-4, VPos::Bottom) } else { (6, VPos::Top) };
        self.text(&text, (self.left + 8, y + dy), LIMIT, HPos::Left, v)
    }

    fn mark(&self, mark: &Mark) -> Fallible<()> {
        if let Some((low, high)) = mark.interval {
            let corners = [(self.x_pixel(low), self.top), (self.x_pixel(high), self.bottom)];
            self.area.draw(&Rectangle::new(corners, MUTED.mix(0.14).filled()))?;
        }
        let x = self.x_pixel(mark.x);
        // A dashed line: 8 on, 8 off.
        for y in (self.top..self.bottom).step_by(16) {
            self.path(&[(x, y), (x, (y + 8).min(self.bottom))], MUTED.stroke_width(2))?;
        }
        let (h, dx) =
            if x > (self.left + self.right) / 2 { (HPos::Right, -8) } else { (HPos::Left, 8) };
        self.text(&mark.label, (x + dx, self.top - 6), MUTED, h, VPos::Top)
    }

    /// A line through its points. On an axis of names it breaks where a name has no point.
    fn line(&self, series: &Series, is_category: bool) -> Fallible<()> {
        let plain = series_color(series.color, Dash::Solid);
        let color = series_color(series.color, series.dash);
        let points: Vec<&Point> =
            series.points.iter().filter(|p| p.x.is_finite() && p.y.is_finite()).collect();
        self.intervals(&points, plain, series.weight)?;
        let (width, alpha, radius) = match series.weight {
            Weight::Strong => (4, 1.0, 7),
            Weight::Pale => (3, 1.0, 4),
            Weight::Dots => (0, 1.0, 8),
            Weight::Specks => (0, 0.6, 4),
            Weight::Bare => (4, 1.0, 0),
        };
        let is_adjacent = |a: &&Point, b: &&Point| !is_category || b.x - a.x < 1.5;
        for run in points.chunk_by(is_adjacent).filter(|run| width > 0 && run.len() > 1) {
            let path: Vec<(i32, i32)> = run.iter().map(|p| self.at(p.x, p.y)).collect();
            self.path(&path, color.mix(alpha).stroke_width(width))?;
        }
        let radius = if points.len() == 1 { radius.max(7) } else { radius };
        for point in points.iter().filter(|_| radius > 0) {
            self.marker(self.at(point.x, point.y), series, radius, point.is_hollow)?;
        }
        Ok(())
    }

    /// A point's marker: its shape is the side's, so that no meaning rests on colour alone.
    fn marker(&self, at: (i32, i32), series: &Series, r: i32, is_hollow: bool) -> Fallible<()> {
        let color = series_color(series.color, Dash::Solid);
        if series.weight == Weight::Specks {
            return Ok(self.area.draw(&Circle::new(at, r, color.mix(0.6).filled()))?);
        }
        let (x, y) = at;
        let outline = |r: i32| match series.color % 4 {
            0 => vec![(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)],
            2 => vec![(x, y - r - 1), (x + r + 1, y + r), (x - r - 1, y + r)],
            _ => vec![(x, y - r - 2), (x + r + 2, y), (x, y + r + 2), (x - r - 2, y)],
        };
        // A hollow one is drawn over the line in the card's colour.
        let inner = if is_hollow { r - 1 } else { 0 };
        if series.color % 4 == 1 {
            self.area.draw(&Circle::new(at, r + 1, color.filled()))?;
            if inner > 0 {
                self.area.draw(&Circle::new(at, inner - 1, CARD.filled()))?;
            }
            return Ok(());
        }
        self.area.draw(&Polygon::new(outline(r), color.filled()))?;
        if inner > 0 {
            self.area.draw(&Polygon::new(outline(inner - 2), CARD.filled()))?;
        }
        Ok(())
    }

    /// Labels beside points, right of a line that rises and under one that runs flat; one that would
    /// lie on the label before it is left out.
    fn point_labels(&self, points: &[Point]) -> Fallible<()> {
        let points: Vec<&Point> =
            points.iter().filter(|p| p.x.is_finite() && p.y.is_finite()).collect();
        let path: Vec<(i32, i32)> = points.iter().map(|p| self.at(p.x, p.y)).collect();
        let mut last: Option<(i32, i32)> = None;
        for (index, (place, point)) in path.iter().zip(points).enumerate() {
            let Some(label) = &point.label else { continue };
            let width = text_width(label, self.font);
            let next = path.get(index + 1).copied().unwrap_or((place.0 + 1, place.1));
            let flat = (next.0 - place.0).abs() > (next.1 - place.1).abs();
            let at = match (flat, place.0 + width + 16 > self.right) {
                (_, true) => (self.right - width, place.1 + self.font),
                (true, false) => (place.0 + 2, place.1 + self.font),
                (false, false) => (place.0 + 16, place.1),
            };
            let at = (at.0, at.1.min(self.bottom - self.font / 2));
            if last
                .is_some_and(|l| (at.1 - l.1).abs() < self.font && (at.0 - l.0).abs() < width + 8)
            {
                continue;
            }
            last = Some(at);
            self.text(label, at, INK, HPos::Left, VPos::Center)?;
        }
        Ok(())
    }

    /// Intervals: a band where neighbours on a line have them, a whisker at each point.
    fn intervals(&self, points: &[&Point], color: RGBColor, weight: Weight) -> Fallible<()> {
        let with: Vec<(f64, (f64, f64))> =
            points.iter().filter_map(|p| Some((p.x, p.interval?))).collect();
        if with.len() > 1 && weight != Weight::Dots {
            let low = with.iter().map(|(x, i)| self.at(*x, i.0));
            let high = with.iter().rev().map(|(x, i)| self.at(*x, i.1));
            let outline: Vec<(i32, i32)> = low.chain(high).collect();
            self.area.draw(&Polygon::new(outline, color.mix(0.16)))?;
        }
        for (x, (low, high)) in with {
            self.path(&[self.at(x, low), self.at(x, high)], color.mix(0.6).stroke_width(3))?;
        }
        Ok(())
    }

    /// Labels at the right ends, pushed apart where they would overlap.
    fn end_labels(&self, spec: &Spec) -> Fallible<()> {
        let ends = spec.series.iter().filter_map(|s| {
            let last = s.points.iter().rev().find(|p| p.y.is_finite())?;
            Some((self.at(last.x, last.y), s.end_label.as_deref()?))
        });
        let mut ends: Vec<((i32, i32), &str)> = ends.collect();
        ends.sort_by_key(|e| e.0.1);
        let mut free_from = i32::MIN;
        for (place, _) in &mut ends {
            place.1 = place.1.max(free_from);
            free_from = place.1 + self.font + 2;
        }
        let mut free_to = self.bottom + 2;
        for (place, _) in ends.iter_mut().rev() {
            place.1 = place.1.min(free_to);
            free_to = place.1 - self.font - 2;
        }
        for (place, label) in ends {
            self.text(label, (place.0 + 14, place.1), INK, HPos::Left, VPos::Center)?;
        }
        Ok(())
    }

    fn path(&self, points: &[(i32, i32)], style: ShapeStyle) -> Fallible<()> {
        Ok(self.area.draw(&PathElement::new(points.to_vec(), style))?)
    }

    fn text(&self, text: &str, at: (i32, i32), color: RGBColor, h: HPos, v: VPos) -> Fallible<()> {
        // plotters-svg writes font sizes divided by 1.24.
        let font = ("sans-serif", f64::from(self.font) * 1.24).into_font();
        let style = font.color(&color).pos(Pos::new(h, v));
        Ok(self.area.draw(&Text::new(text.to_owned(), at, style))?)
    }
}

/// A share of a length in whole pixels.
#[allow(clippy::cast_possible_truncation)] // within the drawing
fn pixels(share: f64, length: i32) -> i32 {
    (share * f64::from(length)).round() as i32
}

/// About how wide a text is.
fn text_width(text: &str, font: i32) -> i32 {
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // some characters
    let width = (text.chars().count() as f64 * LETTER * f64::from(font)) as i32;
    width
}

/// Turns placeholders into CSS, and gives the drawing a name and a description.
fn themed(svg: &str, spec: &Spec) -> String {
    let body = svg.split_once('>').map_or(svg, |(_, body)| body);
    let Size { width, height, font } = spec.size;
    let mut body = body
        .replace("#010101", "currentColor")
        .replace("#020202", "var(--muted)")
        .replace("#030303", "var(--grid)")
        .replace("#050505", "var(--card)")
        .replace("stroke=\"#060606\"", "class=\"limit\"")
        .replace("#060606", "var(--slo)")
        .replace(" opacity=\"1\"", "")
        .replace(" font-family=\"sans-serif\"", "")
        .replace(&format!(" font-size=\"{}\"", f64::from(font) * 1.24 / 1.24), "")
        .replace(" \"/>", "\"/>")
        .replace('\n', "");
    for index in 0..COLORS {
        for (dash, class) in [(1, "long"), (2, "dots")] {
            let drawn = format!("stroke=\"#040{dash}0{index}\"");
            body = body.replace(&drawn, &format!("class=\"{class}\" stroke=\"var(--s{index})\""));
        }
        body = body.replace(&format!("#04000{index}"), &format!("var(--s{index})"));
    }
    format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\"><title>{}</title><desc>{}</desc>{body}",
        escape(&spec.title),
        escape(&spec.description)
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
