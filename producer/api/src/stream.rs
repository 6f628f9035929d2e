//! A connection that is given up when its other end takes nothing of what is written to it.
//!
//! Promises that a caller that reads nothing holds a connection for a limited time only: hyper
//! limits how long headers may take to come, but not how long an answer may take to be read.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::time::{Instant, Sleep, sleep};

/// A connection with a limit on how long a write may wait.
pub struct Stream<S> {
    inner: S,
    limit: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Stream<S> {
    /// A connection whose writes may wait so long.
    pub fn new(inner: S, limit: Duration) -> Stream<S> {
        Stream { inner, limit, waiting: None }
    }

    /// What a write has come to, or an error if writes have waited too long by now.
    fn limited<T>(&mut self, cx: &mut Context<'_>, wrote: Poll<Result<T>>) -> Poll<Result<T>> {
        if wrote.is_ready() {
            self.waiting = None;
            return wrote;
        }
        let limit = self.limit;
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
        Pin::new(&mut self.inner).poll_read(cx, buffer)
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
