//! The simulated server over a raw socket: its bytes, its errors, its faults, its truth.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use inferometer::rng::Seed;
use inferometer::sim::config::Offer;
use inferometer::sim::fault::FaultSpec;
use inferometer::sim::noise::Noise;
use inferometer::sim::{Preset, SimConfig, SimServer};

/// A server whose iterations take no time worth waiting for.
fn config() -> SimConfig {
    SimConfig { noise: Noise::OFF, ..SimConfig::preset(Preset::Demo) }
}

fn with_fault(fault: &str) -> SimConfig {
    SimConfig { faults: vec![fault.parse::<FaultSpec>().unwrap()], ..config() }
}

fn connect(server: &SimServer) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn request(method: &str, path: &str, head: &str, body: &str) -> String {
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nhost: sim\r\n{head}content-length: {length}\r\n\r\n{body}")
}

/// Sends one request and reads until the server closes; an error is where the reading ended by one.
fn exchange(server: &SimServer, raw: &str) -> (String, Option<ErrorKind>) {
    let mut stream = connect(server);
    stream.write_all(raw.as_bytes()).unwrap();
    let (mut bytes, mut buffer) = (Vec::new(), [0; 65_536]);
    let error = loop {
        match stream.read(&mut buffer) {
            Ok(0) => break None,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) => break Some(error.kind()),
        }
    };
    (String::from_utf8(bytes).unwrap(), error)
}

fn post(server: &SimServer, path: &str, body: &str) -> String {
    exchange(server, &request("POST", path, "connection: close\r\n", body)).0
}

fn get(server: &SimServer, path: &str) -> String {
    exchange(server, &request("GET", path, "connection: close\r\n", "")).0
}

fn body_of(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

/// The body of a chunked answer, and whether its last chunk came.
fn unchunked(answer: &str) -> (String, bool) {
    let (mut rest, mut whole) = (body_of(answer).as_bytes(), Vec::new());
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (String::from_utf8(whole).unwrap(), true);
        }
        whole.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
    (String::from_utf8(whole).unwrap(), false)
}

/// The `data:` of each event of a stream.
fn events(answer: &str) -> Vec<String> {
    let (body, _) = unchunked(answer);
    body.split("\n\n").filter_map(|e| e.strip_prefix("data: ").map(str::to_owned)).collect()
}

const STREAM: &str = r#"{"model":"sim","prompt":[1000,1001,1002,1003],"max_tokens":6,"stream":true,"ignore_eos":true,"stream_options":{"include_usage":true}}"#;
const WHOLE: &str = r#"{"model":"sim","prompt":"the light of two beams","max_tokens":6}"#;
const CHAT: &str = r#"{"model":"sim","messages":[{"role":"user","content":"the light"}],"max_completion_tokens":5,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}"#;

