//! How much the client library may read from the broker before somebody takes it.
//!
//! The library reads whatever comes and keeps it, so messages that the broker has sent ahead could
//! take any amount of memory: the broker counts messages, and not their bytes. Promises that no
//! more than a limit, and one message, is read that nobody has taken; the rest stays with the
//! broker. Whoever consumes has to say what it takes, and when nothing is left.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use async_rs::Tokio;
use async_rs::traits::Reactor;
use futures_io::{AsyncRead, AsyncWrite};
use futures_util::Stream;

/// Stands between a connection and the client library.
#[derive(Debug)]
pub struct Gate {
    unread_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes that were read, and were not taken by anybody.
    untaken: usize,
    /// Nothing is read any more: the library sees the end of the connection.
    ended: bool,
    reader: Option<Waker>,
}

impl Gate {
    /// A gate that lets so many bytes through before any of them is taken.
    #[must_use]
    pub fn new(unread_max: usize) -> Arc<Gate> {
        Arc::new(Gate { unread_max, state: Mutex::default() })
    }

    /// How many bytes were read that nobody has taken, as far as is known.
    #[must_use]
    pub fn untaken(&self) -> usize {
        self.state().untaken
    }

    /// Whether there are such.
    #[must_use]
    pub fn has_untaken(&self) -> bool {
        self.untaken() > 0
    }

    /// Takes notice that so many bytes were taken.
    pub fn took(&self, bytes: usize) {
        let mut state = self.state();
        state.untaken = state.untaken.saturating_sub(bytes);
        self.wake(state);
    }

    /// Takes notice that nothing is left to take.
    pub fn took_all(&self) {
        self.took(usize::MAX);
    }

    /// Ends the connection for the library, whatever the broker still sends.
    pub fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        self.wake(state);
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        if state.ended || state.untaken < self.unread_max {
            let reader = state.reader.take();
            drop(state);
            reader.into_iter().for_each(Waker::wake);
        }
    }

    /// How much may be read now: nothing at the end; pending while too much is not taken.
    fn poll_room(&self, context: &Context<'_>) -> Poll<usize> {
        let mut state = self.state();
        if state.ended {
            return Poll::Ready(0);
        }
        match self.unread_max.saturating_sub(state.untaken) {
            0 => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
            room => Poll::Ready(room),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

/// Tokio's, but what is read goes through a gate.
#[derive(Clone, Debug)]
pub(super) struct GatedReactor {
    pub tokio: Tokio,
    pub gate: Arc<Gate>,
}

/// A connection behind a gate.
pub(super) struct GatedStream {
    stream: <Tokio as Reactor>::TcpStream,
    gate: Arc<Gate>,
}

impl Reactor for GatedReactor {
    type TcpStream = GatedStream;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: io::Read + io::Write + AsFd + AsRawFd + Send + 'static>(
        &self,
        socket: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        self.tokio.register(socket)
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.tokio.sleep(duration)
    }

    fn interval(&self, every: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.tokio.interval(every)
    }

    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<GatedStream>> + Send + 'static {
        let (connecting, gate) = (self.tokio.tcp_connect_addr(address), self.gate.clone());
        async move { Ok(GatedStream { stream: connecting.await?, gate }) }
    }
}

impl AsyncRead for GatedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let room = match this.gate.poll_room(context) {
            Poll::Ready(room) => room.min(buffer.len()),
            Poll::Pending => return Poll::Pending,
        };
        if room == 0 {
            return Poll::Ready(Ok(0));
        }
        let read = Pin::new(&mut this.stream).poll_read(context, &mut buffer[..room]);
        if let Poll::Ready(Ok(bytes)) = &read {
            this.gate.state().untaken += bytes;
        }
        read
    }
}

impl AsyncWrite for GatedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_close(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_the_limit_until_somebody_takes_it() {
        let gate = Gate::new(100);
        let context = Context::from_waker(Waker::noop());
        assert_eq!(gate.poll_room(&context), Poll::Ready(100));
        gate.state().untaken += 99;
        assert_eq!(gate.poll_room(&context), Poll::Ready(1));
        gate.state().untaken += 1;
        assert_eq!(gate.poll_room(&context), Poll::Pending);
        assert!(gate.state().reader.is_some(), "it is woken later");
        gate.took(30);
        assert!(gate.state().reader.is_none(), "it was woken");
        assert_eq!(gate.poll_room(&context), Poll::Ready(30));
        assert!(gate.has_untaken());
        gate.took_all();
        assert!(!gate.has_untaken());
        gate.end();
        assert_eq!(gate.poll_room(&context), Poll::Ready(0));
    }
}
