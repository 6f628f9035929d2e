//! Collections, validators, indexes and the settings document: checking them and setting them up.
//!
//! Promises that only [`Store::apply_schema`] changes what already exists, and that a user's own
//! validators and indexes are never changed. The first program sets a fresh database up, also if
//! several start at the same time: the settings document is written first and marked complete last,
//! so another program that finds it incomplete goes on. Fails with a sentence that names the
//! remedy.

use std::time::Duration;

use layout::Layout;
use ledger::notation::Form;
use mongodb::bson::{Document, doc};
use mongodb::error::{Error, ErrorKind, WriteFailure};

use super::Store;
use super::catalogue::Catalogue;
use super::compare::{Unneeded, compare, unneeded};
use super::definitions::{Definition, definitions};
use super::findings::{Finding, Lack, strict};
use super::index::Index;
use super::intrusions::refusing;
use super::ledger_settings::{Choice, ID, Known, LedgerSettings, Misfit};
use super::not_ready::NotReady;
use super::own::LEDGER_SETTINGS;
use super::slowing::{Slowing, slowing};
use super::write::DUPLICATE_KEY;

pub(super) const NAMESPACE_NOT_FOUND: i32 = 26;
const NAMESPACE_EXISTS: i32 = 48;

/// The name of the index that keeps the field unique by which accounts are known.
pub(super) const KEY: &str = "tandem_key";

/// How long `producer init --apply` waits for an index of a large collection.
const INDEX_LIMIT: Duration = Duration::from_secs(4 * 3_600);

/// The result of a look at a database.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The database has no collections of a ledger, or another program has begun to create them and
    /// is not done. Any program may go on setting it up.
    pub unfinished: bool,
    /// What it lacks.
    pub findings: Vec<Finding>,
    /// The indexes that may refuse writes and that their owner has accepted.
    pub accepted: Vec<Finding>,
    /// The indexes for lists and statements that a ledger without history still has.
    pub unneeded: Vec<Unneeded>,
    /// The indexes of the user's own that make each posting or each end of a transaction dearer.
    pub slowing: Vec<Slowing>,
    /// Whether workers stand by for one another, or are to by the choice.
    pub standby: bool,
    /// The form of all amounts, or what it is to be by the choice.
    pub amounts: Form,
}

impl Store {
    /// Checks the database, and sets a fresh one up. Safe to repeat, and from several programs at
    /// once.
    ///
    /// # Errors
    /// When the server is away or refuses, or something that was there before does not fit.
    pub async fn ensure_schema(&self) -> Result<(), NotReady> {
        self.ensure_schema_with(Choice::default()).await
    }

    /// The same; a fresh database gets what is chosen.
    ///
    /// # Errors
    /// As [`Store::ensure_schema`].
    pub async fn ensure_schema_with(&self, choice: Choice) -> Result<(), NotReady> {
        let as_it_is = Choice::default();
        let mut inspection = self.inspect(as_it_is).await?;
        if inspection.unfinished && !inspection.findings.is_empty() {
            let (inspection_of, choice) = self.look(choice).await?;
            self.set_up(&inspection_of.findings, choice, self.op_limit).await?;
            inspection = self.inspect(as_it_is).await?;
        }
        as_needed(inspection.findings)
    }

    /// Checks the database and writes nothing. A fresh database passes the check.
    ///
    /// # Errors
    /// As [`Store::ensure_schema`].
    pub async fn check_schema(&self) -> Result<(), NotReady> {
        let inspection = self.inspect(Choice::default()).await?;
        if inspection.unfinished { Ok(()) } else { as_needed(inspection.findings) }
    }

    /// Looks at the database, and what it lacks to be as its owner chooses.
    ///
    /// # Errors
    /// When the server is away or refuses, or the settings are of a newer version.
    pub async fn inspect(&self, choice: Choice) -> Result<Inspection, NotReady> {
        self.look(choice).await.map(|(inspection, _)| inspection)
    }

    /// The same, and what the owner's choice comes to in this database.
    async fn look(&self, choice: Choice) -> Result<(Inspection, Choice), NotReady> {
        // First, because it tells a wrong login from other errors.
        let mut settings = self.settings().await?;
        if self.is_alone().await? {
            return Err(NotReady::Alone);
        }
        loop {
            let seen = self.seen(settings).await?;
            let choice = self.possible(choice, &seen).await?;
            let findings = compare(&seen, Known::THIS, choice);
            // Another program may have begun to set the database up between the two reads. The
            // settings are written first; so if they are unchanged, the user has created the
            // collections that were seen.
            let after =
                if findings.is_empty() { seen.settings.clone() } else { self.settings().await? };
            if after == seen.settings {
                let begun = seen.settings.as_ref().is_some_and(|settings| !settings.complete);
                let is_fresh = !seen.is_begun();
                let unsuitable = findings.iter().any(Finding::is_unsuitable);
                let unfinished = (begun || is_fresh) && !unsuitable;
                let unneeded = unneeded(&seen, Known::THIS, choice);
                let (accepted, _) = refusing(&seen);
                let slowing = slowing(&seen);
                let remembered = seen.settings.clone();
                let remembered =
                    remembered.unwrap_or_else(|| LedgerSettings::new(Known::THIS, choice));
                let LedgerSettings { standby, notation, .. } = remembered.chosen(choice);
                let amounts = notation.form;
                let inspection = Inspection {
                    unfinished,
                    findings,
                    accepted,
                    unneeded,
                    slowing,
                    standby,
                    amounts,
                };
                return Ok((inspection, choice));
            }
            settings = after;
        }
    }

