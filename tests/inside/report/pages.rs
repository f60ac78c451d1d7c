//! The HTML pages: whole, self-contained, safe, and small enough.

use std::collections::BTreeMap;

use inferometer::report::{Report, ReportInput, html};

use super::fixture;

fn pages(input: ReportInput) -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    html::render(&Report::new(input), &mut |path, text| {
        let before = pages.insert(path.to_owned(), text.to_owned());
        assert!(before.is_none(), "two pages at {path}");
        Ok(())
    })
    .unwrap();
    pages
}

fn every_kind() -> Vec<(&'static str, ReportInput)> {
    vec![
        ("one side", fixture::one_sided()),
        ("two sides", fixture::two_sided(2)),
        ("three configurations", fixture::configurations()),
        ("rates", fixture::rates()),
        ("all failed", fixture::all_failed("CUDA out of memory")),
        ("one sample", fixture::one_sample()),
        ("hostile", fixture::hostile()),
        ("nothing", ReportInput::default()),
    ]
}

/// The tags of a page outside scripts and styles: name, whole text.
fn tags(page: &str) -> Vec<(&str, &str)> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some(open) = rest.find('<') {
        let end = open + rest[open..].find('>').expect("a tag ends");
        let tag = &rest[open + 1..end];
        let name = tag.split([' ', '\n', '/']).find(|n| !n.is_empty()).unwrap_or("");
        let name = if tag.starts_with('/') { &tag[..=name.len()] } else { name };
        tags.push((name, tag));
        rest = &rest[end + 1..];
        if matches!(name, "script" | "style") {
            rest = &rest[rest.find(&format!("</{name}>")).expect("it ends")..];
        }
    }
    tags
}

#[test]
fn tags_are_balanced_and_known() {
    const VOID: [&str; 4] = ["meta", "input", "wbr", "!doctype"];
    for (kind, input) in every_kind() {
        for (path, page) in pages(input) {
            let mut open: Vec<&str> = Vec::new();
            for (name, tag) in tags(&page) {
                if let Some(closed) = name.strip_prefix('/') {
                    assert_eq!(open.pop(), Some(closed), "{kind} {path}: </{closed}>");
                } else if !VOID.contains(&name) && !tag.ends_with('/') {
                    assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "{path}: <{tag}>");
                    open.push(name);
                }
            }
            assert!(open.is_empty(), "{kind} {path}: {open:?}");
        }
    }
}

#[test]
fn no_request_leaves_the_report_and_every_link_arrives() {
    for (kind, input) in every_kind() {
        let pages = pages(input);
        for (path, page) in &pages {
            for forbidden in [" src=", "<link", "@import", "url("] {
                assert!(!page.contains(forbidden), "{kind} {path}: {forbidden}");
            }
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            for (_, tag) in tags(page) {
                let Some((_, href)) = tag.split_once("href=\"") else { continue };
                let href = href.split(['"', '#']).next().unwrap();
                let target = match href.strip_prefix("../") {
                    Some(rest) => rest.to_owned(),
                    None if folder.is_empty() => href.to_owned(),
                    None => format!("{folder}/{href}"),
                };
                assert!(pages.contains_key(&target), "{kind} {path}: {href}");
            }
        }
    }
}

#[test]
fn what_servers_say_stays_text() {
    for (path, page) in pages(fixture::hostile()) {
        assert!(!page.contains("<script>alert"), "{path}");
        assert_eq!(tags(&page).iter().filter(|t| t.0 == "script").count(), 1, "{path}");
    }
    let failed = pages(fixture::all_failed("<img onerror=x> & co"));
    let page = &failed["chat/short-c1.html"];
    assert!(page.contains("&lt;img onerror=x&gt; &amp; co"));
    assert!(!page.contains("<img"));
}

#[test]
fn every_chart_has_a_name_and_a_description_and_the_large_ones_their_data() {
    for (kind, input) in every_kind() {
        for (path, page) in pages(input) {
            let count = |what: &str| page.matches(what).count();
            let charts = count("<svg ");
            assert_eq!(count("role=\"img\""), charts, "{kind} {path}");
            assert_eq!(count("<desc>"), charts, "{kind} {path}");
            // The tables of figures hold the data of the small ones.
            let small = page.split("<svg ").filter(|svg| svg.starts_with("viewBox=\"0 0 608 "));
            assert_eq!(count("class=\"data\""), charts - small.count(), "{kind} {path}");
            let figures = page.replace("isNaN", "");
            assert!(!figures.contains("NaN") && !figures.contains("inf,"), "{kind} {path}");
            assert!(!page.contains("could not be drawn"), "{kind} {path}");
        }
    }
}

