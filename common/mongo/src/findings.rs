//! What a database lacks to be a ledger of this version, in words that tell its owner what to do.
//!
//! Pure: [`compare`] judges what was [`Catalogue`]. `producer init --apply` applies some [`Finding`]s.
//! The others concern something of the user's own, so they name the command for `mongosh`.

use std::collections::BTreeMap;
use std::fmt;

use ledger::limits::echo;
use mongodb::bson::{Document, doc};
use mongodb::options::{CreateCollectionOptions, ValidationAction, ValidationLevel};
use mongodb::results::CollectionSpecification;

use super::definitions::{Fit, definitions, fit, is_needed};
use super::ground::{Harm, drop_index};
use super::index::Index;
use super::intrusions::{refusing, unsuitable, validators_on_own};
use super::ledger_settings::{Choice, Known, LedgerSettings, Misfit};
use super::names::{SETTINGS, TRANSACTIONS, WORKERS};
use super::seen_index::SeenIndex;
use super::unsuitable::Unsuitable;
use super::{history, keyed, shell, waiting};

/// A collection that is there: what it is, and its indexes.
pub(super) type CollectionThere = (CollectionSpecification, Vec<SeenIndex>);

/// What is there.
#[derive(Clone, Debug, Default)]
pub(super) struct Catalogue {
    pub(super) settings: Option<LedgerSettings>,
    pub(super) collections: BTreeMap<String, CollectionThere>,
    /// The indexes that this program was told to accept. Those that the ledger has accepted are in its settings.
    pub(super) accepted: Vec<String>,
}

impl Catalogue {
    /// Whether the database has any part of a ledger. Notes and settings alone do not count.
    pub(super) fn is_begun(&self) -> bool {
        self.collections.keys().any(|name| is_needed(name))
    }
}

/// One thing that a database lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The collection that lacks it.
    pub collection: &'static str,
    /// What it is.
    pub lack: Lack,
}

/// What a collection may lack.
#[derive(Clone, Debug, PartialEq)]
pub enum Lack {
    /// The whole collection.
    Collection,
    /// The collection has a property that a ledger can't have and that can't be changed, so it has
    /// to be created anew.
    Plainness(Unsuitable),
    /// An index: its name, and its definition as `mongosh` takes it.
    Index {
        /// The name.
        name: &'static str,
        /// The arguments of `createIndex`.
        arguments: String,
    },
    /// An index of this name is there with another definition.
    IndexDiffers {
        /// The name.
        name: &'static str,
    },
    /// An index with this definition exists under another name. The queries would not find it, and
    /// the server accepts no second index with the same definition.
    IndexNamed {
        /// The name that it needs.
        name: &'static str,
        /// The name that it has.
        theirs: String,
    },
    /// An index of the user's own removes documents, or may refuse writes.
    IndexHarms(Harm),
    /// A collection of Tandem's own has a validator, which may refuse writes.
    ValidatorOnOwn,
    /// A validator: there is none.
    Validator,
    /// This version's validator: there is that of another version.
    ValidatorVersion,
    /// Tandem's rules: the collection has a validator of the user's own. Holds both validators
    /// merged.
    ValidatorForeign {
        /// The command for `mongosh` that merges them.
        command: String,
    },
    /// The validator is there, but its level or action lets some bad writes through.
    ValidatorLax {
        /// Whether it is Tandem's alone.
        ours: bool,
    },
    /// The settings document.
    Settings,
    /// A settings document of this version.
    SettingsVersion(Misfit),
    /// The settings document does not say yet whether validators are wanted.
    SettingsValidators {
        /// Whether they are.
        wanted: bool,
    },
    /// The settings document does not say yet whether workers publish events.
    SettingsEvents {
        /// Whether they are to.
        wanted: bool,
    },
    /// The settings document does not say yet whether there are indexes for lists and statements.
    SettingsHistory {
        /// Whether there are to be.
        wanted: bool,
    },
    /// The settings document does not say yet whether there are exclusive keys.
    SettingsKeys {
        /// Whether there are to be.
        wanted: bool,
    },
}

impl Finding {
    /// Whether `producer init --apply` repairs it. If not, the user has to, by [`Finding::command`]
    /// where there is one.
    #[must_use]
    pub fn applies(&self) -> bool {
        !self.is_unsuitable() && self.command().is_none()
    }

