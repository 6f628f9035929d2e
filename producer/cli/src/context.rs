//! What every command works with.

use std::sync::Arc;

use client::{Client, Rules};

use crate::advice::Advice;
use crate::console::Console;
use crate::exit::Error;

/// What every command of the program needs.
pub struct Context {
    /// The ledger.
    pub client: Client,
    /// Where notes and progress go.
    pub console: Arc<Console>,
    /// What the running command advises if it does not come to its end.
    pub advice: Advice,
}

impl Context {
    /// An error if the ledger was set up otherwise while a file was read.
    ///
    /// # Errors
    /// When it asks for other ids or amounts than then.
    pub fn require_same(&self, rules: &Rules) -> Result<(), Error> {
        if self.client.rules() == *rules {
            return Ok(());
        }
        let problem = "the ledger was set up while the file was read, and asks for other ids or \
                       amounts; nothing was written. Run the same command again";
        Err(Error::Failed(problem.to_owned()))
    }
}
