//! From vLLM's flags to the options of a benchmark.

use serde_json::{Map, Value, json};

use super::args::BenchServeArgs;
use crate::bench_serve::dataset::{Dataset, FileOptions, PrefixRepetition, RandomOptions};
use crate::bench_serve::latency::Latency;
use crate::bench_serve::options::{
    BodyOptions, Goodput, Lora, LoraAssignment, Options, ResultOptions, Saving,
};
use crate::bench_serve::vllm_arrivals::{Arrivals, RampStrategy, RampUp};
use crate::error::{Error, Result};
use crate::settings::{ApiChoice, Settings, TriState, extra_body, value};
use crate::store::files;

/// Names of the completions API.
const COMPLETIONS: [&str; 6] = ["openai", "vllm", "sglang", "lmdeploy", "scalellm", "llama.cpp"];
/// The latencies that vLLM's client shows by default.
const DEFAULT_METRICS: &str = "ttft,tpot,itl";

/// The options that a command line asks for.
pub(super) fn options(command: &BenchServeArgs) -> Result<Options> {
    let api = api(command)?;
    let dataset = dataset(command)?;
    let is_random = matches!(dataset, Dataset::Random(_));
    let body = BodyOptions {
        ignore_eos: command.request.ignore_eos || is_random,
        logprobs: command.request.logprobs,
        extra: extra_body(command)?,
    };
    let mut settings = Settings::for_url("");
    let read = |path: &std::path::Path| files::read_text(path);
    command.server_args(url(command, api)?).apply(&mut settings, &read)?;
    settings.api = api;
    settings.prompt_form = command.dataset.prompt_form;
    settings.extra_body = body.extra.clone();
    settings.ignore_eos = if body.ignore_eos { TriState::On } else { TriState::Off };
    Ok(Options {
        settings,
        backend: command.server.backend.clone(),
        model_id: command.server.model.clone(),
        tokenizer_id: command.server.tokenizer.clone(),
        num_prompts: num_prompts(command, &dataset)?,
        dataset,
        seed: command.dataset.seed,
        arrivals: arrivals(command)?,
        max_concurrency: command.load.max_concurrency,
        body,
        lora: lora(command)?,
        num_warmups: command.load.num_warmups,
        ready_timeout: command.ready_timeout(),
        goodput: goodput(&command.result.goodput)?,
        metrics: metrics(command)?,
        percentiles: percentiles(&command.result.metric_percentiles)?,
        result: result(command)?,
        shows_progress: !command.result.disable_tqdm,
    })
}

fn api(command: &BenchServeArgs) -> Result<ApiChoice> {
    match command.server.backend.as_str() {
        "openai-chat" => Ok(ApiChoice::Chat),
        name if COMPLETIONS.contains(&name) => Ok(ApiChoice::Completions),
        name => Err(Error::usage(format!("the backend `{name}` is not supported"))
            .with_hint("`--backend openai` is the completions API, `openai-chat` the chat API")),
    }
}

/// The base URL: the endpoint's path belongs to it, less its last part.
fn url(command: &BenchServeArgs, api: ApiChoice) -> Result<String> {
    let server = &command.server;
    let base = match &server.base_url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None if server.host.contains("://") => {
            return Err(Error::usage(format!("`--host {}` is a URL", server.host))
                .with_hint("give a URL by `--base-url`; `--host` takes a name or an address"));
        }
        None => {
            let is_ipv6 = server.host.contains(':') && !server.host.starts_with('[');
            let host = if is_ipv6 { format!("[{}]", server.host) } else { server.host.clone() };
            format!("http://{host}:{}", server.port)
        }
    };
    let expected = match api {
        ApiChoice::Chat => "/v1/chat/completions",
        ApiChoice::Completions | ApiChoice::Auto => "/v1/completions",
    };
    let endpoint = server.endpoint.as_deref().unwrap_or(expected);
    let is_chat = endpoint.ends_with("/chat/completions");
    if !endpoint.ends_with("/completions") || is_chat != (api == ApiChoice::Chat) {
        let backend = &server.backend;
        return Err(Error::usage(format!(
            "the endpoint `{endpoint}` is not the API of `--backend {backend}`"
        ))
        .with_hint(
            "`/v1/completions` goes with `--backend openai`, `/v1/chat/completions` with \
             `--backend openai-chat`",
        ));
    }
    if endpoint == expected {
        return Ok(base);
    }
    Ok(format!("{base}/{}", endpoint.trim_start_matches('/')))
}