    /// Applies what is missing, and changes no validator or index of the user's own; raises the
    /// settings to this version. Run it when the workers of older versions have drained. What is
    /// still missing shows at the next [`Store::inspect`].
    ///
    /// # Errors
    /// As [`Store::inspect`].
    pub async fn apply_schema(&self, choice: Choice) -> Result<(), NotReady> {
        let (inspection, choice) = self.look(choice).await?;
        self.set_up(&inspection.findings, choice, INDEX_LIMIT).await
    }

    async fn set_up(
        &self,
        findings: &[Finding],
        choice: Choice,
        index_limit: Duration,
    ) -> Result<(), NotReady> {
        if findings.iter().any(Finding::is_unsuitable) {
            return Ok(());
        }
        let layout = self.layout().map(Layout::to_toml);
        let settings = LedgerSettings { layout, ..LedgerSettings::new(Known::THIS, choice) };
        self.write_settings(doc! { "$setOnInsert": settings.to_document() }).await?;
        // Another program may have been first, and may have chosen otherwise.
        let there = self.settings().await?.unwrap_or(settings);
        self.change_form(&there, choice.amounts.unwrap_or(there.notation.form)).await?;
        let settings = there.chosen(choice);
        let lacking = |name: &str| {
            let found = findings.iter().filter(|f| f.collection == name && f.applies());
            found.map(|finding| finding.lack.clone()).collect::<Vec<_>>()
        };
        for definition in definitions(&settings, self.layout()) {
            let lacks = lacking(definition.name);
            for command in commands(&definition, &lacks, settings.validators) {
                let is_index = command.contains_key("createIndexes");
                let op_limit = if is_index { index_limit } else { self.op_limit };
                Store { op_limit, ..self.clone() }.define(command).await?;
            }
        }
        let raise = doc! {
            "$addToSet": {
                "features": { "$each": Known::THIS.features },
                "acceptedIndexes": { "$each": &self.accepted_indexes[..] },
            },
            "$set": {
                "validators": settings.validators,
                "events": settings.events,
                "history": settings.history,
                "exclusiveKeys": settings.exclusive_keys,
                "standby": settings.standby,
                "complete": true,
            },
        };
        self.write_settings(raise).await
    }

    /// On a sharded cluster no index can keep the keys of all shards unique. Collections that
    /// others have made, or write into by a schema of theirs, get no validator unless it is asked
    /// for: it would refuse what they write.
    async fn possible(&self, choice: Choice, seen: &Catalogue) -> Result<Choice, NotReady> {
        let validators = choice.validators.or(seen.is_of_others().then_some(false));
        let choice = Choice { validators, amounts: self.form(choice, seen).await?, ..choice };
        let is_router = self.is_router().await?;
        if is_router && self.layout().and_then(Layout::key).is_some() {
            return Err(NotReady::KeyOnRouter);
        }
        match (is_router, choice.exclusive_keys) {
            (false, _) => Ok(choice),
            (true, Some(true)) => Err(NotReady::KeysOnRouter),
            (true, Some(false) | None) => Ok(Choice { exclusive_keys: Some(false), ..choice }),
        }
    }

    /// The ledger's settings, if this version knows everything that they name. `None` when they are
    /// missing: somebody may have dropped the database.
    ///
    /// # Errors
    /// When it does not, or the server is away or refuses.
    pub async fn check_settings(&self) -> Result<Option<LedgerSettings>, NotReady> {
        let settings = self.settings().await?;
        settings.iter().try_for_each(|settings| settings.fits(Known::THIS))?;
        Ok(settings)
    }

