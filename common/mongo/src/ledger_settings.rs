//! The settings document of a ledger: what every program that works on it has to know.
//!
//! Owns `{_id: "settings"}` in the collection `tandem.settings`. The program that sets a database
//! up writes it; `producer init --apply` raises it once the old workers have drained. Programs read
//! it when they start, and workers again about every second. A program that finds a protocol version or
//! a feature that it does not know stops, because it could misread what newer programs have
//! written.

use ledger::LedgerError;
use ledger::amount::Amount;
use ledger::limits::echo;
use ledger::notation::{Form, Notation};
use ledger::remedy::Remedy;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use super::names::SETTINGS;
use super::own::LEDGER_SETTINGS;
use super::{Fields, Store, journal};

/// The `_id` of the document.
pub(super) const ID: &str = "settings";

/// What a version of Tandem knows.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Raised when older programs would misread what this version writes.
    pub protocol: i64,
    /// Names of what a ledger may use beyond the protocol.
    pub features: &'static [&'static str],
}

impl Known {
    /// This version.
    pub const THIS: Known = Known { protocol: 6, features: &[] };
}

/// The document as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerSettings {
    /// The version of the protocol that all programs follow.
    pub protocol: i64,
    /// What the ledger uses beyond it.
    pub features: Vec<String>,
    /// Whether the collections are to have Tandem's validators.
    pub validators: bool,
    /// Whether workers publish an event for each transaction that ends.
    pub events: bool,
    /// Whether there are indexes for lists and statements.
    pub history: bool,
    /// Whether there is the index that keeps exclusive keys unique.
    pub exclusive_keys: bool,
    /// Whether one worker at a time is at work, and the others stand by for it; else all of them
    /// share the work. Workers follow a change while they run.
    pub standby: bool,
    /// The names of indexes of the owner's own that may refuse writes, and that the owner has
    /// accepted.
    pub accepted_indexes: Vec<String>,
    /// The form of all amounts, and the owner's own currencies. The form changes only while there
    /// is no account, and the places of a currency never do.
    pub notation: Notation,
    /// Where the fields of accounts and transactions stand, as [`layout::Layout`] writes it; none
    /// for documents as Tandem makes them. It never changes.
    pub layout: Option<String>,
    /// Whether all collections and indexes have been created. If not, the next program goes on.
    pub complete: bool,
}

/// Why a program can't work with these settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// They name what this version does not know.
    #[error(
        "the settings document of the ledger names {0}, which this version of Tandem does not \
         know; install the newer version"
    )]
    Unknown(String),
    /// An older version has set it up, and its documents mean something else.
    #[error(
        "the ledger was set up by an older version of Tandem (protocol {0}, and this version has \
         {this}); this version can't go on with it: finish it with that version, and set up \
         another database with this one", this = Known::THIS.protocol
    )]
    Outdated(i64),
    /// They do not yet name what this version needs.
    #[error(
        "the settings document of the ledger is of an older version ({0}); stop all old workers, \
         then run {remedy}",
        remedy = Remedy::Apply
    )]
    Behind(String),
    /// A worker was told to publish events, or not to, and the ledger says otherwise.
    #[error(
        "TANDEM_EVENTS says {}, and the ledger has events {}; leave it out, or stop all workers \
         and run {}",
        on_off(*.wanted), on_off(!*.wanted), Remedy::Events(*.wanted)
    )]
    Events {
        /// What the worker was told.
        wanted: bool,
    },
    /// Somebody has changed whether there are events while a worker ran.
    #[error("the ledger has events {} now; start the worker again", on_off(*.on))]
    EventsChanged {
        /// What the ledger has now.
        on: bool,
    },
    /// The ledger has accounts, whose amounts have another form.
    #[error(
        "{}, and that does not change once there are accounts; leave --amounts out, or set up \
         another database with it", .0.told()
    )]
    Amounts(Form),
    /// The places of a currency are known, or accounts have it.
    #[error("{0}")]
    Places(String),
    /// The ledger was set up with another layout, or without one.
    #[error(
        "the ledger was set up with another schema, and a schema never changes; set up another \
         database with it"
    )]
    Layout,
    /// Somebody has changed the layout while a program ran.
    #[error("the schema of the ledger has changed; start the program again")]
    LayoutChanged,
    /// Somebody has edited it by hand, and it is not valid.
    #[error(
        "the settings document of the ledger (collection `tandem.settings`, _id \"settings\") is not \
         readable: {0}; correct it, or move it away if it is not Tandem's"
    )]
    Unreadable(String),
    /// Somebody has edited what was said of settlement by hand, so nobody knows whether it is
    /// paused.
    #[error(
        "nobody can tell whether settlement is paused: the document of the collection \
         `tandem.settlement` with _id \"settlement\" is not readable; correct it, or move it away: \
         without it settlement goes on"
    )]
    SettlementUnreadable,
}

