//! A proxy in front of MongoDB that can hold, lose or delay one chosen message.
//!
//! A held request is sent on when it is released, even if its client has long gone: this is the
//! delayed delivery that the fence exists for. A held reply means that the write has happened and
//! its sender does not know.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

use super::gate::{Gate, Held};
use super::listener::{Listener, Weather};
use super::wire::Frame;

/// Which half of an operation is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The request: nothing has happened yet.
    Request,
    /// The reply: the operation has happened.
    Reply,
}

/// Hold one half of the `nth` operation of this name, counted from now on.
struct Rule {
    operation: String,
    /// Only requests that contain this id count.
    about: Option<String>,
    nth: usize,
    part: Part,
    held: Held,
}

impl Rule {
    fn new(operation: &str, nth: usize, part: Part) -> Rule {
        Rule { operation: operation.to_owned(), about: None, nth, part, held: Held::new() }
    }

    fn is_about(&self, operation: &str, frame: &Frame) -> bool {
        self.operation == operation && self.about.as_deref().is_none_or(|id| frame.mentions(id))
    }
}

#[derive(Default)]
struct Shared {
    rules: Mutex<Vec<Rule>>,
    requested: Mutex<HashMap<String, usize>>,
    answered: Mutex<HashMap<String, usize>>,
    without_fence: AtomicBool,
}

/// A proxy that knows MongoDB's commands.
pub struct MongoProxy {
    listener: Listener,
    shared: Arc<Shared>,
}

impl MongoProxy {
    /// Starts in front of a server.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start(upstream: SocketAddr) -> MongoProxy {
        let shared = Arc::new(Shared::default());
        let of_connections = shared.clone();
        let listener = Listener::start(upstream, move |client, server, _weather| {
            serve(client, server, of_connections.clone())
        })
        .await;
        MongoProxy { listener, shared }
    }

    /// The address for clients. They need `directConnection`, or they would find the server behind.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Holds one half of the `nth` (from 1) request of an operation (`post`, `claim`, …), counted
    /// from now on.
    #[must_use]
    pub fn hold(&self, operation: &str, nth: usize, part: Part) -> Held {
        self.add(Rule::new(operation, nth, part))
    }

    /// Holds one half of the next request of an operation that contains this id.
    #[must_use]
    pub fn hold_about(&self, operation: &str, id: &str, part: Part) -> Held {
        self.add(Rule { about: Some(id.to_owned()), ..Rule::new(operation, 1, part) })
    }

    fn add(&self, rule: Rule) -> Held {
        let held = rule.held.clone();
        self.shared.rules().push(rule);
        held
    }

    /// From now on the fence of every post is removed: shows what would happen without it.
    pub fn take_fence_out(&self) {
        self.shared.without_fence.store(true, Ordering::Relaxed);
    }

    /// How many requests of this operation have come, held ones included.
    #[must_use]
    pub fn requested(&self, operation: &str) -> usize {
        count(&self.shared.requested, operation)
    }

    /// How many requests of this operation the server has answered.
    #[must_use]
    pub fn answered(&self, operation: &str) -> usize {
        count(&self.shared.answered, operation)
    }

    /// Closes every connection, and every new one at once.
    pub fn refuse(&self) {
        self.listener.turn(Weather::Refusing);
        self.listener.cut();
    }

    /// Works again.
    pub fn restore(&self) {
        self.listener.turn(Weather::Fair);
    }
}

fn count(counts: &Mutex<HashMap<String, usize>>, operation: &str) -> usize {
    let counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    counts.get(operation).copied().unwrap_or(0)
}

fn increment(counts: &Mutex<HashMap<String, usize>>, operation: &str) {
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    *counts.entry(operation.to_owned()).or_default() += 1;
}

impl Shared {
    fn rules(&self) -> std::sync::MutexGuard<'_, Vec<Rule>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request in every rule for it; the first rule that it fulfils is removed.
    fn rule_for(&self, operation: &str, frame: &Frame) -> Option<Rule> {
        let mut rules = self.rules();
        let mut fulfilled = None;
        for (at, rule) in rules.iter_mut().enumerate() {
            if rule.is_about(operation, frame) {
                rule.nth = rule.nth.saturating_sub(1);
                if rule.nth == 0 {
                    fulfilled.get_or_insert(at);
                }
            }
        }
        fulfilled.map(|at| rules.swap_remove(at))
    }
}

