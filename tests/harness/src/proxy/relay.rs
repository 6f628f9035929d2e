//! A proxy of one client of a [`FailingMongo`]: it records what the client sends, and spoils one
//! command.
//!
//! Owns which command is meant: the n-th of a name and purpose, counted on the wire, whatever
//! connection it comes on. Promises that nothing else of the client fails: while the server is made
//! to fail a command, no other command of this client is on its way to it. What the drivers send
//! for themselves (`hello`, `endSessions`) is neither recorded nor spoiled. The client finds the
//! server by its replica set, since the server's address in small answers is replaced by the
//! proxy's.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use mongodb::bson::{RawBsonRef, RawDocument, doc};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

use super::listener::Listener;
use super::wire::{Frame, message};
use crate::deployment::mongodb::REPLICA_SET;
use crate::failing::{FailingMongo, Failure, Plan, Times};

/// An answer to `hello` is far smaller than this; larger answers are not searched for an address.
const HELLO_BYTES_MAX: usize = 8 * 1024;

/// What drivers send to the database `admin` for themselves.
const DRIVERS_OWN: [&str; 4] = ["hello", "isMaster", "ismaster", "endSessions"];

/// The code of a refusal that no server has made: `BadValue`.
const LIE_CODE: i32 = 2;

/// A command as a client sends it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sent {
    /// Its name, as `update`.
    pub command: String,
    /// What Tandem says it is for, as `claim`; else the collection.
    pub purpose: String,
    /// Whether its answer waits for a write concern.
    pub has_concern: bool,
}

/// What happens to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server fails in this way.
    Server(Failure),
    /// It has its effect, and the connection closes in place of its answer.
    ReplyLost,
    /// The connection closes, and the command arrives when [`Relay::release`] lets it.
    Late,
    /// It has its effect, and is answered with a refusal. No server does that: it is how a wrong
    /// class of an error would look.
    Lie,
}

/// Which commands are spoiled, and how.
#[derive(Clone, Debug)]
pub struct Spoil {
    /// The command.
    pub sent: Sent,
    /// The first of them that is spoiled, from 1.
    pub nth: usize,
    /// How many of them are, from that one on.
    pub times: usize,
    /// What happens to them.
    pub fault: Fault,
}

#[derive(Default)]
struct Log {
    sent: Vec<Sent>,
    counts: HashMap<Sent, usize>,
    spoil: Option<Spoil>,
    spoiled: usize,
}

struct Shared {
    mongo: Arc<FailingMongo>,
    app_name: String,
    log: Mutex<Log>,
    /// Held while a command is handed to the server.
    order: tokio::sync::Mutex<()>,
    /// How many commands the server has not answered yet, or has not got yet.
    open: watch::Sender<usize>,
    released: watch::Sender<bool>,
    /// The server's address and the proxy's, as they are written in answers.
    names: OnceLock<(Vec<u8>, Vec<u8>)>,
}

/// The proxy of one client.
pub struct Relay {
    listener: Listener,
    shared: Arc<Shared>,
}

impl Relay {
    /// Starts in front of this server, for a client whose connections have this name (see
    /// [`Plan::app_name`]).
    ///
    /// # Panics
    /// When no port is free, or an address of five digits can't be had.
    pub async fn start(mongo: Arc<FailingMongo>, app_name: &str) -> Relay {
        let upstream = mongo.address();
        let shared = Arc::new(Shared {
            mongo,
            app_name: app_name.to_owned(),
            log: Mutex::default(),
            order: tokio::sync::Mutex::default(),
            open: watch::Sender::new(0),
            released: watch::Sender::new(false),
            names: OnceLock::new(),
        });
        let of_connections = shared.clone();
        let listener = Listener::start(upstream, move |client, server, _weather| {
            serve(client, server, of_connections.clone())
        })
        .await;
        let written = |address: SocketAddr| address.to_string().into_bytes();
        let names = (written(upstream), written(listener.address()));
        assert_eq!(names.0.len(), names.1.len(), "server and proxy have ports of five digits");
        shared.names.set(names).expect("it is set once");
        Relay { listener, shared }
    }

