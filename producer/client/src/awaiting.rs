//! How a program learns what became of its transactions: it waits, or it asks.
//!
//! Promises that a call that is dropped affects no transaction.

use std::collections::HashMap;
use std::time::Duration;

use crate::client::Client;
use crate::error::{Effect, Error, Server};
use crate::standing::{Outcome, Standing};
use crate::watch::standings;

impl Client {
    /// Waits until a transaction has come to its end or is held, however long that takes: put a
    /// time limit around the call if needed. Dropping the call does not affect the transaction.
    ///
    /// # Errors
    /// When there is no such transaction, or MongoDB stays away.
    pub async fn outcome(&self, id: &str) -> Result<Outcome, Error> {
        self.watch().put(id.into()).await.await.unwrap_or_else(|_| {
            // The task that would have answered has panicked, or its runtime has ended.
            let problem = "nobody is there any more to ask for it".to_owned();
            let (server, after, effect) = (Server::MongoDb, Duration::ZERO, Effect::None);
            Err(Error::Unavailable { server, problem, after, effect })
        })
    }

    /// The present state of transactions, by id; ids that do not exist are left out.
    ///
    /// # Errors
    /// When MongoDB stays away.
    pub async fn standings(&self, ids: &[&str]) -> Result<HashMap<String, Standing>, Error> {
        self.insist(|| standings(self.store(), ids)).await
    }
}
