//! The frame of a chart: plot area, axes, grid, lines and labels.

use std::error::Error as StdError;

use plotters::coord::Shift;
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::{DrawingArea, IntoDrawingArea, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, ShapeStyle};

use super::axis::{Axis, AxisSpec};
use super::{Point, Series, Weight};

/// The drawing's size in its own units; pages scale it.
const WIDTH: u32 = 760;
/// See [`WIDTH`].
const HEIGHT: u32 = 440;
/// The size of letters: 10 px where a chart is 320 px wide.
const FONT: i32 = 24;
/// Mean width of a letter, in font sizes.
const LETTER: f64 = 0.58;
/// Colours of series; more repeat.
pub(super) const COLORS: usize = 6;

// Placeholders; `themed` makes CSS of them. Each channel pattern occurs nowhere else.
const INK: RGBColor = RGBColor(1, 1, 1);
const MUTED: RGBColor = RGBColor(2, 2, 2);
const GRID: RGBColor = RGBColor(3, 3, 3);

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

/// The placeholder of a series' colour.
fn series_color(index: usize) -> RGBColor {
    #[allow(clippy::cast_possible_truncation)] // below COLORS
    RGBColor(4, 0, (index % COLORS) as u8)
}

/// Draws `spec`. Where it cannot be drawn the text says so: a chart is never a reason to fail.
#[must_use]
pub fn draw(spec: &Spec) -> String {
    let mut svg = String::new();
    let drawn = {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        Frame::new(&area, spec)
            .and_then(|frame| frame.draw(spec))
            .and_then(|()| Ok(area.present()?))
    };
    match drawn {
        Ok(()) => themed(&svg, &spec.title, &spec.description),
        Err(_) => String::from("<p class=\"muted\">this chart could not be drawn</p>"),
    }
}

/// Whether a line is the base that others lie on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lie {
    Under,
    Over,
}

struct Frame<'a, 'b> {
    area: &'a Area<'b>,
    x: Axis,
    y: Axis,
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
        let y = Axis::fit(&spec.y, y_values);
        let widest = y.ticks.iter().map(|t| text_width(&t.1)).max().unwrap_or(0);
        let ends = spec.series.iter().filter_map(|s| s.end_label.as_deref());
        let end = ends.map(text_width).max().unwrap_or(0);
        Ok(Self {
            area,
            x,
            y,
            left: widest.max(FONT) + 18,
            right: i32::try_from(WIDTH)? - end - 22,
            top: FONT + 22,
            bottom: i32::try_from(HEIGHT)? - 2 * FONT - 22,
        })
    }

    fn draw(&self, spec: &Spec) -> Fallible<()> {
        self.grid(spec)?;
        for mark in &spec.marks {
            self.mark(mark)?;
        }
        let several = spec.series.iter().any(|s| s.color > 0);
        for series in &spec.series {
            // The base is the wider line beneath, so that what lies on it leaves it to be seen.
            let under = several && series.color == 0;
            self.line(series, if under { Lie::Under } else { Lie::Over })?;
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
        let letter = LETTER * f64::from(FONT) / f64::from(self.right - self.left);
        for (value, text) in self.x.roomy_ticks(letter) {
            let x = self.x_pixel(*value);
            self.path(&[(x, self.bottom), (x, self.bottom + 8)], MUTED.stroke_width(2))?;
            self.text(text, (x, self.bottom + 14), MUTED, HPos::Center, VPos::Top)?;
        }
        self.path(&[(self.left, self.bottom), (self.right, self.bottom)], MUTED.stroke_width(2))?;
        self.text(&spec.y.label, (4, 4), MUTED, HPos::Left, VPos::Top)?;
        let foot = (self.right, self.bottom + FONT + 22);
        self.text(&spec.x.label, foot, MUTED, HPos::Right, VPos::Top)
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

    fn line(&self, series: &Series, lie: Lie) -> Fallible<()> {
        let color = series_color(series.color);
        let points: Vec<&Point> =
            series.points.iter().filter(|p| p.x.is_finite() && p.y.is_finite()).collect();
        let path: Vec<(i32, i32)> = points.iter().map(|p| self.at(p.x, p.y)).collect();
        self.intervals(&points, color, series.weight)?;
        let (width, alpha, radius) = match series.weight {
            Weight::Strong => (5, 1.0, 7),
            Weight::Pale => (3, 1.0, 5),
            Weight::Dots => (0, 1.0, 8),
            Weight::Specks => (0, 0.6, 4),
            Weight::Bare => (4, 1.0, 0),
        };
        let extra = match lie {
            Lie::Under => 4,
            Lie::Over => 0,
        };
        if width > 0 && path.len() > 1 {
            self.path(&path, color.mix(alpha).stroke_width(width + extra))?;
        }
        let radius = if path.len() == 1 { radius.max(7) } else { radius };
        let radius = if radius > 0 { radius + extra / 2 } else { 0 };
        if radius > 0 {
            for place in &path {
                self.area.draw(&Circle::new(*place, radius, color.mix(alpha).filled()))?;
            }
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
            let width = text_width(label);
            let next = path.get(index + 1).copied().unwrap_or((place.0 + 1, place.1));
            let flat = (next.0 - place.0).abs() > (next.1 - place.1).abs();
            let at = match (flat, place.0 + width + 16 > self.right) {
                (_, true) => (self.right - width, place.1 + FONT),
                (true, false) => (place.0 + 2, place.1 + FONT),
                (false, false) => (place.0 + 16, place.1),
            };
            let at = (at.0, at.1.min(self.bottom - FONT / 2));
            if last.is_some_and(|l| (at.1 - l.1).abs() < FONT && (at.0 - l.0).abs() < width + 8) {
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
            free_from = place.1 + FONT + 2;
        }
        let mut free_to = self.bottom + 2;
        for (place, _) in ends.iter_mut().rev() {
            place.1 = place.1.min(free_to);
            free_to = place.1 - FONT - 2;
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
        let font = ("sans-serif", f64::from(FONT) * 1.24).into_font();
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
fn text_width(text: &str) -> i32 {
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // some characters
    let width = (text.chars().count() as f64 * LETTER * f64::from(FONT)) as i32;
    width
}

/// Turns placeholders into CSS, and gives the drawing a name and a description.
fn themed(svg: &str, title: &str, description: &str) -> String {
    let body = svg.split_once('>').map_or(svg, |(_, body)| body);
    let mut body = body
        .replace("#010101", "currentColor")
        .replace("#020202", "var(--muted)")
        .replace("#030303", "var(--grid)")
        .replace(" opacity=\"1\"", "")
        .replace(" font-family=\"sans-serif\"", "")
        .replace(&format!(" font-size=\"{}\"", f64::from(FONT) * 1.24 / 1.24), "")
        .replace(" \"/>", "\"/>")
        .replace("\n", "");
    for index in 0..COLORS {
        body = body.replace(&format!("#04000{index}"), &format!("var(--s{index})"));
    }
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\"><title>{}</title><desc>{}</desc>{body}",
        escape(title),
        escape(description)
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