    /// Remembers in a ledger that is set up which indexes this program was told to accept, so that
    /// every start agrees. In another database, setting it up does.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn remember_accepted(&self) -> Result<(), NotReady> {
        if self.accepted_indexes.is_empty() || self.settings().await?.is_none() {
            return Ok(());
        }
        let accepted = doc! { "acceptedIndexes": { "$each": &self.accepted_indexes[..] } };
        let (collection, update) = (self.settings_collection(), doc! { "$addToSet": accepted });
        let write = async move { collection.update_one(LEDGER_SETTINGS.named(ID), update).await };
        self.permitted("write the collection `tandem.settings`", write).await.map(drop)
    }

    pub(super) async fn settings(&self) -> Result<Option<LedgerSettings>, NotReady> {
        let collection = self.settings_collection();
        let find = async move { collection.find_one(doc! { "_id": ID }).await };
        let found = self.permitted("read the collection `tandem.settings`", find).await?;
        self.judged(found.as_ref())
    }

    /// The settings in the document that was found, unless this version can't read them.
    pub(super) fn judged(
        &self,
        found: Option<&Document>,
    ) -> Result<Option<LedgerSettings>, NotReady> {
        let settings = found.map(LedgerSettings::from_document).transpose()?;
        settings.iter().try_for_each(|settings| self.learn(settings))?;
        match settings.as_ref().map(|settings| settings.fits(Known::THIS)) {
            Some(Err(
                misfit @ (Misfit::Unknown(_)
                | Misfit::Outdated(_)
                | Misfit::Unreadable(_)
                | Misfit::SettlementUnreadable),
            )) => Err(misfit.into()),
            Some(
                Err(
                    Misfit::Behind(_)
                    | Misfit::Events { .. }
                    | Misfit::EventsChanged { .. }
                    | Misfit::Amounts(_)
                    | Misfit::Places(_)
                    | Misfit::Layout
                    | Misfit::LayoutChanged,
                )
                | Ok(()),
            )
            | None => Ok(settings),
        }
    }

    async fn write_settings(&self, update: Document) -> Result<(), NotReady> {
        let collection = self.settings_collection();
        let write = async move {
            match collection.update_one(LEDGER_SETTINGS.named(ID), update).upsert(true).await {
                // Another program inserted the document at the same time, so it is there.
                Err(error) if code(&error) == Some(DUPLICATE_KEY) => Ok(()),
                written => written.map(|_| ()),
            }
        };
        self.permitted("write the collection `tandem.settings`", write).await
    }

    async fn define(&self, command: Document) -> Result<(), NotReady> {
        let mut command = self.defined(command);
        command.insert("writeConcern", doc! { "w": "majority" });
        let database = self.database.clone();
        let run = async move {
            match database.run_command(command).await {
                // Another program was first; the next look judges what it has created.
                Err(error) if code(&error) == Some(NAMESPACE_EXISTS) => Ok(()),
                ran => ran.map(|_| ()),
            }
        };
        self.permitted("create collections and indexes, or change validators", run).await
    }
}

/// The commands that repair what a collection lacks.
fn commands(definition: &Definition, lacks: &[Lack], validators: bool) -> Vec<Document> {
    let name = definition.name;
    let validator = definition.validator.as_ref().filter(|_| validators);
    let mut commands: Vec<Document> = lacks
        .iter()
        .filter_map(|lack| match lack {
            Lack::Collection => {
                let mut create = doc! { "create": name };
                create.extend(validator.map(|rules| ("validator".to_owned(), rules.into())));
                Some(create)
            }
            Lack::Validator | Lack::ValidatorVersion | Lack::ValidatorLax { .. } => {
                let mut change = strict(name);
                change.extend(validator.map(|rules| ("validator".to_owned(), rules.into())));
                Some(change)
            }
            // Documents without the field are no accounts, so they are left out.
            Lack::Key { .. } => {
                let index =
                    doc! { "name": KEY, "key": { "_id": 1 }, "unique": true, "sparse": true };
                Some(doc! { "createIndexes": name, "indexes": [index] })
            }
            Lack::Index { .. }
            | Lack::Plainness(_)
            | Lack::IndexDiffers { .. }
            | Lack::IndexNamed { .. }
            | Lack::IndexHarms(_)
            | Lack::ValidatorOnOwn
            | Lack::ValidatorForeign { .. }
            | Lack::Settings
            | Lack::SettingsVersion(_)
            | Lack::SettingsValidators { .. }
            | Lack::SettingsEvents { .. }
            | Lack::SettingsHistory { .. }
            | Lack::SettingsKeys { .. }
            | Lack::SettingsStandby { .. }
            | Lack::SettingsAmounts { .. } => None,
        })
        .collect();
    let missing = |name: &str| {
        lacks
            .iter()
            .any(|lack| matches!(lack, Lack::Index { name: lacking, .. } if *lacking == name))
    };
    let indexes = definition.indexes.iter().filter(|index| missing(index.name));
    let indexes: Vec<Document> = indexes.map(Index::to_document).collect();
    if !indexes.is_empty() {
        commands.push(doc! { "createIndexes": name, "indexes": indexes });
    }
    commands
}

fn as_needed(findings: Vec<Finding>) -> Result<(), NotReady> {
    let needed: Vec<Finding> = findings.into_iter().filter(Finding::is_needed).collect();
    if needed.is_empty() { Ok(()) } else { Err(NotReady::Unfit(needed)) }
}

pub(super) fn code(error: &Error) -> Option<i32> {
    match error.kind.as_ref() {
        ErrorKind::Command(command) => Some(command.code),
        ErrorKind::Write(WriteFailure::WriteError(write)) => Some(write.code),
        _ => None,
    }
}