#[test]
fn a_load_point_without_figures_has_its_evidence_and_no_empty_heading() {
    let mut input = fixture::all_failed("CUDA out of memory");
    for figures in input.points.iter_mut().flat_map(|p| p.sides.iter_mut().flatten()) {
        // Stopped before anything was measured.
        figures.summary.failed = 0;
        figures.summary.failures.clear();
        figures.health = Default::default();
        figures.warm_up = None;
    }
    let mut never = input.points[1].clone();
    (never.id, never.sides) = ("chat/short/c99".into(), vec![None]);
    never.point.load = inferometer::scenario::Load::Concurrency(99);
    input.points.push(never);
    let pages = pages(input);
    let stopped = &pages["chat/short-c1.html"];
    assert!(stopped.contains("<h2>Failures</h2>") && stopped.contains("CUDA out of memory"));
    assert!(!stopped.contains("<h2>Client and load"), "nothing is known of it");
    assert!(!pages["chat/short-c99.html"].contains("<h2>"), "nothing at all is known of it");
    assert!(pages["index.html"].contains("no request completed: CUDA out of memory"));
}

#[test]
fn one_load_point_still_has_charts() {
    let pages = pages(fixture::one_sample());
    assert!(pages["chat/short-c1.html"].contains("<svg "));
    assert!(pages["chat/index.html"].contains("<svg "));
}

#[test]
fn the_index_stays_small() {
    // 200 load points, 1 400 cells and two sides: more than the five measures of 200 points.
    let pages = pages(fixture::two_sided(40));
    assert!(pages["index.html"].len() < 2_000_000, "{}", pages["index.html"].len());
    assert_eq!(pages.len(), 200 + 2 + 2);
}

#[test]
fn identical_sides_are_told() {
    let mut input = fixture::two_sided(1);
    for side in &mut input.sides {
        side.runs[0].metadata.clear();
    }
    let pages = pages(input);
    assert!(pages["index.html"].contains("have identical settings"));
    assert!(pages["comparison.html"].contains("compares a thing with itself"));
    assert!(!self::pages(fixture::two_sided(1))["index.html"].contains("identical settings"));
}

/// WCAG 2.1's contrast ratio of two colours `#rrggbb`.
fn contrast(a: &str, b: &str) -> f64 {
    let luminance = |color: &str| {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    };
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn text_and_lines_have_contrast_in_light_and_dark() {
    let style = include_str!("../../../templates/style.css");
    let themes: Vec<BTreeMap<&str, &str>> = style
        .split(":root {")
        .skip(1)
        .take(2)
        .map(|theme| {
            let theme = theme.split('}').next().unwrap();
            let pairs = theme.split([';', '\n']).filter_map(|p| p.trim().split_once(": "));
            pairs.filter(|(name, _)| name.starts_with("--")).collect()
        })
        .collect();
    assert_eq!(themes.len(), 2);
    for theme in themes {
        let at_least = |least: f64, front: &str, back: &str| {
            let ratio = contrast(theme[front], theme[back]);
            assert!(ratio >= least, "{front} on {back}: {ratio:.2}");
        };
        for text in ["--ink", "--muted", "--link", "--good", "--bad", "--warn", "--unsure"] {
            at_least(4.5, text, "--card");
            at_least(4.5, text, "--paper");
        }
        for tone in ["good", "bad", "warn", "calm", "unsure"] {
            at_least(4.5, &format!("--{tone}"), &format!("--{tone}-bg"));
        }
        for series in 0..6 {
            at_least(3.0, &format!("--s{series}"), "--card");
        }
    }
}

#[test]
fn ids_are_unique_and_tables_have_heads() {
    for (kind, input) in every_kind() {
        for (path, page) in pages(input) {
            let tags = tags(&page);
            let ids =
                tags.iter().filter_map(|(_, tag)| tag.split_once(" id=\"")?.1.split('"').next());
            let mut ids: Vec<&str> = ids.collect();
            let all = ids.len();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), all, "{kind} {path}");
            let headless = |table: &&str| {
                let table = table.split("</table>").next().unwrap_or_default();
                !table.contains("<thead>") && !table.contains("<th scope=\"row\">")
            };
            assert_eq!(page.split("<table").skip(1).find(headless), None, "{kind} {path}");
        }
    }
}