/// What the owner of a ledger chooses; `None` leaves it as it is, and means the default for a fresh
/// ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Whether the collections are to have Tandem's validators.
    pub validators: Option<bool>,
    /// Whether workers publish an event for each transaction that ends.
    pub events: Option<bool>,
    /// Whether there are indexes for lists and statements.
    pub history: Option<bool>,
    /// Whether there is the index that keeps exclusive keys unique.
    pub exclusive_keys: Option<bool>,
    /// Whether one worker at a time is at work.
    pub standby: Option<bool>,
    /// The form of all amounts.
    pub amounts: Option<Form>,
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

impl LedgerSettings {
    /// What a ledger of this version has.
    #[must_use]
    pub fn new(known: Known, choice: Choice) -> LedgerSettings {
        LedgerSettings {
            protocol: known.protocol,
            features: known.features.iter().map(ToString::to_string).collect(),
            validators: choice.validators.unwrap_or(true),
            events: choice.events.unwrap_or(true),
            history: choice.history.unwrap_or(journal::HISTORY_BY_DEFAULT),
            exclusive_keys: choice.exclusive_keys.unwrap_or(true),
            standby: choice.standby.unwrap_or(false),
            accepted_indexes: Vec::new(),
            notation: Notation { form: choice.amounts.unwrap_or_default(), ..Notation::default() },
            layout: None,
            complete: false,
        }
    }

    /// The same with what its owner chooses.
    #[must_use]
    pub fn chosen(&self, choice: Choice) -> LedgerSettings {
        LedgerSettings {
            validators: choice.validators.unwrap_or(self.validators),
            events: choice.events.unwrap_or(self.events),
            history: choice.history.unwrap_or(self.history),
            exclusive_keys: choice.exclusive_keys.unwrap_or(self.exclusive_keys),
            standby: choice.standby.unwrap_or(self.standby),
            notation: Notation {
                form: choice.amounts.unwrap_or(self.notation.form),
                own: self.notation.own.clone(),
            },
            ..self.clone()
        }
    }

    /// Reads the document.
    ///
    /// # Errors
    /// [`Misfit::Outdated`] for one that an older version has written; [`Misfit::Unreadable`],
    /// naming the field.
    pub fn from_document(document: &Document) -> Result<LedgerSettings, Misfit> {
        let bad =
            |field: &str, should: &str| Misfit::Unreadable(format!("`{field}` must be {should}"));
        if document.get_str("kind").ok() != Some(LEDGER_SETTINGS.kind) {
            return Err(bad("kind", &format!("{:?}", LEDGER_SETTINGS.kind)));
        }
        let protocol = match document.get("protocol") {
            Some(Bson::Int32(version)) => i64::from(*version),
            Some(Bson::Int64(version)) => *version,
            _ => return Err(bad("protocol", "a whole number")),
        };
        // What else an older version has written is of no use.
        if protocol < Known::THIS.protocol {
            return Err(Misfit::Outdated(protocol));
        }
        let names = |field| {
            let names = document.get_array(field).map_err(|_| bad(field, "a list"))?;
            let name = |name: &Bson| name.as_str().map(str::to_owned);
            let names: Option<Vec<String>> = names.iter().map(name).collect();
            names.ok_or_else(|| bad(field, "a list of texts"))
        };
        let flag = |field| document.get_bool(field).map_err(|_| bad(field, "true or false"));
        Ok(LedgerSettings {
            protocol,
            features: names("features")?,
            validators: flag("validators")?,
            events: flag("events")?,
            history: flag("history")?,
            exclusive_keys: flag("exclusiveKeys")?,
            // A ledger may be older than the choice.
            standby: document.contains_key("standby") && flag("standby")?,
            accepted_indexes: names("acceptedIndexes")?,
            notation: notation(document)?,
            layout: match document.get("layout") {
                None => None,
                Some(Bson::String(layout)) => Some(layout.clone()),
                Some(_) => return Err(bad("layout", "a text")),
            },
            complete: flag("complete")?,
        })
    }