    /// Where the client connects.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("mongodb://{}/?replicaSet={REPLICA_SET}", self.listener.address())
    }

    /// What the client has sent, in this order.
    #[must_use]
    pub fn sent(&self) -> Vec<Sent> {
        self.shared.log().sent.clone()
    }

    /// Spoils commands that come from now on.
    pub fn spoil(&self, spoil: Spoil) {
        self.shared.log().spoil = Some(spoil);
    }

    /// How many commands were spoiled.
    #[must_use]
    pub fn spoiled(&self) -> usize {
        self.shared.log().spoiled
    }

    /// Lets late commands arrive.
    pub fn release(&self) {
        self.shared.released.send_replace(true);
    }

    /// Waits until the server has answered everything; returns whether it has, within the limit.
    pub async fn settled(&self, limit: Duration) -> bool {
        let mut open = self.shared.open.subscribe();
        let settled = open.wait_for(|open| *open == 0);
        tokio::time::timeout(limit, settled).await.is_ok()
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a command; what is to happen to it.
    fn record(&self, sent: &Sent) -> Option<Fault> {
        let mut log = self.log();
        log.sent.push(sent.clone());
        let count = log.counts.entry(sent.clone()).or_default();
        *count += 1;
        let nth = *count;
        let spoil = log.spoil.as_ref()?;
        let since = nth.checked_sub(spoil.nth);
        let is_meant = spoil.sent == *sent && since.is_some_and(|since| since < spoil.times);
        is_meant.then(|| spoil.fault.clone())
    }

    fn count_spoiled(&self) {
        self.log().spoiled += 1;
    }

    fn opened(self: &Arc<Shared>) -> Open {
        self.open.send_modify(|open| *open += 1);
        Open(self.clone())
    }
}

/// A command that the server has not answered yet.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}

/// What becomes of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reply {
    Passes,
    IsLost,
    IsReplaced,
}

/// One connection.
struct Line {
    shared: Arc<Shared>,
    to_client: tokio::sync::Mutex<OwnedWriteHalf>,
    expected: Mutex<HashMap<i32, (Reply, Open)>>,
    /// How many answers are still to come on this connection.
    outstanding: watch::Sender<usize>,
}

impl Line {
    fn expected(&self) -> MutexGuard<'_, HashMap<i32, (Reply, Open)>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn expect(&self, request: i32, reply: Reply, open: Open) {
        let mut expected = self.expected();
        expected.insert(request, (reply, open));
        self.outstanding.send_replace(expected.len());
    }

    /// What becomes of the answer to a request; none for what is not recorded.
    fn arrived(&self, request: i32) -> Option<Reply> {
        let mut expected = self.expected();
        let (reply, _open) = expected.remove(&request)?;
        self.outstanding.send_replace(expected.len());
        Some(reply)
    }

    /// Nothing more is answered on it.
    fn ended(&self) {
        self.expected().clear();
        self.outstanding.send_replace(0);
    }

    async fn hang_up(&self) {
        // Fails only if the client has closed the connection itself.
        let _ = self.to_client.lock().await.shutdown().await;
    }
}

async fn serve(client: TcpStream, server: TcpStream, shared: Arc<Shared>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let line = Line {
        shared,
        to_client: tokio::sync::Mutex::new(to_client),
        expected: Mutex::default(),
        outstanding: watch::Sender::new(0),
    };
    let up = async {
        requests(from_client, &mut to_server, &line).await;
        // The client has gone. What it has sent is carried out as if it were still there.
        let _ = line.outstanding.subscribe().wait_for(|count| *count == 0).await;
        let _ = to_server.shutdown().await;
    };
    let down = async {
        answers(from_server, &line).await;
        line.ended();
    };
    tokio::join!(up, down);
}

async fn requests(mut from: OwnedReadHalf, to: &mut OwnedWriteHalf, line: &Line) {
    while let Ok(Some(frame)) = Frame::read(&mut from).await {
        let handed_over = match frame.body().and_then(sent) {
            Some(sent) => hand_over(&frame, &sent, to, line).await,
            None => to.write_all(frame.bytes()).await.is_ok(),
        };
        if !handed_over {
            return;
        }
    }
}

