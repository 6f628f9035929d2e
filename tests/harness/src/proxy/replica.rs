//! Proxies before every member of a replica set, through which a client finds the primary.
//!
//! A driver takes the members' addresses from the server's own answers (`hello`), and would connect
//! past any proxy. So the proxies replace these addresses by their own in small answers. Both have
//! the same length, because all ports have five digits, and nothing else in the message changes.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::bytes::copy;
use super::listener::{Listener, Outlook, Weather};
use super::wire::Frame;

/// An answer to `hello` is far smaller than this; larger answers are not searched.
const HELLO_BYTES_MAX: usize = 8 * 1024;

/// An address of a member, and that of the proxy before it, as they are written in answers.
type Renamed = Arc<OnceLock<Vec<(Vec<u8>, Vec<u8>)>>>;

/// Proxies before all members of a replica set.
pub struct ReplicaProxy {
    members: Vec<Listener>,
}

impl ReplicaProxy {
    /// Starts in front of all members.
    ///
    /// # Panics
    /// When no port is free, or an address of a proxy is not as long as that of its member.
    pub async fn start(members: &[SocketAddr]) -> ReplicaProxy {
        let renamed = Renamed::default();
        let mut listeners = Vec::new();
        for member in members {
            let names = renamed.clone();
            let listener = Listener::start(*member, move |client, server, forecast| {
                serve(client, server, Outlook::of_new_connection(forecast), names.clone())
            });
            listeners.push(listener.await);
        }
        let written = |address: SocketAddr| address.to_string().into_bytes();
        let pairs = members.iter().zip(&listeners);
        let pairs: Vec<_> =
            pairs.map(|(from, to)| (written(*from), written(to.address()))).collect();
        assert!(
            pairs.iter().all(|(from, to)| from.len() == to.len()),
            "members and proxies must have ports of five digits"
        );
        renamed.set(pairs).expect("it is set once");
        ReplicaProxy { members: listeners }
    }

    /// Where clients connect.
    #[must_use]
    pub fn uri(&self, replica_set: &str) -> String {
        let hosts: Vec<String> =
            self.members.iter().map(|member| member.address().to_string()).collect();
        format!("mongodb://{}/?replicaSet={replica_set}", hosts.join(","))
    }

    /// Closes every connection; new ones work.
    pub fn cut(&self) {
        self.members.iter().for_each(Listener::cut);
    }

    /// Closes every connection, and every new one at once.
    pub fn refuse(&self) {
        self.turn(Weather::Refusing);
        self.cut();
    }

    /// Lets nothing through any more, in either direction, and closes no connection: half-open.
    pub fn silence(&self) {
        self.turn(Weather::Silent);
    }

    /// Delays every piece by so long.
    pub fn slow(&self, wait: Duration) {
        self.turn(Weather::Slow(wait));
    }

    /// Works again; pieces that were held back are sent on.
    pub fn restore(&self) {
        self.turn(Weather::Fair);
    }

    fn turn(&self, weather: Weather) {
        self.members.iter().for_each(|member| member.turn(weather));
    }
}

async fn serve(client: TcpStream, server: TcpStream, outlook: Outlook, renamed: Renamed) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(
        copy(from_client, to_server, outlook.clone()),
        answers(from_server, to_client, outlook, &renamed)
    );
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut outlook: Outlook,
    renamed: &Renamed,
) {
    while let Ok(Some(mut frame)) = Frame::read(&mut from).await {
        if frame.bytes().len() <= HELLO_BYTES_MAX {
            for (member, proxy) in renamed.get().into_iter().flatten() {
                frame.replace(member, proxy);
            }
        }
        if !outlook.lets_through().await || to.write_all(frame.bytes()).await.is_err() {
            break;
        }
    }
    outlook.lets_through().await;
    // Fails only if the client has closed the connection already.
    let _ = to.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::super::wire::message;
    use super::*;
    use crate::wait::{ms, s};
    use mongodb::bson::doc;
    use tokio::net::TcpListener;

    /// A member that answers everything with its own address.
    async fn member() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    while let Ok(Some(frame)) = Frame::read(&mut stream).await {
                        let hello = doc! { "me": address.to_string(), "hosts": ["10.0.0.1:27017"] };
                        let answer = message(1, frame.request_id(), &hello);
                        if stream.write_all(&answer).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        address
    }

    async fn asked(stream: &mut TcpStream) -> Option<Frame> {
        stream.write_all(&message(7, 0, &doc! { "hello": 1 })).await.ok()?;
        tokio::time::timeout(ms(300), Frame::read(stream)).await.ok()?.ok()?
    }

    #[tokio::test]
    async fn clients_are_told_the_addresses_of_the_proxies() {
        let proxy = ReplicaProxy::start(&[member().await, member().await]).await;
        for listener in &proxy.members {
            let mut stream = TcpStream::connect(listener.address()).await.expect("it listens");
            let answer = asked(&mut stream).await.expect("an answer");
            assert!(answer.mentions(&listener.address().to_string()), "{answer:?}");
            assert!(answer.mentions("10.0.0.1:27017"));
            assert!(proxy.uri("rs").contains(&listener.address().to_string()));
        }
    }

    #[tokio::test]
    async fn silence_is_before_all_members_and_ends() {
        let proxy = ReplicaProxy::start(&[member().await]).await;
        let address = proxy.members[0].address();
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        assert!(asked(&mut stream).await.is_some());
        proxy.silence();
        assert!(asked(&mut stream).await.is_none());
        proxy.restore();
        let late = tokio::time::timeout(s(5), Frame::read(&mut stream)).await;
        assert!(late.expect("in time").is_ok_and(|frame| frame.is_some()));
        proxy.refuse();
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        assert!(asked(&mut stream).await.is_none());
    }
}
