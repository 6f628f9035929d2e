//! Bodies of requests, and how much memory all of them may take together.
//!
//! Promises that what many callers send at once, however slowly, never takes more than the memory
//! there is for them. A request whose body finds no memory is refused at once, so that nobody waits
//! for a slow sender.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::problem::{Code, Problem};

/// The most bytes of all bodies together, unless a single one may be larger. What is read of a body
/// takes up to fifteen times as much: so a server stays within the 512 MiB that the manifests grant.
pub const BYTES_MAX: usize = 24 << 20;

/// What a body may take.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// The most bytes. Where it may have none, it is not read at all.
    pub bytes: usize,
    /// How long nothing of it may come.
    pub stall: Duration,
    /// How long all of it may take to come.
    pub total: Duration,
}

/// The memory for bodies.
pub struct BodyMemory(Arc<Semaphore>);

/// A body, and its part of the memory until it is dropped.
pub struct HeldBody {
    /// The body.
    pub bytes: Bytes,
    _memory: Option<OwnedSemaphorePermit>,
}

impl BodyMemory {
    /// Memory for so many bytes.
    pub fn new(bytes: usize) -> BodyMemory {
        BodyMemory(Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))))
    }

    /// Reads a body within these limits.
    pub async fn read(&self, body: Body, limits: BodyLimits) -> Result<HeldBody, Problem> {
        let reading = timeout(limits.total, self.read_on(body, limits));
        let late =
            |_| too_slow(format_args!("all of the body must come within {:?}", limits.total));
        reading.await.map_err(late)?
    }

    async fn read_on(&self, body: Body, limits: BodyLimits) -> Result<HeldBody, Problem> {
        let BodyLimits { bytes: most, stall, .. } = limits;
        let stalled = |_| too_slow(format_args!("nothing of the body has come for {stall:?}"));
        let mut body = Limited::new(body, most);
        let mut bytes = Vec::new();
        let mut taken: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = timeout(stall, body.frame()).await.map_err(stalled)? {
            let Ok(data) = frame.map_err(|error| broken(&*error, most))?.into_data() else {
                continue;
            };
            let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
            let more = self.0.clone().try_acquire_many_owned(length).map_err(|_| {
                Problem::new(Code::Unavailable, "too many bodies are being read; try again")
            })?;
            match &mut taken {
                Some(taken) => taken.merge(more),
                None => taken = Some(more),
            }
            bytes.extend_from_slice(&data);
        }
        Ok(HeldBody { bytes: bytes.into(), _memory: taken })
    }
}

fn too_slow(what: std::fmt::Arguments<'_>) -> Problem {
    Problem::new(Code::RequestTimeout, format!("the body did not come in time: {what}"))
}

fn broken(error: &(dyn std::error::Error + 'static), most: usize) -> Problem {
    match (error.is::<LengthLimitError>(), most) {
        (true, 0) => Problem::new(Code::Malformed, "there must be no body here"),
        (true, _) => Problem::new(Code::TooLarge, format!("the body has more than {most} bytes")),
        (false, _) => Problem::new(Code::Malformed, "the body broke off"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn limits(bytes: usize) -> BodyLimits {
        BodyLimits { bytes, stall: Duration::from_secs(30), total: Duration::from_secs(60) }
    }

    fn code(read: Result<HeldBody, Problem>) -> Option<Code> {
        read.err().map(|problem| problem.code)
    }

    #[tokio::test]
    async fn all_bodies_together_take_no_more_than_their_room() {
        let memory = BodyMemory::new(10);
        let first = memory.read(Body::from("123456"), limits(8)).await.expect("there is room");
        assert_eq!(first.bytes, "123456");
        assert_eq!(
            code(memory.read(Body::from("12345"), limits(8)).await),
            Some(Code::Unavailable)
        );
        let second =
            memory.read(Body::from("1234"), limits(8)).await.expect("there is room for it");
        drop((first, second));
        let large = Body::from("123456789");
        assert_eq!(code(memory.read(large, limits(8)).await), Some(Code::TooLarge));
        assert!(
            memory.read(Body::from("12345678"), limits(8)).await.is_ok(),
            "all of it is free again"
        );
    }

    #[tokio::test]
    async fn nothing_is_read_where_there_must_be_no_body() {
        let memory = BodyMemory::new(10);
        assert_eq!(code(memory.read(Body::from("1"), limits(0)).await), Some(Code::Malformed));
        assert!(memory.read(Body::empty(), limits(0)).await.is_ok());
    }

    /// A body of one byte after the other, so many milliseconds apart, without an end.
    fn every(apart_ms: u64) -> Body {
        let pieces = futures_util::stream::unfold((), move |()| async move {
            tokio::time::sleep(Duration::from_millis(apart_ms)).await;
            Some((Ok::<_, std::convert::Infallible>("x"), ()))
        });
        Body::from_stream(pieces)
    }

    #[tokio::test]
    async fn a_body_that_stalls_is_given_up_and_one_that_goes_on_has_its_whole_time() {
        let memory = BodyMemory::new(1_000);
        let (stall, total) = (Duration::from_millis(100), Duration::from_millis(300));
        for (apart_ms, why) in [(60_000, "nothing of the body"), (1, "all of the body")] {
            let begun = Instant::now();
            let read = memory.read(every(apart_ms), BodyLimits { bytes: 1_000, stall, total });
            let problem = read.await.err().expect("it has no end");
            assert_eq!(problem.code, Code::RequestTimeout);
            assert!(problem.detail.contains(why), "{problem:?}");
            assert!(begun.elapsed() >= if apart_ms == 1 { total } else { stall });
        }
    }
}
