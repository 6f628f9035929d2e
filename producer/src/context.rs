//! The servers a command works on, and how long it insists when one of them is away.
//!
//! Promises that what passes by itself (a fail-over, a broker's restart) is tried again until
//! `give_up_after`, with a note on standard error. What to do after a failure is the command's to say
//! ([`Context::advice`]).

use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::ledger::LedgerError;
use common::mongo::{NotReady, Store};
use common::queue::{Publisher, QueueError};
use common::retry::{Policy, jitter};

use crate::advice::Advice;
use crate::console::Console;
use crate::error::Error;

/// Every how many failed attempts a note is said again.
const NOTE_EVERY: u32 = 5;

/// See the module.
pub struct Context {
    /// The database.
    pub store: Store,
    /// The queue.
    pub publisher: Publisher,
    /// Where notes and progress go.
    pub console: Arc<Console>,
    /// How long a server may be away, from the first failure on.
    pub give_up_after: Duration,
    /// What the running command advises if it does not come to its end.
    pub advice: Advice,
}

/// Whether an error may pass by itself.
pub(crate) trait Passing: Display {
    fn passes(&self) -> bool;
    fn server() -> &'static str;
}

impl Passing for LedgerError {
    fn passes(&self) -> bool {
        LedgerError::passes(self)
    }

    fn server() -> &'static str {
        "MongoDB: "
    }
}

impl Passing for NotReady {
    fn passes(&self) -> bool {
        self.passes()
    }

    // The error names the server where it is one of the server.
    fn server() -> &'static str {
        ""
    }
}

impl Passing for QueueError {
    fn passes(&self) -> bool {
        !self.lasts()
    }

    // The error names the broker itself.
    fn server() -> &'static str {
        ""
    }
}

impl Context {
    /// A context that insists for a minute.
    #[must_use]
    pub fn new(store: Store, publisher: Publisher) -> Context {
        let give_up_after = Duration::from_secs(60);
        let (console, advice) = (Arc::default(), Advice::default());
        Context { store, publisher, console, give_up_after, advice }
    }

    /// Checks the database, and writes nothing.
    ///
    /// # Errors
    /// When the server stays away or refuses, or the database is not as this version needs it.
    pub async fn check_schema(&self) -> Result<(), Error> {
        self.insist(|| self.store.check_schema()).await
    }

    /// Checks that this version knows what the ledger's settings name.
    ///
    /// # Errors
    /// When it does not, or the server stays away or refuses.
    pub async fn check_settings(&self) -> Result<(), Error> {
        self.insist(|| self.store.check_settings()).await
    }

    /// Checks the database; a fresh one is set up.
    ///
    /// # Errors
    /// As [`Context::check_schema`].
    pub async fn ensure_schema(&self) -> Result<(), Error> {
        self.insist(|| self.store.ensure_schema()).await
    }

    /// Creates what is missing on the broker.
    ///
    /// # Errors
    /// When the broker stays away or refuses.
    pub async fn ensure_queue(&self) -> Result<(), Error> {
        self.insist(|| self.publisher.ensure()).await
    }

    /// Tries until it works, fails for good, or the patience is over.
    pub(crate) async fn insist<T, E, F>(&self, mut attempt: impl FnMut() -> F) -> Result<T, Error>
    where
        E: Passing,
        F: Future<Output = Result<T, E>>,
    {
        let mut failed_since: Option<Instant> = None;
        let mut failures = 0;
        loop {
            let error = match attempt().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let name = E::server();
            if !error.passes() {
                return Err(Error::Failed(format!("{name}{error}")));
            }
            let since = *failed_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= self.give_up_after {
                let seconds = self.give_up_after.as_secs();
                return Err(Error::Failed(format!("{name}{error}; given up after {seconds} s")));
            }
            failures += 1;
            if failures % NOTE_EVERY == 1 {
                self.console.note(format!("{name}{error}; trying again"));
            }
            tokio::time::sleep(Policy::RECONNECT.delay(failures, jitter())).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use common::config::{AmqpArgs, MongoArgs};

    use super::*;

    async fn context(give_up_after: Duration) -> Context {
        let mongo = MongoArgs {
            mongodb_uri: "mongodb://127.0.0.1:1/t".to_owned(),
            database: None,
            one_document_statements: false,
        };
        let amqp = AmqpArgs {
            amqp_url: "amqp://127.0.0.1:1".to_owned(),
            queue_prefix: "unused".to_owned(),
        };
        let store = Store::connect(&mongo, "test", Duration::from_secs(1)).await.expect("a URI");
        let publisher = Publisher::new(&amqp, "test");
        Context {
            give_up_after,
            console: Arc::new(Console::quiet()),
            ..Context::new(store, publisher)
        }
    }

    fn failure(passes: bool) -> LedgerError {
        match passes {
            true => LedgerError::passing("test", "away"),
            false => LedgerError::lasting("test", "no"),
        }
    }

    #[tokio::test]
    async fn what_passes_is_tried_again_and_what_lasts_is_not() {
        let context = context(Duration::from_secs(30)).await;
        let tries = Cell::new(0);
        let attempt = |passes| {
            tries.set(tries.get() + 1);
            let done = tries.get() == 2;
            async move { if done { Ok(()) } else { Err(failure(passes)) } }
        };
        assert!(context.insist(|| attempt(true)).await.is_ok());
        assert_eq!(tries.get(), 2);
        tries.set(0);
        assert!(context.insist(|| attempt(false)).await.is_err());
        assert_eq!(tries.get(), 1);
    }

    #[tokio::test]
    async fn giving_up_says_what_the_command_advises() {
        let context = context(Duration::ZERO).await;
        context.advice.set("repeat with --id t");
        let error = context.insist(|| async { Err::<(), _>(failure(true)) }).await;
        let told = error.expect_err("given up").told(&context.advice).unwrap_or_default();
        assert!(told.ends_with("given up after 0 s; repeat with --id t"), "{told}");
    }
}
