//! Preflight against a scripted server: a well-behaved one, and one fault at a time.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers outside `#[test]` functions

use inferometer::clock::Clock;
use inferometer::preflight::{Demands, PreflightReport, run};
use inferometer::record::{FindingCode, Severity};
use inferometer::settings::{ApiChoice, ApiKey, Settings, TriState};
use inferometer::sim::{SimConfig, SimServer};
use inferometer::transport::ClientSettings;
use inferometer::transport::{BaseUrl, Client};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::inside::scripted::{Answer, Request, json_answer, refusal, serve, stream};

const DEMANDS: Demands =
    Demands { longest_input: 512, longest_output: 128, highest_concurrency: 16 };

async fn examine(settings: &Settings, demands: Demands) -> PreflightReport {
    let mut client = ClientSettings::new(BaseUrl::parse(&settings.target.url).unwrap());
    client.api_key = settings.api_key.clone();
    client.headers = settings.headers.clone();
    client.timeouts = settings.timeouts;
    client.insecure = settings.insecure;
    run(&Client::new(client).unwrap(), Clock::start(), settings, demands).await
}

/// Settings for a server that may speak TLS, whatever authorities this machine has.
fn over_tls(url: &str) -> Settings {
    let mut settings = Settings::for_url(url);
    settings.insecure = true;
    settings
}

async fn report_of(
    fault: impl Fn(&Request) -> Option<Answer> + Send + Sync + 'static,
) -> PreflightReport {
    let server = serve(fault).await;
    examine(&Settings::for_url(&server.url), DEMANDS).await
}

fn codes(report: &PreflightReport) -> Vec<&str> {
    report.findings.iter().map(|f| f.code.name()).collect()
}

fn fatal(report: &PreflightReport) -> String {
    report.fatal().unwrap_or_else(|| panic!("not fatal: {:?}", report.findings)).render()
}

#[tokio::test]
async fn a_well_behaved_server_gives_all_there_is() {
    let server = serve(|_| None).await;
    let report = examine(&Settings::for_url(&server.url), DEMANDS).await;
    assert!(report.fatal().is_none(), "{:?}", report.findings);
    assert_eq!(codes(&report), ["model_chosen"]);
    assert_eq!((report.model.as_str(), report.api), ("tiny", ApiChoice::Completions));
    let offers = report.offers;
    assert!(offers.ignore_eos && offers.include_usage && offers.continuous_usage);
    assert!(offers.token_prompts && !offers.token_ids);
    let words = inferometer::scenario::prompt::WORDS.len();
    assert_eq!(report.token_ids.as_ref().unwrap().len(), words);
    assert_eq!((report.template_tokens, report.max_model_len), (Some(0), Some(4096)));
    assert_eq!(report.engine.as_deref(), Some("vllm"));
    assert_eq!(report.engine_version.as_deref(), Some("0.32.0"));
    assert_eq!(report.engine_settings["block_size"], "16");
    assert_eq!(
        report.summary(),
        "`tiny` on vllm 0.32.0: completions, prompts of token ids, tokens counted by usage in every event"
    );
    let seen = server.seen.lock().unwrap();
    assert!(seen.len() < 16, "{} requests", seen.len());
    let keyed = |r: &Request| r.head.to_lowercase().contains("authorization");
    assert!(!seen.iter().any(keyed), "no key, no header");
}

#[tokio::test]
async fn nobody_there_is_said_with_the_address() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text =
        fatal(&examine(&Settings::for_url(format!("http://127.0.0.1:{port}")), DEMANDS).await);
    assert!(text.contains(&format!("nobody listens at `http://127.0.0.1:{port}")), "{text}");
    assert!(text.contains("--server-cmd"), "{text}");
}

#[tokio::test]
async fn a_refused_key_names_the_header_and_never_the_value() {
    let unauthorized = |request: &Request| {
        let guarded = request.path.starts_with("/v1");
        guarded.then(|| json_answer(401, &json!({"error": "Unauthorized"})))
    };
    let server = serve(unauthorized).await;
    let mut settings = Settings::for_url(&server.url);
    let text = fatal(&examine(&settings, DEMANDS).await);
    assert!(text.contains("no `Authorization` header"), "{text}");
    settings.api_key = Some(ApiKey::new("sk-very-secret"));
    let text = fatal(&examine(&settings, DEMANDS).await);
    assert!(text.contains("`Authorization: Bearer …`") && !text.contains("secret"), "{text}");
    assert_eq!(server.seen.lock().unwrap().len(), 2, "401 ends it at once");
}

