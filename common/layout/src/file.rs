//! The layout of a ledger as its owner writes it: a file in TOML, and the same in the ledger's
//! settings.
//!
//! Promises that whatever is read is good in itself: no field is left where another one stands, no
//! word has two meanings, and a name that means nothing is an error. The default layout is none at
//! all: documents as Tandem makes them.

use std::collections::BTreeMap;

use bson::RawBson;
use ledger::account::Status;
use ledger::amount::Amount;
use ledger::transaction::{State, check_name};
use serde::{Deserialize, Serialize};

use super::OWN;
use super::collection::{Collection, LEGS};
use super::ids::IdKind;
use super::path::Path;
use super::places::Places;
use super::words::Words;

/// The fields of an account that its owner may name. All others are Tandem's own.
const OF_ACCOUNTS: [&str; 8] = [
    "_id",
    "balance",
    "pendingTransactions",
    "pendingDebits",
    "pendingCredits",
    "floor",
    "status",
    "currency",
];

/// The same of a transaction; its `_id` is always `_id`.
const OF_TRANSACTIONS: [&str; 8] =
    ["source", "destination", "value", LEGS, "currency", "state", "lastModified", "application"];

/// No longer name of a collection is taken, in bytes. The server's limit is of name and database
/// together.
const NAME_BYTES_MAX: usize = 120;

/// Where a ledger lives.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Its accounts.
    pub accounts: Collection,
    /// Its transactions.
    pub transactions: Collection,
    /// As it was written.
    written: Written,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    accounts: WrittenAccounts,
    #[serde(default)]
    transactions: WrittenTransactions,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAccounts {
    collection: Option<String>,
    #[serde(default)]
    ids: IdKind,
    #[serde(default)]
    fields: BTreeMap<String, String>,
    #[serde(default)]
    status: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    missing: WrittenMissing,
}

/// What a field means that is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenMissing {
    floor: Option<WrittenFloor>,
    currency: Option<String>,
}

/// Minor units, a decimal as a text, or `"none"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenFloor {
    Whole(i64),
    Text(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTransactions {
    collection: Option<String>,
    #[serde(default)]
    ids: IdKind,
    #[serde(default)]
    fields: BTreeMap<String, String>,
    #[serde(default)]
    state: BTreeMap<String, Vec<String>>,
}

/// What is wrong with a layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadLayout(String);

impl Layout {
    /// Reads a file.
    ///
    /// # Errors
    /// Says where and what is wrong.
    pub fn from_toml(text: &str) -> Result<Layout, BadLayout> {
        let written = toml::from_str(text).map_err(|error| BadLayout(error.to_string()))?;
        Layout::new(written)
    }

    /// Whether it is that of documents as Tandem makes them.
    #[must_use]
    pub fn is_default(&self) -> bool {
        Layout::new(Written::default()).is_ok_and(|default| self.is_same(&default))
    }

    /// Whether the other one says the same, in whatever words.
    #[must_use]
    pub fn is_same(&self, other: &Layout) -> bool {
        self.accounts == other.accounts && self.transactions == other.transactions
    }

    /// A file to begin with, in which every key has a comment.
    #[must_use]
    pub fn template() -> &'static str {
        include_str!("template.toml")
    }

    /// The file again, without its comments.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.written).expect("texts and lists of texts can be written")
    }

    /// The collection of this one of Tandem's names.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<&Collection> {
        match name {
            "accounts" => Some(&self.accounts),
            "transactions" => Some(&self.transactions),
            _ => None,
        }
    }

    /// The path by which accounts are known, where that is not `_id`.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        let key = self.accounts.fields.get("_id").map(Path::as_str);
        key.filter(|path| *path != "_id")
    }

    /// The currency of what names none; none where that has none.
    #[must_use]
    pub fn currency(&self) -> Option<&str> {
        self.written.accounts.missing.currency.as_deref()
    }

    fn new(written: Written) -> Result<Layout, BadLayout> {
        let accounts = accounts(&written.accounts);
        let accounts = accounts.map_err(|problem| BadLayout(format!("accounts: {problem}")))?;
        let transactions = transactions(&written.transactions, &written.accounts);
        let transactions =
            transactions.map_err(|problem| BadLayout(format!("transactions: {problem}")))?;
        if accounts.name == transactions.name {
            let problem = format!("accounts and transactions are both in {:?}", accounts.name);
            return Err(BadLayout(problem));
        }
        Ok(Layout { accounts, transactions, written })
    }
}

