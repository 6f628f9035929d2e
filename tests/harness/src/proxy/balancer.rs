//! A load balancer before several servers: each new connection goes to the next one that takes it.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A port of this machine behind which several servers are one, as long as the value lives. A
/// connection ends with its server; a new one goes elsewhere.
pub struct RoundRobin {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl RoundRobin {
    /// Starts before these servers.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn before(servers: Vec<SocketAddr>) -> RoundRobin {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("a bound port has an address");
        let accepting = tokio::spawn(async move {
            // Dropped with this task, which ends all connections.
            let (mut connections, mut next) = (JoinSet::new(), 0);
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let Ok((client, _)) = accepted else { continue };
                        let mut order = servers.clone();
                        order.rotate_left(next);
                        next = (next + 1) % servers.len().max(1);
                        connections.spawn(forward(client, order));
                    }
                    Some(_ended) = connections.join_next() => {}
                }
            }
        });
        RoundRobin { address, accepting }
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for RoundRobin {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Forwards to the first of these servers that takes the connection. If none does, it is closed.
async fn forward(mut client: TcpStream, servers: Vec<SocketAddr>) {
    let Ok(mut server) = TcpStream::connect(servers.as_slice()).await else { return };
    if client.set_nodelay(true).and(server.set_nodelay(true)).is_ok() {
        // An error ends both sides, as the end of a server does.
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A server that says its letter to everybody, until the task is aborted.
    async fn says(letter: u8) -> (SocketAddr, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("an address");
        let serving = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                stream.write_all(&[letter]).await.expect("somebody listens");
            }
        });
        (address, serving)
    }

    async fn heard(balancer: &RoundRobin) -> u8 {
        let mut stream = TcpStream::connect(balancer.address()).await.expect("it listens");
        stream.read_u8().await.expect("a server says something")
    }

    #[tokio::test]
    async fn connections_go_to_one_server_after_the_other_and_past_a_dead_one() {
        let ((a, of_a), (b, _of_b)) = (says(b'a').await, says(b'b').await);
        let balancer = RoundRobin::before(vec![a, b]).await;
        let mut told = Vec::new();
        for _ in 0..4 {
            told.push(heard(&balancer).await);
        }
        assert_eq!(told, *b"abab");
        of_a.abort();
        assert!(of_a.await.is_err_and(|error| error.is_cancelled()));
        for _ in 0..3 {
            assert_eq!(heard(&balancer).await, b'b');
        }
    }
}
