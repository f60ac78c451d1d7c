//! Counts how often the verdict is right on made-up starts and on simulated requests, beside the
//! published figures.
//!
//! `cargo run --release --example calibration [REPORTS [REPORTS_OF_REQUESTS]]`

#![allow(clippy::print_stdout)] // an example talks to its reader

use inferometer::compare::acceptance::requests::{self, Amount};
use inferometer::compare::acceptance::{Figure, table};
use inferometer::rng::Seed;

fn main() {
    let mut counts = std::env::args().skip(1).map(|text| text.parse().ok());
    let of_starts = counts.next().flatten().unwrap_or(400);
    let of_requests = counts.next().flatten().unwrap_or(of_starts);
    println!(
        "{:<48} {:>10} {:>16} {:>8} {:>8}",
        "figure", "published", "accepted", "ours", "reports"
    );
    std::thread::scope(|scope| {
        let amount = Amount { reports: of_requests, truth_starts: 2000 };
        let simulated = scope.spawn(move || requests::table(amount, Seed(1)));
        show(&table(of_starts, Seed(1)));
        show(&simulated.join().unwrap_or_default());
    });
}

fn show(figures: &[Figure]) {
    for figure in figures {
        let accepted = format!("{} to {}", figure.accepted.start(), figure.accepted.end());
        let mark = if figure.is_accepted() { "" } else { "  <- outside" };
        println!(
            "{:<48} {:>10} {accepted:>16} {:>8.4} {:>8}{mark}",
            figure.name, figure.published, figure.ours, figure.reports
        );
    }
}
