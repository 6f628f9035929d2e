//! Somebody who follows a stream of server-sent events.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use harness::wait::promised;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long to wait for events.
const HEARD_LIMIT: Duration = Duration::from_secs(120);

/// An event as it was received.
#[derive(Clone, Debug)]
pub struct Event {
    /// Empty where the stream has none.
    pub id: String,
    pub name: String,
    pub data: Value,
}

/// Somebody who listens.
pub struct Listener {
    stream: TcpStream,
    /// What has come and is not taken apart yet: the head, then the beginning of a chunk.
    said: Vec<u8>,
    /// What has come of an event that is not whole yet. `None` until the head is whole.
    begun: Option<String>,
    events: Vec<Event>,
    /// The last id that has come, with an event or alone: what a client sends as `Last-Event-ID`.
    position: String,
}

impl Listener {
    /// Asks for a stream, and waits until these words have come.
    pub async fn open(
        address: SocketAddr,
        path: &str,
        last: Option<&str>,
        words: &str,
    ) -> Listener {
        let headers: Vec<_> = last.map(|id| ("Last-Event-ID", id)).into_iter().collect();
        Listener::open_with(address, path, &headers, words).await
    }

    /// The same with these headers.
    pub async fn open_with(
        address: SocketAddr,
        path: &str,
        headers: &[(&str, &str)],
        words: &str,
    ) -> Listener {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let headers: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut listener = Listener {
            stream,
            said: Vec::new(),
            begun: None,
            events: Vec::new(),
            position: String::new(),
        };
        let mut all = String::new();
        while !all.contains(words) {
            all.push_str(&listener.read().await);
        }
        assert!(all.contains("text/event-stream"), "{all}");
        listener
    }

    /// Waits for the next piece of the connection, and takes it apart.
    async fn read(&mut self) -> String {
        let mut piece = vec![0; 1 << 16];
        let reading = tokio::time::timeout(Duration::from_secs(60), self.stream.read(&mut piece));
        let Ok(read) = reading.await else { panic!("it was told only: {self}") };
        let count = read.expect("it is connected");
        assert!(count > 0, "it was ended: {self}");
        self.said.extend_from_slice(&piece[..count]);
        self.take_apart();
        String::from_utf8_lossy(&piece[..count]).into_owned()
    }

    /// Turns whole chunks into text, and whole blocks of text into events, so that each byte is
    /// looked at once however much comes.
    fn take_apart(&mut self) {
        if self.begun.is_none()
            && let Some(head) = find(&self.said, b"\r\n\r\n")
        {
            self.said.drain(..head + 4);
            self.begun = Some(String::new());
        }
        let Some(begun) = &mut self.begun else { return };
        while let Some(digits) = find(&self.said, b"\r\n") {
            let length = str::from_utf8(&self.said[..digits]).expect("ASCII");
            let length = usize::from_str_radix(length, 16).expect("the length of a chunk");
            let end = digits + 2 + length;
            if self.said.len() < end + 2 {
                break;
            }
            begun.push_str(str::from_utf8(&self.said[digits + 2..end]).expect("whole characters"));
            self.said.drain(..end + 2);
        }
        while let Some((block, rest)) = begun.split_once("\n\n") {
            self.events.extend(event(block));
            if let Some(id) = block.lines().find_map(|line| line.strip_prefix("id:")) {
                self.position = id.trim().to_owned();
            }
            *begun = rest.to_owned();
        }
    }

    /// The events so far.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Reads until the last id is this one.
    pub async fn at(&mut self, position: &str) {
        let begun = Instant::now();
        while self.position != position {
            let late = begun.elapsed() >= promised(HEARD_LIMIT);
            assert!(!late, "{:?} in place of {position}: {self}", self.position);
            self.read().await;
        }
    }

    /// Reads until there are so many. A stream without events is never silent: it says that it is
    /// alive.
    pub async fn heard(&mut self, count: usize) -> &[Event] {
        let begun = Instant::now();
        while self.events.len() < count {
            assert!(begun.elapsed() < promised(HEARD_LIMIT), "{count} events did not come: {self}");
            self.read().await;
        }
        &self.events
    }
}

impl Display for Listener {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let said = String::from_utf8_lossy(&self.said);
        write!(f, "{} events, then {:?} {said:.1000}", self.events.len(), self.begun)
    }
}

/// Where some bytes begin.
fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// The event of a block of lines; none if it is only a comment.
fn event(block: &str) -> Option<Event> {
    let field = |name: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim().to_owned())
    };
    let (name, data) = (field("event:")?, field("data:")?);
    let data = serde_json::from_str(&data).expect("JSON on one line");
    Some(Event { id: field("id:").unwrap_or_default(), name, data })
}