fn dataset(command: &BenchServeArgs) -> Result<Dataset> {
    let given = &command.dataset;
    let name = given.dataset_name.as_str();
    let made = matches!(name, "random" | "prefix_repetition");
    if made && given.dataset_path.is_some() {
        return Err(Error::usage(format!("the dataset `{name}` reads no file")).with_hint(
            "name the file's dataset: `--dataset-name sharegpt`, `custom` or `burstgpt`",
        ));
    }
    let file = |output_len| {
        let path = given.dataset_path.clone().ok_or_else(|| {
            Error::usage(format!("the dataset `{name}` needs a file"))
                .with_hint("add `--dataset-path PATH`")
        })?;
        // Found before the server is asked anything.
        files::must_exist(&path)?;
        Ok::<_, Error>(FileOptions {
            path,
            output_len,
            shuffle: !given.disable_shuffle,
            oversample: !given.no_oversample,
        })
    };
    Ok(match name {
        "random" => Dataset::Random(random(command)?),
        "prefix_repetition" => Dataset::PrefixRepetition(PrefixRepetition {
            prefix_len: given.prefix_repetition_prefix_len,
            suffix_len: given.prefix_repetition_suffix_len,
            num_prefixes: given.prefix_repetition_num_prefixes,
            output_len: given.output_len.unwrap_or(given.prefix_repetition_output_len),
            shuffle: !given.disable_shuffle,
        }),
        "sharegpt" => Dataset::ShareGpt(file(given.output_len.or(given.sharegpt_output_len))?),
        "custom" => {
            // -1 takes the lengths of the lines.
            let own = u32::try_from(given.custom_output_len).ok().filter(|tokens| *tokens > 0);
            Dataset::Custom(file(given.output_len.or(own))?)
        }
        "burstgpt" => Dataset::BurstGpt(file(None)?),
        _ => {
            return Err(Error::usage(format!("the dataset `{name}` is not supported"))
                .with_hint("random, sharegpt, custom, prefix_repetition and burstgpt are"));
        }
    })
}

fn random(command: &BenchServeArgs) -> Result<RandomOptions> {
    let given = &command.dataset;
    let (input_range, output_range) = range_ratios(&given.random_range_ratio)?;
    let options = RandomOptions {
        input_len: given.input_len.unwrap_or(given.random_input_len),
        output_len: given.output_len.unwrap_or(given.random_output_len),
        prefix_len: given.random_prefix_len,
        input_range,
        output_range,
    };
    if options.output_len == 0 {
        return Err(Error::usage("`--random-output-len 0` asks for no answer"));
    }
    Ok(options)
}