#[test]
fn a_completion_streams_as_the_real_one_does() {
    let server = SimServer::start(config()).unwrap();
    let answer = post(&server, "/v1/completions", STREAM);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-type: text/event-stream; charset=utf-8\r\n"));
    assert!(answer.contains("transfer-encoding: chunked\r\n"));
    assert!(unchunked(&answer).1);
    let events = events(&answer);
    assert_eq!(events.len(), 8);
    let head = r#"{"id":"cmpl-"#;
    assert!(events[..7].iter().all(|event| event.starts_with(head)));
    let tail = r#""logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}"#;
    assert!(events[..5].iter().all(|event| event.ends_with(tail)));
    assert!(events[5].contains(r#""finish_reason":"length","stop_reason":null,"#));
    assert!(events[6].contains(
        r#""model":"sim","choices":[],"usage":{"prompt_tokens":4,"total_tokens":10,"completion_tokens":6},"#
    ));
    assert_eq!(events[7], "[DONE]");
}

#[test]
fn chat_streams_its_role_first_and_usage_everywhere_when_asked() {
    let server = SimServer::start(config()).unwrap();
    let events = events(&post(&server, "/v1/chat/completions", CHAT));
    assert_eq!(events.len(), 1 + 5 + 2);
    assert!(events[0].contains(r#""object":"chat.completion.chunk""#));
    assert!(events[0].contains(r#""delta":{"role":"assistant","content":""}"#));
    // Two words, and nine tokens of the template.
    for (place, event) in events[..6].iter().enumerate() {
        let usage = format!(
            r#""usage":{{"prompt_tokens":11,"total_tokens":{},"completion_tokens":{place}}}"#,
            11 + place
        );
        assert!(event.contains(&usage), "{event}");
    }
}

#[test]
fn whole_answers_and_token_ids_agree_with_the_tokenizer() {
    let server = SimServer::start(config()).unwrap();
    let body = WHOLE.replace("\"max_tokens\"", "\"return_token_ids\":true,\"max_tokens\"");
    let answer = post(&server, "/v1/completions", &body);
    let json: serde_json::Value = serde_json::from_str(body_of(&answer)).unwrap();
    let text = json["choices"][0]["text"].as_str().unwrap();
    assert_eq!(json["usage"]["completion_tokens"], 6);
    let asked = serde_json::json!({ "model": "sim", "prompt": text }).to_string();
    let tokens = post(&server, "/tokenize", &asked);
    let tokens: serde_json::Value = serde_json::from_str(body_of(&tokens)).unwrap();
    assert_eq!(tokens["tokens"], json["choices"][0]["token_ids"]);
    assert_eq!((&tokens["count"], &tokens["max_model_len"]), (&6.into(), &8192.into()));
    let back =
        post(&server, "/detokenize", &serde_json::json!({"tokens": tokens["tokens"]}).to_string());
    let back: serde_json::Value = serde_json::from_str(body_of(&back)).unwrap();
    assert_eq!(back["prompt"], text);
    assert_eq!(
        json["usage"]["prompt_tokens"],
        json["choices"][0]["prompt_token_ids"].as_array().unwrap().len()
    );
}

#[test]
fn the_same_request_brings_the_same_text() {
    let server = SimServer::start(config()).unwrap();
    let text = || {
        let answer = post(&server, "/v1/completions", WHOLE);
        let json: serde_json::Value = serde_json::from_str(body_of(&answer)).unwrap();
        json["choices"][0]["text"].clone()
    };
    assert_eq!(text(), text());
}

#[test]
fn errors_use_the_real_servers_words() {
    let server = SimServer::start(SimConfig {
        api_key: Some("sesame".into()),
        max_model_len: 64,
        ..config()
    })
    .unwrap();
    let send = |key: &str, path: &str, body: &str| {
        let head = format!("authorization: Bearer {key}\r\nconnection: close\r\n");
        exchange(&server, &request("POST", path, &head, body)).0
    };
    let answer = send("wrong", "/v1/completions", WHOLE);
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    assert_eq!(body_of(&answer), r#"{"error":"Unauthorized"}"#);
    assert!(get(&server, "/v1/models").starts_with("HTTP/1.1 401 "));
    // Everything outside `/v1` is open.
    assert!(get(&server, "/health").starts_with("HTTP/1.1 200 "));
    let cases = [
        (
            WHOLE.replace("\"sim\"", "\"no\""),
            404,
            "The model `no` does not exist. Valid aliases: sim.",
        ),
        (WHOLE.replace(":6", ":0"), 400, "max_tokens must be at least 1, got 0."),
        (WHOLE.replace("of", &"of ".repeat(80)), 400, "maximum context length is 64 tokens"),
        ("{".into(), 400, "JSON decode error"),
    ];
    for (body, status, words) in cases {
        let answer = send("sesame", "/v1/completions", &body);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(body_of(&answer).starts_with(r#"{"error":{"message":""#), "{answer}");
        assert!(answer.contains(words), "{answer}");
    }
    let answer = send("sesame", "/v1/nothing", "");
    assert!(answer.starts_with("HTTP/1.1 404 "));
    assert_eq!(body_of(&answer), r#"{"detail":"Not Found"}"#);
}

#[test]
fn a_full_queue_is_busy_in_the_real_servers_words() {
    let server = SimServer::start(SimConfig { max_queued: 0, ..config() }).unwrap();
    let answer = post(&server, "/v1/chat/completions", CHAT);
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert_eq!(
        body_of(&answer),
        r#"{"error":{"message":"The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.","type":"Service Unavailable","param":null,"code":503}}"#
    );
}

fn sample(page: &str, name: &str) -> f64 {
    let line = page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn metrics_count_what_was_served() {
    let server = SimServer::start(config()).unwrap();
    for _ in 0..3 {
        post(&server, "/v1/completions", STREAM);
    }
    let page = get(&server, "/metrics");
    assert_eq!(sample(&page, "vllm:prompt_tokens_total{"), 12.0);
    assert_eq!(sample(&page, "vllm:generation_tokens_total{"), 18.0);
    assert_eq!(sample(&page, "vllm:num_requests_running{"), 0.0);
    assert_eq!(sample(&page, "vllm:time_to_first_token_seconds_count{"), 3.0);
    assert_eq!(sample(&page, "vllm:inter_token_latency_seconds_count{"), 15.0);
    assert_eq!(sample(&page, "vllm:e2e_request_latency_seconds_count{"), 3.0);
    assert_eq!(sample(&page, "vllm:prefix_cache_hits_total{"), 0.0);
    assert!(sample(&page, "process_start_time_seconds ") > 1e9);
    assert!(page.contains("vllm:request_success_total{engine=\"0\",finished_reason=\"length\",model_name=\"sim\"} 3.0\n"));
    assert!(page.contains("vllm:cache_config_info{"));
}

#[test]
fn the_prefix_cache_serves_repeated_prompts() {
    let server = SimServer::start(SimConfig { prefix_cache: Offer::On, ..config() }).unwrap();
    let prompt: Vec<u32> = (1000..1100).collect();
    let body = serde_json::json!({"prompt": prompt, "max_tokens": 2}).to_string();
    for _ in 0..2 {
        post(&server, "/v1/completions", &body);
    }
    let page = get(&server, "/metrics");
    assert_eq!(sample(&page, "vllm:prefix_cache_hits_total{"), 96.0); // six blocks of 16
    assert_eq!(sample(&page, "vllm:prefix_cache_queries_total{"), 200.0);
}

#[test]
fn truth_holds_each_request_in_order_of_its_times() {
    let server = SimServer::start(config()).unwrap();
    let answer = post(&server, "/v1/completions", STREAM);
    post(&server, "/v1/completions", WHOLE);
    let truth = server.take_truth();
    assert_eq!(truth.len(), 2);
    assert!(answer.contains(&truth[0].id));
    for record in &truth {
        assert_eq!(record.output_tokens, 6);
        let (first, last) = (record.first_token_ns.unwrap(), record.last_token_ns.unwrap());
        assert!(record.received_ns < first && first <= last && last <= server.clock().now_ns());
    }
    // The engine never runs ahead of the clock: 0.08 + 0.5 ms of way in, 0.424 + 5 x 0.44 ms of steps, 0.1 ms back.
    assert!(truth[0].last_token_ns.unwrap() - truth[0].received_ns > 3_300_000);
    assert!(server.take_truth().is_empty());
}

#[test]
fn a_restart_keeps_the_port_and_is_another_start() {
    let mut server = SimServer::start(SimConfig::default()).unwrap();
    let (url, before) = (server.url(), get(&server, "/metrics"));
    post(&server, "/v1/completions", STREAM);
    let held = connect(&server); // a connection that a client keeps
    server.restart(Seed(9)).unwrap();
    assert_eq!(server.url(), url);
    let after = get(&server, "/metrics");
    let start = |page: &str| sample(page, "process_start_time_seconds ");
    assert!(start(&after) > start(&before));
    assert_eq!(sample(&after, "vllm:generation_tokens_total{"), 0.0);
    drop(held);
    server.stop();
    assert!(TcpStream::connect(server.address()).is_err());
    server.restart(Seed(10)).unwrap();
    assert!(get(&server, "/health").starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_taken_port_is_an_error_with_a_hint() {
    let server = SimServer::start(config()).unwrap();
    let error = SimServer::start(SimConfig { bind: server.address(), ..config() }).unwrap_err();
    assert!(error.hint().is_some());
}

#[test]
fn a_client_that_leaves_frees_its_place() {
    let server = SimServer::start(config()).unwrap();
    let long = STREAM.replace(":6", ":8000");
    let mut stream = connect(&server);
    stream.write_all(request("POST", "/v1/completions", "", &long).as_bytes()).unwrap();
    let mut some = [0; 400]; // head and first event
    stream.read_exact(&mut some).unwrap();
    drop(stream);
    for _ in 0..400 {
        if server.gauges().running == 0 {
            let page = get(&server, "/metrics");
            assert!(page.contains("finished_reason=\"abort\",model_name=\"sim\"} 1.0\n"));
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("still running");
}

#[test]
fn faults_before_the_response_have_their_status() {
    let cases = [
        ("401", "HTTP/1.1 401 ", r#"{"error":"Unauthorized"}"#),
        ("429:7s", "HTTP/1.1 429 ", "retry-after: 7\r\n"),
        ("500", "HTTP/1.1 500 ", "InternalServerError"),
        ("502", "HTTP/1.1 502 ", "<html>"),
        ("503", "HTTP/1.1 503 ", "currently busy"),
        ("reject-ignore-eos", "HTTP/1.1 400 ", "body.ignore_eos"),
        ("empty", "HTTP/1.1 200 ", "text/event-stream"),
    ];
    for (fault, status, words) in cases {
        let server = SimServer::start(with_fault(&format!("every=2,kind={fault}"))).unwrap();
        assert!(post(&server, "/v1/completions", STREAM).contains("[DONE]"), "{fault}");
        let answer = post(&server, "/v1/completions", STREAM);
        assert!(answer.starts_with(status) && answer.contains(words), "{fault}: {answer}");
        assert!(!answer.contains("[DONE]"));
    }
}

#[test]
fn broken_connections_break_as_named() {
    let raw = request("POST", "/v1/completions", "connection: close\r\n", STREAM);
    let server = SimServer::start(with_fault("reset-before")).unwrap();
    let (answer, error) = exchange(&server, &raw);
    assert_eq!((answer.as_str(), error), ("", Some(ErrorKind::ConnectionReset)));
    let server = SimServer::start(with_fault("reset-during:3")).unwrap();
    let (answer, error) = exchange(&server, &raw);
    assert_eq!((events(&answer).len(), error), (3, Some(ErrorKind::ConnectionReset)));
    let server = SimServer::start(with_fault("truncate:3")).unwrap();
    let (answer, error) = exchange(&server, &raw);
    assert_eq!((events(&answer).len(), error), (3, None));
    assert!(!unchunked(&answer).1);
    // The ended requests gave their places back.
    assert_eq!(server.take_truth()[0].output_tokens, 3);
}

#[test]
fn a_refusing_port_opens_again() {
    let server = SimServer::start(with_fault("limit=1,kind=refuse:100ms")).unwrap();
    let raw = request("POST", "/v1/completions", "connection: close\r\n", STREAM);
    assert_eq!(exchange(&server, &raw).1, Some(ErrorKind::ConnectionReset));
    for _ in 0..1000 {
        if TcpStream::connect(server.address()).is_ok() {
            assert!(post(&server, "/v1/completions", STREAM).contains("[DONE]"));
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("never opened again");
}

#[test]
fn a_stale_connection_serves_once() {
    let server = SimServer::start(with_fault("stale")).unwrap();
    let mut stream = connect(&server);
    let raw = request("POST", "/v1/completions", "", WHOLE);
    let mut buffer = [0; 65_536];
    stream.write_all(raw.as_bytes()).unwrap();
    assert!(stream.read(&mut buffer).unwrap() > 0);
    stream.write_all(raw.as_bytes()).unwrap();
    // What was left of the first answer may come before the reset.
    let error = loop {
        match stream.read(&mut buffer) {
            Ok(count) => assert!(count > 0, "closed without a reset"),
            Err(error) => break error.kind(),
        }
    };
    assert_eq!(error, ErrorKind::ConnectionReset);
}

#[test]
fn models_name_the_served_one() {
    let server = SimServer::start(config()).unwrap();
    let answer = get(&server, "/v1/models");
    let json: serde_json::Value = serde_json::from_str(body_of(&answer)).unwrap();
    assert_eq!(
        (&json["data"][0]["id"], &json["data"][0]["max_model_len"]),
        (&"sim".into(), &8192.into())
    );
}

/// Sends requests on one connection until it is closed, and counts the answers.
fn answers_on_one_connection(server: &SimServer, pause: Duration) -> usize {
    let mut stream = connect(server);
    for answered in 0..10 {
        std::thread::sleep(pause);
        let raw = request("GET", "/health", "", "");
        if stream.write_all(raw.as_bytes()).is_err() {
            return answered;
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => {}
            _ => return answered,
        }
    }
    10
}

#[test]
fn connections_are_closed_after_requests_or_idleness() {
    let server = SimServer::start(with_fault("close-after:3")).unwrap();
    assert_eq!(answers_on_one_connection(&server, Duration::from_millis(20)), 3);
    let server = SimServer::start(with_fault("idle-close:20ms")).unwrap();
    assert_eq!(answers_on_one_connection(&server, Duration::from_millis(300)), 1); // counted from an answer
    let server = SimServer::start(config()).unwrap();
    assert_eq!(answers_on_one_connection(&server, Duration::from_millis(1)), 10);
}

#[test]
fn keep_alive_comments_fill_the_wait_and_max_tokens_may_be_ignored() {
    let mut config = with_fault("keep-alive:2ms");
    config.profile.costs.base_ms = 30.0;
    let server = SimServer::start(config).unwrap();
    let (body, _) = unchunked(&post(&server, "/v1/completions", STREAM));
    assert!(body.starts_with(": keep-alive\n\n"), "{body}");
    assert_eq!(body.matches("data: ").count(), 8);
    let server = SimServer::start(with_fault("ignore-max-tokens")).unwrap();
    assert_eq!(events(&post(&server, "/v1/completions", STREAM)).len(), 12 + 2);
}

#[test]
fn stream_interval_and_request_metrics_follow_the_capture() {
    let server =
        SimServer::start(SimConfig { stream_interval: 4, request_metrics: Offer::On, ..config() })
            .unwrap();
    let events = events(&post(&server, "/v1/completions", &STREAM.replace(":6", ":12")));
    assert_eq!(events.len(), 4 + 2); // 1, 4, 4 and 3 tokens; usage; [DONE]
    assert!(events[4].contains(r#","metrics":{"time_to_first_token_ms":"#), "{}", events[4]);
}

#[test]
fn many_streams_at_once_all_end_with_their_tokens() {
    let server = SimServer::start(config()).unwrap();
    let body = STREAM.replace(":6", ":40");
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..24)
            .map(|_| scope.spawn(|| events(&post(&server, "/v1/completions", &body)).len()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(counts, [42; 24]);
    assert_eq!(server.take_truth().len(), 24);
}
