//! Server: plays the engine in real time over HTTP on threads of its own.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::config::SimConfig;
use super::exposition::Observed;
use super::fault::FaultKind;
use super::link::{Link, Tap};
use super::player::{Command, Player, Queue};
use super::prefix_cache::PrefixCache;
use super::routes::Shared;
use super::scheduler::{Engine, Gauges};
use super::truth::{TruthLog, TruthRecord, lock};
use crate::clock::{Clock, duration_ns};
use crate::error::{Error, ErrorKind, Result};
use crate::rng::Seed;

/// How often a port that was just closed is tried again, 10 ms apart.
const BIND_TRIES: u32 = 200;

/// The embedded server. It stops when dropped.
#[derive(Debug)]
pub struct SimServer {
    config: SimConfig,
    address: SocketAddr,
    clock: Clock,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    commands: mpsc::Sender<Command>,
    stop: Arc<Notify>,
    truth: Arc<TruthLog>,
    observed: Arc<Mutex<Observed>>,
    threads: Vec<JoinHandle<()>>,
}

impl SimServer {
    /// Starts it; it answers when this returns.
    ///
    /// # Errors
    /// Where the address can't be listened on, or the machine refuses threads or descriptors.
    pub fn start(config: SimConfig) -> Result<Self> {
        let clock = config.clock.unwrap_or_else(Clock::start);
        let listener = listen(config.bind, 1)?;
        let address = listener.local_addr().map_err(|e| cannot_listen(config.bind, e))?;
        let running = launch(&config, clock, listener, address)?;
        Ok(Self { config, address, clock, running: Some(running) })
    }

    /// The base URL, without `/v1`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The clock of [`TruthRecord`]s.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// What it was started with.
    #[must_use]
    pub fn config(&self) -> &SimConfig {
        &self.config
    }

    /// A new engine with the noise of another start, on the same port. Connections are closed, and truth that
    /// was not taken is lost, as when a process restarts.
    ///
    /// # Errors
    /// As [`SimServer::start`].
    pub fn restart(&mut self, seed: Seed) -> Result<()> {
        self.restart_with(SimConfig { seed, ..self.config.clone() })
    }

    /// As [`SimServer::restart`], with everything new but the address and the clock.
    ///
    /// # Errors
    /// As [`SimServer::start`].
    pub fn restart_with(&mut self, config: SimConfig) -> Result<()> {
        self.stop();
        let listener = listen(self.address, BIND_TRIES)?;
        self.running = Some(launch(&config, self.clock, listener, self.address)?);
        self.config = config;
        Ok(())
    }

    /// The truth of the requests that ended since the last call.
    #[must_use]
    pub fn take_truth(&self) -> Vec<TruthRecord> {
        self.running.as_ref().map_or_else(Vec::new, |running| running.truth.take())
    }

    /// The engine's state, as `/metrics` shows it; all zero while stopped.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        let running = self.running.as_ref();
        running.map_or_else(Gauges::default, |running| lock(&running.observed).gauges)
    }

    /// Stops it: connections are closed, threads have ended when this returns. It may be restarted.
    pub fn stop(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.stop.notify_one();
        // A player that has already ended needs no telling.
        let _ = running.commands.send(Command::Stop);
        for thread in running.threads {
            // A thread that panicked is gone as well.
            let _ = thread.join();
        }
    }
}

impl Drop for SimServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn cannot_listen(address: SocketAddr, cause: std::io::Error) -> Error {
    Error::server(format!("the simulator can't listen on `{address}`"))
        .with_cause(cause)
        .with_hint("choose another port, or 0 for a free one")
}

