//! A port: who answers there.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::error::{Error, Result};
use crate::store::files;

/// How long a connection may take before the port counts as silent.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    host: String,
    port: u16,
}

/// Whose socket listens on a port of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// One of the processes asked about.
    Ours,
    /// Another's.
    Other,
    /// The machine does not tell: no `/proc`, another machine or another network namespace.
    Unknown,
}

impl Address {
    /// The host and port of a URL.
    pub(super) fn of(url: &str) -> Result<Self> {
        let bad = || {
            Error::usage(format!("`{url}` is not a URL with a host"))
                .with_hint("write it as `http://127.0.0.1:8000`")
        };
        let parsed = reqwest::Url::parse(url).map_err(|cause| bad().with_cause(cause))?;
        let host = parsed.host_str().ok_or_else(bad)?;
        let port = parsed.port_or_known_default().ok_or_else(bad)?;
        // `[::1]` is how URLs write it; sockets take it bare.
        Ok(Self { host: host.trim_matches(['[', ']']).to_owned(), port })
    }

    /// Whether something accepts connections there.
    pub(super) async fn answers(&self) -> bool {
        let connect = TcpStream::connect((self.host.as_str(), self.port));
        matches!(tokio::time::timeout(CONNECT_LIMIT, connect).await, Ok(Ok(_)))
    }

    /// Whether its host is this machine: an address can be bound only where it lives.
    pub(super) async fn is_here(&self) -> bool {
        let lookup = tokio::net::lookup_host((self.host.as_str(), self.port));
        let Ok(Ok(mut found)) = tokio::time::timeout(CONNECT_LIMIT, lookup).await else {
            return false;
        };
        found.any(|address| std::net::UdpSocket::bind((address.ip(), 0)).is_ok())
    }

    /// Whether the socket that listens there belongs to one of `pids`.
    pub(super) fn owner(&self, pids: &[i32]) -> Owner {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
        let texts = tables.iter().filter_map(|path| files::read_text(Path::new(path)).ok());
        let inodes: BTreeSet<u64> =
            texts.flat_map(|text| listening_inodes(&text, self.port)).collect();
        if inodes.is_empty() {
            return Owner::Unknown;
        }
        let mut readable = false;
        for pid in pids {
            if let Some(sockets) = sockets(*pid) {
                readable = true;
                if sockets.iter().any(|inode| inodes.contains(inode)) {
                    return Owner::Ours;
                }
            }
        }
        // A command that became another user cannot be looked into.
        if readable { Owner::Other } else { Owner::Unknown }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Inodes of the sockets that listen on `port`, by `/proc/net/tcp`'s columns (proc_pid_net(5)).
fn listening_inodes(table: &str, port: u16) -> Vec<u64> {
    const LISTEN: &str = "0A";
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let local_port = u16::from_str_radix(fields.get(1)?.rsplit(':').next()?, 16).ok()?;
        let listens = *fields.get(3)? == LISTEN && local_port == port;
        listens.then(|| fields.get(9)?.parse().ok()).flatten()
    };
    table.lines().filter_map(inode).collect()
}

fn sockets(pid: i32) -> Option<Vec<u64>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let inode = |entry: std::io::Result<std::fs::DirEntry>| {
        let link = std::fs::read_link(entry.ok()?.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    Some(entries.filter_map(inode).collect())
}

/// Whether the server at this URL runs on this machine, as far as addresses tell: a tunnel looks like it.
pub(crate) async fn is_here(url: &str) -> bool {
    match Address::of(url) {
        Ok(address) => address.is_here().await,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn this_machine_is_told_from_others() {
        let here = async |url: &str| Address::of(url).unwrap().is_here().await;
        assert!(here("http://127.0.0.1:1").await && here("http://localhost:1/v1").await);
        // Of the documentation's network (RFC 5737): nobody's address.
        assert!(!here("http://192.0.2.1:1").await && !here("http://nowhere.invalid:1").await);
    }

    #[test]
    fn hosts_and_ports_of_urls() {
        let show = |url| Address::of(url).unwrap().to_string();
        assert_eq!(show("http://127.0.0.1:8000/v1"), "127.0.0.1:8000");
        assert_eq!(show("https://example.com"), "example.com:443");
        assert_eq!(show("http://[::1]:9/"), "[::1]:9");
        assert!(Address::of("not a url").is_err());
        assert!(Address::of("data:x").is_err());
    }

    #[test]
    fn only_listening_sockets_of_the_port_count() {
        let table = "  sl  local_address rem_address   st tx rx tr tm retrnsmt uid timeout inode\n\
             0: 0100007F:1F40 00000000:0000 0A 0:0 0:0 0 0 0 111 1\n\
             1: 0100007F:1F40 0100007F:A000 01 0:0 0:0 0 0 0 222 1\n\
             2: 0100007F:1F41 00000000:0000 0A 0:0 0:0 0 0 0 333 1\n";
        assert_eq!(listening_inodes(table, 8000), [111]);
    }

    #[tokio::test]
    async fn a_socket_of_our_own_is_found() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = Address::of(&format!("http://127.0.0.1:{port}")).unwrap();
        assert!(address.answers().await);
        if Path::new("/proc/net/tcp").exists() {
            let own = i32::try_from(std::process::id()).unwrap();
            assert_eq!(address.owner(&[own]), Owner::Ours);
        }
        drop(listener);
        assert!(!address.answers().await);
    }
}