/// One ratio for both lengths, or one for each.
fn range_ratios(text: &str) -> Result<(f64, f64)> {
    let bad = || {
        Error::usage(format!("`--random-range-ratio {text}` is not a ratio from 0 to below 1"))
            .with_hint(r#"write `0.2`, or `{"input": 0.2, "output": 0.1}`"#)
    };
    let value: Value = serde_json::from_str(text).map_err(|_| bad())?;
    let both = value.as_f64().map(|ratio| (ratio, ratio));
    let each = || Some((value.get("input")?.as_f64()?, value.get("output")?.as_f64()?));
    let (input, output) = both.or_else(each).ok_or_else(bad)?;
    let fits = |ratio: f64| (0.0..1.0).contains(&ratio);
    if fits(input) && fits(output) { Ok((input, output)) } else { Err(bad()) }
}

/// `custom` takes all prompts of the file where none or fewer are asked for.
fn num_prompts(command: &BenchServeArgs, dataset: &Dataset) -> Result<u32> {
    let asked = command.dataset.num_prompts;
    match u32::try_from(asked) {
        Ok(count) if count > 0 => Ok(count),
        _ => match dataset {
            Dataset::Custom(file) if asked <= 0 => {
                let text = files::read_text(&file.path)?;
                let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
                Ok(u32::try_from(lines).unwrap_or(u32::MAX))
            }
            _ => Err(Error::usage(format!("`--num-prompts {asked}` sends nothing"))
                .with_hint("write a number of 1 or more")),
        },
    }
}

fn arrivals(command: &BenchServeArgs) -> Result<Arrivals> {
    let load = &command.load;
    let (rate, burstiness) = (load.request_rate, load.burstiness);
    let is_positive = |value: f64| value > 0.0;
    if !is_positive(rate) {
        return Err(Error::usage(format!("`--request-rate {rate}` is not above 0"))
            .with_hint("write requests per second, or `inf`"));
    }
    if !is_positive(burstiness) {
        return Err(Error::usage(format!("`--burstiness {burstiness}` is not above 0"))
            .with_hint("1 is Poisson, 0.5 burstier, 2 more regular"));
    }
    Ok(Arrivals { rate, burstiness, ramp_up: ramp_up(command)? })
}

fn ramp_up(command: &BenchServeArgs) -> Result<Option<RampUp>> {
    let load = &command.load;
    let strategy = match load.ramp_up_strategy.as_deref() {
        None => return Ok(None),
        Some("linear") => RampStrategy::Linear,
        Some("exponential") => RampStrategy::Exponential,
        Some(other) => {
            return Err(Error::usage(format!("`--ramp-up-strategy {other}` is unknown"))
                .with_hint("write `linear` or `exponential`"));
        }
    };
    if load.request_rate.is_finite() {
        return Err(Error::usage("`--ramp-up-strategy` and `--request-rate` exclude each other")
            .with_hint("leave `--request-rate` out: the ramp-up sets the rate"));
    }
    let (Some(start_rps), Some(end_rps)) = (load.ramp_up_start_rps, load.ramp_up_end_rps) else {
        return Err(Error::usage("a ramp-up needs both ends")
            .with_hint("add `--ramp-up-start-rps R` and `--ramp-up-end-rps R`"));
    };
    if start_rps == 0 || start_rps > end_rps {
        return Err(Error::usage(format!(
            "a ramp-up from {start_rps} to {end_rps} falls, or begins at 0"
        ))
        .with_hint("start at 1 request per second or more, and end there or above"));
    }
    Ok(Some(RampUp { strategy, start_rps, end_rps }))
}

/// Sampling parameters, then the fields of `--extra-body`, which win.
fn extra_body(command: &BenchServeArgs) -> Result<Map<String, Value>> {
    let request = &command.request;
    let sampling = [
        ("top_p", request.top_p.map(|v| json!(v))),
        ("top_k", request.top_k.map(|v| json!(v))),
        ("min_p", request.min_p.map(|v| json!(v))),
        ("temperature", request.temperature.map(|v| json!(v))),
        ("frequency_penalty", request.frequency_penalty.map(|v| json!(v))),
        ("presence_penalty", request.presence_penalty.map(|v| json!(v))),
        ("repetition_penalty", request.repetition_penalty.map(|v| json!(v))),
    ];
    let given = sampling.into_iter().filter_map(|(name, v)| Some((name.to_owned(), v?)));
    let mut fields: Map<String, Value> = given.collect();
    if let Some(text) = &request.extra_body {
        let extra: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
            Error::usage("`--extra-body` is not a JSON object")
                .with_cause(error)
                .with_hint(r#"write `--extra-body '{"top_k": 20}'`"#)
        })?;
        extra_body::check(&extra)?;
        has_flag_of_its_own(&extra)?;
        fields.extend(extra);
    }
    Ok(fields)
}

