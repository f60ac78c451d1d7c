//! ReferenceServer: a server of exactly known timing, against which the client proves itself.
//!
//! Where [`crate::sim::SimServer`] plays a scheduler, this one only beats: the first token a fixed time
//! after the request has been read, every further one a fixed gap later, one event and one write a
//! token. It stamps each token just before it writes it. That stamp is the truth: what lies between
//! it and the client's own figure is the client's error, however late the beat itself was.
//!
//! It answers `POST` of completions and nothing else, and is meant for loopback.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{ErrorKind as IoKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};

use super::tls_session::{TlsSession, TlsSessions};
use crate::clock::{Clock, duration_ns};
use crate::error::{Error, ErrorKind, Result};
use crate::sim::truth::lock;

/// The largest request read, bytes: prompts of 128k token ids fit.
const MAX_REQUEST_BYTES: usize = 16 * 1024 * 1024;
/// The most tokens of one answer: bounds the log of a request.
const MAX_TOKENS: u32 = 100_000;
/// A full socket is tried again after this long: the client does not read.
const RETRY_NS: u64 = 200_000;
/// The longest sleep of the beat, so that a lost wake-up cannot hold it.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Bytes of a prompt that name its request in the log.
const LABEL_BYTES: usize = 64;

/// What it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS, with [`super::loopback::CERTIFICATE`].
    Https,
}

impl Scheme {
    /// As it stands in a URL.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// How it beats.
#[derive(Debug, Clone, Copy)]
pub struct ReferenceServerConfig {
    /// What it speaks.
    pub scheme: Scheme,
    /// From the request read to the first token.
    pub ttft: Duration,
    /// From token to token; zero: as fast as the socket takes them.
    pub gap: Duration,
    /// Requests whose truth is kept at most; later ones are served and not logged.
    pub log_limit: usize,
    /// The clock of the log.
    pub clock: Clock,
}

/// The truth of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestTruth {
    /// The first 64 bytes of its prompt, as text: prompts that name themselves can be distinguished.
    pub label: String,
    /// When it had been read, ns.
    pub received_ns: u64,
    /// When each token was written, ns.
    pub token_ns: Vec<u64>,
}

/// The server. It stops when dropped.
#[derive(Debug)]
pub struct ReferenceServer {
    scheme: Scheme,
    address: SocketAddr,
    log: Arc<Mutex<Vec<RequestTruth>>>,
    cpu: Arc<Cpu>,
    stop: Arc<Notify>,
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

/// CPU time of its threads as of the last request, ns.
#[derive(Debug, Default)]
struct Cpu {
    http_ns: AtomicU64,
    beat_ns: AtomicU64,
}

/// A request on its way.
#[derive(Debug)]
struct Job {
    socket: StdStream,
    session: Option<TlsSession>,
    beats: RequestTruth,
    tokens: u32,
    written: u32,
    /// Bytes of an event that the socket has not taken yet.
    rest: Vec<u8>,
    usage: Usage,
    done: oneshot::Sender<End>,
}

/// Whether the final usage was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Usage {
    Asked { prompt_tokens: u32 },
    NotAsked,
}

/// How a request ended.
#[derive(Debug)]
enum End {
    /// As it should: its connection is free again.
    Whole(Option<TlsSession>),
    Broken,
}

impl ReferenceServer {
    /// Starts it on a free port of loopback. Its two threads inherit the caller's CPU affinity.
    ///
    /// # Errors
    /// Where the machine refuses a port, a thread or descriptors; `https` in a build without TLS.
    pub fn start(config: ReferenceServerConfig) -> Result<Self> {
        let refused = |error: std::io::Error| {
            Error::new(ErrorKind::Client, "the reference server got no port, thread or descriptor")
                .with_cause(error)
        };
        let sessions = match config.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(TlsSessions::new()?),
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let listener = {
            let _guard = runtime.enter();
            TcpListener::from_std(listener).map_err(refused)?
        };
        let log = Arc::new(Mutex::new(Vec::new()));
        let cpu = Arc::new(Cpu::default());
        let stop = Arc::new(Notify::new());
        let (jobs, inbox) = mpsc::channel();
        let beat = Beat {
            config,
            due: BinaryHeap::new(),
            jobs: Vec::new(),
            free: Vec::new(),
            log: log.clone(),
            cpu: cpu.clone(),
        };
        let stopped = stop.clone();
        let service =
            Service { clock: config.clock, sessions, jobs: jobs.clone(), cpu: cpu.clone() };
        let beat_thread = std::thread::Builder::new()
            .name("reference-beat".into())
            .spawn(move || beat.run(&inbox))
            .map_err(refused)?;
        let http_thread = std::thread::Builder::new()
            .name("reference-http".into())
            .spawn(move || runtime.block_on(accept(listener, service, stopped)))
            .map_err(refused)?;
        let threads = vec![http_thread, beat_thread];
        Ok(Self { scheme: config.scheme, address, log, cpu, stop, jobs: Some(jobs), threads })
    }