    /// Whether nothing works without it. If not, operators see less.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.collection != WORKERS || self.removes()
    }

    /// Whether the server removes documents of the ledger.
    pub(super) fn removes(&self) -> bool {
        matches!(&self.lack, Lack::IndexHarms(harm) if harm.removes())
    }

    /// Whether the collection can hold no ledger as it is, whatever is added to it.
    #[must_use]
    pub fn is_unsuitable(&self) -> bool {
        matches!(self.lack, Lack::Plainness(_)) || self.removes()
    }

    /// A short name for scripts.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.lack {
            Lack::Collection => "collection",
            Lack::Plainness(why) => why.kind(),
            Lack::Index { .. } => "index",
            Lack::IndexDiffers { .. } => "index_differs",
            Lack::IndexNamed { .. } => "index_named",
            Lack::IndexHarms(harm) => harm.kind(),
            Lack::ValidatorOnOwn => "validator_on_own",
            Lack::Validator => "validator",
            Lack::ValidatorVersion => "validator_version",
            Lack::ValidatorForeign { .. } => "validator_foreign",
            Lack::ValidatorLax { .. } => "validator_lax",
            Lack::Settings => "settings",
            Lack::SettingsVersion(_) => "settings_version",
            Lack::SettingsValidators { .. } => "settings_validators",
            Lack::SettingsEvents { .. } => "settings_events",
            Lack::SettingsHistory { .. } => "settings_history",
            Lack::SettingsKeys { .. } => "settings_exclusive_keys",
        }
    }

    /// What to run in `mongosh`, where the user has to decide.
    #[must_use]
    pub fn command(&self) -> Option<String> {
        let collection = self.collection;
        match &self.lack {
            Lack::IndexDiffers { name } => Some(drop_index(collection, name)),
            Lack::IndexNamed { theirs, .. } => Some(drop_index(collection, theirs)),
            Lack::IndexHarms(harm) => Some(drop_index(collection, &harm.index)),
            Lack::ValidatorOnOwn => {
                let none = doc! { "collMod": collection, "validator": {} };
                Some(format!("db.runCommand({})", shell::document(&none)))
            }
            Lack::ValidatorForeign { command } => Some(command.clone()),
            Lack::ValidatorLax { ours: false } => {
                Some(format!("db.runCommand({})", shell::document(&strict(collection))))
            }
            Lack::Collection
            | Lack::Plainness(_)
            | Lack::Index { .. }
            | Lack::Validator
            | Lack::ValidatorVersion
            | Lack::ValidatorLax { ours: true }
            | Lack::Settings
            | Lack::SettingsVersion(_)
            | Lack::SettingsValidators { .. }
            | Lack::SettingsEvents { .. }
            | Lack::SettingsHistory { .. }
            | Lack::SettingsKeys { .. } => None,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let collection = self.collection;
        match &self.lack {
            Lack::Collection => write!(f, "the collection `{collection}` is missing"),
            Lack::Plainness(why) => write!(
                f,
                "the collection `{collection}` {why}: create it anew without that, or use another \
                 database (TANDEM_DATABASE)"
            ),
            Lack::Index { name, arguments } => {
                write!(f, "`{collection}` has no index `{name}`: {arguments}")
            }
            Lack::IndexDiffers { name } => write!(
                f,
                "the index `{name}` of `{collection}` is defined otherwise: drop it, then run \
                 `producer init --apply`"
            ),
            Lack::IndexNamed { name, theirs } => write!(
                f,
                "`{collection}` has the index `{name}` under the name `{}`, and the server takes no \
                 second one: drop it, then run `producer init --apply`",
                echo(theirs)
            ),
            Lack::IndexHarms(harm) => harm.write(collection, f),
            Lack::ValidatorOnOwn => write!(
                f,
                "`{collection}` has a validator, which may refuse what Tandem writes: remove it"
            ),
            Lack::Validator => write!(f, "`{collection}` has no validator"),
            Lack::ValidatorVersion => {
                write!(f, "`{collection}` has the validator of another version of Tandem")
            }
            Lack::ValidatorForeign { .. } => write!(
                f,
                "`{collection}` has a validator of your own without Tandem's rules: merge the two, \
                 or run `producer init --apply --no-validator`"
            ),
            Lack::ValidatorLax { .. } => write!(
                f,
                "the validator of `{collection}` does not refuse every bad write: level and action \
                 must be `strict` and `error`"
            ),
            Lack::Settings => write!(f, "the settings document of the ledger is missing"),
            Lack::SettingsVersion(misfit) => write!(f, "{misfit}"),
            Lack::SettingsValidators { wanted } => {
                let wanted = if *wanted { "wanted" } else { "not wanted" };
                write!(f, "the settings document does not say that validators are {wanted}")
            }
            Lack::SettingsEvents { wanted } => {
                let wanted = if *wanted { "on" } else { "off" };
                write!(f, "the settings document does not say that events are {wanted}")
            }
            Lack::SettingsHistory { wanted } => {
                let wanted = if *wanted { "on" } else { "off" };
                write!(f, "the settings document does not say that history is {wanted}")
            }
            Lack::SettingsKeys { wanted } => {
                let wanted = if *wanted { "on" } else { "off" };
                write!(f, "the settings document does not say that exclusive keys are {wanted}")
            }
        }
    }
}