    pub(super) fn to_document(&self) -> Document {
        let mut document = doc! {
            "kind": LEDGER_SETTINGS.kind,
            "protocol": self.protocol,
            "features": &self.features,
            "validators": self.validators,
            "events": self.events,
            "history": self.history,
            "exclusiveKeys": self.exclusive_keys,
            "standby": self.standby,
            "acceptedIndexes": &self.accepted_indexes,
            "amounts": self.notation.form.name(),
            "currencies": self.notation.own.iter().map(own_currency).collect::<Vec<_>>(),
            "complete": self.complete,
        };
        if let Some(layout) = &self.layout {
            document.insert("layout", layout);
        }
        document
    }

    /// Whether a program with this knowledge may work on the ledger.
    ///
    /// # Errors
    /// When the settings name more than it knows, or less than it needs.
    pub fn fits(&self, known: Known) -> Result<(), Misfit> {
        let named = |feature: &&String| known.features.contains(&feature.as_str());
        if self.protocol > known.protocol {
            return Err(Misfit::Unknown(format!("version {} of the protocol", self.protocol)));
        }
        if let Some(feature) = self.features.iter().find(|feature| !named(feature)) {
            return Err(Misfit::Unknown(format!("the feature {:?}", echo(feature))));
        }
        let has = |feature: &&&str| self.features.iter().any(|own| own == **feature);
        match known.features.iter().find(|feature| !has(feature)) {
            Some(feature) => Err(Misfit::Behind(format!("without the feature {feature:?}"))),
            None => Ok(()),
        }
    }
}

/// How the owner's own currency stands in the document.
pub(super) fn own_currency((code, places): (&String, &u32)) -> Document {
    doc! { "code": code, "places": i64::from(*places) }
}

/// A ledger may be older than the choice: then it has minor units.
fn notation(document: &Document) -> Result<Notation, Misfit> {
    let bad = |field: &str, should: &str| Misfit::Unreadable(format!("`{field}` must be {should}"));
    let form = match document.get("amounts") {
        None => Form::default(),
        Some(form) => {
            let form = form.as_str().and_then(Form::of);
            form.ok_or_else(|| bad("amounts", "\"minor-units\" or \"decimals\""))?
        }
    };
    let own = match document.get("currencies") {
        None => &Vec::new(),
        Some(Bson::Array(own)) => own,
        Some(_) => return Err(bad("currencies", "a list")),
    };
    let own = own.iter().map(|one| {
        let one = one.as_document()?;
        let places = match one.get("places")? {
            Bson::Int32(places) => i64::from(*places),
            Bson::Int64(places) => *places,
            _ => return None,
        };
        let places = u32::try_from(places).ok().filter(|places| *places <= Amount::PLACES_MAX)?;
        Some((one.get_str("code").ok()?.to_owned(), places))
    });
    let own: Option<_> = own.collect();
    let own = own.ok_or_else(|| bad("currencies", "a list of {code, places}"))?;
    Ok(Notation { form, own })
}