/// Hands a recorded command to the server; returns whether the connection goes on.
async fn hand_over(frame: &Frame, sent: &Sent, to: &mut OwnedWriteHalf, line: &Line) -> bool {
    let shared = &line.shared;
    let fault = shared.record(sent);
    let (request, open) = (frame.request_id(), shared.opened());
    if fault == Some(Fault::Late) {
        line.hang_up().await;
        let _ = shared.released.subscribe().wait_for(|released| *released).await;
    }
    let _alone = shared.order.lock().await;
    let reply = match &fault {
        None | Some(Fault::Server(_)) => Reply::Passes,
        Some(Fault::ReplyLost | Fault::Late) => Reply::IsLost,
        Some(Fault::Lie) => Reply::IsReplaced,
    };
    line.expect(request, reply, open);
    let sending = to.write_all(frame.bytes());
    match fault {
        None => sending.await.is_ok(),
        Some(Fault::ReplyLost | Fault::Late | Fault::Lie) => {
            shared.count_spoiled();
            sending.await.is_ok()
        }
        Some(Fault::Server(failure)) => {
            // Its answer may be there before it is known that it was spoiled.
            let _open = shared.opened();
            let app_name = Some(shared.app_name.clone());
            let (commands, times) = (vec![sent.command.clone()], Times::First(1));
            let plan = Plan { commands, app_name, failure, times };
            if shared.mongo.strike(&plan, sending).await {
                shared.count_spoiled();
            }
            true
        }
    }
}

async fn answers(mut from: OwnedReadHalf, line: &Line) {
    while let Ok(Some(mut frame)) = Frame::read(&mut from).await {
        let reply = line.arrived(frame.response_to()).unwrap_or(Reply::Passes);
        // The client may have gone; the server's further answers are still needed.
        match reply {
            Reply::Passes => {
                if frame.bytes().len() <= HELLO_BYTES_MAX
                    && let Some((server, proxy)) = line.shared.names.get()
                {
                    frame.replace(server, proxy);
                }
                let _ = line.to_client.lock().await.write_all(frame.bytes()).await;
            }
            Reply::IsLost => line.hang_up().await,
            Reply::IsReplaced => {
                let lie = doc! { "ok": 0.0, "code": LIE_CODE, "codeName": "BadValue", "errmsg": "planted" };
                let lie = message(0, frame.response_to(), &lie);
                let _ = line.to_client.lock().await.write_all(&lie).await;
            }
        }
    }
    line.hang_up().await;
}

/// What a message asks for; none if drivers send it for themselves.
fn sent(body: &RawDocument) -> Option<Sent> {
    let (command, target) = body.iter().next()?.ok()?;
    let command = command.as_str();
    let is_admin = body.get_str("$db").is_ok_and(|database| database == "admin");
    if is_admin && DRIVERS_OWN.contains(&command) {
        return None;
    }
    let collection = match target {
        RawBsonRef::String(collection) => collection,
        _ => body.get_str("collection").unwrap_or_default(),
    };
    let comment = body.get_str("comment").ok().and_then(|told| told.strip_prefix("tandem "));
    Some(Sent {
        command: command.to_owned(),
        purpose: comment.unwrap_or(collection).to_owned(),
        has_concern: body.get_document("writeConcern").is_ok(),
    })
}

#[cfg(test)]
mod tests {
    use mongodb::bson::RawDocumentBuf;

    use super::*;

    #[test]
    fn commands_are_told_apart_by_name_and_purpose_and_those_of_drivers_left_out() {
        let of = |command: mongodb::bson::Document| {
            let raw = RawDocumentBuf::try_from(&command).expect("BSON");
            sent(&raw).map(|sent| (sent.command, sent.purpose, sent.has_concern))
        };
        let told = |command: &str, purpose: &str, has_concern| {
            Some((command.to_owned(), purpose.to_owned(), has_concern))
        };
        let claim = doc! {
            "update": "transactions", "comment": "tandem claim", "writeConcern": { "w": "majority" },
        };
        assert_eq!(of(claim), told("update", "claim", true));
        assert_eq!(
            of(doc! { "insert": "accounts", "$db": "t" }),
            told("insert", "accounts", false)
        );
        let commit = doc! { "commitTransaction": 1, "$db": "admin", "writeConcern": { "w": 1 } };
        assert_eq!(of(commit), told("commitTransaction", "", true));
        assert_eq!(of(doc! { "getMore": 7_i64, "collection": "x" }), told("getMore", "x", false));
        assert_eq!(of(doc! { "hello": 1, "$db": "t" }), told("hello", "", false));
        assert_eq!(of(doc! { "hello": 1, "$db": "admin" }), None);
        assert_eq!(of(doc! { "endSessions": [], "$db": "admin" }), None);
    }
}