/// Whether nothing can be added to the collection of workers, because somebody uses its name otherwise.
fn is_taken(seen: &Catalogue) -> bool {
    let there = seen.collections.get(WORKERS);
    there.is_some_and(|(there, _)| Unsuitable::all_of(there).next().is_some())
}

/// Compares what is there with what should be.
pub(super) fn compare(seen: &Catalogue, known: Known, choice: Choice) -> Vec<Finding> {
    let wanted = wanted(seen, known, choice);
    let LedgerSettings { validators, events, history, exclusive_keys, .. } = wanted;
    let mut findings = unsuitable(seen);
    if !findings.is_empty() {
        return findings;
    }
    findings.extend(refusing(seen).1);
    findings.extend(validators_on_own(seen));
    for definition in &definitions(&wanted) {
        let collection = definition.name;
        if collection == WORKERS && is_taken(seen) {
            continue;
        }
        let mut lacks = |lack| findings.push(Finding { collection, lack });
        let there = seen.collections.get(collection);
        match there {
            None => lacks(Lack::Collection),
            Some((found, _)) => {
                let ours = definition.validator.as_ref().filter(|_| validators);
                ours.and_then(|ours| validator(collection, &found.options, ours))
                    .into_iter()
                    .for_each(&mut lacks);
            }
        }
        let indexes = there.map_or(&[][..], |(_, indexes)| indexes);
        definition.indexes.iter().filter_map(|wanted| index(wanted, indexes)).for_each(lacks);
    }
    let lack = match &seen.settings {
        None => Some(Lack::Settings),
        Some(settings) => match settings.fits(known) {
            Err(misfit) => Some(Lack::SettingsVersion(misfit)),
            Ok(()) if settings.validators != validators => {
                Some(Lack::SettingsValidators { wanted: validators })
            }
            Ok(()) if settings.events != events => Some(Lack::SettingsEvents { wanted: events }),
            Ok(()) if settings.history != history => {
                Some(Lack::SettingsHistory { wanted: history })
            }
            Ok(()) if settings.exclusive_keys != exclusive_keys => {
                Some(Lack::SettingsKeys { wanted: exclusive_keys })
            }
            Ok(()) => None,
        },
    };
    findings.extend(lack.map(|lack| Finding { collection: SETTINGS, lack }));
    findings
}

/// The settings that there would be with what the owner chooses.
fn wanted(seen: &Catalogue, known: Known, choice: Choice) -> LedgerSettings {
    let remembered = seen.settings.clone().unwrap_or_else(|| LedgerSettings::new(known, choice));
    remembered.chosen(choice)
}

/// The indexes that are there although the ledger does without.
pub(super) fn unneeded(seen: &Catalogue, known: Known, choice: Choice) -> Vec<&'static str> {
    let there = seen.collections.get(TRANSACTIONS).map_or(&[][..], |(_, indexes)| indexes);
    let kept = |index: &Index| there.iter().any(|there| index.is_served_by(there));
    let wanted = wanted(seen, known, choice);
    let history = if wanted.history { vec![waiting::index()] } else { history::indexes() };
    let keys = (!wanted.exclusive_keys).then(keyed::index);
    history.iter().chain(&keys).filter(|index| kept(index)).map(|index| index.name).collect()
}

fn index(wanted: &Index, there: &[SeenIndex]) -> Option<Lack> {
    let name = wanted.name;
    if there.iter().any(|index| wanted.is_served_by(index)) {
        return None;
    }
    if there.iter().any(|index| wanted.has_name_of(index)) {
        return Some(Lack::IndexDiffers { name });
    }
    if let Some(theirs) = there.iter().find(|index| wanted.is_blocked_by(index)) {
        return Some(Lack::IndexNamed { name, theirs: theirs.name().to_owned() });
    }
    let mut options = doc! { "name": name };
    options.extend(wanted.options());
    let arguments = [&wanted.key, &options].map(shell::document).join(", ");
    Some(Lack::Index { name, arguments })
}

