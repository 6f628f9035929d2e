//! MongoDB's wire protocol as far as a proxy needs it: where a message ends, which request a reply
//! answers, which of Tandem's operations a request is, and where its fence is.

use std::io;

use mongodb::bson::{Document, RawDocument};
use tokio::io::{AsyncRead, AsyncReadExt};

const HEADER_BYTES: usize = 16;
/// The server's own limit.
const MESSAGE_BYTES_MAX: usize = 48_000_000;
const OP_MSG: i32 = 2013;
/// Length, then kind 0: one document.
const BODY_KIND: u8 = 0;

/// The bytes before the date in a post's guard `{$lt: ["$$NOW", <date>]}`: the string element "0",
/// then the type and name of the date element "1".
const FENCE: &[u8] = b"\x020\0\x06\0\0\0$$NOW\0\x091\0";

/// 9999-12-31, in milliseconds: a fence that never closes.
const NEVER_MS: i64 = 253_402_214_400_000;

/// One message, header included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame(Vec<u8>);

impl Frame {
    /// Reads one message; `None` if the stream ends between two messages.
    ///
    /// # Errors
    /// When the stream fails, ends inside a message, or does not speak this protocol.
    pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Frame>> {
        let mut bytes = vec![0; HEADER_BYTES];
        if stream.read(&mut bytes[..1]).await? == 0 {
            return Ok(None);
        }
        stream.read_exact(&mut bytes[1..]).await?;
        let length = usize::try_from(int(&bytes, 0)).unwrap_or(0);
        if !(HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&length) {
            return Err(io::Error::other(format!("a message of {length} bytes")));
        }
        bytes.resize(length, 0);
        stream.read_exact(&mut bytes[HEADER_BYTES..]).await?;
        Ok(Some(Frame(bytes)))
    }

    /// The message as it goes over the wire.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The number that the sender gave it.
    #[must_use]
    pub fn request_id(&self) -> i32 {
        int(&self.0, 4)
    }

    /// The number of the request that it answers.
    #[must_use]
    pub fn response_to(&self) -> i32 {
        int(&self.0, 8)
    }

    /// Which of Tandem's operations it asks for: `post` for a comment `tandem post`. Inserts and
    /// commits have no comment, and are known by their command.
    #[must_use]
    pub fn operation(&self) -> Option<&str> {
        let body = self.body()?;
        match body.get_str("comment") {
            Ok(comment) => comment.strip_prefix("tandem "),
            Err(_) if body.get_str("insert").is_ok() => Some("insert"),
            Err(_) => body.get_i32("commitTransaction").is_ok().then_some("commit"),
        }
    }

    /// Whether the message contains this text as a whole string.
    #[must_use]
    pub fn mentions(&self, text: &str) -> bool {
        let mut needle = u32::try_from(text.len() + 1).unwrap_or(0).to_le_bytes().to_vec();
        needle.extend(text.as_bytes());
        needle.push(0);
        self.0.windows(needle.len()).any(|bytes| bytes == needle)
    }

    /// Replaces every `from` by `to`.
    ///
    /// # Panics
    /// When they differ in length: other lengths in the message would become wrong.
    pub fn replace(&mut self, from: &[u8], to: &[u8]) {
        assert_eq!(from.len(), to.len(), "a message keeps its length");
        let mut at = 0;
        while let Some(found) = self.0[at..].windows(from.len()).position(|bytes| bytes == from) {
            at += found;
            self.0[at..at + to.len()].copy_from_slice(to);
            at += to.len();
        }
    }

    /// The document of the message, if it has one in front.
    pub(super) fn body(&self) -> Option<&RawDocument> {
        if int(&self.0, 12) != OP_MSG {
            return None;
        }
        let sections = self.0.get(HEADER_BYTES + 4..)?;
        let (kind, document) = sections.split_first()?;
        let length = usize::try_from(int(document.get(..4)?, 0)).ok()?;
        if *kind != BODY_KIND {
            return None;
        }
        RawDocument::from_bytes(document.get(..length)?).ok()
    }

    /// Moves every fence in it to a day that never comes; returns how many there were.
    pub fn take_fence_out(&mut self) -> usize {
        let mut found = 0;
        let mut from = 0;
        while let Some(at) = self.0[from..].windows(FENCE.len()).position(|bytes| bytes == FENCE) {
            let date = from + at + FENCE.len();
            self.0[date..date + 8].copy_from_slice(&NEVER_MS.to_le_bytes());
            found += 1;
            from = date + 8;
        }
        found
    }
}

fn int(bytes: &[u8], at: usize) -> i32 {
    i32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// A message of one document; an answer if it is `to` a request.
pub(super) fn message(id: i32, to: i32, body: &Document) -> Vec<u8> {
    let body = body.to_vec().expect("a document serializes");
    let length = i32::try_from(HEADER_BYTES + 5 + body.len()).expect("a small message");
    let mut bytes = Vec::new();
    for number in [length, id, to, OP_MSG, 0] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.push(BODY_KIND);
    bytes.extend(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::{DateTime, doc};

    #[tokio::test]
    async fn messages_are_cut_out_of_a_stream() {
        let first = message(1, 0, &doc! { "ping": 1, "comment": "tandem post" });
        let second = message(2, 1, &doc! { "ok": 1 });
        let stream = [first.clone(), second.clone()].concat();
        let mut stream = stream.as_slice();
        let read = Frame::read(&mut stream).await.expect("whole").expect("not the end");
        assert_eq!((read.bytes(), read.request_id()), (first.as_slice(), 1));
        assert_eq!(read.operation(), Some("post"));
        assert!(read.mentions("tandem post") && !read.mentions("post"));
        let read = Frame::read(&mut stream).await.expect("whole").expect("not the end");
        assert_eq!((read.response_to(), read.operation()), (1, None));
        let insert = message(3, 0, &doc! { "insert": "transactions" });
        let read = Frame::read(&mut insert.as_slice()).await.expect("whole").expect("one");
        assert_eq!(read.operation(), Some("insert"));
        assert_eq!(Frame::read(&mut stream).await.expect("the end"), None);
    }

    #[tokio::test]
    async fn half_a_message_is_an_error() {
        let whole = message(1, 0, &doc! { "ping": 1 });
        assert!(Frame::read(&mut &whole[..whole.len() - 1]).await.is_err());
        assert!(Frame::read(&mut &whole[..3]).await.is_err());
        assert!(Frame::read(&mut &[0_u8; 16][..]).await.is_err());
    }

    #[tokio::test]
    async fn only_the_fence_moves_when_it_is_taken_out() {
        let statement = |until: i64| {
            let fence = doc! { "$lt": ["$$NOW", DateTime::from_millis(until)] };
            let other = doc! { "$lt": ["$createdAt", DateTime::from_millis(7)] };
            doc! { "q": { "_id": "a" }, "u": [{ "$cond": [{ "$and": [fence, other] }, 1, 2] }] }
        };
        let command = |until: i64| {
            doc! { "update": "accounts", "updates": [statement(until), statement(until)] }
        };
        let bytes = message(1, 0, &command(5));
        let mut frame = Frame::read(&mut bytes.as_slice()).await.expect("whole").expect("one");
        assert_eq!(frame.take_fence_out(), 2);
        assert_eq!(frame.bytes(), message(1, 0, &command(NEVER_MS)));
    }
}
