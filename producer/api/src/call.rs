//! A request on its way to an operation: admitted, and with everything that the operation needs.

use std::ops::Deref;
use std::sync::Arc;

use super::Api;
use super::access::Access;
use super::received::Received;

/// A request that was admitted. Reads as what was received.
pub struct Call {
    /// What all requests share.
    pub api: Arc<Api>,
    /// What it may see and touch, and under which name it submits.
    pub access: Access,
    /// What came.
    pub received: Received,
}

impl Deref for Call {
    type Target = Received;

    fn deref(&self) -> &Received {
        &self.received
    }
}
