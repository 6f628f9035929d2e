//! What pages for people show beyond what the operations answer.
//!
//! Promises the same as an operation that only reads: whoever asks needs the scope, and is told
//! within the time limit of a request; nothing is changed. Fails with the [`Problem`] that an
//! operation would answer.

use std::sync::Arc;

use mongo::{ParkedFilter, ParkedTransaction};

use super::Api;
use super::dispatch::within_limit;
use super::problem::Problem;
use super::routes;
use super::tokens::{Caller, Scope};

impl Api {
    /// An amount as a person reads it, in this currency if it is one.
    #[must_use]
    pub fn amount(&self, written: &str, currency: &str) -> String {
        let currency = Some(currency).filter(|currency| !currency.is_empty());
        self.client.store().notation().shown_text(written, currency)
    }

    /// Parked transactions with what they would move, the first `limit` of those that pass the
    /// filter.
    ///
    /// # Errors
    /// As the operation `listParked`.
    pub async fn parked_transactions(
        self: &Arc<Api>,
        caller: &Caller,
        filter: ParkedFilter,
        limit: u32,
    ) -> Result<Vec<ParkedTransaction>, Problem> {
        routes::named("listParked").admit(caller)?;
        let api = self.clone();
        let look = async move { Ok(api.client.parked_transactions(&filter, limit).await?) };
        within_limit(self, "parkedTransactions", look).await
    }

    /// The database's clock, in milliseconds since 1970.
    ///
    /// # Errors
    /// As an operation that needs the scope `read`.
    pub async fn database_now(self: &Arc<Api>, caller: &Caller) -> Result<i64, Problem> {
        caller.require(Scope::Read)?;
        let api = self.clone();
        let look = async move { Ok(api.client.database_now().await?) };
        within_limit(self, "databaseNow", look).await
    }

    /// Whether the event of a transaction still waits for a confirm of the broker.
    ///
    /// # Errors
    /// As an operation that needs the scope `read`.
    pub async fn event_is_due(self: &Arc<Api>, caller: &Caller, id: &str) -> Result<bool, Problem> {
        caller.require(Scope::Read)?;
        let (api, id) = (self.clone(), id.to_owned());
        let look = async move { Ok(api.client.event_is_due(&id).await?) };
        within_limit(self, "eventIsDue", look).await
    }
}
