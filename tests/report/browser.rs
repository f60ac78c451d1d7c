//! The index page in a real browser: the script runs, nothing is loaded, nothing complains.
//!
//! Where no Chromium is installed there is nothing to test with; CI installs it.

use std::path::Path;
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
head.querySelector("button").click();
said.push(`${head.getAttribute("aria-sort")} from ${change()}`);
head.querySelector("button").click();
said.push(`${head.getAttribute("aria-sort")} from ${change()}`);
const find = document.querySelector("[data-filter=text]");
find.value = "s1/c4 TPOT";
find.dispatchEvent(new Event("input", { bubbles: true }));
said.push(`found ${shown().length}, says ${document.querySelector("[data-count]").textContent}`);
const box = document.querySelector("[data-filter=verdict]");
box.checked = false;
box.dispatchEvent(new Event("input", { bubbles: true }));
said.push(`without ${box.value} ${shown().length}`);
said.push(`charts ${document.querySelectorAll("svg").length}`);
said.push(`loaded ${performance.getEntriesByType("resource").length}`);
document.title = said.join("; ");
</script></body>"##;

fn chromium() -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    names.iter().flat_map(|n| folders.iter().map(move |f| f.join(n))).find(|p| p.is_file())
}

/// The document after its script ran, and what the browser logged.
fn open(browser: &Path, folder: &Path, page: &Path) -> (String, String) {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--timeout=60000", "--enable-logging=stderr"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn sorting_and_filtering_work_and_nothing_is_loaded() {
    let Some(browser) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("index.html");
    html::render(&Report::new(fixture::two_sided(2)), &mut |path, text| {
        if path == "index.html" {
            #[allow(clippy::disallowed_methods)] // a test's own folder
            std::fs::write(&page, text.replace("</body>", PROBE)).unwrap();
        }
        Ok(())
    })
    .unwrap();
    let (document, log) = open(&browser, folder.path(), &page);
    let title = document.split("<title>").nth(1).unwrap().split("</title>").next().unwrap();
    insta::assert_snapshot!(title);
    assert!(!log.contains(":CONSOLE"), "{log}");
}
