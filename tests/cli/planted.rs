//! Planted keys: every way that a secret comes in, and no way that it goes out, as it is or in base64.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Place, SMALL, Said};

/// No shape that anything could know it by.
const SECRET: &str = "plover-mauve-7316-xyzzy";

/// A server that completes two requests of three, and answers the third with an error that repeats all that
/// it was sent, as it came and in base64.
fn telling_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        let requests = AtomicU32::new(0);
        for socket in listener.incoming().map_while(Result::ok) {
            answer(socket, requests.fetch_add(1, Ordering::Relaxed));
        }
    });
    url
}

fn answer(mut socket: TcpStream, number: u32) {
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let told = format!("{head}{}", String::from_utf8_lossy(&body));
    let (status, kind, text) = if head.starts_with("GET /v1/models") {
        ("200 OK", "application/json", r#"{"data":[{"id":"m"}]}"#.to_owned())
    } else if head.starts_with("GET") {
        ("404 Not Found", "text/plain", told)
    } else if number.is_multiple_of(3) {
        let echo = format!("{told} {} {}", STANDARD.encode(&told), STANDARD.encode(SECRET));
        let error = serde_json::json!({"error": {"message": echo}});
        ("500 Internal Server Error", "application/json", error.to_string())
    } else {
        let event = |text: &str, finish: &str| {
            let usage = r#""usage":{"prompt_tokens":16,"completion_tokens":4}"#;
            format!(
                "data: {{\"choices\":[{{\"text\":\"{text}\",\"finish_reason\":{finish}}}],{usage}}}\n\n"
            )
        };
        let events = [event("a", "null"), event("b", "\"length\""), "data: [DONE]\n\n".to_owned()];
        ("200 OK", "text/event-stream", events.concat())
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{text}",
        text.len()
    );
    let _ = socket.write_all(answer.as_bytes());
}

/// A way in: its name, the flags, the environment, and whether the process list shows it by the user's will.
struct WayIn {
    name: &'static str,
    flags: Vec<String>,
    environment: Option<(&'static str, String)>,
    on_command_line: bool,
}

fn ways_in(place: &Place, address: &str) -> Vec<WayIn> {
    let url = format!("--url=http://{address}");
    let hidden = |name, flags: &[&str]| WayIn {
        name,
        flags: flags.iter().map(|f| (*f).to_owned()).collect(),
        environment: None,
        on_command_line: false,
    };
    let shown = |name, flags: &[&str]| WayIn { on_command_line: true, ..hidden(name, flags) };
    place.write("key", &format!("{SECRET}\n"));
    let file = |name: &str, run: &str| {
        let group = "[[group]]\nname = \"chat\"\n[[group.scenario]]\nname = \"s\"\ninput = 16\noutput = 4\nconcurrency = [1]\n";
        place.write(name, &format!("{run}\n{group}"));
    };
    file(
        "headers.toml",
        &format!(
            "[server]\nurl = \"http://{address}\"\nheaders = {{ Authorization = \"Bearer {SECRET}\" }}"
        ),
    );
    file(
        "body.toml",
        &format!("[server]\nurl = \"http://{address}\"\nextra_body = {{ api_key = \"{SECRET}\" }}"),
    );
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let served = format!("--url=http://127.0.0.1:{port}");
    let simulate = format!("exec {} simulate --port {port}", env!("CARGO_BIN_EXE_inferometer"));
    let flag = format!("--server-cmd=sh -c 'echo {SECRET}; {simulate}' sh --api-key {SECRET}");
    let variable = format!("--server-cmd=HF_TOKEN={SECRET} sh -c 'echo $HF_TOKEN; {simulate}'");
    vec![
        WayIn {
            environment: Some(("INFEROMETER_API_KEY", SECRET.to_owned())),
            ..hidden("environment", &[&url])
        },
        WayIn {
            environment: Some(("OUR_KEY", SECRET.to_owned())),
            ..hidden("named variable", &[&url, "--api-key-env=OUR_KEY"])
        },
        hidden("file", &[&url, "--api-key-file=key"]),
        hidden("header in TOML", &["headers.toml"]),
        hidden("body in TOML", &["body.toml"]),
        shown("header", &[&url, "-H", &format!("Authorization: Bearer {SECRET}")]),
        shown("basic", &[&url, "-H", &format!("X-Api-Key={SECRET}")]),
        shown("URL", &[&format!("--url=http://user:{SECRET}@{address}")]),
        shown("extra body", &[&url, &format!("--extra-body={{\"auth_token\":\"{SECRET}\"}}")]),
        shown("server's flag", &[&served, &flag]),
        shown("server's variable", &[&served, &variable]),
    ]
}

/// What a run writes, by the ends of its paths: where one is missing, nothing was tried.
const OUTPUTS: [&str; 7] = [
    "run.json",
    "requests.jsonl",
    "report/index.html",
    "report/report.json",
    "report/report.csv",
    "report/junit.xml",
    "report/verdict.md",
];

/// The forms that a secret must not leave in.
fn forms() -> Vec<String> {
    let of = |before: usize| {
        let padded = [&b"us:"[..before], SECRET.as_bytes()].concat();
        let (first, last) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
        STANDARD.encode(&padded)[first..last].to_owned()
    };
    [SECRET.to_owned()].into_iter().chain((0..3).map(of)).collect()
}

#[track_caller]
fn tells_nothing(way: &str, out: &str, bytes: &[u8]) {
    for form in forms() {
        let told = bytes.windows(form.len()).any(|part| part == form.as_bytes());
        assert!(!told, "{way}: {out} tells the secret as {form}");
    }
}

#[test]
fn no_way_in_of_a_secret_has_a_way_out() {
    for index in 0..11 {
        let address = telling_server();
        let place = Place::new();
        let way = ways_in(&place, &address).swap_remove(index);
        let planted = ["key", "headers.toml", "body.toml"];
        let run = [&["run", "--max-error-rate=1", "--starts=1"], &SMALL[..]].concat();
        let flags: Vec<&str> = way.flags.iter().map(String::as_str).collect();
        let in_file = flags[0].ends_with(".toml");
        let ours = run.iter().copied().filter(|flag| !(in_file && is_scenario(flag)));
        let args: Vec<&str> = ours.chain(flags.iter().copied()).collect();
        let said = Said::of(with(&place, &args, &way));
        assert!(!said.stderr.contains("panicked"), "{}: {}", way.name, said.stderr);
        tells_nothing(way.name, "stdout", said.stdout.as_bytes());
        tells_nothing(way.name, "stderr", said.stderr.as_bytes());
        for (path, bytes) in place.files() {
            if !planted.iter().any(|name| path.ends_with(name)) {
                tells_nothing(way.name, &path.display().to_string(), &bytes);
            }
        }
        if way.name == "URL" {
            assert_eq!(said.code, Some(2), "it is refused: {}", said.stderr);
            continue;
        }
        for more in [
            &["report", "--output-format=markdown"][..],
            &["report", "--output-format=json"],
            &["runs"],
        ] {
            let said = place.run(more);
            // 4: a third of the requests failed.
            assert!(matches!(said.code, Some(0 | 4)), "{}: {}", way.name, said.stderr);
            tells_nothing(way.name, more[0], format!("{}{}", said.stdout, said.stderr).as_bytes());
        }
        let names: Vec<String> =
            place.files().iter().map(|(path, _)| path.display().to_string()).collect();
        for written in OUTPUTS {
            assert!(
                names.iter().any(|name| name.ends_with(written)),
                "{}: no {written}\n{}",
                way.name,
                said.stderr
            );
        }
        let is_shown = args.iter().any(|argument| argument.contains(SECRET));
        assert_eq!(is_shown, way.on_command_line, "{}: in the process list", way.name);
        let is_header = args.contains(&"-H");
        let warned = said.stderr.contains("the process list shows the header");
        assert_eq!(warned, is_header, "{}: {}", way.name, said.stderr);
    }
}

fn is_scenario(flag: &str) -> bool {
    ["--random", "--max-concurrency"].iter().any(|start| flag.starts_with(start))
}

fn with(place: &Place, args: &[&str], way: &WayIn) -> Command {
    let mut command = place.command(args);
    command.envs(way.environment.clone());
    command
}
