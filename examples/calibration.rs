//! Counts how often the verdict is right on made-up starts, beside the published figures.
//!
//! `cargo run --release --example calibration [REPORTS]`

#![allow(clippy::print_stdout)] // an example talks to its reader

use inferometer::compare::acceptance::table;
use inferometer::rng::Seed;

fn main() {
    let reports = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(400);
    println!("{:<48} {:>10} {:>16} {:>8}", "figure", "published", "accepted", "ours");
    for figure in table(reports, Seed(1)) {
        let accepted = format!("{} to {}", figure.accepted.start(), figure.accepted.end());
        let mark = if figure.is_accepted() { "" } else { "  <- outside" };
        println!(
            "{:<48} {:>10} {accepted:>16} {:>8.4}{mark}",
            figure.name, figure.published, figure.ours
        );
    }
}
