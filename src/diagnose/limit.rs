//! The limit: in one sentence, what holds a load point back.

use std::collections::BTreeMap;

use crate::record::{Finding, FindingCode, Severity};
use crate::stats::quantile::median;

/// Requests waiting on average above which there is a queue.
const QUEUE_LEAST: f64 = 0.5;
/// Time in the queue / the server's TTFT above which waiting rules TTFT.
const QUEUE_SHARE: f64 = 0.5;
/// Mean of the last third of a series / of the first third above which it grows; as D.8 has it for
/// TTFT.
const GROWS: f64 = 1.5;
/// Time outside the server / the client's E2EL above which the route matters: beyond it, half of the
/// floor of E2EL (2 %) is not the server's by far.
const ROUTE_SHARE: f64 = 0.10;
/// GPU use, per cent, from which the GPU counts as busy. `nvidia-smi` says how often any kernel ran.
const GPU_BUSY: f64 = 90.0;
/// Throughput / load, both against the next lower load point: below half, more load buys little.
const FLAT: f64 = 0.5;

/// What is known of a load point, each where it is known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Circumstances {
    /// What the client was found to be short of: `its event loop ran late`; `None` if it had room.
    pub client_fault: Option<String>,
    /// The server could not keep up with the offered rate.
    pub saturated: bool,
    /// Requests waiting, time averages by round: (mean, last third / first third).
    pub waiting: Vec<(f64, Option<f64>)>,
    /// GPU use, per cent, by round.
    pub gpu_percent: Vec<f64>,
    /// Growth of QPS / growth of the load, against the next lower load point.
    pub gain: Option<f64>,
    /// Requests that the server works on at once, and requests in flight.
    pub slots: Option<(u32, f64)>,
    /// The server's word: canonical name → value.
    pub told: BTreeMap<String, f64>,
}

/// Mean of a series inside a round, and the mean of its last third over that of its first third.
/// None of an empty series; no ratio below six samples.
#[must_use]
pub fn level(samples: &[(u64, f64)]) -> Option<(f64, Option<f64>)> {
    let values: Vec<f64> = samples.iter().map(|(_, value)| *value).collect();
    let mean = crate::stats::moments::mean(&values)?;
    let third = values.len() / 3;
    let ratio = (third >= 2).then(|| {
        let first = crate::stats::moments::mean(&values[..third]).unwrap_or(0.0);
        let last = crate::stats::moments::mean(&values[values.len() - third..]).unwrap_or(0.0);
        last / first.max(QUEUE_LEAST)
    });
    Some((mean, ratio))
}

/// The sentence. Too few slots explain the queue in front of them; a queue that the server itself reports is real whatever the client does, so they come
/// first; then the client, whose faults hide all that is seen from outside; then arrivals that outrun the
/// completions, the route, and the server's compute.
#[must_use]
pub fn sentence(at: &Circumstances) -> Finding {
    if let Some(text) = slots(at) {
        // A setting of the server's, which a larger number would mend: no matter of course.
        return Finding::new(FindingCode::Limit, Severity::Warning, text);
    }
    let text = queue(at)
        .or_else(|| client(at))
        .or_else(|| behind(at))
        .or_else(|| route(at))
        .or_else(|| compute(at))
        .unwrap_or_else(|| none(at));
    Finding::new(FindingCode::Limit, Severity::Note, text)
}

/// More requests in flight than the server works on at once: what is beyond waits.
fn slots(at: &Circumstances) -> Option<String> {
    let (slots, in_flight) = at.slots?;
    let waiting = in_flight - f64::from(slots);
    (waiting >= QUEUE_LEAST).then(|| {
        format!(
            "the limit is the server's {slots} slots: it works on {slots} requests at once, and of \
             {in_flight:.0} in flight {waiting:.0} wait (`--parallel` of llama-server, `--max-num-seqs` of vLLM)"
        )
    })
}

fn client(at: &Circumstances) -> Option<String> {
    at.client_fault.as_ref().map(|fault| format!("the limit is the client: {fault}"))
}

fn queue(at: &Circumstances) -> Option<String> {
    let means: Vec<f64> = at.waiting.iter().map(|(mean, _)| *mean).collect();
    let growths: Vec<f64> = at.waiting.iter().filter_map(|(_, growth)| *growth).collect();
    let waiting = median(&means).filter(|mean| *mean >= QUEUE_LEAST);
    let queue_ms = at.told.get("server_queue_time_mean_ms").copied();
    let ttft_ms = at.told.get("server_ttft_mean_ms").copied();
    let share = queue_ms.zip(ttft_ms).filter(|(_, ttft)| *ttft > 0.0).map(|(q, ttft)| q / ttft);
    let rules = share.is_some_and(|share| share > QUEUE_SHARE);
    if waiting.is_none() && !rules {
        return None;
    }
    let mut facts = Vec::new();
    if let Some(waiting) = waiting {
        let grows = median(&growths).is_some_and(|growth| growth > GROWS);
        let word = if grows { ", and more all the time" } else { "" };
        facts.push(format!("{waiting:.1} requests wait on average{word}"));
    }
    if let (Some(queue_ms), Some(share)) = (queue_ms, share) {
        facts.push(format!("a request waits {queue_ms:.1} ms, {:.0} % of TTFT", share * 100.0));
    }
    if at.saturated {
        facts.push("completions fall behind the arrivals".to_owned());
    }
    Some(format!("the limit is the server's queue: {}", facts.join("; ")))
}

