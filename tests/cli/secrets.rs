//! Secrets: a key reaches the server, and no file, stream or record.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::{Place, SMALL, Said, simulator};

const KEY: &str = "sk-not-for-any-eye-4711";

#[track_caller]
fn nothing_tells_the_key(place: &Place, said: &Said) {
    nothing_tells(KEY, place, said);
}

#[track_caller]
fn nothing_tells(secret: &str, place: &Place, said: &Said) {
    assert!(!said.stdout.contains(secret), "{}", said.stdout);
    assert!(!said.stderr.contains(secret), "{}", said.stderr);
    let files = place.files();
    assert!(!files.is_empty());
    for (path, bytes) in files {
        let told = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!told, "{} holds the secret", path.display());
    }
}

#[test]
fn a_key_that_serves_is_kept_nowhere() {
    let server = simulator(|config| config.api_key = Some(KEY.into()));
    let url = server.url();
    let place = Place::new();
    let args = [&["run", "--url", &url, "--api-key-env", "OUR_KEY"], &SMALL[..]].concat();
    let mut command = place.command(&args);
    command.env("OUR_KEY", KEY);
    let said = Said::of(command).ended_with(0);
    nothing_tells_the_key(&place, &said);
}

#[test]
fn a_secret_in_a_header_is_kept_nowhere() {
    let server = simulator(|_| {});
    let url = server.url();
    // No well-known shape: only its place shows what it is.
    let secret = "not.for.any.eye.4711";
    for header in [
        format!("X-Api-Key: {secret}"),
        format!("Authorization: Basic {secret}=="),
        format!("authorization=Bearer {secret}"),
        format!("Cookie: theme=dark; session={secret}"),
        format!("Proxy-Authorization: {secret}"),
    ] {
        let place = Place::new();
        let args = [&["run", "--url", &url, "--header", &header], &SMALL[..]].concat();
        let said = Said::of(place.command(&args)).ended_with(0);
        nothing_tells(secret, &place, &said);
        assert!(place.run_json().to_string().contains("[redacted]"), "{header}");
    }
}

/// Answers every request with 401 and everything that it was sent.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { return };
            let mut head = [0; 8192];
            let read = socket.read(&mut head).unwrap_or(0);
            let told = String::from_utf8_lossy(&head[..read]).to_string();
            let body = serde_json::json!({"error": {"message": told}}).to_string();
            let answer = format!(
                "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            let _ = socket.write_all(answer.as_bytes());
        }
    });
    url
}

#[test]
fn a_server_that_echoes_the_key_is_not_quoted() {
    let url = echo();
    for unchecked in [&[][..], &["--no-preflight", "--no-warm-up", "--model=m"]] {
        let place = Place::new();
        let args = [&["run", "--url", &url], unchecked, &SMALL[..]].concat();
        let mut command = place.command(&args);
        command.env("INFEROMETER_API_KEY", KEY);
        let said = Said::of(command).ended_with(3);
        nothing_tells_the_key(&place, &said);
    }
}

#[test]
fn the_key_of_a_server_command_is_redacted() {
    let place = Place::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let simulate = format!("{} simulate --port {port}", env!("CARGO_BIN_EXE_inferometer"));
    let command = format!("sh -c 'exec {simulate}' sh --api-key {KEY}");
    let url = format!("http://127.0.0.1:{port}");
    let flags = ["--starts=1", "--server-cmd", &command, "--url", &url];
    let said = place.small(&flags).ended_with(0);
    nothing_tells_the_key(&place, &said);
    let stored = place.run_json().to_string();
    assert!(stored.contains("--api-key [redacted]"), "{stored}");
}

#[test]
fn a_secret_in_the_extra_body_is_kept_nowhere() {
    let server = simulator(|_| {});
    let url = server.url();
    let secret = "not.for.any.eye.4711";
    for extra in [
        format!(r#"{{"api_key":"{secret}"}}"#),
        format!(r#"{{"metadata":{{"aws_secret_access_key":"{secret}"}}}}"#),
    ] {
        let place = Place::new();
        let said = place.small(&["--url", &url, "--starts=1", "--extra-body", &extra]);
        nothing_tells(secret, &place, &said.ended_with(0));
    }
}

#[test]
fn a_key_given_in_a_name_s_place_is_not_repeated() {
    let place = Place::new();
    for flag in ["--api-key-env", "--header"] {
        let said = place.small(&["--url=http://127.0.0.1:9", flag, KEY]).ended_with(2);
        let both = format!("{}{}", said.stdout, said.stderr);
        assert!(!both.contains(KEY), "{both}");
        assert!(both.contains("hint:"), "{both}");
    }
}
