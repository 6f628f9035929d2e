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

use super::problem::{Code, Problem};

/// The most bytes of all bodies together, unless a single one may be larger. What is read of a body
/// takes up to fifteen times as much: so a server stays within the 512 MiB that the manifests grant.
pub const BYTES_MAX: usize = 24 << 20;

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

    /// Reads a body of at most so many bytes, within so much time. Where it may have none, it is
    /// not read at all.
    pub async fn read(
        &self,
        body: Body,
        most: usize,
        limit: Duration,
    ) -> Result<HeldBody, Problem> {
        let too_slow = |_| Problem::new(Code::RequestTimeout, "the body did not come in time");
        tokio::time::timeout(limit, self.read_on(body, most)).await.map_err(too_slow)?
    }

    async fn read_on(&self, body: Body, most: usize) -> Result<HeldBody, Problem> {
        let mut body = Limited::new(body, most);
        let mut bytes = Vec::new();
        let mut taken: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = body.frame().await {
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

    const LIMIT: Duration = Duration::from_secs(60);

    fn code(read: Result<HeldBody, Problem>) -> Option<Code> {
        read.err().map(|problem| problem.code)
    }

    #[tokio::test]
    async fn all_bodies_together_take_no_more_than_their_room() {
        let memory = BodyMemory::new(10);
        let first = memory.read(Body::from("123456"), 8, LIMIT).await.expect("there is room");
        assert_eq!(first.bytes, "123456");
        assert_eq!(code(memory.read(Body::from("12345"), 8, LIMIT).await), Some(Code::Unavailable));
        let second = memory.read(Body::from("1234"), 8, LIMIT).await.expect("there is room for it");
        drop((first, second));
        let large = Body::from("123456789");
        assert_eq!(code(memory.read(large, 8, LIMIT).await), Some(Code::TooLarge));
        assert!(
            memory.read(Body::from("12345678"), 8, LIMIT).await.is_ok(),
            "all of it is free again"
        );
    }

    #[tokio::test]
    async fn nothing_is_read_where_there_must_be_no_body() {
        let memory = BodyMemory::new(10);
        assert_eq!(code(memory.read(Body::from("1"), 0, LIMIT).await), Some(Code::Malformed));
        assert!(memory.read(Body::empty(), 0, LIMIT).await.is_ok());
    }
}
