//! The whole table, printed: how often the verdict is right on made-up starts and on simulated requests,
//! beside the published figures.
//!
//! `INFEROMETER_REPORTS=4000 cargo test --release --lib the_whole_table -- --nocapture`

use super::requests::{self, Amount};
use super::{Figure, table};
use crate::rng::Seed;

#[test]
fn the_whole_table() {
    let Some(reports) =
        std::env::var("INFEROMETER_REPORTS").ok().and_then(|n| n.parse::<u32>().ok())
    else {
        println!("skipped: INFEROMETER_REPORTS is not set");
        return;
    };
    println!(
        "{:<48} {:>10} {:>16} {:>8} {:>8}",
        "figure", "published", "accepted", "ours", "reports"
    );
    let figures = std::thread::scope(|scope| {
        // A report of requests costs as much as many of starts.
        let amount = Amount { reports: reports.div_ceil(4), truth_starts: 2000 };
        let simulated = scope.spawn(move || requests::table(amount, Seed(1)));
        let mut figures = table(reports, Seed(1));
        figures.extend(simulated.join().unwrap());
        figures
    });
    figures.iter().for_each(show);
    let outside: Vec<_> = figures.iter().filter(|f| !f.is_accepted()).map(|f| &f.name).collect();
    assert!(outside.is_empty(), "outside what is accepted: {outside:?}");
}

fn show(figure: &Figure) {
    let accepted = format!("{} to {}", figure.accepted.start(), figure.accepted.end());
    let mark = if figure.is_accepted() { "" } else { "  <- outside" };
    println!(
        "{:<48} {:>10} {accepted:>16} {:>8.4} {:>8}{mark}",
        figure.name, figure.published, figure.ours, figure.reports
    );
}
