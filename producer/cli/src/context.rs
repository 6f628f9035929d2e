//! What every command works with.

use std::sync::Arc;

use client::Client;

use crate::advice::Advice;
use crate::console::Console;

/// What every command of the program needs.
pub struct Context {
    /// The ledger.
    pub client: Client,
    /// Where notes and progress go.
    pub console: Arc<Console>,
    /// What the running command advises if it does not come to its end.
    pub advice: Advice,
}
