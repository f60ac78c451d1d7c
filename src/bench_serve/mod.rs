//! `bench-serve`: the command, the printed table and the result file of `vllm bench serve`.

mod body;
pub(crate) mod dataset;
pub(crate) mod flags;
pub(crate) mod latency;
pub(crate) mod metrics;
pub(crate) mod options;
mod own;
mod result;
mod send;
mod table;
mod text;
pub(crate) mod vllm_arrivals;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{Dialect, chat::Chat, completions::Completions};
use crate::clock::{Clock, duration_ns};
use crate::drive::{Interrupt, Urgency};
use crate::error::{Error, ErrorKind, Result};
use crate::harness::http_client;
use crate::preflight::{self, Demands, PreflightReport};
use crate::record::{Ended, FindingCode, ServerState, Severity};
use crate::rng::Seed;
use crate::scenario::Prompt;
use crate::settings::{ApiChoice, Settings};
use crate::transport::Client;
use crate::transport::client::Endpoint;
use crate::units::plural;
use body::BodyWriter;
use dataset::{Making, Sample};
use metrics::{Asked, Metrics};
use options::{Options, Saving};
use own::OwnFigures;
use send::{Sender, Sent};
use table::Heading;
use text::TextMaker;

/// Connections beyond those of the load, for checks.
const SPARE_CONNECTIONS: usize = 16;
/// What to do about it with the flags of this command.
const NOBODY_LISTENS: &str = "is the server running, and is this its port? `--ready-check-timeout-sec 600` \
     waits for one that starts";
/// How often a server that does not answer yet is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// What came of a benchmark.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// vLLM's table, then ours.
    pub(crate) table: String,
    /// The result file, or why it is not there, if one was asked for and the benchmark ended.
    pub(crate) saved: Option<Result<PathBuf>>,
    pub(crate) is_interrupted: bool,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    /// What the requests tell of the server.
    pub(crate) server: ServerState,
    /// Message of a failure → how many requests failed so.
    pub(crate) failures: BTreeMap<String, u64>,
}

/// What the caller hears while it runs.
pub(crate) enum Event<'a> {
    /// A sentence.
    Note(&'a str),
    /// N of M requests have ended.
    Progress { ended: usize, of: usize },
}

/// Who hears it.
pub(crate) type Listener<'a> = dyn FnMut(Event<'_>) + Send + 'a;

/// Runs a benchmark: checks the server, makes the requests, sends them, counts.
///
/// # Errors
/// If the server does not answer or will not serve the requests, or a file fails. Requests that
/// fail are no error.
pub(crate) async fn run(
    options: &Options,
    interrupt: &Interrupt,
    listener: &mut Listener<'_>,
) -> Result<Outcome> {
    let clock = Clock::start();
    let in_flight = options.most_in_flight() as usize;
    let url = &options.settings.target.url;
    let client = http_client(url, &options.settings, in_flight + SPARE_CONNECTIONS)?;
    if options.result.saving != Saving::Nothing {
        let model_id = options.model_id.as_deref().unwrap_or_default();
        result::Writing { options, model_id, clock }.make_folder()?;
    }
    wait_until_ready(&client, clock, options.ready_timeout, interrupt).await?;
    let found = check(&client, clock, options, listener).await?;
    let text = TextMaker::learn(&client, &found, options.settings.prompt_form).await;
    let seed = Seed(options.seed);
    let making = Making { text: &text, count: options.num_prompts, seed };
    let samples = Arc::new(options.dataset.samples(&making).await?);
    if samples.len() < options.num_prompts as usize {
        let (given, asked) = (plural(samples.len(), "request"), options.num_prompts);
        listener(Event::Note(&format!("note: the dataset gives {given} of the {asked} asked for")));
    }
    let sender = sender(&client, clock, options, &found);
    warm_up(&sender, &samples, options, interrupt, listener).await?;
    let due_s = options.arrivals.due_s(samples.len(), seed);
    let limit = options.max_concurrency;
    let mut show = |progress: send::Progress| {
        listener(Event::Progress { ended: progress.ended, of: progress.of });
    };
    let sent = sender.send_all(&samples, due_s, limit, interrupt, &mut show).await?;
    conclude(options, &found, &text, &samples, sent, clock)
}

/// The model that the file names.
fn model_id<'a>(options: &'a Options, found: &'a PreflightReport) -> &'a str {
    options.model_id.as_deref().unwrap_or(&found.model)
}

