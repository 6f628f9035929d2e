//! What is there, compared with what a ledger of this version should have.
//!
//! Pure: judges a [`Catalogue`]. What others have made of its collections (`intrusions`) comes
//! first; while a collection can hold no ledger, nothing else is found.

use layout::{Collection, Layout};
use mongodb::bson::Document;
use mongodb::options::{CreateCollectionOptions, ValidationAction, ValidationLevel};

use super::catalogue::Catalogue;
use super::definitions::{Definition, Fit, definitions, fit, made_by_tandem};
use super::findings::{Finding, Lack, strict};
use super::index::Index;
use super::intrusions::{refusing, unsuitable, validators_on_own};
use super::laid_out::{stored_index, stored_validator};
use super::ledger_settings::{Choice, Known, LedgerSettings};
use super::names::{ACCOUNTS, SETTINGS, WORKERS};
use super::seen_index::SeenIndex;
use super::shell;
use super::unsuitable::Unsuitable;

/// Whether nothing can be added to the collection of workers, because somebody uses its name
/// otherwise.
fn is_taken(seen: &Catalogue) -> bool {
    let there = seen.collections.get(WORKERS);
    there.is_some_and(|(there, _)| Unsuitable::all_of(there).next().is_some())
}

/// Compares what is there with what should be.
pub(super) fn compare(seen: &Catalogue, known: Known, choice: Choice) -> Vec<Finding> {
    let wanted = wanted(seen, known, choice);
    let LedgerSettings { validators, events, history, exclusive_keys, standby, .. } = wanted;
    let amounts = wanted.notation.form;
    let mut findings = unsuitable(seen);
    if !findings.is_empty() {
        return findings;
    }
    findings.extend(refusing(seen).1);
    findings.extend(validators_on_own(seen));
    for definition in &definitions(&wanted, seen.layout.as_ref()) {
        let collection = definition.name;
        if collection == WORKERS && is_taken(seen) {
            continue;
        }
        let mut lacks = |lack| findings.push(seen.finding(collection, lack));
        let there = seen.collections.get(collection);
        match there {
            None => lacks(Lack::Collection),
            Some((found, _)) => {
                let ours = definition.validator.clone().filter(|_| validators);
                let ours = ours.map(|ours| match seen.stored(collection) {
                    Some(stored) => stored_validator(stored, &ours),
                    None => ours,
                });
                let name = seen.stored_name(collection);
                ours.and_then(|ours| validator(&name, &found.options, &ours))
                    .into_iter()
                    .for_each(&mut lacks);
            }
        }
        let indexes = there.map_or(&[][..], |(_, indexes)| indexes);
        if collection == ACCOUNTS
            && let Some(path) = seen.layout.as_ref().and_then(Layout::key)
            && !indexes.iter().any(SeenIndex::keeps_ids_unique)
        {
            lacks(Lack::Key { path: path.to_owned() });
        }
        let stored = seen.stored(collection);
        let lacking = definition.indexes.iter();
        lacking.filter_map(|wanted| index(wanted, indexes, stored)).for_each(lacks);
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
            Ok(()) if settings.standby != standby => {
                Some(Lack::SettingsStandby { wanted: standby })
            }
            Ok(()) if settings.notation.form != amounts => {
                Some(Lack::SettingsAmounts { wanted: amounts })
            }
            Ok(()) => None,
        },
    };
    findings.extend(lack.map(|lack| seen.finding(SETTINGS, lack)));
    findings
}

/// The settings that there would be with what the owner chooses.
fn wanted(seen: &Catalogue, known: Known, choice: Choice) -> LedgerSettings {
    let remembered = seen.settings.clone().unwrap_or_else(|| LedgerSettings::new(known, choice));
    remembered.chosen(choice)
}

/// An index that is there although the ledger does without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unneeded {
    /// The collection that has it, by its name in the database.
    pub collection: String,
    /// Its name.
    pub index: &'static str,
}

impl Unneeded {
    /// The command of `mongosh` that drops it.
    #[must_use]
    pub fn command(&self) -> String {
        let (collection, index) = (shell::text(&self.collection), shell::text(self.index));
        format!("db.getCollection({collection}).dropIndex({index})")
    }
}

/// The indexes that are there although the ledger does without.
pub(super) fn unneeded(seen: &Catalogue, known: Known, choice: Choice) -> Vec<Unneeded> {
    let wanted = definitions(&wanted(seen, known, choice), seen.layout.as_ref());
    let mut unneeded = Vec::new();
    for Definition { name: collection, indexes, .. } in wanted {
        let there = seen.collections.get(collection).map_or(&[][..], |(_, indexes)| indexes);
        for index in made_by_tandem(collection) {
            let is_there = there.iter().any(|there| index.is_served_by(there));
            if is_there && !indexes.contains(&index) {
                let collection = seen.stored_name(collection);
                unneeded.push(Unneeded { collection, index: index.name });
            }
        }
    }
    unneeded
}

