//! The pages in a real browser: the script runs, nothing is loaded, nothing complains, all can read.
//!
//! Without Chromium these tests are skipped, and the test output reports it. `.ci/run` installs Chromium.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use inferometer::report::{Report, html};

use super::fixture;

/// What the page itself reports after its script was used as a reader would.
const PROBE: &str = r##"<script>
const said = [];
const table = document.querySelector("table.changes");
const shown = () => [...table.tBodies[0].rows].filter((row) => !row.hidden);
const change = () => table.tBodies[0].rows[0].cells[5].textContent;
const head = table.tHead.rows[0].cells[5];
said.push(`rows ${shown().length}`);
head.querySelector("[role=button]").click();
said.push(`${head.getAttribute("aria-sort")} from ${change()}`);
head.querySelector("[role=button]").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
said.push(`${head.getAttribute("aria-sort")} from ${change()}`);
const find = document.querySelector("#changes [data-filter=text]");
find.value = "s1/c4 TPOT";
find.dispatchEvent(new Event("input", { bubbles: true }));
said.push(`found ${shown().length}, says ${document.querySelector("#changes [data-count]").textContent}`);
const box = document.querySelector("[data-filter=verdict]");
box.checked = false;
box.dispatchEvent(new Event("input", { bubbles: true }));
said.push(`without ${box.value} ${shown().length}`);
said.push(`charts ${document.querySelectorAll("svg").length}`);
said.push(`loaded ${performance.getEntriesByType("resource").length}`);
document.title = said.join("; ");
</script></body>"##;

/// Runs axe-core, which the page holds by then, and writes what it found into the title.
const AUDIT: &str = r##"<script>
axe.run().then((result) => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const wide = document.documentElement.scrollWidth > innerWidth ? ", wider than the window" : "";
  const told = result.violations.map((v) => `${v.id} at ${v.nodes[0].target}`);
  document.title = `${dark}${wide}, ${result.passes.length > 10 ? "audited" : "not audited"}: ${told.join(", ")}`;
});
</script></body>"##;

/// axe-core 4.10.3, as published on npm.
const AXE: &str = include_str!("axe-core/axe.min.js");

/// The installed browser. `None` skips the test.
fn chromium(test: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|program| program.is_file());
    if found.is_none() {
        // Not `eprintln!`, which the test runner captures.
        let _ = writeln!(std::io::stderr(), "{test}: skipped: no Chromium in PATH");
    }
    found
}

/// The document's title after its scripts ran, and what the browser logged.
fn open(browser: &Path, folder: &Path, page: &Path, more: &[&str]) -> (String, String) {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--timeout=60000", "--enable-logging=stderr"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(more)
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let document = String::from_utf8_lossy(&output.stdout);
    let title = document.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    (title.unwrap_or_default().to_owned(), log)
}

#[allow(clippy::disallowed_methods)] // a test's own folder
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

fn pages() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    html::render(&Report::new(fixture::two_sided(2)), &mut |path, text| {
        pages.insert(path.to_owned(), text.to_owned());
        Ok(())
    })
    .unwrap();
    pages
}

#[test]
fn sorting_and_filtering_work_and_nothing_is_loaded() {
    let Some(browser) = chromium("sorting_and_filtering") else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("index.html");
    write(&page, &pages()["index.html"].replace("</body>", PROBE));
    let (title, log) = open(&browser, folder.path(), &page, &[]);
    insta::assert_snapshot!(title);
    assert!(!log.contains(":CONSOLE"), "{log}");
}

#[test]
fn axe_finds_nothing_amiss_in_light_and_dark() {
    let Some(browser) = chromium("axe") else { return };
    let folder = tempfile::tempdir().unwrap();
    let pages = pages();
    let dark = "--blink-settings=preferredColorScheme=0";
    let point = pages.keys().find(|p| p.starts_with("chat/") && !p.contains("index")).unwrap();
    let group = pages.keys().find(|p| p.ends_with("/index.html")).unwrap();
    let views = [
        ("index.html", "light", "--window-size=1400,900"),
        ("index.html", "dark", dark),
        ("comparison.html", "light", "--window-size=500,900"),
        (group, "light", "--window-size=500,900"),
        (point, "dark", dark),
    ];
    let page = folder.path().join("page.html");
    for (path, scheme, flag) in views {
        let audit = format!("<script>{AXE}</script>{AUDIT}");
        write(&page, &pages[path].replace("</body>", &audit));
        let more = [flag, "--virtual-time-budget=60000"];
        let (title, log) = open(&browser, folder.path(), &page, &more);
        assert_eq!(title, format!("{scheme}, audited: "), "{path}: {log}");
    }
}