/// What is known of a request whose reply has not come yet.
struct Expected {
    operation: String,
    gate: Option<(Part, Arc<Gate>)>,
}

/// One connection: the requests whose replies are still to come, by their numbers.
#[derive(Default)]
struct Connection {
    expected: Mutex<HashMap<i32, Expected>>,
    outstanding: watch::Sender<usize>,
}

impl Connection {
    fn expect(&self, request: i32, expected: Expected) {
        self.outstanding.send_modify(|count| *count += 1);
        self.expected.lock().unwrap_or_else(PoisonError::into_inner).insert(request, expected);
    }

    fn arrived(&self, request: i32) -> Option<Expected> {
        let mut all = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        let expected = all.remove(&request)?;
        self.outstanding.send_modify(|count| *count = count.saturating_sub(1));
        Some(expected)
    }
}

async fn serve(client: TcpStream, server: TcpStream, shared: Arc<Shared>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let connection = Connection::default();
    // Shared, because a held request may end with the connection to its sender closed.
    let to_client = tokio::sync::Mutex::new(to_client);
    let up = async {
        requests(from_client, &mut to_server, &to_client, &shared, &connection).await;
        // The client has gone. The connection to the server stays until the server has answered, so
        // that a late request is carried out as if the client were still there.
        let _ = connection.outstanding.subscribe().wait_for(|count| *count == 0).await;
        let _ = to_server.shutdown().await;
    };
    let down = async {
        answers(from_server, &to_client, &shared, &connection).await;
        connection.outstanding.send_replace(0);
    };
    tokio::join!(up, down);
}

type ToClient = tokio::sync::Mutex<OwnedWriteHalf>;

async fn requests(
    mut from: OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    to_client: &ToClient,
    shared: &Shared,
    connection: &Connection,
) {
    while let Ok(Some(mut frame)) = Frame::read(&mut from).await {
        if let Some(operation) = frame.operation().map(str::to_owned) {
            increment(&shared.requested, &operation);
            let rule = shared.rule_for(&operation, &frame);
            let gate = rule.map(|rule| (rule.part, rule.held.0));
            if let Some((Part::Request, gate)) = &gate
                && !passes(gate, to_client).await
            {
                continue;
            }
            if operation == "post" && shared.without_fence.load(Ordering::Relaxed) {
                frame.take_fence_out();
            }
            connection.expect(frame.request_id(), Expected { operation, gate });
        }
        if to.write_all(frame.bytes()).await.is_err() {
            return;
        }
    }
}

/// Waits at a gate, and meanwhile closes the connection to the client if the test says so; returns
/// whether the gate opened.
async fn passes(gate: &Gate, to_client: &ToClient) -> bool {
    let opens = gate.opens();
    tokio::pin!(opens);
    tokio::select! {
        open = &mut opens => return open,
        () = gate.hung_up() => {}
    }
    // Fails only if the client has closed the connection itself.
    let _ = to_client.lock().await.shutdown().await;
    opens.await
}