fn behind(at: &Circumstances) -> Option<String> {
    at.saturated.then(|| {
        "the limit is the server: completions fall behind the arrivals, wherever they wait"
            .to_owned()
    })
}

fn route(at: &Circumstances) -> Option<String> {
    let outside = at.told.get("outside_e2el_ms").copied()?;
    let client = at.told.get("client_e2el_mean_ms").copied().filter(|ms| *ms > 0.0)?;
    let share = outside / client;
    // Below a millisecond no route can be derived from the two clocks' own reading.
    (share > ROUTE_SHARE && outside > 1.0).then(|| {
        format!(
            "the limit is the route: {outside:.1} of {client:.1} ms of E2EL pass outside the server \
             (gateway, network, its front end, client)"
        )
    })
}

fn compute(at: &Circumstances) -> Option<String> {
    let used = median(&at.gpu_percent);
    let flat = at.gain.filter(|gain| *gain < FLAT);
    let flat = format!(
        "of the load added to the point below, {:.0} % came out as requests",
        flat? * 100.0
    );
    Some(match used {
        Some(used) if used >= GPU_BUSY => {
            format!("the limit is the server's compute: its GPU is {used:.0} % busy; {flat}")
        }
        Some(used) => format!(
            "the limit is in the server, but not its GPU, which is {used:.0} % busy: {flat} (its CPU, its \
             front end, or a cap on its batch)"
        ),
        None => format!(
            "the limit is probably the server's compute: {flat} (its GPU's use is not offered)"
        ),
    })
}

fn none(at: &Circumstances) -> String {
    let told_queue = !at.waiting.is_empty() || at.told.contains_key("server_queue_time_mean_ms");
    let told_times = at.told.contains_key("outside_e2el_ms");
    match (told_queue, told_times) {
        (true, true) => {
            "no limit is reached: no request waits in a queue, and the client and the network have capacity to spare".to_owned()
        }
        (true, false) => "no limit is reached: no request waits in a queue, and the client has capacity to spare".to_owned(),
        (false, _) => {
            "the limit is unknown: the server does not report its queue; the client has capacity to spare"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(values: &[(&str, f64)]) -> BTreeMap<String, f64> {
        values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn requests_beyond_the_slots_wait() {
        let busy = Circumstances { gain: Some(0.1), ..Circumstances::default() };
        let at = Circumstances { slots: Some((4, 16.0)), ..busy.clone() };
        assert!(sentence(&at).text.starts_with("the limit is the server's 4 slots"));
        let fits = Circumstances { slots: Some((16, 16.0)), ..busy };
        assert!(sentence(&fits).text.contains("compute"));
    }

    #[test]
    fn each_limit_has_its_sentence_in_its_order() {
        let begins = |at: &Circumstances, begin: &str| {
            let text = sentence(at).text;
            assert!(text.starts_with(begin), "{text}");
        };
        let mut at = Circumstances::default();
        begins(&at, "the limit is unknown");
        at.gain = Some(0.1);
        begins(
            &at,
            "the limit is probably the server's compute: of the load added to the point below, 10 %",
        );
        at.gpu_percent = vec![99.0];
        begins(&at, "the limit is the server's compute: its GPU is 99 % busy");
        at.gpu_percent = vec![89.4, 99.0, 20.0];
        begins(&at, "the limit is in the server, but not its GPU, which is 89 % busy");
        at.told = told(&[("outside_e2el_ms", 30.0), ("client_e2el_mean_ms", 100.0)]);
        begins(&at, "the limit is the route: 30.0 of 100.0 ms");
        at.saturated = true;
        begins(&at, "the limit is the server: completions fall behind");
        at.client_fault = Some("the client used 95 % of its cores".to_owned());
        begins(&at, "the limit is the client: the client used 95 %");
        at.waiting = vec![(4.0, Some(2.0))];
        begins(&at, "the limit is the server's queue: 4.0 requests wait on average, and more");
        let calm = Circumstances { waiting: vec![(0.0, None)], ..Circumstances::default() };
        begins(&calm, "no limit is reached");
        let waits = told(&[("server_queue_time_mean_ms", 90.0), ("server_ttft_mean_ms", 100.0)]);
        begins(
            &Circumstances { told: waits, ..calm },
            "the limit is the server's queue: a request waits 90.0 ms, 90 %",
        );
    }

    #[test]
    fn a_level_is_a_mean_and_its_growth() {
        assert_eq!(level(&[]), None);
        assert_eq!(level(&[(0, 1.0), (1, 3.0)]), Some((2.0, None)));
        let grown: Vec<(u64, f64)> =
            (0..6).map(|i| (i, f64::from(u32::try_from(i).unwrap() + 1))).collect();
        assert_eq!(level(&grown), Some((3.5, Some(5.5 / 1.5))));
    }
}