    /// The base URL, without `/v1`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme.name(), self.address)
    }

    /// The truth of the requests that ended whole since the last call.
    #[must_use]
    pub fn take_log(&self) -> Vec<RequestTruth> {
        std::mem::take(&mut *lock(&self.log))
    }

    /// CPU time of its threads so far, as of the last request that ended, ns: what to take off the
    /// process's to get the client's.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.cpu.http_ns.load(Ordering::Relaxed) + self.cpu.beat_ns.load(Ordering::Relaxed)
    }
}

impl Drop for ReferenceServer {
    fn drop(&mut self) {
        self.stop.notify_one();
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked is gone as well.
            let _ = thread.join();
        }
    }
}

/// CPU time of the calling thread, ns; 0 if the system does not report it. `getrusage` reports
/// single threads on Linux but not on macOS.
fn thread_cpu_ns() -> u64 {
    let Ok(time) = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID) else { return 0 };
    u64::try_from(time.num_nanoseconds()).unwrap_or(0)
}

/// What every connection is served with.
#[derive(Debug, Clone)]
struct Service {
    clock: Clock,
    /// Over `https`.
    sessions: Option<TlsSessions>,
    jobs: Sender<Job>,
    cpu: Arc<Cpu>,
}

async fn accept(listener: TcpListener, service: Service, stop: Arc<Notify>) {
    loop {
        tokio::select! {
            () = stop.notified() => return,
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    let service = service.clone();
                    tokio::spawn(async move { serve(socket, &service).await });
                }
                // Out of descriptors, most often: give others time to close theirs.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
        }
    }
}

/// Serves one connection until the client leaves. None is how it ends.
async fn serve(mut socket: TcpStream, service: &Service) -> Option<()> {
    socket.set_nodelay(true).ok()?;
    let mut session = match &service.sessions {
        Some(sessions) => Some(sessions.begin()?),
        None => None,
    };
    let mut buffer = Vec::with_capacity(4096);
    loop {
        let request = read_request(&mut socket, session.as_mut(), &mut buffer).await?;
        let received_ns = service.clock.now_ns();
        let body: serde_json::Value = serde_json::from_slice(&request).ok()?;
        let number = |value: &serde_json::Value| value.as_u64().and_then(|n| u32::try_from(n).ok());
        let asked = body.pointer("/stream_options/include_usage").and_then(|v| v.as_bool());
        let (label, prompt_tokens) = name_of(&body["prompt"]);
        let tokens = number(&body["max_tokens"]).unwrap_or(16).clamp(1, MAX_TOKENS);
        let writer = socket.into_std().ok()?;
        let (done, ended) = oneshot::channel();
        let job = Job {
            socket: writer.try_clone().ok()?,
            session: session.take(),
            beats: RequestTruth {
                label,
                received_ns,
                token_ns: Vec::with_capacity(tokens as usize),
            },
            tokens,
            written: 0,
            rest: Vec::new(),
            usage: match asked {
                Some(true) => Usage::Asked { prompt_tokens },
                _ => Usage::NotAsked,
            },
            done,
        };
        socket = TcpStream::from_std(writer).ok()?;
        service.jobs.send(job).ok()?;
        match ended.await.ok()? {
            End::Whole(free) => session = free,
            End::Broken => return None,
        }
        service.cpu.http_ns.store(thread_cpu_ns(), Ordering::Relaxed);
    }
}

/// The name of a prompt and about how many tokens it has: words, or ids.
fn name_of(prompt: &serde_json::Value) -> (String, u32) {
    let (mut text, tokens) = match prompt {
        serde_json::Value::String(text) => (text.clone(), text.split_whitespace().count()),
        serde_json::Value::Array(ids) => (String::new(), ids.len()),
        _ => (String::new(), 0),
    };
    let end = (0..=LABEL_BYTES.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
    (text, u32::try_from(tokens).unwrap_or(u32::MAX))
}

/// The body of the next request; `None` if the client left, or sent what this server does not take.
async fn read_request(
    socket: &mut TcpStream,
    mut session: Option<&mut TlsSession>,
    buffer: &mut Vec<u8>,
) -> Option<Vec<u8>> {
    loop {
        if let Some(head) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&buffer[..head]).to_ascii_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length:"))?;
            let end = (head + 4).checked_add(length.trim().parse().ok()?)?;
            if end > MAX_REQUEST_BYTES {
                return None;
            }
            if buffer.len() >= end {
                let body = buffer[head + 4..end].to_vec();
                buffer.drain(..end);
                return Some(body);
            }
        }
        let read = match &mut session {
            Some(session) => session.read(socket, buffer).await,
            None => socket.read_buf(buffer).await,
        };
        if buffer.len() > MAX_REQUEST_BYTES || read.ok()? == 0 {
            return None;
        }
    }
}

/// The thread that writes: jobs by their next due time.
struct Beat {
    config: ReferenceServerConfig,
    due: BinaryHeap<Reverse<(u64, usize)>>,
    jobs: Vec<Option<Job>>,
    free: Vec<usize>,
    log: Arc<Mutex<Vec<RequestTruth>>>,
    cpu: Arc<Cpu>,
}