/// Refuses fields that the flags of this command set.
fn has_flag_of_its_own(extra: &Map<String, Value>) -> Result<()> {
    for (field, flag) in [
        ("max_tokens", "--output-len"),
        ("max_completion_tokens", "--output-len"),
        ("model", "--served-model-name"),
    ] {
        if extra.contains_key(field) {
            return Err(Error::usage(format!("the extra body sets `{field}`"))
                .with_hint(format!("give it by `{flag}`")));
        }
    }
    Ok(())
}

fn lora(command: &BenchServeArgs) -> Result<Lora> {
    let assignment = match command.request.lora_assignment.as_str() {
        "random" => LoraAssignment::Random,
        "round-robin" => LoraAssignment::RoundRobin,
        other => {
            return Err(Error::usage(format!("`--lora-assignment {other}` is unknown"))
                .with_hint("write `random` or `round-robin`"));
        }
    };
    Ok(Lora { modules: command.request.lora_modules.clone(), assignment })
}

fn goodput(limits: &[String]) -> Result<Goodput> {
    let mut goodput = Goodput::default();
    for limit in limits {
        let bad = || {
            Error::usage(format!("`{limit}` is not a limit of goodput"))
                .with_hint("write `ttft:200`, `tpot:30` or `e2el:5000`, in ms")
        };
        let (metric, ms) = limit.split_once(':').ok_or_else(bad)?;
        let ms: f64 = ms.parse().ok().filter(|ms: &f64| *ms >= 0.0).ok_or_else(bad)?;
        let field = match metric {
            "ttft" => &mut goodput.ttft_ms,
            "tpot" => &mut goodput.tpot_ms,
            "e2el" => &mut goodput.e2el_ms,
            _ => return Err(bad()),
        };
        *field = Some(ms);
    }
    Ok(goodput)
}

fn metrics(command: &BenchServeArgs) -> Result<Vec<Latency>> {
    let names = command.result.percentile_metrics.as_deref().unwrap_or(DEFAULT_METRICS);
    let metric = |name: &str| {
        Latency::ALL.into_iter().find(|latency| latency.name() == name.trim()).ok_or_else(|| {
            let all = Latency::ALL.map(Latency::name).join(", ");
            Error::usage(format!("`{name}` is no metric of `--percentile-metrics`"))
                .with_hint(format!("write some of {all}"))
        })
    };
    names.split(',').map(metric).collect()
}

fn percentiles(text: &str) -> Result<Vec<f64>> {
    let percentile = |word: &str| {
        let number = word.trim().parse::<f64>().ok();
        number.filter(|p| (0.0..=100.0).contains(p)).ok_or_else(|| {
            Error::usage(format!("`{word}` is not a percentile from 0 to 100"))
                .with_hint("write `--metric-percentiles 50,90,99`")
        })
    };
    text.split(',').map(percentile).collect()
}

fn result(command: &BenchServeArgs) -> Result<ResultOptions> {
    let given = &command.result;
    let saving = match (given.append_result, given.save_result) {
        (true, _) => Saving::Append,
        (_, true) => Saving::File,
        _ => Saving::Nothing,
    };
    let pair = |text: &String| {
        let pair = text.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        let (key, value) = pair.filter(|(key, _)| !key.is_empty()).ok_or_else(|| {
            Error::usage(format!("metadata `{text}` has no key")).with_hint("write `KEY=VALUE`")
        })?;
        value::public(key)?;
        Ok::<_, Error>((key.to_owned(), value.to_owned()))
    };
    let metadata: Result<Vec<_>> = given.metadata.iter().map(pair).collect();
    Ok(ResultOptions {
        saving,
        detailed: given.save_detailed,
        dir: given.result_dir.clone(),
        filename: given.result_filename.clone(),
        label: given.label.clone(),
        metadata: metadata?,
    })
}
