//! What the server and the machine say of themselves while a round runs.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::Client;
use crate::transport::client::Endpoint;

pub mod command;
pub mod host;
pub mod nvidia;
pub mod prometheus;

pub use prometheus::{Snapshot, delta};

/// Most samples of a name: what a chart can show, and what `run.json` should hold.
pub const MAX_SAMPLES: usize = 600;

/// Shortest interval between samples: `/metrics` costs the server's front end about 3 ms.
pub const MIN_INTERVAL: Duration = Duration::from_millis(500);

/// How long one reading of `/metrics` may take.
const SCRAPE_LIMIT: Duration = Duration::from_secs(2);

/// Something that can be sampled. It is asked on a dedicated thread and may block for seconds.
pub trait TelemetrySource: Send {
    /// What it reports now: canonical name → value. Empty where it is silent.
    fn sample(&mut self) -> BTreeMap<String, f64>;
}

/// Canonical name → (nanoseconds on the run's clock, value).
pub type Series = BTreeMap<String, Vec<(u64, f64)>>;

/// Reads `/metrics` once; `None` if the server has none, or does not answer within 2 s.
pub async fn snapshot(client: &Client) -> Option<Snapshot> {
    let get = client.get(Endpoint::Root("/metrics"));
    let reply = tokio::time::timeout(SCRAPE_LIMIT, get).await.ok()?.ok()?;
    if reply.status != 200 {
        return None;
    }
    let snapshot = Snapshot::read(&String::from_utf8_lossy(&reply.body));
    (snapshot != Snapshot::default()).then_some(snapshot)
}

/// The gauges of a server's `/metrics`.
///
/// Give it a client of its own: it runs on a runtime of its own, and a connection must not move
/// between two.
#[derive(Debug)]
pub struct PrometheusSource {
    client: Client,
    runtime: Option<tokio::runtime::Runtime>,
}

impl PrometheusSource {
    /// A source over this client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, runtime: None }
    }
}

impl TelemetrySource for PrometheusSource {
    fn sample(&mut self) -> BTreeMap<String, f64> {
        if self.runtime.is_none() {
            // Built here, on the sampling thread: a runtime must not be dropped inside another.
            self.runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok();
        }
        let Some(runtime) = &self.runtime else { return BTreeMap::new() };
        let reading = runtime.block_on(snapshot(&self.client));
        reading.map(|snapshot| snapshot.gauges()).unwrap_or_default()
    }
}

/// Samples sources on a dedicated thread, whenever it is asked to begin, until it is asked to end. The
/// sources live as long as it does: what they have open stays open from round to round.
#[derive(Debug)]
pub struct Scraper {
    orders: mpsc::Sender<Order>,
    series: Option<oneshot::Receiver<Series>>,
}

#[derive(Debug)]
enum Order {
    Begin { interval: Duration, series: oneshot::Sender<Series> },
    End,
}

impl Scraper {
    /// A thread with these sources. Nothing is sampled yet.
    ///
    /// # Errors
    /// Where the machine gives no thread.
    pub fn start(sources: Vec<Box<dyn TelemetrySource>>, clock: Clock) -> Result<Self> {
        let (orders, received) = mpsc::channel();
        std::thread::Builder::new()
            .name("telemetry".to_owned())
            .spawn(move || obey(sources, clock, &received))
            .map_err(|cause| {
                Error::new(ErrorKind::Client, "no thread for telemetry").with_cause(cause)
            })?;
        Ok(Self { orders, series: None })
    }

    /// Samples every `interval` (at least [`MIN_INTERVAL`]), the first sample at once.
    pub fn begin(&mut self, interval: Duration) {
        let (sender, series) = oneshot::channel();
        let interval = interval.max(MIN_INTERVAL);
        // A thread that has gone carries no information, as a silent source does.
        let _ = self.orders.send(Order::Begin { interval, series: sender });
        self.series = Some(series);
    }

    /// Stops sampling and gives what was sampled. Waits for a sample under way, at most some seconds.
    pub async fn end(&mut self) -> Series {
        let _ = self.orders.send(Order::End);
        let Some(series) = self.series.take() else { return Series::new() };
        let limit = SCRAPE_LIMIT + Duration::from_secs(6);
        tokio::time::timeout(limit, series).await.ok().and_then(Result::ok).unwrap_or_default()
    }
}

