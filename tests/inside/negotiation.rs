//! Fields and servers that gateways refuse: what is left out, and what is said of it.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers outside `#[test]` functions

use inferometer::clock::Clock;
use inferometer::preflight::{Demands, PreflightReport, run};
use inferometer::record::{FindingCode, Severity};
use inferometer::settings::Settings;
use inferometer::transport::{BaseUrl, Client, ClientSettings};
use serde_json::json;

use crate::inside::scripted::{Answer, Request, json_answer, refusal, serve};

const DEMANDS: Demands = Demands { longest_input: 64, longest_output: 16, highest_concurrency: 2 };

async fn report_of(
    settings: impl FnOnce(&mut Settings),
    answer: impl Fn(&Request) -> Option<Answer> + Send + Sync + 'static,
) -> PreflightReport {
    let server = serve(answer).await;
    let mut own = Settings::for_url(&server.url);
    settings(&mut own);
    let client = Client::new(ClientSettings::new(BaseUrl::parse(&server.url).unwrap())).unwrap();
    run(&client, Clock::start(), &own, DEMANDS).await
}

fn notes(report: &PreflightReport, code: FindingCode) -> Vec<&str> {
    assert!(report.fatal().is_none(), "{:?}", report.findings);
    report.findings.iter().filter(|f| f.code == code).map(|f| f.text.as_str()).collect()
}

#[tokio::test]
async fn a_field_that_a_refusal_names_is_left_out() {
    let cases = [
        ("max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        ("temperature", "'temperature' does not support 0.0 with this model"),
        ("seed", "Unrecognized request argument supplied: seed"),
    ];
    for (field, said) in cases {
        let report =
            report_of(|_| {}, move |request| request.has(field).then(|| refusal(400, said))).await;
        let found = notes(&report, FindingCode::FieldRefused);
        assert_eq!(found.len(), 1, "{field}: {found:?}");
        assert!(found[0].contains(&format!("`{field}` is refused")), "{found:?}");
        let left_out = report.offers.left_out;
        let expected = (field == "max_tokens", field == "temperature", field == "seed");
        assert_eq!((left_out.max_tokens, left_out.temperature, left_out.seed), expected);
        assert!(report.offers.include_usage, "what is not refused is sent");
    }
}

#[tokio::test]
async fn several_fields_and_unnamed_ones_are_found() {
    let two = |request: &Request| match (request.has("seed"), request.has("temperature")) {
        (true, _) => Some(refusal(400, "seed: extra fields not permitted")),
        (_, true) => Some(refusal(400, "temperature: extra fields not permitted")),
        _ => None,
    };
    let report = report_of(|_| {}, two).await;
    assert_eq!(notes(&report, FindingCode::FieldRefused).len(), 2);
    let silent = |request: &Request| request.has("seed").then(|| refusal(400, "Bad Request"));
    let report = report_of(|_| {}, silent).await;
    assert!(report.offers.left_out.seed && !report.offers.left_out.temperature);
}

#[tokio::test]
async fn min_tokens_is_left_out_where_only_that_is_refused() {
    let fussy = |request: &Request| {
        request.has("min_tokens").then(|| refusal(400, "min_tokens: extra fields not permitted"))
    };
    let report = report_of(|_| {}, fussy).await;
    assert!(report.offers.ignore_eos && !report.offers.min_tokens);
    assert!(notes(&report, FindingCode::FieldRefused)[0].starts_with("`min_tokens` is refused"));
}

#[tokio::test]
async fn a_key_that_may_not_list_models_may_measure_a_named_one() {
    let forbidden = |request: &Request| {
        let body = json!({"error": {"message": "Missing scopes: api.model.read"}});
        (request.path == "/v1/models").then(|| json_answer(403, &body))
    };
    let report = report_of(|s| s.model = Some("tiny".into()), forbidden).await;
    assert_eq!(report.model, "tiny");
    let warned = report.findings.iter().find(|f| f.code == FindingCode::NoModels).unwrap();
    assert_eq!(warned.severity, Severity::Warning);
    let report = report_of(|_| {}, forbidden).await;
    assert!(report.fatal().is_some(), "without a name nothing is known");
}

#[tokio::test]
async fn a_server_of_another_dialect_is_not_blamed_on_the_url() {
    let other = |request: &Request| {
        request.path.ends_with("/completions").then(|| refusal(404, "Not Found"))
    };
    let text = report_of(|_| {}, other).await.fatal().unwrap().render();
    assert!(text.contains("/v1/completions") && text.contains("/v1/chat/completions"), "{text}");
    assert!(!text.contains("is the base URL right"), "{text}");
}

#[tokio::test]
async fn a_limit_that_the_extra_body_sets_is_not_ignored() {
    let extra = json!({"max_tokens": null, "max_completion_tokens": 24});
    let set = move |s: &mut Settings| s.extra_body = extra.as_object().unwrap().clone();
    let report = report_of(set, |_| None).await;
    assert_eq!(notes(&report, FindingCode::LengthIgnored), [] as [&str; 0]);
}
