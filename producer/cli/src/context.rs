//! What every command works with.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, Rules};
use ledger::remedy::Remedy;

use crate::advice::{Advice, Todo};
use crate::console::Console;
use crate::exit::Error;

/// How often whoever waits looks whether settlement is paused.
const LOOK_EVERY: Duration = Duration::from_secs(5);

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
    /// Waits for something that workers have to do. Says so, once, if settlement is paused
    /// meanwhile: then it is not done before somebody lets settlement go on.
    pub async fn waiting<T>(&self, ended: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            ended = ended => ended,
            never = self.tell_of_pause() => match never {},
        }
    }

    async fn tell_of_pause(&self) -> Infallible {
        while !self.note_pause().await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        std::future::pending().await
    }

    /// Says that settlement is paused, if it is. A courtesy: where that can't be looked at, nothing
    /// is said. Returns whether something was.
    pub async fn note_pause(&self) -> bool {
        let said = self.client.store().settlement().await.ok().flatten();
        let Some(pause) = said.filter(|said| said.paused) else { return false };
        let sentence =
            format!("settlement is paused {}; what waits is settled after", pause.told());
        self.console.note(Todo::with(sentence, Remedy::Resume.command()).to_string());
        true
    }

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