fn conclude(
    options: &Options,
    found: &PreflightReport,
    text: &TextMaker,
    samples: &[Sample],
    sent: Sent,
    clock: Clock,
) -> Result<Outcome> {
    let asked_input: Vec<u32> = samples.iter().map(|sample| sample.input_tokens).collect();
    let rate = options.arrivals.rate;
    let asked = Asked {
        latencies: &options.metrics,
        percentiles: &options.percentiles,
        goodput: options.goodput,
        is_capped: options.max_concurrency.is_some(),
        has_rate: rate.is_finite(),
    };
    let metrics = Metrics::of(&sent, &asked_input, asked);
    let own = OwnFigures::of(&sent, samples);
    let mut differences = metrics::differences(&sent);
    if options.dataset.is_made() && !text.is_exact() && prompts_are_text(samples) {
        differences.push(
            "prompt lengths are approximate: the server has no `/tokenize` that counts words"
                .to_owned(),
        );
    }
    let request_rate = Some(rate).filter(|rate| rate.is_finite());
    let heading = Heading { max_concurrency: options.max_concurrency, request_rate };
    let mut shown = table::render(&metrics, heading);
    shown.push_str(&table::render_own(&own, &differences));
    let mut failures = BTreeMap::new();
    for request in metrics.requests.iter().filter(|request| !request.error.is_empty()) {
        *failures.entry(request.error.clone()).or_insert(0) += 1;
    }
    let saved = match options.result.saving {
        // A part of a benchmark would pass for the whole.
        _ if sent.is_interrupted => None,
        Saving::Nothing => None,
        _ => Some(
            result::Writing { options, model_id: model_id(options, found), clock }
                .save(&metrics, &own, &sent),
        ),
    };
    Ok(Outcome {
        table: shown,
        saved,
        is_interrupted: sent.is_interrupted,
        completed: metrics.completed,
        failed: metrics.failed,
        server: server_state(&sent),
        failures,
    })
}

/// What the requests tell of the server; of a benchmark that the user ended nothing is told.
fn server_state(sent: &Sent) -> ServerState {
    if sent.is_interrupted {
        return ServerState::Ran;
    }
    let ended = |answer: &send::Answer| Ended {
        number: answer.index as u64,
        at_ns: Some(answer.ended_ns),
        failure: answer.exchange.failure.as_ref().map(|failure| failure.kind),
        status: answer.exchange.status,
    };
    ServerState::after(sent.answers.iter().map(ended).collect())
}

fn prompts_are_text(samples: &[Sample]) -> bool {
    samples.iter().all(|sample| matches!(sample.prompt, Prompt::Text(_)))
}

/// Waits until the server answers at all, if it was given the time.
async fn wait_until_ready(
    client: &Client,
    clock: Clock,
    timeout: Duration,
    interrupt: &Interrupt,
) -> Result<()> {
    let until_ns = clock.now_ns().saturating_add(duration_ns(timeout));
    loop {
        let failure = match client.get(Endpoint::Api("models")).await {
            Ok(reply) => client.refusal(&reply).filter(|_| reply.status == 503),
            Err(failure) => Some(failure),
        };
        let Some(failure) = failure else { return Ok(()) };
        if timeout.is_zero() {
            return Ok(()); // the checks that follow give the cause
        }
        if clock.now_ns() >= until_ns {
            let waited = timeout.as_secs();
            return Err(Error::server(format!("the server does not answer after {waited} s"))
                .with_cause(failure.message)
                .with_hint("raise `--ready-check-timeout-sec`, or look at the server's log"));
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            _ = interrupt.beyond(Urgency::None) => {
                return Err(Error::new(ErrorKind::Interrupted, "interrupted"));
            }
        }
    }
}

/// What the server takes and how it counts.
async fn check(
    client: &Client,
    clock: Clock,
    options: &Options,
    listener: &mut Listener<'_>,
) -> Result<PreflightReport> {
    let (longest_input, longest_output) = options.dataset.longest();
    let highest_concurrency = options.most_in_flight();
    let demands = Demands { longest_input, longest_output, highest_concurrency };
    let settings: &Settings = &options.settings;
    let found = Box::pin(preflight::run(client, clock, settings, demands)).await;
    if let Some(error) = found.fatal() {
        let nobody = found.findings.iter().any(|finding| finding.code == FindingCode::Refused);
        return Err(if nobody { error.with_hint(NOBODY_LISTENS) } else { error });
    }
    for finding in found.findings.iter().filter(|f| f.severity == Severity::Warning) {
        listener(Event::Note(&format!("warning: {}", finding.text)));
    }
    listener(Event::Note(&format!("benchmarking {}", found.summary())));
    Ok(found)
}

fn sender(client: &Client, clock: Clock, options: &Options, found: &PreflightReport) -> Sender {
    let api = options.settings.api;
    let dialect: Arc<dyn Dialect> = match api {
        ApiChoice::Chat => Arc::new(Chat),
        ApiChoice::Completions | ApiChoice::Auto => Arc::new(Completions),
    };
    let bodies = BodyWriter {
        api,
        model: found.model.clone(),
        options: options.body.clone(),
        lora: options.lora.clone(),
        seed: Seed(options.seed),
    };
    Sender {
        client: client.clone(),
        clock,
        dialect,
        bodies: Arc::new(bodies),
        keeps_text: options.result.detailed && options.result.saving != Saving::Nothing,
    }
}

/// Sends the first request this many times, as vLLM's client does, within the limit on requests in
/// flight.
async fn warm_up(
    sender: &Sender,
    samples: &Arc<Vec<Sample>>,
    options: &Options,
    interrupt: &Interrupt,
    listener: &mut Listener<'_>,
) -> Result<()> {
    let (count, Some(first)) = (options.num_warmups as usize, samples.first()) else {
        return Ok(());
    };
    if count == 0 {
        return Ok(());
    }
    listener(Event::Note(&format!("warming up with {count} requests")));
    let requests = Arc::new(vec![first.clone(); count]);
    let due_s = vec![0.0; count];
    let limit = options.max_concurrency;
    let sent = sender.send_all(&requests, due_s, limit, interrupt, &mut |_| {}).await?;
    if sent.is_interrupted {
        return Err(Error::new(ErrorKind::Interrupted, "interrupted in the warm-up"));
    }
    Ok(())
}