/// Samples from each `Begin` to the order after it, until nobody can give orders any more.
fn obey(mut sources: Vec<Box<dyn TelemetrySource>>, clock: Clock, orders: &mpsc::Receiver<Order>) {
    let mut next = orders.recv().ok();
    while let Some(order) = next {
        next = match order {
            Order::Begin { interval, series } => {
                let (sampled, after) = sample_until(&mut sources, clock, interval, orders);
                let _ = series.send(sampled);
                after
            }
            Order::End => orders.recv().ok(),
        };
    }
}

/// Samples until an order comes, which is handed on; `None` if nobody can give any.
fn sample_until(
    sources: &mut [Box<dyn TelemetrySource>],
    clock: Clock,
    mut interval: Duration,
    orders: &mpsc::Receiver<Order>,
) -> (Series, Option<Order>) {
    let mut series = Series::new();
    loop {
        let began_ns = clock.now_ns();
        for source in &mut *sources {
            for (name, value) in source.sample() {
                if value.is_finite() {
                    series.entry(name).or_default().push((clock.now_ns(), value));
                }
            }
        }
        if series.values().any(|values| values.len() >= MAX_SAMPLES) {
            thin(&mut series);
            interval *= 2;
        }
        let spent = Duration::from_nanos(clock.now_ns().saturating_sub(began_ns));
        match orders.recv_timeout(interval.saturating_sub(spent)) {
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Ok(order) => return (series, Some(order)),
            Err(mpsc::RecvTimeoutError::Disconnected) => return (series, None),
        }
    }
}

/// Drops every second sample, so that a long round stays covered from end to end.
fn thin(series: &mut Series) {
    for values in series.values_mut() {
        let mut place = 0_usize;
        values.retain(|_| {
            place += 1;
            place % 2 == 1
        });
    }
}

/// The part of a series inside a window, ends included.
#[must_use]
pub fn within(series: &Series, open_ns: u64, close_ns: u64) -> Series {
    let inside = |values: &Vec<(u64, f64)>| {
        values.iter().copied().filter(|(at, _)| (open_ns..=close_ns).contains(at)).collect()
    };
    series.iter().map(|(name, values)| (name.clone(), inside(values))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting(f64);

    impl TelemetrySource for Counting {
        fn sample(&mut self) -> BTreeMap<String, f64> {
            self.0 += 1.0;
            BTreeMap::from([("n".to_owned(), self.0), ("bad".to_owned(), f64::NAN)])
        }
    }

    #[tokio::test]
    async fn samples_at_once_and_keeps_no_nan() {
        let mut scraper = Scraper::start(vec![Box::new(Counting(0.0))], Clock::start()).unwrap();
        scraper.begin(Duration::ZERO);
        let series = scraper.end().await;
        assert_eq!(series["n"][0].1, 1.0);
        assert!(!series.contains_key("bad"));
    }

    #[tokio::test]
    async fn each_round_has_its_own_samples_of_the_same_source() {
        let mut scraper = Scraper::start(vec![Box::new(Counting(0.0))], Clock::start()).unwrap();
        assert!(scraper.end().await.is_empty(), "nothing was begun");
        let mut counted = 0.0;
        for _ in 0..3 {
            scraper.begin(Duration::from_secs(60));
            let series = scraper.end().await;
            let values: Vec<f64> = series["n"].iter().map(|(_, value)| *value).collect();
            assert_eq!(values, [counted + 1.0], "the source goes on counting");
            counted += 1.0;
        }
    }

    #[test]
    fn thinning_keeps_the_span() {
        let mut series = Series::from([("x".to_owned(), (0..5).map(|i| (i, 0.0)).collect())]);
        thin(&mut series);
        let times: Vec<u64> = series["x"].iter().map(|v| v.0).collect();
        assert_eq!(times, [0, 2, 4]);
        assert_eq!(within(&series, 1, 4)["x"].len(), 2);
    }
}