#[tokio::test]
async fn a_key_that_the_server_gives_back_is_nowhere_in_the_report() {
    let key = "sk-very-secret-0123";
    let echo = move |request: &Request| match request.path.as_str() {
        "/v1/models" => Some(Answer {
            headers: "Server: llama.cpp/sk-very-secret-0123\r\n",
            ..json_answer(200, &json!({"data": [{"id": "tiny"}, {"id": key}]}))
        }),
        "/version" => Some(json_answer(200, &json!({"version": key}))),
        "/props" => Some(json_answer(200, &json!({"model_path": key, "total_slots": 1}))),
        "/metrics" => Some(Answer {
            status: 200,
            headers: "",
            kind: "text/plain",
            body: format!("vllm:num_requests_running 0\nvllm:cache_config_info{{a=\"{key}\"}} 1\n"),
        }),
        _ if request.has("ignore_eos") => Some(refusal(400, &format!("{key}\u{1b}[31m\nsays no"))),
        _ => None,
    };
    let server = serve(echo).await;
    let mut settings = Settings::for_url(&server.url);
    settings.api_key = Some(ApiKey::new(key));
    let report = examine(&settings, DEMANDS).await;
    assert!(report.fatal().is_none(), "{:?}", report.findings);
    assert!(!format!("{report:?}").contains("secret"), "{report:?}");
    assert_eq!(report.engine_settings["model_path"], "[redacted]");
    let text = |f: &inferometer::record::Finding| !f.text.contains(char::is_control);
    assert!(report.findings.iter().all(text), "{:?}", report.findings);
    settings.model = Some("other".to_owned());
    let text = fatal(&examine(&settings, DEMANDS).await);
    assert!(text.contains("served: `tiny`, `[redacted]`"), "{text}");
}

#[tokio::test]
async fn a_page_in_place_of_the_models_is_cleaned_before_it_is_cut() {
    let key = "sk-very-secret-0123456789-0123456789-0123456789-0123456789-0123456789";
    let page = move |_: &Request| {
        let body = format!("<html>you sent {key} and {key}");
        Some(Answer { status: 200, headers: "", kind: "text/html", body })
    };
    let server = serve(page).await;
    let mut settings = Settings::for_url(&server.url);
    settings.api_key = Some(ApiKey::new(key));
    let text = fatal(&examine(&settings, DEMANDS).await);
    assert!(text.contains("[redacted]") && !text.contains("sk-very"), "{text}");
}

#[tokio::test]
async fn of_two_ways_that_fail_the_one_that_is_there_is_told() {
    let report = report_of(|request| match request.path.as_str() {
        "/v1/completions" => Some(refusal(404, "Not Found")),
        "/v1/chat/completions" => Some(refusal(500, "no free slot")),
        _ => None,
    })
    .await;
    assert!(fatal(&report).contains("no free slot"), "{:?}", report.findings);
}

#[tokio::test]
async fn a_redirect_is_told_with_its_target() {
    let moved = |_: &Request| {
        Some(Answer {
            status: 308,
            headers: "Location: https://there.example/v1/models\r\n",
            kind: "text/html",
            body: String::new(),
        })
    };
    let text = fatal(&report_of(moved).await);
    assert!(text.contains("`https://there.example/v1/models`"), "{text}");
    assert!(text.contains("give the URL that it points to"), "{text}");
}

#[tokio::test]
async fn a_key_asked_for_by_the_requests_alone_is_found_too() {
    // llama-server leaves its list of models open.
    let report = report_of(|request| {
        (request.path.starts_with("/v1/") && request.path != "/v1/models")
            .then(|| refusal(401, "Invalid API Key"))
    })
    .await;
    assert_eq!(report.findings.last().unwrap().code, FindingCode::KeyRefused);
    assert!(fatal(&report).contains("Invalid API Key"));
}

