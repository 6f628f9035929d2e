//! A proxy that knows bytes only, for AMQP: it cuts, slows down, or falls silent without closing.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

use super::listener::{Forecast, Listener, Outlook, Weather};

/// A proxy that knows nothing of the protocol that goes through it.
pub struct ByteProxy {
    listener: Listener,
}

impl ByteProxy {
    /// Starts in front of a server.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start(upstream: SocketAddr) -> ByteProxy {
        let listener = Listener::start(upstream, forward).await;
        ByteProxy { listener }
    }

    /// Starts in front of several servers: a connection goes to the first that takes it.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn before_any_of(upstream: Vec<SocketAddr>) -> ByteProxy {
        let listener = Listener::before_any_of(upstream, forward).await;
        ByteProxy { listener }
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Closes every connection; new ones work.
    pub fn cut(&self) {
        self.listener.cut();
    }

    /// Closes every connection, and every new one at once.
    pub fn refuse(&self) {
        self.listener.turn(Weather::Refusing);
        self.listener.cut();
    }

    /// Lets nothing through any more, in either direction, and closes no connection: half-open.
    pub fn silence(&self) {
        self.listener.turn(Weather::Silent);
    }

    /// Lets nothing more through the connections that exist now, and closes none of them:
    /// half-open, as after a fail-over that the client was not told of. New connections work.
    pub fn abandon(&self) {
        self.listener.abandon();
    }

    /// Delays every piece by so long.
    pub fn slow(&self, wait: Duration) {
        self.listener.turn(Weather::Slow(wait));
    }

    /// Works again; pieces that were held back are sent on.
    pub fn restore(&self) {
        self.listener.turn(Weather::Fair);
    }
}

async fn forward(client: TcpStream, server: TcpStream, forecast: watch::Receiver<Forecast>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let outlook = Outlook::of_new_connection(forecast);
    tokio::join!(
        copy(from_client, to_server, outlook.clone()),
        copy(from_server, to_client, outlook)
    );
}

/// Forwards one direction, as the state of the network allows.
pub(super) async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut outlook: Outlook) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if !outlook.lets_through().await || to.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    // While the proxy is silent, the end of one side must not reach the other side either.
    outlook.lets_through().await;
    // Fails only if the other side has closed already.
    let _ = to.shutdown().await;
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::wait::{ms, s};
    use tokio::net::TcpListener;

    /// A server that sends back what it gets.
    pub async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        address
    }

    async fn said(stream: &mut TcpStream, text: &[u8]) -> std::io::Result<Vec<u8>> {
        stream.write_all(text).await?;
        let mut heard = vec![0; text.len()];
        stream.read_exact(&mut heard).await?;
        Ok(heard)
    }

    #[tokio::test]
    async fn silence_holds_what_is_said_and_loses_nothing() {
        let proxy = ByteProxy::start(echo().await).await;
        let mut stream = TcpStream::connect(proxy.address()).await.expect("it listens");
        assert_eq!(said(&mut stream, b"one").await.expect("an echo"), b"one");
        proxy.silence();
        let unheard = tokio::time::timeout(ms(200), said(&mut stream, b"two")).await;
        assert!(unheard.is_err(), "silence let {unheard:?} through");
        proxy.restore();
        let mut heard = [0; 3];
        let late = tokio::time::timeout(s(5), stream.read_exact(&mut heard)).await;
        assert!(late.expect("in time").is_ok() && &heard == b"two");
    }

    #[tokio::test]
    async fn a_slow_link_delivers_everything_later() {
        let proxy = ByteProxy::start(echo().await).await;
        let mut stream = TcpStream::connect(proxy.address()).await.expect("it listens");
        assert!(said(&mut stream, b"one").await.is_ok());
        proxy.slow(ms(100));
        let begun = std::time::Instant::now();
        assert_eq!(said(&mut stream, b"two").await.expect("an echo"), b"two");
        assert!(begun.elapsed() >= ms(200), "there and back took {:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn behind_a_balancer_a_dead_server_is_passed_over() {
        let dead = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let nobody = dead.local_addr().expect("an address");
        drop(dead);
        let proxy = ByteProxy::before_any_of(vec![nobody, echo().await]).await;
        let mut stream = TcpStream::connect(proxy.address()).await.expect("it listens");
        assert_eq!(said(&mut stream, b"one").await.expect("an echo"), b"one");
    }

    #[tokio::test]
    async fn abandoned_connections_stay_open_and_new_ones_work() {
        let proxy = ByteProxy::start(echo().await).await;
        let mut stream = TcpStream::connect(proxy.address()).await.expect("it listens");
        assert!(said(&mut stream, b"one").await.is_ok());
        proxy.abandon();
        let unheard = tokio::time::timeout(ms(200), said(&mut stream, b"two")).await;
        assert!(unheard.is_err(), "an abandoned connection ended: {unheard:?}");
        let mut stream = TcpStream::connect(proxy.address()).await.expect("it listens");
        assert!(said(&mut stream, b"three").await.is_ok());
    }

    #[tokio::test]
    async fn a_cut_ends_connections_and_new_ones_work() {
        let proxy = ByteProxy::start(echo().await).await;
        let mut stream = TcpStream::connect(proxy.address()).await.expect("it listens");
        assert!(said(&mut stream, b"one").await.is_ok());
        proxy.cut();
        assert!(said(&mut stream, b"two").await.is_err());
        let mut stream = TcpStream::connect(proxy.address()).await.expect("it listens");
        assert!(said(&mut stream, b"three").await.is_ok());
        proxy.refuse();
        let refused = tokio::time::timeout(s(5), said(&mut stream, b"four")).await;
        assert!(refused.expect("closed at once").is_err());
    }
}
