//! The report as HTML pages: self-contained, offline, readable without JavaScript.

use serde::Serialize;
use tera::{Context, Tera};

use super::Report;
use super::view::{self, figures};
use crate::error::{Error, ErrorKind, Result};

const TEMPLATES: [(&str, &str); 10] = [
    ("base.html", include_str!("../../templates/base.html")),
    ("chart.html", include_str!("../../templates/chart.html")),
    ("legend.html", include_str!("../../templates/legend.html")),
    ("findings.html", include_str!("../../templates/findings.html")),
    ("changes.html", include_str!("../../templates/changes.html")),
    ("figures.html", include_str!("../../templates/figures.html")),
    ("index.html", include_str!("../../templates/index.html")),
    ("group.html", include_str!("../../templates/group.html")),
    ("point.html", include_str!("../../templates/point.html")),
    ("comparison.html", include_str!("../../templates/comparison.html")),
];
const STYLE: &str = include_str!("../../templates/style.css");
const SCRIPT: &str = include_str!("../../templates/script.js");

/// Takes one page: its path under the report's folder, with `/` between folders, and its text.
pub type Sink<'a> = &'a mut dyn FnMut(&str, &str) -> Result<()>;

/// Renders every page and hands them to `sink` one by one, so that they are never all in memory.
///
/// # Errors
/// Where `sink` fails. A template that fails would be a defect.
pub fn render(report: &Report, sink: Sink<'_>) -> Result<()> {
    let tera = templates()?;
    let input = report.input();
    let title = view::front::title(input);
    let run = input.run().map_or("", |run| run.id.as_str());
    let page = |template: &str, name: &str, root: &str, view: &dyn erased::View| {
        render_page(&tera, template, &Shell { title: &title, run, name, root }, view)
    };
    sink("index.html", &page("index.html", "", "", &view::index::view(input))?)?;
    if input.sides.len() > 1 {
        let compared = view::compare::view(input);
        sink("comparison.html", &page("comparison.html", "Side by side", "", &compared)?)?;
    }
    for group in input.groups() {
        let text = page("group.html", group, "../", &view::group::view(input, group))?;
        sink(&figures::group_href(group), &text)?;
    }
    for point in &input.points {
        let text = page("point.html", &point.id, "../", &view::point::view(input, point))?;
        sink(&figures::point_href(point), &text)?;
    }
    Ok(())
}

/// What surrounds every page.
struct Shell<'a> {
    title: &'a str,
    /// The run's id.
    run: &'a str,
    name: &'a str,
    /// From the page to the report's root.
    root: &'a str,
}

fn templates() -> Result<Tera> {
    let mut tera = Tera::new();
    tera.register_filter("code", |text: &str, _: tera::Kwargs, _: &tera::State| code(text));
    tera.register_filter("id", |text: &str, _: tera::Kwargs, _: &tera::State| id(text));
    tera.register_filter("flags", |text: &str, _: tera::Kwargs, _: &tera::State| {
        flags(&escape(text))
    });
    tera.add_raw_templates(TEMPLATES).map_err(|e| defect("a template does not parse", e))?;
    Ok(tera)
}

fn render_page(
    tera: &Tera,
    template: &str,
    shell: &Shell<'_>,
    view: &dyn erased::View,
) -> Result<String> {
    let mut context = Context::new();
    view.insert_into(&mut context);
    context.insert("title", shell.title);
    context.insert("run", shell.run);
    context.insert("page", shell.name);
    context.insert("root", shell.root);
    context.insert("style", STYLE);
    context.insert("script", SCRIPT);
    context.insert("version", env!("CARGO_PKG_VERSION"));
    tera.render(template, &context).map_err(|e| defect("a page could not be rendered", e))
}

/// Escapes text, and sets what stands between backticks as code. Its result is safe HTML.
fn code(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + 16);
    let parts: Vec<&str> = text.split('`').collect();
    for (index, part) in parts.iter().enumerate() {
        let escaped = escape(part);
        let closed = index + 1 < parts.len();
        match (index % 2, closed) {
            (0, _) => html.push_str(&escaped),
            (_, true) => html.push_str(&format!("<code>{}</code>", flags(&escaped))),
            (_, false) => html.push_str(&format!("`{escaped}")), // never closed: a plain backtick
        }
    }
    html
}

/// An id in escaped text: lines may break after its slashes, and nowhere else unless they must.
fn id(text: &str) -> String {
    text.split('/').map(escape).collect::<Vec<_>>().join("/<wbr>")
}

/// Keeps flags whole in escaped text: browsers break lines after any hyphen.
fn flags(escaped: &str) -> String {
    let word = |word: &str| match word.starts_with('-') && word.len() > 1 {
        true => format!("<span class=\"flag\">{word}</span>"),
        false => word.to_owned(),
    };
    escaped.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#x27;")
}

fn defect(what: &str, cause: tera::Error) -> Error {
    Error::new(ErrorKind::Store, what).with_cause(cause.to_string())
}

/// serde's trait is not object-safe; this much of it is.
mod erased {
    use super::{Context, Serialize};

    pub(super) trait View {
        fn insert_into(&self, context: &mut Context);
    }

    impl<T: Serialize> View for T {
        fn insert_into(&self, context: &mut Context) {
            context.insert("view", self);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{code, id};

    #[test]
    fn ids_break_at_slashes_and_are_safe() {
        assert_eq!(id("chat/<b>/c16"), "chat/<wbr>&lt;b&gt;/<wbr>c16");
    }

    #[test]
    fn code_is_set_and_safe() {
        assert_eq!(
            code("use `-x <y>` now"),
            "use <code><span class=\"flag\">-x</span> &lt;y&gt;</code> now"
        );
        assert_eq!(code("`--x <y`"), "<code><span class=\"flag\">--x</span> &lt;y</code>");
        assert_eq!(code("a ` b"), "a ` b");
        assert_eq!(code("`a` `b"), "<code>a</code> `b");
    }
}