fn index(wanted: &Index, there: &[SeenIndex], stored: Option<&Collection>) -> Option<Lack> {
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
    let mut options = wanted.to_document();
    if let Some(stored) = stored {
        options = stored_index(stored, options);
    }
    let key = options.remove("key").and_then(|key| key.as_document().cloned());
    let arguments = [&key.unwrap_or_default(), &options].map(shell::document).join(", ");
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

#[cfg(test)]
mod tests {
    use mongodb::bson::{Bson, doc};
    use mongodb::results::CollectionSpecification;

    use super::super::names::{ACTS, JOBS, JOURNAL, ORDER, SUMS, TRANSACTIONS};
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
        let collections = definitions(&settings, None).into_iter().map(|definition| {
            let model = |index: &Index| SeenIndex::new(index.to_document());
            let indexes = definition.indexes.iter().map(model).collect();
            let validator = definition.validator.unwrap_or_default();
            (definition.name.to_owned(), (with(validator), indexes))
        });
        Catalogue {
            settings: Some(settings),
            collections: collections.collect(),
            accepted: vec![],
            ..Catalogue::default()
        }
    }

    fn kinds(seen: &Catalogue, validators: bool) -> Vec<(&'static str, &'static str)> {
        let choice = Choice { validators: Some(validators), ..Choice::default() };
        let findings = compare(seen, Known::THIS, choice);
        findings.iter().map(|finding| (finding.collection, finding.kind())).collect()
    }

    #[test]
    fn a_whole_ledger_lacks_nothing_and_an_empty_database_everything() {
        assert_eq!(kinds(&whole(), true), []);
        for (history, keys, indexes) in [(false, false, 5), (false, true, 6), (true, true, 6)] {
            let choice =
                Choice { history: Some(history), exclusive_keys: Some(keys), ..Choice::default() };
            let findings = compare(&Catalogue::default(), Known::THIS, choice);
            let mut expected = vec![(ACCOUNTS, "collection"), (TRANSACTIONS, "collection")];
            expected.extend([(TRANSACTIONS, "index")].repeat(indexes));
            expected.push((JOURNAL, "collection"));
            expected.extend([(JOURNAL, "index")].repeat(if history { 2 } else { 0 }));
            expected.extend([(ORDER, "collection"), (ORDER, "index")]);
            expected.extend([(WORKERS, "collection"), (WORKERS, "index")]);
            expected.extend([(ACTS, "collection"), (ACTS, "index"), (ACTS, "index")]);
            expected.extend([(JOBS, "collection"), (JOBS, "index"), (JOBS, "index")]);
            if history {
                expected.extend([(SUMS, "collection"), (SUMS, "index")]);
            }
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
                indexes[0].own.insert("key", doc! { "takeoverAt": -1 })
            )),
            [(TRANSACTIONS, "index_differs")]
        );
        let renamed: Change = |_, indexes| {
            indexes[0].own.insert("name", "takeoverAt_1");
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
            indexes[0].own.remove("expireAfterSeconds");
        };
        assert_eq!(change(WORKERS, everlasting), [(WORKERS, "index_differs")]);
        let unset = Catalogue { settings: None, ..whole() };
        assert_eq!(kinds(&unset, true), [(SETTINGS, "settings")]);
    }

    #[test]
    fn accounts_that_are_known_by_another_field_need_an_index_that_keeps_it_unique() {
        let layout = Layout::from_toml("[accounts.fields]\n_id = \"name\"").expect("it is good");
        let with = |index: Document| {
            let mut seen = Catalogue { layout: Some(layout.clone()), ..whole() };
            let (_, indexes) = seen.collections.get_mut(ACCOUNTS).expect("it is there");
            indexes.push(SeenIndex::new(index));
            // The validators are those of a ledger without a layout.
            let kinds = kinds(&seen, true).into_iter();
            kinds.filter(|(_, kind)| !kind.starts_with("validator")).collect::<Vec<_>>()
        };
        let unique = doc! { "name": "theirs", "key": { "_id": 1 }, "unique": true };
        assert_eq!(with(unique.clone()), []);
        assert_eq!(with(doc! { "sparse": true, "key": { "_id": -1.0 }, "unique": true }), []);
        let lacking = [(ACCOUNTS, "key")];
        assert_eq!(with(doc! { "key": { "_id": 1 } }), lacking);
        assert_eq!(with(doc! { "key": { "_id": 1, "x": 1 }, "unique": true }), lacking);
        assert_eq!(with(doc! { "key": { "_id": "hashed" }, "unique": true }), lacking);
        for option in ["partialFilterExpression", "collation", "hidden"] {
            let mut index = unique.clone();
            index.insert(
                option,
                if option == "hidden" { true.into() } else { Bson::from(doc! { "x": 1 }) },
            );
            assert_eq!(with(index), lacking, "{option}");
        }
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
        let names = |unneeded: Vec<Unneeded>| -> Vec<_> {
            unneeded.iter().map(|unneeded| unneeded.index).collect()
        };
        assert_eq!(needs(&seen, off), ["settings_history"]);
        assert_eq!(names(unneeded(&seen, Known::THIS, off)), ["by_account", "by_time"]);
        assert!(unneeded(&seen, Known::THIS, on()).is_empty());
        let seen = whole_as(off);
        assert_eq!(kinds(&seen, true), []);
        assert_eq!(
            needs(&seen, on()),
            ["index", "index", "collection", "index", "settings_history"]
        );
    }

    #[test]
    fn without_exclusive_keys_nobody_misses_their_index_and_one_that_is_left_is_named() {
        let off = Choice { exclusive_keys: Some(false), ..on() };
        let mut seen = whole();
        let findings = compare(&seen, Known::THIS, off);
        let kinds: Vec<_> = findings.iter().map(Finding::kind).collect();
        assert_eq!(kinds, ["settings_exclusive_keys"]);
        let key = Unneeded { collection: TRANSACTIONS.to_owned(), index: "exclusive_key" };
        assert_eq!(unneeded(&seen, Known::THIS, off), [key]);
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

    #[test]
    fn commands_name_collections_and_fields_as_they_are_stored() {
        let layout = layout::Layout::from_toml(
            "[accounts]\ncollection = \"my users\"\nfields = { balance = \"wallet.sum\" }\n\
             [transactions]\ncollection = \"payments\"\nfields = { state = \"word\" }",
        );
        let mut seen = whole();
        seen.layout = Some(layout.expect("it is good"));
        // The indexes are told by Tandem's names, and validators as they are stored.
        for collection in [ACCOUNTS, TRANSACTIONS] {
            let stored = seen.stored(collection).expect("it is laid out").clone();
            let (found, _) = seen.collections.get_mut(collection).expect("it is there");
            let rules = found.options.validator.as_ref().expect("it has one");
            found.options.validator = Some(stored_validator(&stored, rules));
        }
        assert_eq!(compare(&seen, Known::THIS, on()), [], "its own validators are known");
        let (found, _) = seen.collections.get_mut(ACCOUNTS).expect("it is there");
        found.options.validator = Some(doc! { "x": 1 });
        let (_, indexes) = seen.collections.get_mut(TRANSACTIONS).expect("it is there");
        indexes.retain(|index| index.name() != "due");
        let unique = doc! { "name": "theirs", "v": 2, "key": { "from": 1 }, "unique": true };
        let slow = |field: &str| doc! { "name": "slow", "v": 2, "key": { field: 1 } };
        let slow = SeenIndex::laid_out(slow("state"), slow("word"));
        indexes.extend([SeenIndex::new(unique), slow]);

        let findings = compare(&seen, Known::THIS, on());
        let told: Vec<String> = findings.iter().map(ToString::to_string).collect();
        let commands: Vec<String> = findings.iter().filter_map(Finding::command).collect();
        let drop = "db.getCollection(\"payments\").dropIndex(\"theirs\")";
        assert_eq!(commands[0], drop);
        assert!(
            commands[1].starts_with("db.runCommand({\"collMod\": \"my users\""),
            "{commands:?}"
        );
        assert!(commands[1].contains("$wallet.sum"), "{commands:?}");
        let index = "`payments` has no index `due`: {\"tandem.dueAt\": 1}, {\"name\": \"due\", ";
        assert!(told.iter().any(|one| one.starts_with(index)), "{told:#?}");
        let slowing = crate::slowing::slowing(&seen);
        let names: Vec<_> = slowing.iter().map(|one| (&*one.collection, &*one.field)).collect();
        assert_eq!(names, [("payments", "word")]);
        let off = Choice { exclusive_keys: Some(false), ..on() };
        let command = unneeded(&seen, Known::THIS, off)[0].command();
        assert_eq!(command, "db.getCollection(\"payments\").dropIndex(\"exclusive_key\")");
    }
}
