//! Ledgers in documents that others have designed: every command for accounts and transactions
//! passes here on its way to the server, and every answer on its way back.
//!
//! Owns which layout a store speaks. Promises that it is the one in the ledger's settings, and that
//! a ledger without one is spoken to as ever, at no cost. Fails where a command's bytes are no
//! BSON.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use layout::{Answer, Collection, Command, KeptOnce, Layout};
use ledger::notation::Notation;
use ledger::{AccountRead, Content, LedgerError};
use mongodb::bson::error::Error;
use mongodb::bson::{Document, RawDocument, RawDocumentBuf};

use super::Store;
use super::ledger_settings::{LedgerSettings, Misfit};
use super::names::{ACCOUNTS, TRANSACTIONS};
use super::not_ready::NotReady;
use super::seen_index::SeenIndex;

impl Store {
    /// The same store, to set up a ledger with this layout. One that is set up has to have it.
    #[must_use]
    pub fn with_layout(self, layout: Layout) -> Store {
        Store { given: Some(layout.into()), ..self }
    }

    /// The layout of the ledger, as far as it is known; none means documents as Tandem makes them.
    #[must_use]
    pub fn layout(&self) -> Option<&Layout> {
        match self.learned.get() {
            Some(learned) => learned.as_ref(),
            None => self.given.as_deref().filter(|given| !given.is_default()),
        }
    }

    /// Takes in the layout that the settings name, and whether there are validators.
    pub(super) fn learn(&self, settings: &LedgerSettings) -> Result<(), Misfit> {
        self.has_validators.store(settings.validators, Ordering::Relaxed);
        let named = settings.layout.as_deref().map(Layout::from_toml).transpose();
        let named = named.map_err(|why| Misfit::Unreadable(format!("`layout`: {why}")))?;
        let is_same = |one: Option<&Layout>, other: Option<&Layout>| match (one, other) {
            (None, None) => true,
            (Some(one), Some(other)) => one.is_same(other),
            (Some(_), None) | (None, Some(_)) => false,
        };
        if let Some(given) = &self.given
            && !is_same(named.as_ref(), Some(&**given).filter(|given| !given.is_default()))
        {
            return Err(Misfit::Layout);
        }
        let known = self.learned.get_or_init(|| named.clone());
        if !is_same(named.as_ref(), known.as_ref()) {
            return Err(Misfit::LayoutChanged);
        }
        *self.learned_notation() = Arc::new(settings.notation.clone());
        Ok(())
    }

    /// How the ledger writes amounts, as it was when this program last looked; minor units as long
    /// as there is no ledger.
    #[must_use]
    pub fn notation(&self) -> Arc<Notation> {
        self.learned_notation().clone()
    }

    fn learned_notation(&self) -> MutexGuard<'_, Arc<Notation>> {
        self.notation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of a collection in the database.
    #[must_use]
    pub fn stored_name<'a>(&'a self, collection: &'a str) -> &'a str {
        self.stored(collection).map_or(collection, Collection::name)
    }

    /// Where a field stands in the documents of a collection.
    #[must_use]
    pub fn stored_path<'a>(&'a self, collection: &str, field: &'a str) -> Cow<'a, str> {
        self.stored(collection).map_or(Cow::Borrowed(field), |stored| stored.path(field))
    }

    /// How the documents of a collection are laid out, if not as Tandem makes them.
    pub(super) fn stored(&self, collection: &str) -> Option<&Collection> {
        self.layout().and_then(|layout| layout.of(collection))
    }

    /// Reads the layout, if it is not known yet. A ledger that is not set up has none so far.
    ///
    /// # Errors
    /// When the server is away, or the settings can't be read.
    pub async fn know_layout(&self) -> Result<(), LedgerError> {
        let known = self.learn_once().await;
        known.map_err(|error| error.without_effect().into_ledger("settings"))
    }

    /// The same, with what keeps a program from working on this database.
    pub(super) async fn learn_once(&self) -> Result<(), NotReady> {
        match self.learned.get() {
            Some(_) => Ok(()),
            None => {
                // As it would be set up.
                if self.settings().await?.is_none()
                    && let Some(form) = self.form_of_accounts().await?
                {
                    *self.learned_notation() = Notation { form, ..Notation::default() }.into();
                }
                Ok(())
            }
        }
    }

    /// A command as it is sent, and how its answers are read.
    pub(super) async fn sent(
        &self,
        operation: &'static str,
        command: RawDocumentBuf,
    ) -> Result<Command, LedgerError> {
        let is_of_the_ledger = [ACCOUNTS, TRANSACTIONS].map(Some).contains(&target(&command));
        if is_of_the_ledger {
            self.know_layout().await?;
        }
        self.translated(operation, command)
    }

