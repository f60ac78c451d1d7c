//! What preflight reports of a server that cannot be measured: the cause, and what to do about it.

use inferometer::report::progress::Silent;
use inferometer::settings::{ApiKey, Settings};
use inferometer::sim::{SimConfig, SimServer};
use inferometer::{Error, ErrorKind, Harness, Load, Scenario};

use super::Job;

async fn checked(change: impl FnOnce(&mut Settings), config: SimConfig) -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let server = SimServer::start(config).unwrap();
    let mut settings = Job::new("kind=401").settings(&server.url(), folder.path());
    change(&mut settings);
    let mut harness = Harness::new(settings);
    let scenario = Scenario::new("s").input(64).output(8).load(Load::concurrency(2));
    harness.group("preflight").scenario(scenario);
    harness.preflight(&mut Silent).await
}

/// The error of a fault that strikes every request: words of its cause, and of its hint.
async fn check(fault: &str, cause: &str, hint: &str) {
    let config = SimConfig { faults: vec![fault.parse().unwrap()], ..SimConfig::default() };
    let error = checked(|_| {}, config).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Preflight, "{fault}");
    assert_eq!(inferometer::compare::gate::exit_code(error.kind()), 3, "{fault}");
    assert!(error.to_string().contains(cause), "{fault}: {}", error.render());
    assert!(error.hint().unwrap_or_default().contains(hint), "{fault}: {}", error.render());
    assert!(!error.to_string().contains('\n'), "{fault}: one line: {}", error.render());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fault_is_named_with_its_mend() {
    for (fault, cause, hint) in [
        ("401", "no `Authorization` header", "--api-key-env"),
        ("429:9s", "retry after 9", "quota"),
        ("500", "500 Internal Server Error", "look at its log"),
        ("502", "502 Bad Gateway", "gateway"),
        ("503", "503 Service Unavailable", "wait"),
        ("reset-before", "reset", "has the process died"),
        ("reset-during", "reset", "has the process died"),
        ("truncate", "EOF", "broke the connection off"),
        ("empty", "status 200 and no token", "does the prompt fit"),
        ("no-tokens", "status 200 and no token", "does the prompt fit"),
        ("error-object", "EngineCore encountered an issue", "engine fails"),
        ("error-string", "the model has left", "engine fails"),
        ("interrupted", "without a finish reason", "engine fails"),
    ] {
        check(fault, cause, hint).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_can_be_measured_passes_with_its_oddities() {
    for fault in
        ["no-usage", "usage-with-choices", "no-done", "crlf", "no-space", "burst", "keep-alive:1ms"]
    {
        let config = SimConfig { faults: vec![fault.parse().unwrap()], ..SimConfig::default() };
        checked(|_| {}, config).await.unwrap_or_else(|e| panic!("{fault}: {}", e.render()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_user_gave_wrong_is_said_to_be_so() {
    let key = || SimConfig { api_key: Some("s3cret".into()), ..SimConfig::default() };
    let wrong = checked(|s| s.api_key = Some(ApiKey::new("guess")), key()).await.unwrap_err();
    assert!(wrong.to_string().contains("`Authorization: Bearer …`"), "{}", wrong.render());
    assert!(!wrong.render().contains("guess"), "the value is never told");
    let model = checked(|s| s.model = Some("SIM".into()), SimConfig::default()).await.unwrap_err();
    assert!(model.hint().unwrap().contains("did you mean `sim`"), "{}", model.render());
    let short = SimConfig { max_model_len: 48, ..SimConfig::default() };
    let long = checked(|_| {}, short).await.unwrap_err();
    assert!(long.to_string().contains("context holds 48"), "{}", long.render());
    for error in [wrong, model, long] {
        assert_eq!(inferometer::compare::gate::exit_code(error.kind()), 3, "{}", error.render());
    }
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn https_to_a_plain_server_names_the_http_url() {
    let sim = SimConfig::default();
    let tls = checked(|s| s.target.url = s.target.url.replace("http", "https"), sim).await;
    let tls = tls.unwrap_err();
    assert!(tls.hint().unwrap().contains("use `http://127.0.0.1:"), "{}", tls.render());
    assert_eq!(inferometer::compare::gate::exit_code(tls.kind()), 3, "{}", tls.render());
}