fn validator(collection: &str, options: &CreateCollectionOptions, ours: &Document) -> Option<Lack> {
    let is_strict = matches!(options.validation_level, None | Some(ValidationLevel::Strict))
        && matches!(options.validation_action, None | Some(ValidationAction::Error));
    let lax = |ours| (!is_strict).then_some(Lack::ValidatorLax { ours });
    match fit(options.validator.as_ref(), ours) {
        Fit::Absent => Some(Lack::Validator),
        Fit::Exact => lax(true),
        Fit::Merged => lax(false),
        Fit::OtherVersion => Some(Lack::ValidatorVersion),
        Fit::Foreign(both) => {
            let mut command = strict(collection);
            command.insert("validator", both);
            let command = format!("db.runCommand({})", shell::document(&command));
            Some(Lack::ValidatorForeign { command })
        }
    }
}

/// The command that makes a collection's validator refuse every bad write.
pub(super) fn strict(collection: &str) -> Document {
    doc! { "collMod": collection, "validationLevel": "strict", "validationAction": "error" }
}

#[cfg(test)]
mod tests {
    use super::super::names::ACCOUNTS;
    use super::*;

    fn with(validator: Document) -> CollectionSpecification {
        let mut found = CollectionSpecification::default();
        found.options.validator = Some(validator);
        found
    }

    /// With history, whatever the default is.
    fn on() -> Choice {
        Choice { history: Some(true), ..Choice::default() }
    }

    /// A ledger that lacks nothing.
    fn whole() -> Catalogue {
        whole_as(on())
    }

    fn whole_as(choice: Choice) -> Catalogue {
        let settings = LedgerSettings::new(Known::THIS, choice);
        let collections = definitions(&settings).into_iter().map(|definition| {
            let model = |index: &Index| SeenIndex(index.to_document());
            let indexes = definition.indexes.iter().map(model).collect();
            let validator = definition.validator.unwrap_or_default();
            (definition.name.to_owned(), (with(validator), indexes))
        });
        Catalogue { settings: Some(settings), collections: collections.collect(), accepted: vec![] }
    }

    fn kinds(seen: &Catalogue, validators: bool) -> Vec<(&'static str, &'static str)> {
        let choice = Choice { validators: Some(validators), ..Choice::default() };
        let findings = compare(seen, Known::THIS, choice);
        findings.iter().map(|finding| (finding.collection, finding.kind())).collect()
    }

    #[test]
    fn a_whole_ledger_lacks_nothing_and_an_empty_database_everything() {
        assert_eq!(kinds(&whole(), true), []);
        for (history, keys, indexes) in [(false, false, 3), (false, true, 4), (true, true, 5)] {
            let choice =
                Choice { history: Some(history), exclusive_keys: Some(keys), ..Choice::default() };
            let findings = compare(&Catalogue::default(), Known::THIS, choice);
            let mut expected = vec![(ACCOUNTS, "collection"), (TRANSACTIONS, "collection")];
            expected.extend([(TRANSACTIONS, "index")].repeat(indexes));
            expected.extend([(WORKERS, "collection"), (WORKERS, "index")]);
            expected.push((SETTINGS, "settings"));
            let kinds: Vec<_> = findings.iter().map(|f| (f.collection, f.kind())).collect();
            assert_eq!(kinds, expected);
        }
    }

    #[test]
    fn each_lack_is_found_alone() {
        type Change = fn(&mut CreateCollectionOptions, &mut Vec<SeenIndex>);
        let change = |name: &str, changed: Change| {
            let mut seen = whole();
            let (found, indexes) = seen.collections.get_mut(name).expect("it is there");
            changed(&mut found.options, indexes);
            kinds(&seen, true)
        };
        let foreign: Change = |options, _| options.validator = Some(doc! { "x": 1 });
        assert_eq!(change(ACCOUNTS, foreign), [(ACCOUNTS, "validator_foreign")]);
        assert_eq!(
            change(ACCOUNTS, |options, _| options.validator = None),
            [(ACCOUNTS, "validator")]
        );
        assert_eq!(
            change(ACCOUNTS, |o, _| o.validation_level = Some(ValidationLevel::Moderate)),
            [(ACCOUNTS, "validator_lax")]
        );
        assert_eq!(
            change(TRANSACTIONS, |o, _| o.validation_action = Some(ValidationAction::Warn)),
            [(TRANSACTIONS, "validator_lax")]
        );
        assert_eq!(
            change(TRANSACTIONS, |_, indexes| drop(indexes.pop())),
            [(TRANSACTIONS, "index")]
        );
        assert_eq!(
            change(TRANSACTIONS, |_, indexes| drop(
                indexes[0].0.insert("key", doc! { "takeoverAt": -1 })
            )),
            [(TRANSACTIONS, "index_differs")]
        );
        let renamed: Change = |_, indexes| {
            indexes[0].0.insert("name", "takeoverAt_1");
        };
        assert_eq!(change(TRANSACTIONS, renamed), [(TRANSACTIONS, "index_named")]);
        let capped_and_more: Change = |options, indexes| {
            options.capped = Some(true);
            indexes.clear();
        };
        assert_eq!(change(TRANSACTIONS, capped_and_more), [(TRANSACTIONS, "capped")]);
        let own: Change = |options, indexes| {
            options.capped = Some(true);
            indexes.clear();
        };
        assert_eq!(change(WORKERS, own), [], "somebody else uses the name");
        let everlasting: Change = |_, indexes| {
            indexes[0].0.remove("expireAfterSeconds");
        };
        assert_eq!(change(WORKERS, everlasting), [(WORKERS, "index_differs")]);
        let unset = Catalogue { settings: None, ..whole() };
        assert_eq!(kinds(&unset, true), [(SETTINGS, "settings")]);
    }

