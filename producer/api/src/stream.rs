//! A connection that is given up when its other end takes too long.
//!
//! Owns three limits of a connection: how long the head of a request may take to come, how long a
//! connection may be idle between an answer and the next request, and how long nothing of an answer
//! may be read. hyper has one limit for the first two, and none for the third. Promises that a
//! caller that sends slowly, sends nothing, or reads nothing holds a connection for a limited time
//! only. While a request is answered, nothing is expected of its sender: the body has limits of its
//! own (`bodies`). Fails with an error of the connection, which ends it.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::time::{Instant, Sleep, sleep};

/// How long a connection may wait for its other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// From the first byte of a request to the end of its head; of the first request, from the
    /// beginning of the connection.
    pub head: Duration,
    /// From the end of an answer to the first byte of the next request.
    pub idle: Duration,
    /// Without a byte of an answer that is read.
    pub stall: Duration,
}

/// Whose turn it is on a connection: a number that goes up when a request has come and when its
/// answer has been sent. So while it is odd, the server answers.
#[derive(Clone, Default)]
pub struct Turns(Arc<AtomicU64>);

impl Turns {
    /// The head of a request has come.
    pub fn answer(&self) -> Answering {
        self.0.fetch_add(1, Ordering::Relaxed);
        Answering(self.clone())
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A request is answered until this is dropped.
pub struct Answering(Turns);

impl Answering {
    /// The content of the answer: when all of it is sent, or when it is given up, it is the other
    /// end's turn again.
    pub fn through(self, body: Body) -> Body {
        Body::new(Content { body, _answering: self })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct Content {
    body: Body,
    _answering: Answering,
}

impl HttpBody for Content {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection with limits on how long its other end may take.
pub struct Stream<S> {
    inner: S,
    patience: Patience,
    turns: Turns,
    /// Whose turn it was at the last read.
    turn: u64,
    /// Whether something of a head has come in this turn.
    has_begun: bool,
    /// Runs while a request is waited for.
    coming: Option<Pin<Box<Sleep>>>,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Stream<S> {
    /// A new connection. `turns` says when requests are answered on it.
    pub fn new(inner: S, patience: Patience, turns: Turns) -> Stream<S> {
        let coming = Some(Box::pin(sleep(patience.head)));
        Stream { inner, patience, turns, turn: 0, has_begun: true, coming, waiting: None }
    }

    /// Notes whose turn it is: the other end's, if it is waited for.
    fn note_turn(&mut self) {
        let turn = self.turns.now();
        if turn == self.turn {
            return;
        }
        self.turn = turn;
        self.has_begun = false;
        let is_other_end_s = turn.is_multiple_of(2);
        self.coming = is_other_end_s.then(|| Box::pin(sleep(self.patience.idle)));
    }

    /// Something has come: if it is the first of a head, the rest has to follow soon.
    fn note_bytes(&mut self) {
        if let Some(coming) = self.coming.as_mut().filter(|_| !self.has_begun) {
            self.has_begun = true;
            coming.as_mut().reset(Instant::now() + self.patience.head);
        }
    }

    /// What a write has come to, or an error if writes have waited too long by now.
    fn limited<T>(&mut self, cx: &mut Context<'_>, wrote: Poll<Result<T>>) -> Poll<Result<T>> {
        if wrote.is_ready() {
            self.waiting = None;
            return wrote;
        }
        let limit = self.patience.stall;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        // Also registers the task to be woken at that moment.
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => {
                // A caller that polls again after the error waits anew.
                waiting.as_mut().reset(Instant::now() + limit);
                Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "nothing of the answer is read")))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: Read + Unpin> Read for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<Result<()>> {
        self.note_turn();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if read.is_ready() {
            self.note_bytes();
            return read;
        }
        let Some(coming) = &mut self.coming else { return Poll::Pending };
        // Also registers the task to be woken at that moment.
        ready!(coming.as_mut().poll(cx));
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "no request came in time")))
    }
}

impl<S: Write + Unpin> Write for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let wrote = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.limited(cx, wrote)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.limited(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let shut = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.limited(cx, shut)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[std::io::IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let wrote = Pin::new(&mut self.inner).poll_write_vectored(cx, pieces);
        self.limited(cx, wrote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(60);

    /// A connection, its other end, and whose turn it is.
    fn connected(
        head: Duration,
        idle: Duration,
    ) -> (TokioIo<Stream<TokioIo<DuplexStream>>>, DuplexStream, Turns) {
        let ((ours, theirs), turns) = (duplex(8), Turns::default());
        let patience = Patience { head, idle, stall: LONG };
        let stream = Stream::new(TokioIo::new(ours), patience, turns.clone());
        (TokioIo::new(stream), theirs, turns)
    }

    /// How long it takes until a connection is given up, on which a byte comes now and then, if
    /// somebody sends.
    async fn given_up_after(
        stream: &mut (impl tokio::io::AsyncRead + Unpin),
        mut sender: Option<DuplexStream>,
    ) -> Duration {
        let begun = Instant::now();
        while begun.elapsed() < LONG {
            if let Some(sender) = &mut sender {
                sender.write_u8(1).await.expect("there is room");
            }
            // As hyper does, it reads until there is nothing more.
            while let Ok(read) = tokio::time::timeout(SHORT / 10, stream.read_u8()).await {
                let Err(error) = read else { continue };
                assert_eq!(error.kind(), ErrorKind::TimedOut);
                return begun.elapsed();
            }
        }
        panic!("it is not given up");
    }

    #[tokio::test]
    async fn a_head_has_its_time_from_its_first_byte_and_an_idle_connection_another() {
        let (mut silent, _theirs, _) = connected(SHORT, LONG);
        assert!(given_up_after(&mut silent, None).await >= SHORT, "nothing was ever sent");

        let (mut dribbling, theirs, turns) = connected(SHORT, LONG);
        drop(turns.answer());
        assert!(given_up_after(&mut dribbling, Some(theirs)).await >= SHORT, "it has begun a head");

        let (mut idle, _theirs, turns) = connected(LONG, SHORT);
        drop(turns.answer());
        assert!(given_up_after(&mut idle, None).await >= SHORT, "no further request came");
    }

    #[tokio::test]
    async fn while_a_request_is_answered_nothing_is_expected_of_its_sender() {
        let (mut stream, _theirs, turns) = connected(SHORT, SHORT);
        let answering = turns.answer();
        tokio::time::timeout(4 * SHORT, stream.read_u8()).await.expect_err("it waits on");
        let body = answering.through(Body::from("abc"));
        assert_eq!(body.size_hint().exact(), Some(3));
        tokio::time::timeout(4 * SHORT, stream.read_u8()).await.expect_err("it waits on");
        drop(body);
        assert!(given_up_after(&mut stream, None).await >= SHORT);
    }
}
