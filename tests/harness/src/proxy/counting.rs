//! A proxy before a broker that counts the methods that its clients call.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// What a client says before its first frame: the name and version of the protocol.
const GREETING: usize = 8;
/// Type, channel and length of a frame stand before what is in it, and a byte after it.
const HEAD: usize = 7;
const TAIL: usize = 1;
/// The type of a frame that calls a method.
const METHOD: u8 = 1;

/// Counts the methods that clients call, AMQP 0.9.1, §4.2.3: not heartbeats, and not the contents
/// of what is published.
pub struct CountingProxy {
    address: SocketAddr,
    methods: Arc<AtomicU64>,
}

impl CountingProxy {
    /// Starts in front of a broker.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start(upstream: SocketAddr) -> CountingProxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let methods = Arc::new(AtomicU64::new(0));
        let counted = methods.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(upstream).await else { continue };
                let (from_client, mut to_client) = client.into_split();
                let (mut from_server, to_server) = server.into_split();
                tokio::spawn(count(from_client, to_server, counted.clone()));
                tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
            }
        });
        CountingProxy { address, methods }
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many methods were called so far.
    #[must_use]
    pub fn methods(&self) -> u64 {
        self.methods.load(Ordering::Relaxed)
    }
}

/// Hands one direction on, frame by frame, until its end.
async fn count(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    methods: Arc<AtomicU64>,
) -> std::io::Result<()> {
    let mut greeting = [0; GREETING];
    from.read_exact(&mut greeting).await?;
    to.write_all(&greeting).await?;
    loop {
        let mut frame = vec![0; HEAD];
        from.read_exact(&mut frame).await?;
        let kind = frame[0];
        let length = u32::from_be_bytes([frame[3], frame[4], frame[5], frame[6]]);
        frame.resize(HEAD + length as usize + TAIL, 0);
        from.read_exact(&mut frame[HEAD..]).await?;
        if kind == METHOD {
            methods.fetch_add(1, Ordering::Relaxed);
        }
        to.write_all(&frame).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::super::bytes::tests::echo;
    use super::*;

    #[tokio::test]
    async fn methods_are_counted_and_everything_is_handed_on() {
        let proxy = CountingProxy::start(echo().await).await;
        let mut stream = TcpStream::connect(proxy.address()).await.expect("it listens");
        let mut said = b"AMQP\x00\x00\x09\x01".to_vec();
        for (kind, content) in [(METHOD, "open"), (8, ""), (3, "a body"), (METHOD, "close")] {
            said.extend([kind, 0, 1]);
            said.extend((content.len() as u32).to_be_bytes());
            said.extend(content.as_bytes());
            said.push(0xCE);
        }
        stream.write_all(&said).await.expect("it is taken");
        let mut heard = vec![0; said.len()];
        stream.read_exact(&mut heard).await.expect("an echo");
        assert_eq!(heard, said);
        assert_eq!(proxy.methods(), 2);
    }
}