    /// The same, as far as the layout is known already.
    pub(super) fn translated(
        &self,
        operation: &'static str,
        command: RawDocumentBuf,
    ) -> Result<Command, LedgerError> {
        let bad = |error: Error| LedgerError::lasting(operation, error.to_string());
        match self.layout() {
            Some(layout) => layout.command(&command, self.kept_once()).map_err(bad),
            None if self.kept_once() == KeptOnce::ByPipeline && is_update(&command) => {
                let sent = layout::with_each_field_once(&command).map_err(bad)?;
                Ok(Command { sent, answer: Answer::Own })
            }
            None => Ok(Command { sent: command, answer: Answer::Own }),
        }
    }

    fn kept_once(&self) -> KeptOnce {
        match self.has_validators.load(Ordering::Relaxed) {
            true => KeptOnce::ByValidator,
            false => KeptOnce::ByPipeline,
        }
    }

    /// What is wrong with a document, as its owner calls the fields.
    #[must_use]
    pub fn told(&self, collection: &str, problem: String) -> String {
        match self.stored(collection) {
            Some(stored) => stored.told(&problem),
            None => problem,
        }
    }

    /// The same of accounts that were read.
    pub(super) fn told_of(&self, mut accounts: Vec<AccountRead>) -> Vec<AccountRead> {
        for read in &mut accounts {
            if let Err(problem) = &mut read.account {
                *problem = self.told(ACCOUNTS, std::mem::take(problem));
            }
        }
        accounts
    }

    /// The same of the contents of transactions.
    pub(super) fn told_of_contents(&self, mut contents: Vec<Content>) -> Vec<Content> {
        for (_, body) in &mut contents {
            if let Err(problem) = body {
                *problem = self.told(TRANSACTIONS, std::mem::take(problem));
            }
        }
        contents
    }

    /// A command that defines a collection or its indexes, as it is sent.
    pub(super) fn defined(&self, command: Document) -> Document {
        let Some((verb, name)) = command.iter().next().map(|(verb, name)| (verb.clone(), name))
        else {
            return command;
        };
        let Some(stored) = name.as_str().and_then(|name| self.stored(name)) else {
            return command;
        };
        let mut sent = command.clone();
        sent.insert(verb, stored.name());
        if let Ok(indexes) = command.get_array("indexes") {
            let index = |index: &mongodb::bson::Bson| {
                let index = index.as_document().cloned().unwrap_or_default();
                stored_index(stored, index)
            };
            sent.insert("indexes", indexes.iter().map(index).collect::<Vec<_>>());
        }
        if let Ok(rules) = command.get_document("validator") {
            sent.insert("validator", stored_validator(stored, rules));
        }
        sent
    }

    /// An index of a collection as it would be on documents as Tandem makes them.
    pub(super) fn own_index(&self, collection: &str, listed: Document) -> SeenIndex {
        let Some(stored) = self.stored(collection) else { return SeenIndex::new(listed) };
        let mut index = listed.clone();
        let name = |path: &str| match stored.name_of(path) {
            Some(name) => name.into_owned(),
            None => format!("not Tandem's: {path}"),
        };
        if let Ok(key) = index.get_document("key") {
            let key: Document = key.iter().map(|(path, kind)| (name(path), kind.clone())).collect();
            index.insert("key", key);
        }
        if let Ok(filter) = index.get_document("partialFilterExpression") {
            let own: Document =
                filter.iter().map(|(path, rule)| (name(path), rule.clone())).collect();
            index.insert("partialFilterExpression", own);
        }
        SeenIndex::laid_out(index, listed)
    }
}

/// Whether a command updates accounts or transactions.
fn is_update(command: &RawDocument) -> bool {
    command.get_str("update").is_ok_and(|name| [ACCOUNTS, TRANSACTIONS].contains(&name))
}

/// The collection that a command is for.
fn target(command: &RawDocument) -> Option<&str> {
    let first = command.iter_elements().next()?.ok()?;
    first.value().ok()?.as_str()
}

/// A validator of Tandem's for documents as they are stored, by its own mark.
pub(super) fn stored_validator(stored: &Collection, marked: &Document) -> Document {
    let mut rules = marked.clone();
    rules.remove("$comment");
    super::definitions::marked(filter(stored, &rules))
}

/// An index on documents as they are stored.
pub(super) fn stored_index(stored: &Collection, mut index: Document) -> Document {
    if let Ok(key) = index.get_document("key") {
        let key: Document =
            key.iter().map(|(name, kind)| (stored.path(name).into_owned(), kind.clone())).collect();
        index.insert("key", key);
    }
    if let Ok(rules) = index.get_document("partialFilterExpression") {
        index.insert("partialFilterExpression", filter(stored, rules));
    }
    index
}

fn filter(stored: &Collection, rules: &Document) -> Document {
    let raw = RawDocumentBuf::try_from(rules).expect("rules of ours are BSON");
    let filter = stored.filter(&raw).expect("rules of ours are BSON");
    Document::try_from(filter).expect("rules of ours are BSON")
}