    #[test]
    fn without_validators_nobody_misses_them() {
        let mut seen = whole();
        for name in [ACCOUNTS, TRANSACTIONS] {
            let (found, _) = seen.collections.get_mut(name).expect("it is there");
            found.options.validator = Some(doc! { "x": 1 });
        }
        assert_eq!(kinds(&seen, false), [(SETTINGS, "settings_validators")]);
        let without = Choice { validators: Some(false), ..on() };
        seen.settings = Some(LedgerSettings::new(Known::THIS, without));
        assert_eq!(kinds(&seen, false), []);
        let quiet = Choice { events: Some(false), ..without };
        let findings = compare(&seen, Known::THIS, quiet);
        let kinds: Vec<_> = findings.iter().map(Finding::kind).collect();
        assert_eq!(kinds, ["settings_events"]);
    }

    #[test]
    fn without_history_nobody_misses_its_indexes_and_those_that_are_left_are_named() {
        let off = Choice { history: Some(false), ..Choice::default() };
        let needs = |seen: &Catalogue, choice| -> Vec<_> {
            compare(seen, Known::THIS, choice).iter().map(Finding::kind).collect()
        };
        let seen = whole();
        assert_eq!(needs(&seen, off), ["index", "settings_history"], "that of what waits alone");
        assert_eq!(unneeded(&seen, Known::THIS, off), ["by_state", "ended_on"]);
        assert!(unneeded(&seen, Known::THIS, on()).is_empty());
        let seen = whole_as(off);
        assert_eq!(kinds(&seen, true), []);
        assert_eq!(needs(&seen, on()), ["index", "index", "settings_history"]);
        assert_eq!(unneeded(&seen, Known::THIS, on()), ["unclaimed"]);
    }

    #[test]
    fn without_exclusive_keys_nobody_misses_their_index_and_one_that_is_left_is_named() {
        let off = Choice { exclusive_keys: Some(false), ..on() };
        let mut seen = whole();
        let findings = compare(&seen, Known::THIS, off);
        let kinds: Vec<_> = findings.iter().map(Finding::kind).collect();
        assert_eq!(kinds, ["settings_exclusive_keys"]);
        assert_eq!(unneeded(&seen, Known::THIS, off), ["exclusive_key"]);
        assert!(unneeded(&seen, Known::THIS, on()).is_empty());
        let (_, indexes) = seen.collections.get_mut(TRANSACTIONS).expect("it is there");
        indexes.retain(|index| index.name() != "exclusive_key");
        seen.settings = Some(LedgerSettings::new(Known::THIS, off));
        assert_eq!(compare(&seen, Known::THIS, off), []);
        let on = Choice { exclusive_keys: Some(true), ..on() };
        let findings = compare(&seen, Known::THIS, on);
        let kinds: Vec<_> = findings.iter().map(Finding::kind).collect();
        assert_eq!(kinds, ["index", "settings_exclusive_keys"]);
    }

    #[test]
    fn what_is_the_users_own_is_left_to_a_command() {
        let mut seen = whole();
        let (found, _) = seen.collections.get_mut(ACCOUNTS).expect("it is there");
        found.options.validator = Some(doc! { "x": 1 });
        let findings = compare(&seen, Known::THIS, Choice::default());
        assert!(!findings[0].applies());
        let command = findings[0].command().expect("a command");
        assert!(command.starts_with("db.runCommand({\"collMod\": \"accounts\""), "{command}");
        assert!(command.contains("\"$and\": [{\"x\": 1}, {\"$comment\": \"tandem "), "{command}");
    }
}