fn accounts(written: &WrittenAccounts) -> Result<Collection, String> {
    let statuses = Status::ALL.map(Status::as_str);
    let words = Words::new(&statuses, &written.status, Some(Status::Open.as_str()));
    let (fields, rest) = (paths(&OF_ACCOUNTS, &written.fields)?, Path::parse(OWN)?);
    let collection = Collection {
        name: named(written.collection.as_deref(), "accounts")?,
        places: Places::new(&fields, &rest),
        fields,
        rest,
        spoken: ("status", words.map_err(|problem| format!("status: {problem}"))?),
        missing: missing(&written.missing).map_err(|problem| format!("missing.{problem}"))?,
        witness: "balance",
        ids: BTreeMap::from([("_id", written.ids)]),
    };
    collection.check()?;
    Ok(collection)
}

fn transactions(
    written: &WrittenTransactions,
    accounts: &WrittenAccounts,
) -> Result<Collection, String> {
    let currency = accounts.missing.currency.iter();
    let missing = currency.map(|name| ("currency", name.as_str().into())).collect();
    let accounts = accounts.ids;
    let states = State::ALL.map(State::as_str);
    let words = Words::new(&states, &written.state, None);
    let mut fields = paths(&OF_TRANSACTIONS, &written.fields)?;
    fields.insert("_id", Path::parse("_id")?);
    let rest = Path::parse(OWN)?;
    let collection = Collection {
        name: named(written.collection.as_deref(), "transactions")?,
        places: Places::new(&fields, &rest),
        fields,
        rest,
        spoken: ("state", words.map_err(|problem| format!("state: {problem}"))?),
        missing,
        witness: "value",
        ids: BTreeMap::from([
            ("_id", written.ids),
            ("reverses", written.ids),
            ("source", accounts),
            ("destination", accounts),
            (LEGS, accounts),
        ]),
    };
    collection.check()?;
    Ok(collection)
}

fn missing(written: &WrittenMissing) -> Result<BTreeMap<&'static str, RawBson>, String> {
    let mut missing = BTreeMap::new();
    if let Some(floor) = &written.floor {
        let amount = match floor {
            WrittenFloor::Whole(floor) => Some(Amount::Int(*floor)),
            WrittenFloor::Text(floor) if floor == "none" => None,
            WrittenFloor::Text(floor) => Some(decimal(floor)?),
        };
        if let Some(amount) = amount {
            Amount::from_bson(&amount.into()).map_err(|error| format!("floor: {error}"))?;
        }
        // Without a word for it, it is zero.
        if !amount.is_some_and(Amount::is_zero) {
            missing.insert("floor", amount.map_or(RawBson::Null, RawBson::from));
        }
    }
    if let Some(currency) = &written.currency {
        check_name("currency", currency).map_err(|error| error.to_string())?;
        missing.insert("currency", currency.as_str().into());
    }
    Ok(missing)
}

fn decimal(text: &str) -> Result<Amount, String> {
    let bad = || {
        format!(
            "floor: {:?} is no amount; write minor units as a number without quotes, a decimal \
             like \"-12.50\", or \"none\"",
            ledger::limits::echo(text)
        )
    };
    Amount::parse_decimal(text).map_err(|_| bad())
}

fn named(given: Option<&str>, default: &str) -> Result<String, String> {
    let name = given.unwrap_or(default);
    let is_bad = name.is_empty()
        || name.len() > NAME_BYTES_MAX
        || name.contains(['$', '\0'])
        || name.starts_with("system.");
    if is_bad {
        return Err(format!("collection: {name:?} can't be the name of a collection"));
    }
    if name == OWN || name.strip_prefix(OWN).is_some_and(|rest| rest.starts_with('.')) {
        return Err(format!("collection: {name:?} is one of Tandem's own names"));
    }
    Ok(name.to_owned())
}

