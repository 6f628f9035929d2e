//! Servers that are far away: proxies that hand on every byte later, and none of them slower.
//!
//! Promises that each piece arrives the same time after it was sent, however much is on its way: as
//! on a long line, and unlike [`ByteProxy::slow`](super::ByteProxy::slow), which sends a piece only
//! when the one before has arrived. Timers tick in milliseconds, so a way takes up to one more.
//! Knows no protocol, so that it costs little; a connection that fails ends on both sides.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;

use super::listener::Listener;
use crate::servers::{Servers, address_of, with_address};

/// So many bytes at most are read at once.
const PIECE_BYTES_MAX: usize = 64 * 1024;
/// So many pieces may be on their way; beyond that the sender waits.
const UNDERWAY_MAX: usize = 4_096;

/// A piece, and when it arrives.
type Piece = (Instant, Vec<u8>);

/// Proxies before both servers.
pub struct Distance {
    /// The servers, seen from far away.
    pub servers: Servers,
    _listeners: [Listener; 2],
}

impl Distance {
    /// Starts in front of a replica set of one member and a broker.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn to(servers: &Servers, round_trip: Duration) -> Distance {
        let one_way = round_trip / 2;
        let mongodb = listen(address_of(&servers.mongodb_uri), one_way).await;
        let rabbitmq = listen(address_of(&servers.amqp_url), one_way).await;
        let far = Servers {
            // With the name of the replica set the driver would connect past the proxy.
            mongodb_uri: format!("mongodb://{}/?directConnection=true", mongodb.address()),
            amqp_url: with_address(&servers.amqp_url, rabbitmq.address()),
        };
        Distance { servers: far, _listeners: [mongodb, rabbitmq] }
    }
}

async fn listen(upstream: SocketAddr, one_way: Duration) -> Listener {
    Listener::start(upstream, move |client, server, _forecast| async move {
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::join!(
            carry(from_client, to_server, one_way),
            carry(from_server, to_client, one_way)
        );
    })
    .await
}

async fn carry(from: OwnedReadHalf, to: OwnedWriteHalf, one_way: Duration) {
    let (send, underway) = channel(UNDERWAY_MAX);
    tokio::join!(depart(from, send, one_way), arrive(underway, to));
}

async fn depart(mut from: OwnedReadHalf, send: Sender<Piece>, one_way: Duration) {
    let mut buffer = vec![0; PIECE_BYTES_MAX];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let piece = (Instant::now() + one_way, buffer[..read].to_vec());
        if send.send(piece).await.is_err() {
            return;
        }
    }
}

async fn arrive(mut underway: Receiver<Piece>, mut to: OwnedWriteHalf) {
    while let Some((due, piece)) = underway.recv().await {
        tokio::time::sleep_until(due).await;
        if to.write_all(&piece).await.is_err() {
            return;
        }
    }
    // Fails only if the other side has closed already.
    let _ = to.shutdown().await;
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::super::bytes::tests::echo;
    use super::*;
    use crate::wait::{ms, s};

    #[tokio::test]
    async fn many_pieces_take_one_round_trip_and_come_in_order() {
        let proxy = listen(echo().await, ms(200)).await;
        let stream = TcpStream::connect(proxy.address()).await.expect("it listens");
        let (mut from, mut to) = stream.into_split();
        let begun = Instant::now();
        tokio::spawn(async move {
            for number in 0..20_u8 {
                to.write_all(&[number]).await.expect("it takes it");
                tokio::time::sleep(ms(5)).await;
            }
        });
        let mut heard = [0; 20];
        from.read_exact(&mut heard[..1]).await.expect("an echo");
        assert!(begun.elapsed() >= ms(400), "after {:?}", begun.elapsed());
        from.read_exact(&mut heard[1..]).await.expect("an echo");
        assert_eq!(heard.to_vec(), (0..20).collect::<Vec<u8>>());
        // One after the other they would have taken 20 times as long as one.
        assert!(begun.elapsed() < s(4), "after {:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn the_end_of_a_connection_arrives_after_what_was_sent() {
        let proxy = listen(echo().await, ms(20)).await;
        let mut stream = TcpStream::connect(proxy.address()).await.expect("it listens");
        stream.write_all(b"last words").await.expect("it takes them");
        stream.shutdown().await.expect("it closes");
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).await.expect("the end arrives");
        assert_eq!(heard, b"last words");
    }
}