async fn answers(
    mut from: OwnedReadHalf,
    to_client: &ToClient,
    shared: &Shared,
    connection: &Connection,
) {
    while let Ok(Some(frame)) = Frame::read(&mut from).await {
        let awaited = connection.arrived(frame.response_to());
        let mut passes_on = true;
        if let Some(expected) = &awaited {
            increment(&shared.answered, &expected.operation);
            if let Some((Part::Reply, gate)) = &expected.gate {
                passes_on = passes(gate, to_client).await;
            }
        }
        // The client may have gone; the server's answer is still needed.
        if passes_on {
            let _ = to_client.lock().await.write_all(frame.bytes()).await;
        }
        if let Some((_, gate)) = awaited.and_then(|expected| expected.gate) {
            gate.passed();
        }
    }
    let _ = to_client.lock().await.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::super::wire::message;
    use super::*;
    use crate::wait::{ms, s, wait_until};
    use mongodb::bson::{Document, doc};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    /// A server that answers every message, and tells the test what has come.
    async fn server() -> (SocketAddr, mpsc::UnboundedReceiver<i32>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("an address");
        let (tell, told) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let tell = tell.clone();
                tokio::spawn(async move {
                    while let Ok(Some(frame)) = Frame::read(&mut stream).await {
                        let answer = message(1, frame.request_id(), &doc! { "ok": 1 });
                        tell.send(frame.request_id()).expect("the test listens");
                        if stream.write_all(&answer).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        (address, told)
    }

    fn operation(name: &str) -> Document {
        doc! { "update": "accounts", "comment": format!("tandem {name}") }
    }

    async fn asked(stream: &mut TcpStream, id: i32, name: &str) -> bool {
        stream.write_all(&message(id, 0, &operation(name))).await.expect("the proxy takes it");
        let answer = tokio::time::timeout(ms(300), Frame::read(stream)).await;
        matches!(answer, Ok(Ok(Some(frame))) if frame.response_to() == id)
    }

    #[tokio::test]
    async fn the_nth_request_is_held_and_delivered_after_its_client_has_gone() {
        let (address, mut told) = server().await;
        let proxy = MongoProxy::start(address).await;
        let held = proxy.hold("post", 2, Part::Request);
        let mut stream = TcpStream::connect(proxy.address()).await.expect("it listens");
        assert!(asked(&mut stream, 1, "post").await);
        assert!(asked(&mut stream, 2, "read").await);
        assert!(!asked(&mut stream, 3, "post").await);
        held.caught(s(5)).await;
        drop(stream);
        assert_eq!((told.recv().await, told.recv().await), (Some(1), Some(2)));
        assert!(told.try_recv().is_err());
        held.release();
        held.passed(s(5)).await;
        assert_eq!(told.recv().await, Some(3));
        assert_eq!((proxy.requested("post"), proxy.answered("post")), (2, 2));
    }

    #[tokio::test]
    async fn a_held_reply_means_that_the_server_has_acted() {
        let (address, mut told) = server().await;
        let proxy = MongoProxy::start(address).await;
        let held = proxy.hold("claim", 1, Part::Reply);
        let mut stream = TcpStream::connect(proxy.address()).await.expect("it listens");
        assert!(!asked(&mut stream, 7, "claim").await);
        held.caught(s(5)).await;
        assert_eq!(told.recv().await, Some(7));
        held.release();
        let late = Frame::read(&mut stream).await.expect("whole").expect("an answer");
        assert_eq!(late.response_to(), 7);
    }

    #[tokio::test]
    async fn what_is_discarded_never_arrives() {
        let (address, mut told) = server().await;
        let proxy = MongoProxy::start(address).await;
        let held = proxy.hold("done", 1, Part::Request);
        let mut stream = TcpStream::connect(proxy.address()).await.expect("it listens");
        held.discard();
        assert!(!asked(&mut stream, 1, "done").await);
        assert!(asked(&mut stream, 2, "done").await);
        assert_eq!(told.recv().await, Some(2));
    }

    #[tokio::test]
    async fn hanging_up_tells_the_client_and_keeps_the_request() {
        let (address, mut told) = server().await;
        let proxy = MongoProxy::start(address).await;
        let other = proxy.hold_about("post", "t9", Part::Request);
        let held = proxy.hold_about("post", "accounts", Part::Request);
        let mut stream = TcpStream::connect(proxy.address()).await.expect("it listens");
        stream.write_all(&message(4, 0, &operation("post"))).await.expect("the proxy takes it");
        held.caught(s(5)).await;
        held.hang_up();
        let end = tokio::time::timeout(s(5), Frame::read(&mut stream)).await;
        assert!(matches!(end, Ok(Ok(None) | Err(_))), "{end:?}");
        assert!(told.try_recv().is_err() && !other.is_caught());
        held.release();
        held.passed(s(5)).await;
        assert_eq!(told.recv().await, Some(4));
    }

    #[tokio::test]
    async fn refusing_ends_every_connection_until_it_is_restored() {
        let (address, _told) = server().await;
        let proxy = MongoProxy::start(address).await;
        let mut stream = TcpStream::connect(proxy.address()).await.expect("it listens");
        assert!(asked(&mut stream, 1, "post").await);
        proxy.refuse();
        assert!(matches!(Frame::read(&mut stream).await, Ok(None) | Err(_)));
        proxy.restore();
        wait_until("a new connection works", s(5), async || {
            let mut stream = TcpStream::connect(proxy.address()).await.expect("it listens");
            asked(&mut stream, 2, "post").await
        })
        .await;
    }
}
