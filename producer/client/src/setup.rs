//! Setting a database and its queues up, and saying what they lack.

use mongo::{Choice, Foreign, Inspection, NotReady, Role};

use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Checks the database, and writes nothing.
    ///
    /// # Errors
    /// When the server stays away or refuses, or the database is not as this version needs it.
    pub async fn check_schema(&self) -> Result<(), Error> {
        self.insist(|| before(self.store().check_schema())).await
    }

    /// Checks that this version knows what the ledger's settings name, and that the server removes
    /// no documents of the ledger. Enough for who only reads.
    ///
    /// # Errors
    /// When one of the two is not so, or the server stays away or refuses.
    pub async fn check_ground(&self) -> Result<(), Error> {
        let check = async || {
            let settings = self.store().check_settings().await?;
            self.store().check_ground(settings).await
        };
        self.insist(|| before(check())).await.map(drop)
    }

    /// Remembers in a ledger that is set up which indexes
    /// [`Config::accept_indexes`](crate::Config::accept_indexes) names, so that every start accepts
    /// them.
    ///
    /// # Errors
    /// When the server stays away or refuses.
    pub async fn remember_accepted(&self) -> Result<(), Error> {
        self.insist(|| self.store().remember_accepted()).await
    }

    /// Remembers in a ledger that is set up how many decimal places a currency of its owner has.
    /// Doing it again changes nothing.
    ///
    /// # Errors
    /// When the places are known and others, an account in it holds an amount with more, or the
    /// server stays away or refuses.
    pub async fn remember_currency(&self, code: &str, places: u32) -> Result<(), Error> {
        self.insist(|| self.store().remember_currency(code, places)).await
    }

    /// What others have put into collections that are Tandem's alone.
    ///
    /// # Errors
    /// When the server stays away or refuses.
    pub async fn foreign(&self) -> Result<Vec<Foreign>, Error> {
        self.insist(|| self.store().foreign()).await
    }

    /// Checks the database; a fresh one is set up.
    ///
    /// # Errors
    /// As [`Client::check_schema`].
    pub async fn ensure_schema(&self) -> Result<(), Error> {
        self.insist(|| before(self.store().ensure_schema())).await
    }

    /// Says what the database lacks to be as its owner chooses, and writes nothing.
    ///
    /// # Errors
    /// When the server stays away or refuses.
    pub async fn inspect(&self, choice: Choice) -> Result<Inspection, Error> {
        self.insist(|| before(self.store().inspect(choice))).await
    }

    /// Creates what the database lacks. Validators and indexes of the user's own stay as they are.
    ///
    /// # Errors
    /// As [`Client::inspect`].
    pub async fn apply_schema(&self, choice: Choice) -> Result<(), Error> {
        self.insist(|| self.store().apply_schema(choice)).await
    }

    /// The name of the ledger's database.
    #[must_use]
    pub fn database(&self) -> &str {
        self.store().database().name()
    }

    /// Creates a role in the ledger's database; one that is there gets its privileges and no
    /// others. Returns whether it is new.
    ///
    /// # Errors
    /// When the server stays away, or this user may not make roles.
    pub async fn apply_role(&self, role: &Role) -> Result<bool, Error> {
        self.insist(|| self.store().apply_role(role)).await
    }

    /// Creates what is missing on the broker.
    ///
    /// # Errors
    /// When the broker stays away or refuses.
    pub async fn ensure_queue(&self) -> Result<(), Error> {
        self.insist(|| self.publisher().ensure()).await
    }

    /// The same for workers that stand by for one another.
    ///
    /// # Errors
    /// As [`Client::ensure_queue`].
    pub async fn ensure_turn(&self) -> Result<(), Error> {
        self.insist(|| self.publisher().ensure_turn()).await
    }
}

/// A look, or a step before what a call is asked for: its failure says that the call has had no
/// effect.
async fn before<T>(step: impl Future<Output = Result<T, NotReady>>) -> Result<T, NotReady> {
    step.await.map_err(NotReady::without_effect)
}