fn listen(address: SocketAddr, tries: u32) -> Result<StdListener> {
    let mut tried = 1;
    loop {
        match StdListener::bind(address) {
            Ok(listener) => {
                listener.set_nonblocking(true).map_err(|e| cannot_listen(address, e))?;
                return Ok(listener);
            }
            Err(error) if tried >= tries => return Err(cannot_listen(address, error)),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
        tried += 1;
    }
}

fn launch(
    config: &SimConfig,
    clock: Clock,
    listener: StdListener,
    address: SocketAddr,
) -> Result<Running> {
    let refused = |error: std::io::Error| {
        Error::new(ErrorKind::Client, "the simulator got no thread or descriptor").with_cause(error)
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
    let listener = {
        let _guard = runtime.enter();
        TcpListener::from_std(listener).map_err(refused)?
    };
    let (commands, inbox) = mpsc::channel();
    let observed = Arc::new(Mutex::new(Observed::new()));
    let truth = Arc::new(TruthLog::new(config.log_limit));
    let engine = Engine::new(config.profile, config.noise, config.seed);
    let waiting = Arc::new(AtomicU32::new(0));
    let longest_wait_ns = Arc::new(AtomicU64::new(0));
    let queue = Queue { waiting: waiting.clone(), longest_wait_ns: longest_wait_ns.clone() };
    let player = Player::new(engine, clock, observed.clone(), queue);
    let shared = Arc::new(Shared {
        config: config.clone(),
        clock,
        started_ns: clock.now_ns(),
        commands: commands.clone(),
        observed: observed.clone(),
        waiting,
        longest_wait_ns,
        truth: truth.clone(),
        cache: Mutex::new(PrefixCache::new(config.profile.limits.kv_capacity_tokens)),
        next_key: AtomicU64::new(0),
        refuse_ms: AtomicU64::new(0),
        refuse: Notify::new(),
        refusing: Notify::new(),
    });
    let stop = Arc::new(Notify::new());
    let stopped = stop.clone();
    let engine_thread = std::thread::Builder::new()
        .name("sim-engine".into())
        .spawn(move || player.run(&inbox))
        .map_err(refused)?;
    let http_thread = std::thread::Builder::new()
        .name("sim-http".into())
        .spawn(move || runtime.block_on(accept(shared, listener, address, stopped)))
        .map_err(refused)?;
    Ok(Running { commands, stop, truth, observed, threads: vec![engine_thread, http_thread] })
}

/// Accepts until stopped; connections end with the runtime.
async fn accept(
    shared: Arc<Shared>,
    mut listener: TcpListener,
    address: SocketAddr,
    stop: Arc<Notify>,
) {
    loop {
        tokio::select! {
            () = stop.notified() => return,
            () = shared.refuse.notified() => {
                drop(listener);
                shared.refusing.notify_one();
                let closed = Duration::from_millis(shared.refuse_ms.load(Ordering::Relaxed));
                tokio::select! {
                    () = stop.notified() => return,
                    reopened = reopen(address, closed) => match reopened {
                        Some(open) => listener = open,
                        None => return,
                    },
                }
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    tokio::spawn(serve(shared.clone(), stream));
                }
                // Out of descriptors, most often: give others time to close theirs.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
        }
    }
}

/// Keeps the port closed for a while, then takes it again.
async fn reopen(address: SocketAddr, closed: Duration) -> Option<TcpListener> {
    tokio::time::sleep(closed).await;
    for _ in 0..BIND_TRIES {
        match TcpListener::bind(address).await {
            Ok(listener) => return Some(listener),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    None
}

async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    // Each token must leave at once; where the option is refused the tokens are merely late.
    let _ = stream.set_nodelay(true);
    let fault = |kind| shared.config.faults.iter().find(|fault| fault.kind == kind);
    let idle_limit = fault(FaultKind::IdleClose).map(|fault| fault.duration);
    let link = Link::new(shared.clock, fault(FaultKind::CloseAfter).map(|fault| fault.count));
    let service = service_fn(|request| shared.clone().answer(link.clone(), request));
    let io = TokioIo::new(Tap::new(stream, link.clone()));
    let connection = http1::Builder::new().serve_connection(io, service);
    tokio::pin!(connection);
    // Looked at often enough that the limit is kept within a quarter.
    let look = idle_limit.map_or(Duration::from_secs(3600), |limit| limit / 4);
    let mut looks = tokio::time::interval(look.max(Duration::from_millis(1)));
    loop {
        tokio::select! {
            // An error here is the client's leaving, or a fault at work.
            _ = connection.as_mut() => return,
            () = link.close.notified() => connection.as_mut().graceful_shutdown(),
            _ = looks.tick() => {
                let idle_ns = link.idle_ns();
                if idle_limit.is_some_and(|limit| idle_ns.is_some_and(|ns| ns >= duration_ns(limit))) {
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }
}