#[tokio::test]
async fn a_key_with_spaces_is_said() {
    let server = serve(|_| None).await;
    let mut settings = Settings::for_url(&server.url);
    settings.api_key = Some(ApiKey::new("sk-key "));
    let report = examine(&settings, DEMANDS).await;
    assert!(codes(&report).contains(&"key_spaces"), "{:?}", report.findings);
    let server = serve(|_| Some(refusal(401, "no"))).await;
    settings.target.url = server.url;
    assert!(fatal(&examine(&settings, DEMANDS).await).contains("take the spaces"));
}

#[tokio::test]
async fn a_model_that_is_not_listed_is_fatal_even_where_any_name_is_answered() {
    // As llama-server does: the stream answers to any name.
    let server = serve(|_| None).await;
    let mut settings = Settings::for_url(&server.url);
    settings.model = Some("Tiny".to_owned());
    let text = fatal(&examine(&settings, DEMANDS).await);
    assert!(text.contains("`Tiny` is not served; served: `tiny`, `Other/Model-7B`"), "{text}");
    assert!(text.contains("did you mean `tiny`? names are case-sensitive"), "{text}");
    let seen = server.seen.lock().unwrap();
    assert!(seen.iter().all(|r| r.path != "/v1/completions"), "no token was generated");
}

#[tokio::test]
async fn pages_that_are_no_list_of_models() {
    let html = |_: &Request| {
        let body = "<html>Welcome to nginx".to_owned();
        Some(Answer { status: 200, headers: "", kind: "text/html", body })
    };
    let text = fatal(&report_of(html).await);
    assert!(text.contains("`Welcome to nginx`") && text.contains("gateway"), "{text}");
    let text = fatal(&report_of(|_| Some(refusal(404, "nothing"))).await);
    assert!(text.contains("`--model`"), "{text}");
    let text = fatal(&report_of(|_| Some(json_answer(200, &json!({"data": []})))).await);
    assert!(text.contains("serves no model"), "{text}");
}

#[tokio::test]
async fn a_named_model_is_tried_where_the_list_is_empty_or_fails() {
    // As servers that load on demand do (`transformers serve`).
    let lists =
        [json_answer(200, &json!({"data": []})), refusal(500, "no cache"), refusal(404, "")];
    for list in lists {
        let answer = move |r: &Request| (r.path == "/v1/models").then(|| list.clone());
        let server = serve(answer).await;
        let mut settings = Settings::for_url(&server.url);
        settings.model = Some("tiny".to_owned());
        let report = examine(&settings, DEMANDS).await;
        assert!(report.fatal().is_none(), "{:?}", report.findings);
        assert_eq!(report.model, "tiny");
        let trusted = report.findings.iter().find(|f| f.code == FindingCode::NoModels).unwrap();
        assert!(trusted.text.contains("taken on trust"), "{}", trusted.text);
    }
}

#[tokio::test]
async fn a_quota_is_no_slow_server() {
    let report = report_of(|request| {
        (request.path == "/v1/completions")
            .then(|| Answer { headers: "Retry-After: 17\r\n", ..refusal(429, "too many requests") })
    })
    .await;
    let text = fatal(&report);
    assert!(text.contains("429") && text.contains("retry after 17"), "{text}");
}

#[tokio::test]
async fn without_completions_chat_is_taken_and_its_template_learned() {
    let report =
        report_of(|request| (request.path == "/v1/completions").then(|| refusal(404, "Not Found")))
            .await;
    assert!(report.fatal().is_none(), "{:?}", report.findings);
    assert_eq!(report.api, ApiChoice::Chat);
    assert_eq!((report.template_tokens, report.token_ids), (Some(11), None));
    let line = report.text_calibration.unwrap();
    assert!((line.tokens_per_word - 1.0).abs() < 1e-9);
    assert!(report.findings.iter().any(|f| f.text.contains("adds 11 tokens")));
}

