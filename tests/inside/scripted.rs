//! A scripted server: well-behaved, but for the fault that a test gives it.
#![allow(clippy::unwrap_used)] // helpers outside `#[test]` functions

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One request as the server saw it.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Request {
    pub(crate) fn has(&self, field: &str) -> bool {
        !self.body[field].is_null()
    }

    pub(crate) fn stream_option(&self, name: &str) -> bool {
        self.body["stream_options"][name] == true
    }

    pub(crate) fn max_tokens(&self) -> u64 {
        let tokens = [&self.body["max_tokens"], &self.body["max_completion_tokens"]];
        tokens.iter().find_map(|v| v.as_u64()).unwrap_or(16)
    }

    /// One token a word; the chat template adds 11.
    pub(crate) fn prompt_tokens(&self) -> usize {
        let words = |text: &Value| text.as_str().map_or(0, |t| t.split_whitespace().count());
        match (&self.body["prompt"], &self.body["messages"]) {
            (Value::Array(ids), _) => ids.len(),
            (Value::String(_), _) => words(&self.body["prompt"]),
            (_, Value::Array(messages)) => 11 + words(&messages[0]["content"]),
            _ => 0,
        }
    }
}

/// Status, extra header lines, content type and body.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) body: String,
}

pub(crate) fn json_answer(status: u16, body: &Value) -> Answer {
    Answer { status, headers: "", kind: "application/json", body: body.to_string() }
}

pub(crate) fn refusal(status: u16, message: &str) -> Answer {
    json_answer(status, &json!({"error": {"message": message, "code": status}}))
}

/// What a server like vLLM answers.
pub(crate) fn well_behaved(request: &Request) -> Answer {
    match request.path.as_str() {
        "/v1/models" => {
            let model = json!({"id": "tiny", "owned_by": "vllm", "max_model_len": 4096});
            json_answer(200, &json!({"data": [model, {"id": "Other/Model-7B"}]}))
        }
        "/version" => json_answer(200, &json!({"version": "0.32.0"})),
        "/tokenize" => {
            let text = request.body["prompt"].as_str().unwrap_or_default();
            let id = |word: &str| {
                let place = inferometer::scenario::prompt::WORDS.iter().position(|w| *w == word);
                100 + place.unwrap_or_default()
            };
            let ids: Vec<usize> = text.split_whitespace().map(id).collect();
            json_answer(200, &json!({"tokens": ids, "max_model_len": 4096}))
        }
        "/metrics" => Answer {
            status: 200,
            headers: "",
            kind: "text/plain",
            body: "vllm:num_requests_running 0\nvllm:cache_config_info{block_size=\"16\"} 1\n"
                .to_owned(),
        },
        "/v1/completions" | "/v1/chat/completions" => stream(request, request.max_tokens()),
        _ => json_answer(404, &json!({"detail": "Not Found"})),
    }
}

/// A stream of `tokens` events.
pub(crate) fn stream(request: &Request, tokens: u64) -> Answer {
    let chat = request.path.ends_with("chat/completions");
    let mut body = String::new();
    let mut event = |value: &Value| body.push_str(&format!("data: {value}\n\n"));
    let usage = |generated: u64| json!({"prompt_tokens": request.prompt_tokens(), "completion_tokens": generated});
    for n in 1..=tokens {
        let finish = (n == tokens).then_some("length");
        let mut choice = json!({"index": 0, "finish_reason": finish});
        if chat {
            choice["delta"] = json!({"content": "x "});
        } else {
            choice["text"] = json!("x ");
        }
        let mut value = json!({"choices": [choice]});
        if request.stream_option("continuous_usage_stats") {
            value["usage"] = usage(n);
        }
        event(&value);
    }
    if request.stream_option("include_usage") {
        event(&json!({"choices": [], "usage": usage(tokens)}));
    }
    body.push_str("data: [DONE]\n\n");
    Answer { status: 200, headers: "", kind: "text/event-stream", body }
}

pub(crate) struct Scripted {
    pub(crate) url: String,
    pub(crate) seen: Arc<Mutex<Vec<Request>>>,
}

/// Serves `fault`'s answers, and a well-behaved server's where it gives none.
pub(crate) async fn serve(
    fault: impl Fn(&Request) -> Option<Answer> + Send + Sync + 'static,
) -> Scripted {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    tokio::spawn(async move {
        loop {
            let Ok((mut socket, _)) = listener.accept().await else { continue };
            let Some(request) = read(&mut socket).await else { continue };
            log.lock().unwrap().push(request.clone());
            let answer = fault(&request).unwrap_or_else(|| well_behaved(&request));
            let text = format!(
                "HTTP/1.1 {} X\r\n{}Content-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                answer.status,
                answer.headers,
                answer.kind,
                answer.body.len(),
                answer.body
            );
            let _ = socket.write_all(text.as_bytes()).await;
        }
    });
    Scripted { url, seen }
}

async fn read(socket: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0_u8; 16 * 1024];
    loop {
        let count = socket.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let lower = head.to_lowercase();
        let length = lower.split("content-length: ").nth(1).and_then(|t| t.lines().next());
        if body.len() >= length.map_or(0, |l| l.trim().parse().unwrap()) {
            let path = head.split(' ').nth(1)?.to_owned();
            let body = serde_json::from_str(body).unwrap_or(Value::Null);
            return Some(Request { path, head: head.to_owned(), body });
        }
    }
}
