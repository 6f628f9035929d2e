//! Schemas that are drawn, and how their owner writes documents.

use std::collections::BTreeMap;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const KINDS: [&str; 3] = ["text", "objectId", "int64"];

/// A schema, and how its owner writes documents.
pub struct Drawn {
    pub of_accounts: Collection,
    pub of_transactions: Collection,
    /// The word for a frozen account.
    pub frozen: String,
    /// Words for the states that the owner writes and reads.
    pub words: BTreeMap<&'static str, String>,
    pub decimals: bool,
    numbers: Numbers,
    ids: i64,
}

/// One of the two collections.
pub struct Collection {
    pub name: String,
    pub ids: &'static str,
    pub paths: BTreeMap<&'static str, String>,
}

/// How the owner writes whole numbers.
#[derive(Clone, Copy)]
pub enum Numbers {
    Int32,
    Int64,
    Double,
}

impl Drawn {
    pub fn new(seed: u64) -> Drawn {
        let mut random = StdRng::seed_from_u64(seed);
        let mut of_accounts = Collection::new(
            &mut random,
            "accounts",
            &[
                "balance",
                "pendingTransactions",
                "pendingDebits",
                "pendingCredits",
                "floor",
                "status",
            ],
        );
        let key = if random.random_bool(0.4) { "who.key" } else { "_id" };
        of_accounts.paths.insert("_id", key.to_owned());
        let mut of_transactions = Collection::new(
            &mut random,
            "transactions",
            &["source", "destination", "value", "legs", "state", "lastModified", "application"],
        );
        of_transactions.paths.insert("_id", "_id".to_owned());
        let mut words = BTreeMap::new();
        for own in ["initial", "done", "canceled"] {
            let word = if random.random_bool(0.5) { own.to_owned() } else { format!("w {own}") };
            words.insert(own, word);
        }
        let frozen = if random.random_bool(0.5) { "frozen" } else { "gelocked" }.to_owned();
        let numbers =
            *[Numbers::Int32, Numbers::Int64, Numbers::Double].choose(&mut random).expect("some");
        let decimals = random.random_bool(0.3);
        Drawn { of_accounts, of_transactions, frozen, words, decimals, numbers, ids: 0 }
    }

    pub fn to_toml(&self) -> String {
        let words =
            self.words.iter().map(|(own, word)| format!("{own} = [{word:?}, \"also {own}\"]"));
        let words: Vec<String> = words.collect();
        format!(
            "[accounts]\n{}[accounts.status]\nfrozen = [{:?}]\n[transactions]\n{}\
             [transactions.state]\n{}\n",
            self.of_accounts.to_toml(),
            self.frozen,
            self.of_transactions.to_toml(),
            words.join("\n")
        )
    }

    /// An amount as the owner writes it.
    pub fn number(&self, value: i32) -> Bson {
        match (self.decimals, self.numbers) {
            (true, _) => Bson::Decimal128(format!("{value}.00").parse().expect("a decimal")),
            (false, Numbers::Int32) => value.into(),
            (false, Numbers::Int64) => i64::from(value).into(),
            (false, Numbers::Double) => f64::from(value).into(),
        }
    }

    /// A new id: its text, and how it is stored.
    pub fn id(&mut self, kind: &str) -> (String, Bson) {
        self.ids += 1;
        match kind {
            "objectId" => {
                let id = ObjectId::new();
                (id.to_hex(), id.into())
            }
            "int64" => (self.ids.to_string(), self.ids.into()),
            _ => (format!("$id.{}", self.ids), format!("$id.{}", self.ids).into()),
        }
    }

    /// A document of the owner's, with fields that have names of Tandem's.
    pub fn document(of: &Collection, fields: &[(&'static str, Bson)]) -> Document {
        let mut document = doc! { "claim": "a complaint" };
        for (name, value) in fields {
            put(&mut document, &of.paths[name], value.clone());
        }
        document
    }
}

impl Collection {
    pub fn new(random: &mut StdRng, name: &str, fields: &[&'static str]) -> Collection {
        let suffix = ["", ".of us", "2024", ".events"].choose(random).expect("some");
        let parents = ["", "", "w.", "w.deep.", "Größe.", "tandem."];
        let mut paths = BTreeMap::new();
        for field in fields {
            let path = match *parents.choose(random).expect("some") {
                // Under Tandem's own path a field keeps its name.
                "tandem." => format!("tandem.{field}"),
                parent => format!("{parent}f-{field}"),
            };
            paths.insert(*field, path);
        }
        let ids = KINDS.choose(random).expect("some");
        Collection { name: format!("{name}{suffix}"), ids, paths }
    }

    /// An object on the way to a field, but for the key's.
    pub fn parent(&self) -> Option<&str> {
        let key = self.paths["_id"].split('.').next();
        let parents = self.paths.values().filter_map(|path| path.split_once('.'));
        parents.map(|(parent, _)| parent).find(|parent| Some(*parent) != key)
    }

    pub fn to_toml(&self) -> String {
        let fields = self.paths.iter().filter(|(_, path)| *path != "_id");
        let fields: Vec<String> = fields.map(|(name, path)| format!("{name} = {path:?}")).collect();
        format!(
            "collection = {:?}\nids = {:?}\nfields = {{ {} }}\n",
            self.name,
            self.ids,
            fields.join(", ")
        )
    }
}

/// Puts a value at a path.
pub fn put(document: &mut Document, path: &str, value: Bson) {
    match path.split_once('.') {
        None => drop(document.insert(path, value)),
        Some((name, rest)) => {
            let mut inner = document.get_document(name).cloned().unwrap_or_default();
            put(&mut inner, rest, value);
            document.insert(name, inner);
        }
    }
}