#[tokio::test]
async fn a_refused_ignore_eos_is_told_in_the_server_s_words() {
    let fault = |request: &Request| {
        request.has("ignore_eos").then(|| refusal(422, "Unexpected keys: ignore_eos"))
    };
    let report = report_of(fault).await;
    assert!(report.fatal().is_none());
    assert!(!report.offers.ignore_eos && report.offers.token_prompts);
    let finding = report.findings.iter().find(|f| f.code == FindingCode::IgnoreEos).unwrap();
    assert!(finding.text.contains("Unexpected keys: ignore_eos"), "{}", finding.text);
    assert_eq!(finding.severity, Severity::Note);

    let server = serve(fault).await;
    let mut settings = Settings::for_url(&server.url);
    settings.ignore_eos = TriState::On;
    assert!(fatal(&examine(&settings, DEMANDS).await).contains("Unexpected keys"));
    settings.ignore_eos = TriState::Off;
    let report = examine(&settings, DEMANDS).await;
    assert!(report.fatal().is_none() && !report.offers.ignore_eos);
}

#[tokio::test]
async fn lengths_that_are_not_obeyed() {
    let long =
        report_of(|request| request.path.contains("completions").then(|| stream(request, 40)))
            .await;
    let finding = long.findings.iter().find(|f| f.code == FindingCode::LengthIgnored).unwrap();
    assert!(finding.text.contains("asked for 8 tokens, the server generated 40"));
    let short =
        report_of(|request| request.path.contains("completions").then(|| stream(request, 3))).await;
    let finding =
        short.findings.iter().find(|f| f.code == FindingCode::IgnoreEosWithoutEffect).unwrap();
    assert!(finding.text.contains("3 of 8 tokens"), "{}", finding.text);
}

#[tokio::test]
async fn a_server_without_usage_is_said_to_be_counted_by_events() {
    let report = report_of(|request| {
        let mut plain = request.clone();
        plain.body["stream_options"] = Value::Null;
        request.path.contains("completions").then(|| stream(&plain, plain.max_tokens()))
    })
    .await;
    assert!(report.fatal().is_none());
    assert!(codes(&report).contains(&"no_usage"), "{:?}", report.findings);
    assert!(!report.offers.include_usage && !report.offers.continuous_usage);
}

#[tokio::test]
async fn stream_options_that_are_refused_are_left_out() {
    let report = report_of(|request| {
        request.has("stream_options").then(|| refusal(400, "unknown field stream_options"))
    })
    .await;
    assert!(report.fatal().is_none(), "{:?}", report.findings);
    assert!(codes(&report).contains(&"usage_refused"));
    assert!(!report.offers.include_usage);
}

#[tokio::test]
async fn token_prompts_that_are_refused_or_miscounted_are_left_out() {
    let is_ids = |request: &Request| request.body["prompt"].is_array();
    let refused =
        report_of(move |request| is_ids(request).then(|| refusal(400, "prompt must be text")))
            .await;
    assert!(!refused.offers.token_prompts && refused.token_ids.is_none());
    assert!(refused.text_calibration.is_some());
    assert!(refused.findings.iter().any(|f| f.text.contains("prompt must be text")));
    let miscounted = report_of(move |request| {
        let mut text = request.clone();
        text.body["prompt"] = json!("a b c d e");
        is_ids(request).then(|| stream(&text, 8))
    })
    .await;
    assert!(!miscounted.offers.token_prompts);
    assert!(miscounted.findings.iter().any(|f| f.text.contains("32 token ids is counted as 5")));
}

#[tokio::test]
async fn a_plan_longer_than_the_context_is_fatal_with_both_figures() {
    let server = serve(|_| None).await;
    let demands = Demands { longest_input: 4000, longest_output: 128, highest_concurrency: 1 };
    let text = fatal(&examine(&Settings::for_url(&server.url), demands).await);
    assert!(text.contains("needs 4128 tokens (4000 in, 128 out)"), "{text}");
    assert!(text.contains("holds 4096"), "{text}");
}

#[tokio::test]
async fn a_context_that_is_not_told_is_probed_at_full_length() {
    let fault = |request: &Request| match request.path.as_str() {
        "/v1/models" => Some(json_answer(200, &json!({"data": [{"id": "m"}]}))),
        "/tokenize" => Some(refusal(404, "Not Found")),
        _ if request.prompt_tokens() > 1000 => {
            Some(refusal(400, "maximum context length is 1000 tokens"))
        }
        _ => None,
    };
    let server = serve(fault).await;
    let settings = Settings::for_url(&server.url);
    let fits = examine(&settings, DEMANDS).await;
    assert!(fits.fatal().is_none(), "{:?}", fits.findings);
    assert!(codes(&fits).contains(&"no_tokenize"));
    let demands = Demands { longest_input: 2000, ..DEMANDS };
    let text = fatal(&examine(&settings, demands).await);
    assert!(text.contains("maximum context length is 1000 tokens"), "{text}");
}