fn paths(
    own: &[&'static str],
    given: &BTreeMap<String, String>,
) -> Result<BTreeMap<&'static str, Path>, String> {
    if let Some(unknown) = given.keys().find(|name| !own.contains(&name.as_str())) {
        return Err(format!("fields: {unknown:?} is none of {}", own.join(", ")));
    }
    let path = |name: &&'static str| {
        let path = given.get(*name).map_or(*name, String::as_str);
        let path = Path::parse(path).map_err(|problem| format!("fields.{name}: {problem}"))?;
        Ok((*name, path))
    };
    own.iter().map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Layout, String> {
        Layout::from_toml(text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_read_is_written_and_read_again() {
        let text = r#"
            [accounts]
            collection = "users"
            ids = "objectId"
            fields = { balance = "wallet.balance", floor = "tandem.floor" }
            status = { frozen = ["locked", "blocked"] }
            [transactions]
            collection = "payments"
            fields = { source = "from", destination = "to" }
            state = { canceled = ["canceled", "cancelled"] }
        "#;
        let layout = read(text).expect("it is good");
        assert_eq!(read(&layout.to_toml()), Ok(layout.clone()));
        let Layout { accounts, transactions, .. } = layout;
        assert_eq!((accounts.name(), transactions.name()), ("users", "payments"));
        assert_eq!(accounts.path("balance"), "wallet.balance");
        assert_eq!(accounts.path("openingBalance"), "tandem.openingBalance");
        assert_eq!(transactions.path("source"), "from");
        assert_eq!(transactions.path("legs.0"), "legs.0");
        assert_eq!(transactions.path("captured.0.account"), "tandem.captured.0.account");
        assert_eq!(transactions.name_of("to").as_deref(), Some("destination"));
        assert_eq!(transactions.name_of("tandem.claim").as_deref(), Some("claim"));
        assert_eq!(transactions.name_of("tandem.parked.at").as_deref(), Some("parked.at"));
        assert_eq!(transactions.name_of("from.x").as_deref(), Some("source.x"));
        assert_eq!(transactions.name_of("tandem.source"), None);
        assert_eq!(transactions.name_of("source"), None);
        assert_eq!(accounts.parents(), ["tandem", "wallet"]);
        assert_eq!(accounts.own_path(), "tandem");
        assert_eq!(accounts.named_within().collect::<Vec<_>>(), ["floor"]);
        assert_eq!(transactions.named_within().count(), 0);
    }

    #[test]
    fn the_file_to_begin_with_names_everything_as_it_is_without_a_file() {
        let named = read(Layout::template()).expect("it is good");
        let plain = read("").expect("it is good");
        assert!(named.is_same(&plain) && named.is_default());
        let other = read("[accounts]\ncollection = \"users\"").expect("it is good");
        assert!(!other.is_default());
        let written: Written = toml::from_str(Layout::template()).expect("it is good");
        assert_eq!(written.accounts.fields.len(), OF_ACCOUNTS.len());
        assert_eq!(written.accounts.status.len(), Status::ALL.len());
        assert_eq!(written.transactions.fields.len(), OF_TRANSACTIONS.len());
        assert_eq!(written.transactions.state.len(), State::ALL.len());
    }

    #[test]
    fn a_layout_that_would_mix_fields_up_is_refused_with_its_place() {
        for (bad, named) in [
            ("[accounts.missing]\nfloor = \"ten\"", "missing.floor"),
            ("[accounts.missing]\nfloor = 9223372036854775807", "missing.floor"),
            ("[accounts.missing]\ncurrency = \"\"", "missing.currency"),
            ("[accounts.missing]\nbalance = 0", "balance"),
            ("[accounts]\nfields = { balance = \"status\" }", "both at status"),
            ("[accounts]\nfields = { balance = \"status.x\" }", "leads through status"),
            ("[accounts]\nfields = { balance = \"tandem\" }", "own fields stand"),
            ("[accounts]\nfields = { balance = \"tandem.claim\" }", "tandem.balance"),
            ("[accounts]\nfields = { balance = \"a.$b\" }", "fields.balance"),
            ("[accounts]\nfields = { amount = \"a\" }", "\"amount\" is none of"),
            ("[accounts]\nstatus = { locked = [\"x\"] }", "status: \"locked\""),
            ("[transactions]\nstate = { done = [\"initial\"] }", "state: \"initial\""),
            ("[transactions]\ncollection = \"accounts\"", "both in \"accounts\""),
            ("[transactions]\ncollection = \"tandem.journal\"", "Tandem's own"),
            ("[transactions]\ncollection = \"system.x\"", "can't be the name"),
            ("[transactions]\nids = \"uuid\"", "uuid"),
            ("[transaction]\n", "transaction"),
        ] {
            let problem = read(bad).expect_err(bad);
            assert!(problem.contains(named), "{bad}: {problem}");
        }
    }
}