impl Store {
    /// The collection of the settings document.
    pub(super) fn settings_collection(&self) -> Collection<Document> {
        self.database.collection(SETTINGS)
    }

    /// The settings of a ledger that is set up.
    ///
    /// # Errors
    /// When the server is away, or the ledger is being set up or its settings can't be read.
    pub(super) async fn complete_settings(&self) -> Result<LedgerSettings, LedgerError> {
        let found = self.documents("settings", SETTINGS, &[ID], Fields::All).await?.pop();
        let unset = |what| LedgerError::passing("settings", what).without_effect();
        let Some(found) = found else { return Err(unset("the ledger is not set up yet")) };
        let lasting = |error: String| LedgerError::lasting("settings", error);
        let found = Document::try_from(found).map_err(|error| lasting(error.to_string()))?;
        let settings = LedgerSettings::from_document(&found);
        let settings = settings.map_err(|misfit| lasting(misfit.to_string()))?;
        match settings.complete {
            true => Ok(settings),
            false => Err(unset("the ledger is being set up")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Known = Known { protocol: 6, features: &["holds"] };

    fn settings(protocol: i64, features: &[&str]) -> LedgerSettings {
        let features = features.iter().map(ToString::to_string).collect();
        LedgerSettings { protocol, features, ..LedgerSettings::new(KNOWN, Choice::default()) }
    }

    #[test]
    fn a_program_works_only_with_exactly_what_it_knows() {
        assert_eq!(settings(6, &["holds"]).fits(KNOWN), Ok(()));
        for (settings, named) in
            [(settings(7, &["holds"]), "version 7"), (settings(6, &["holds", "events"]), "events")]
        {
            let misfit = settings.fits(KNOWN).expect_err(named);
            assert!(matches!(&misfit, Misfit::Unknown(what) if what.contains(named)), "{misfit}");
        }
        let misfit = settings(6, &[]).fits(KNOWN).expect_err("it lacks a feature");
        assert!(matches!(&misfit, Misfit::Behind(what) if what.contains("holds")), "{misfit}");
        assert!(misfit.to_string().contains("producer init --apply"), "{misfit}");
    }

    #[test]
    fn what_is_written_is_read_again_and_a_wrong_field_is_named() {
        let own = [("POINTS".to_owned(), 0)].into();
        let notation = Notation { form: Form::Decimals, own };
        let written = LedgerSettings { notation, ..settings(6, &["holds"]) };
        assert_eq!(LedgerSettings::from_document(&written.to_document()), Ok(written.clone()));
        for (field, value) in [
            ("kind", Bson::from("somebody's")),
            ("protocol", Bson::from("2")),
            ("protocol", Bson::from(2.5)),
            ("features", Bson::from("holds")),
            ("features", Bson::Array(vec![1.into()])),
            ("validators", Bson::Null),
            ("events", Bson::from("on")),
            ("history", Bson::Null),
            ("exclusiveKeys", Bson::from("on")),
            ("acceptedIndexes", Bson::from("reference_1")),
            ("amounts", Bson::from("cents")),
            ("currencies", Bson::from("POINTS")),
            ("currencies", Bson::Array(vec![doc! { "code": "POINTS", "places": 10 }.into()])),
            ("complete", Bson::from(1)),
        ] {
            let mut document = written.to_document();
            document.insert(field, value);
            let misfit = LedgerSettings::from_document(&document).expect_err(field);
            assert!(misfit.to_string().contains(field), "{misfit}");
        }
    }

    #[test]
    fn an_older_ledger_is_known_by_its_protocol_alone() {
        let older = doc! { "kind": LEDGER_SETTINGS.kind, "protocol": 5, "events": "on" };
        assert_eq!(LedgerSettings::from_document(&older), Err(Misfit::Outdated(5)));
        let whole = settings(5, &["holds"]).to_document();
        assert_eq!(LedgerSettings::from_document(&whole), Err(Misfit::Outdated(5)));
    }
}