#[tokio::test]
async fn llama_server_is_known_by_its_header_and_props() {
    let report = report_of(|request| match request.path.as_str() {
        "/v1/models" => Some(Answer {
            headers: "Server: llama.cpp\r\n",
            ..json_answer(200, &json!({"data": [{"id": "smollm2", "owned_by": "llamacpp"}]}))
        }),
        "/version" => Some(refusal(404, "File Not Found")),
        "/metrics" => Some(refusal(501, "This server does not support metrics endpoint.")),
        "/props" => {
            let slots = json!({"n_ctx": 600});
            let props = json!({"default_generation_settings": slots, "total_slots": 4, "build_info": "b1-7e4c0a9"});
            Some(json_answer(200, &props))
        }
        "/tokenize" => {
            let words = request.body["content"].as_str().unwrap().split_whitespace();
            let ids: Vec<usize> = words.map(|w| w.bytes().fold(7, |h, b| h * 31 % 9973 + usize::from(b))).collect();
            Some(json_answer(200, &json!({"tokens": ids})))
        }
        _ => None,
    })
    .await;
    assert_eq!(report.engine.as_deref(), Some("llama.cpp"));
    assert_eq!(report.engine_version.as_deref(), Some("b1-7e4c0a9"));
    assert_eq!(report.engine_settings["total_slots"], "4");
    assert!(report.offers.token_prompts && report.token_ids.is_some());
    assert!(codes(&report).contains(&"no_metrics"));
    // The slot's context, not the server's: 512 + 128 do not fit.
    assert!(fatal(&report).contains("holds 600"));
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn https_against_plain_http_says_http_first() {
    let server = SimServer::start(SimConfig::default()).unwrap();
    let plain = server.url();
    let settings = over_tls(&plain.replace("http:", "https:"));
    let text = fatal(&examine(&settings, DEMANDS).await);
    assert!(text.contains("speaks no TLS: it answers plain HTTP"), "{text}");
    assert!(text.contains(&format!("hint: use `{plain}`")), "{text}");
    assert!(!text.contains("--ca-cert"), "{text}");
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_port_that_speaks_neither_tls_nor_http_fails_in_the_handshake() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut hello = [0; 1024];
            let _ = socket.read(&mut hello).await;
            let _ = socket.write_all(b"nothing that anybody understands").await;
        }
    });
    let text = fatal(&examine(&over_tls(&url), DEMANDS).await);
    assert!(text.contains("the TLS handshake with") && !text.contains("--ca-cert"), "{text}");
}

#[tokio::test]
async fn http_against_a_port_that_wants_tls_says_https() {
    let report = report_of(|_| {
        let page = "<html><title>400</title><h1>400 Bad Request</h1>The plain HTTP request was sent to HTTPS port";
        Some(Answer { status: 400, headers: "", kind: "text/html", body: page.to_owned() })
    });
    let text = fatal(&report.await);
    assert!(text.contains("hint: use `https://`"), "{text}");
}

#[tokio::test]
async fn a_web_page_in_place_of_the_models_shows_its_title_and_no_tags() {
    let page = |body: &'static str| {
        report_of(move |request| {
            (request.path == "/v1/models").then(|| Answer {
                status: 200,
                headers: "",
                kind: "text/html",
                body: body.to_owned(),
            })
        })
    };
    let titled = "<!doctype html><html><head><script>var a = '<b>';</script><title>Open WebUI</title></head>";
    let text = fatal(&page(titled).await);
    assert!(text.contains("is a web page, no list of models: `Open WebUI`"), "{text}");
    assert!(
        text.contains("a gateway or another service answers there: check the base URL"),
        "{text}"
    );
    let text = fatal(&page("<html><body><h1>Sign in</h1><p>to go on</p></body></html>").await);
    assert!(text.contains("`Sign in to go on`"), "{text}");
    assert!(!text.contains("<h1>"), "{text}");
}