impl Beat {
    fn run(mut self, inbox: &Receiver<Job>) {
        loop {
            while let Ok(job) = inbox.try_recv() {
                self.admit(job);
            }
            let now_ns = self.config.clock.now_ns();
            let next_ns = self.due.peek().map(|Reverse((at_ns, _))| *at_ns);
            if next_ns.is_some_and(|at_ns| at_ns <= now_ns) {
                self.beat();
                continue;
            }
            // The wait of a channel is a futex, some 50 µs exact where tokio's timer is 1 ms coarse.
            let left = next_ns.map_or(LONGEST_SLEEP, |at_ns| {
                Duration::from_nanos(at_ns - now_ns).min(LONGEST_SLEEP)
            });
            match inbox.recv_timeout(left) {
                Ok(job) => self.admit(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn admit(&mut self, job: Job) {
        let at_ns = job.beats.received_ns + duration_ns(self.config.ttft);
        let place = self.free.pop().unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() - 1
        });
        self.jobs[place] = Some(job);
        self.due.push(Reverse((at_ns, place)));
    }

    /// One token of the job whose turn it is.
    fn beat(&mut self) {
        let Some(Reverse((due_ns, place))) = self.due.pop() else { return };
        let Some(job) = self.jobs[place].as_mut() else { return };
        let gap_ns = duration_ns(self.config.gap);
        match job.write(self.config.clock) {
            // By the beat and not by the write: lateness does not add up.
            Ok(()) if job.written < job.tokens => {
                self.due.push(Reverse((due_ns + gap_ns, place)));
            }
            Ok(()) => self.end_whole(place),
            Err(IoKind::WouldBlock) => {
                let retry_ns = self.config.clock.now_ns() + RETRY_NS;
                self.due.push(Reverse((retry_ns, place)));
            }
            Err(_) => {
                let Some(job) = self.take(place) else { return };
                // A connection that is gone waits for nothing.
                let _ = job.done.send(End::Broken);
            }
        }
    }

    fn end_whole(&mut self, place: usize) {
        let Some(job) = self.take(place) else { return };
        let mut log = lock(&self.log);
        if log.len() < self.config.log_limit {
            log.push(job.beats);
        }
        drop(log);
        let _ = job.done.send(End::Whole(job.session));
    }

    /// The job of a place, which is free from then on.
    fn take(&mut self, place: usize) -> Option<Job> {
        let job = self.jobs[place].take()?;
        self.free.push(place);
        self.cpu.beat_ns.store(thread_cpu_ns(), Ordering::Relaxed);
        Some(job)
    }
}

impl Job {
    /// Writes the next token's event, or the rest of one.
    fn write(&mut self, clock: Clock) -> std::result::Result<(), IoKind> {
        if self.rest.is_empty() {
            self.compose();
            if let Some(session) = &mut self.session {
                session.seal(&mut self.rest).map_err(|error| error.kind())?;
            }
            self.beats.token_ns.push(clock.now_ns());
        }
        while !self.rest.is_empty() {
            match self.socket.write(&self.rest) {
                Ok(0) => return Err(IoKind::WriteZero),
                Ok(taken) => {
                    self.rest.drain(..taken);
                }
                Err(error) if error.kind() == IoKind::Interrupted => {}
                Err(error) => return Err(error.kind()),
            }
        }
        self.written += 1;
        Ok(())
    }

    /// The bytes of the next token, in the shape that vLLM sends; the head with the first, usage,
    /// `[DONE]` and the end of the body with the last.
    fn compose(&mut self) {
        let last = self.written + 1 == self.tokens;
        if self.written == 0 {
            self.rest.extend_from_slice(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                  transfer-encoding: chunked\r\n\r\n",
            );
        }
        let reason = if last { "\"length\"" } else { "null" };
        let id = self.beats.received_ns;
        chunk(
            &mut self.rest,
            &format!(
                "data: {{\"id\":\"cmpl-{id:032x}\",\"object\":\"text_completion\",\
                 \"created\":1700000000,\"model\":\"reference\",\"choices\":[{{\"index\":0,\
                 \"text\":\" tick\",\"logprobs\":null,\"finish_reason\":{reason},\
                 \"stop_reason\":null,\"token_ids\":null,\"prompt_token_ids\":null}}],\
                 \"usage\":null}}\n\n"
            ),
        );
        if !last {
            return;
        }
        if let Usage::Asked { prompt_tokens } = self.usage {
            let (tokens, total) = (self.tokens, self.tokens.saturating_add(prompt_tokens));
            chunk(
                &mut self.rest,
                &format!(
                    "data: {{\"id\":\"cmpl-{id:032x}\",\"object\":\"text_completion\",\
                     \"created\":1700000000,\"model\":\"reference\",\"choices\":[],\"usage\":\
                     {{\"prompt_tokens\":{prompt_tokens},\"total_tokens\":{total},\
                     \"completion_tokens\":{tokens}}}}}\n\n"
                ),
            );
        }
        chunk(&mut self.rest, "data: [DONE]\n\n");
        self.rest.extend_from_slice(b"0\r\n\r\n");
    }
}

fn chunk(into: &mut Vec<u8>, data: &str) {
    into.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
    into.extend_from_slice(data.as_bytes());
    into.extend_from_slice(b"\r\n");
}
