//! The cost of settling while workers drain a queue, between two moments.
//!
//! Neither start nor end of the workers counts: the count begins when so many are settled, and ends
//! when so many more are. Fails when the workers get stuck, or one ends.

use std::time::Instant;

use super::counters::Counters;
use super::field::Field;
use super::tandem::Workers;
use super::usage::Cpu;

/// What was counted between the two moments.
#[derive(Clone, Debug)]
pub struct Drained {
    /// Transfers that were settled.
    pub transfers: u64,
    /// How long that took, in seconds.
    pub seconds: f64,
    /// What the server counted.
    pub counters: Counters,
    /// CPU seconds.
    pub cpu: Cpu,
}

impl Drained {
    /// Transfers by seconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a count of transfers is small")]
    pub fn per_s(&self) -> f64 {
        self.transfers as f64 / self.seconds
    }

    /// CPU seconds per 1,000 transfers.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a count of transfers is small")]
    pub fn cpu_per_1000(&self) -> Cpu {
        self.cpu.times(1_000.0 / self.transfers as f64)
    }
}

/// Waits until the workers have settled `to`, and counts from the moment when they had settled
/// `from`.
///
/// # Errors
/// When nothing happens for long, or a worker ends.
pub async fn drain(
    field: &Field,
    workers: &mut Workers,
    from: u64,
    to: u64,
) -> Result<Drained, String> {
    workers.wait_settled(from).await?;
    let before = field.read(&workers.pids()).await;
    let (begun, first) = (Instant::now(), workers.settled().await);
    workers.wait_settled(to).await?;
    let (seconds, last) = (begun.elapsed().as_secs_f64(), workers.settled().await);
    let (counters, cpu) = field.since(&before, &workers.pids()).await;
    Ok(Drained { transfers: (last - first).max(1), seconds, counters, cpu })
}
