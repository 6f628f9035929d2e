//! The choice of TCP ports on 127.0.0.1.
//!
//! A port is chosen at random outside the kernel's range for outgoing connections, so that a
//! server which was killed finds its port free when it comes back. A chosen port is reserved
//! against other runs of these programs, by an abstract socket that the kernel drops with this
//! process, until the reservation goes. Programs that are not ours can still take it in that time;
//! the server's start then fails and says so.
//!
//! Looking whether a port is free takes it for a moment. A program that another thread starts in
//! that moment holds a copy of the socket until its exec, on a busy machine for many milliseconds.
//! A port in use is therefore waited for, before it counts as taken.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rand::Rng;

use crate::console::Failure;

const LOW: u16 = 20_000;
const HIGH: u16 = 32_000;
/// The fewest ports that are worth choosing from.
const CHOICE_MIN: u16 = 1_000;
const TRIES: usize = 500;
/// How long a port in use is waited for, and how often it is looked at.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(50);

/// A port that is reserved while the value lives.
#[derive(Debug)]
pub struct Reserved {
    /// The port.
    pub port: u16,
    _socket: UnixDatagram,
}

impl Reserved {
    /// Reserves a port; `None` when somebody else has, or something listens on it.
    fn new(port: u16) -> Option<Reserved> {
        let name = SocketAddr::from_abstract_name(format!("tandem-port-{port}")).ok()?;
        let socket = UnixDatagram::bind_addr(&name).ok()?;
        is_free(port).then_some(Reserved { port, _socket: socket })
    }
}

/// So many ports that nobody uses.
///
/// # Errors
/// When there are not so many.
pub fn choose(count: usize) -> Result<Vec<Reserved>, Failure> {
    let (low, high) = range();
    let mut chosen = Vec::new();
    for _ in 0..TRIES {
        if chosen.len() == count {
            return Ok(chosen);
        }
        chosen.extend(Reserved::new(rand::rng().random_range(low..high)));
    }
    Err(Failure(format!("no free TCP port between {low} and {high} on 127.0.0.1")))
}

/// Whether a server could listen on this port, on 127.0.0.1 or on all addresses.
///
/// The standard library binds as the servers do: what a killed predecessor left behind
/// (`TIME_WAIT`) is no obstacle.
#[must_use]
pub fn is_free(port: u16) -> bool {
    let mut addresses = vec!["127.0.0.1", "0.0.0.0"];
    if std::fs::exists("/proc/net/if_inet6").is_ok_and(|there| there) {
        addresses.push("::1");
    }
    addresses.into_iter().all(|address| TcpListener::bind((address, port)).is_ok())
}

/// Fails when the port recorded for a server is used by another program, and stays so for 5 s.
///
/// # Errors
/// What to do then.
pub async fn require_free(port: u16, what: &str) -> Result<(), Failure> {
    let becoming_free = async {
        while !is_free(port) {
            tokio::time::sleep(POLL).await;
        }
    };
    if tokio::time::timeout(PATIENCE, becoming_free).await.is_ok() {
        return Ok(());
    }
    Err(Failure(format!(
        "port {port}, recorded for {what}, is used by another program: end that program, or start \
         afresh after `deploy/down --wipe`"
    )))
}

/// The ports to choose from: below the range for outgoing connections where possible.
fn range() -> (u16, u16) {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let outgoing: Option<u16> =
        text.ok().and_then(|text| text.split_whitespace().next()?.parse().ok());
    match outgoing {
        Some(outgoing) if outgoing > LOW + CHOICE_MIN => (LOW, HIGH.min(outgoing)),
        Some(_) | None => (LOW, HIGH),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn chosen_ports_differ_and_are_free() {
        // A server of another run that comes back may take one in between, hardly three times.
        let free_all_along = (0..3).any(|_| {
            let chosen = choose(20).expect("there are enough");
            let ports: HashSet<u16> = chosen.iter().map(|one| one.port).collect();
            assert_eq!(ports.len(), 20);
            ports.into_iter().all(is_free)
        });
        assert!(free_all_along);
    }

    #[test]
    fn a_chosen_port_is_not_chosen_again_until_its_reservation_goes() {
        // Another program may take one in between, hardly three times.
        let free_again = (0..3).any(|_| {
            let chosen = choose(1).expect("there is one");
            let port = chosen[0].port;
            assert!(Reserved::new(port).is_none());
            drop(chosen);
            // A program that another test starts just now holds a copy of the lock until its exec.
            (0..100).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                Reserved::new(port).is_some()
            })
        });
        assert!(free_again);
    }

    #[tokio::test]
    async fn a_port_that_is_used_for_a_moment_only_is_not_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let used = async {
            tokio::time::sleep(POLL * 4).await;
            drop(listener);
        };
        let ((), required) = tokio::join!(used, require_free(port, "a server"));
        assert!(required.is_ok(), "{required:?}");
    }

    #[test]
    fn a_port_in_use_is_not_free_on_any_address() {
        for address in ["127.0.0.1", "0.0.0.0"] {
            let listener = TcpListener::bind((address, 0)).expect("a port");
            assert!(!is_free(listener.local_addr().expect("an address").port()));
        }
    }
}
