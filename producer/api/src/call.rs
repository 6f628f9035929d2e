//! A request on its way to an operation: admitted, and with everything that the operation needs.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use super::Api;
use super::access::Access;
use super::problem::Problem;
use super::rates::Rate;
use super::received::Received;

/// A request that was admitted. Reads as what was received.
pub struct Call {
    /// What all requests share.
    pub api: Arc<Api>,
    /// What it may see and touch, and under which name it submits.
    pub access: Access,
    /// The rate of who sends it, if there is a limit.
    pub rate: Option<Arc<Rate>>,
    /// What came.
    pub received: Received,
}

impl Call {
    /// Counts the items of an array. The request itself was counted as one of them.
    ///
    /// # Errors
    /// Beyond the rate.
    pub fn count_items(&self, items: usize) -> Result<(), Problem> {
        let more = u32::try_from(items.saturating_sub(1)).unwrap_or(u32::MAX);
        self.rate.as_ref().map_or(Ok(()), |rate| rate.count_items(more, Instant::now()))
    }
}

impl Deref for Call {
    type Target = Received;

    fn deref(&self) -> &Received {
        &self.received
    }
}
