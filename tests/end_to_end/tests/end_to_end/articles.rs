//! Articles on two-phase commits in MongoDB, settled as they write them: `mongosh` runs their own
//! statements from `articles/`, `producer init` gets the schema of the same name from
//! `deploy/schemas`, and a worker finds the transactions by itself. Nobody sends a message.

use std::collections::BTreeSet;

use harness::deployment::root;
use harness::wait::{s, wait_until};
use harness::world::World;
use ledger::amount::Amount;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::ChangeStreamEvent;
use tokio::process::Command;

type Changes = ChangeStream<ChangeStreamEvent<Document>>;

const ENGINES: [&str; 2] = ["two-phase", "transaction"];

/// What runs a script of these tests in the shell of MongoDB, on the database of a world, after
/// statements that are `said` first.
pub(super) fn mongosh(world: &World, said: &str, script: &str) -> std::process::Command {
    let program = std::env::var("TANDEM_MONGOSH").expect("run the tests by deploy/test");
    let mut command = std::process::Command::new(program);
    command
        .args([&world.servers.mongodb_uri, "--quiet", "--norc", "--eval"])
        .arg(format!("db = db.getSiblingDB({:?}); {said}", world.name))
        .arg("--file")
        .arg(root().join("tests/end_to_end/tests/end_to_end").join(script))
        .env("HOME", world.directory());
    command
}

/// What an article writes, and how it has to end, in its own names.
struct Article {
    /// The name of its schema, with hyphens, and of its statements, with underscores.
    name: &'static str,
    /// Its collections of accounts and transactions.
    collections: [&'static str; 2],
    /// The fields of its accounts: key, balance, marks.
    account: [&'static str; 3],
    /// The field of a transaction's state.
    state: &'static str,
    /// What finds the transfer that has to be `done`, and the state before.
    paid: (Document, &'static str),
    /// What finds the one that is refused, its state in the end, and why.
    refused: (Document, &'static str, &'static str),
    /// What each account holds in the end.
    balances: Vec<(&'static str, Bson)>,
    /// The fields that Tandem may add to these documents.
    added: &'static [&'static str],
}

impl Article {
    /// Runs the statements, sets the ledger up, and lets a worker settle what it finds.
    async fn settles(&self) {
        for engine in ENGINES {
            let world = World::new().await;
            world.store.database().drop().await.expect("MongoDB is there");
            self.run_statements(&world).await;
            let written = self.fields(&world).await;
            let schema = root().join(format!("deploy/schemas/{}.toml", self.name));
            let schema = schema.to_str().expect("UTF-8");
            world.producer(&["init", "--schema", schema]).await.expect_success();
            let changes = collection(&world, self.collections[1]).watch().await;
            let worker = world.worker("one").flag("--engine", engine).flag("--sweep-ms", 200);
            let worker = worker.flag("--orphan-ms", 500).start().await;
            let context = format!("{} by {engine}", self.name);
            self.assert_ends(&world, &context).await;
            if engine == "two-phase" {
                self.assert_states(&world, changes.expect("MongoDB is there")).await;
            }
            self.assert_balances(&world, &context).await;
            drop(worker);
            let mut added = &self.fields(&world).await - &written;
            added.retain(|field| !self.added.contains(&field.as_str()));
            assert!(added.is_empty(), "{context}: {added:?} were added");
            self.assert_audited(&world, &context).await;
            world.finish().await;
        }
    }

    async fn run_statements(&self, world: &World) {
        let script = format!("{}.js", self.name.replace('-', "_"));
        let command = mongosh(world, "", &format!("articles/{script}"));
        let output = Command::from(command).kill_on_drop(true).output();
        let output = tokio::time::timeout(s(60), output).await.expect("mongosh ends");
        let output = output.expect("mongosh runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}\n{errors}", self.name);
    }

    async fn assert_ends(&self, world: &World, context: &str) {
        let [_, transactions] = self.collections;
        let (refused, canceled, reason) = &self.refused;
        for (found_by, state) in [(&self.paid.0, "done"), (refused, *canceled)] {
            let what = format!("{context}: {found_by} is {state}");
            wait_until(&what, s(60), async || {
                let found = one(world, transactions, found_by.clone()).await;
                found.get_str(self.state).ok() == Some(state)
            })
            .await;
        }
        let refused = one(world, transactions, refused.clone()).await;
        let own = refused.get_document("tandem").and_then(|own| own.get_document("reason"));
        let code = own.and_then(|reason| reason.get_str("code"));
        assert_eq!(code.ok(), Some(*reason), "{context}: {refused}");
    }

    /// The transfer that is paid went through the states that the article gives it. The other engine
    /// needs none between the claim and the end.
    async fn assert_states(&self, world: &World, mut changes: Changes) {
        let (paid, committed) = &self.paid;
        let id = one(world, self.collections[1], paid.clone()).await.remove("_id");
        let mut states: Vec<String> = vec![];
        let whole = async {
            while states.last().is_none_or(|state| state != "done") {
                let Some(change) = changes.next_if_any().await.expect("MongoDB is there") else {
                    continue;
                };
                let is_paid =
                    change.document_key.as_ref().and_then(|key| key.get("_id")) == id.as_ref();
                let updated = change.update_description.map(|update| update.updated_fields);
                let state = updated.as_ref().and_then(|fields| fields.get_str(self.state).ok());
                states.extend(state.filter(|_| is_paid).map(str::to_owned));
            }
        };
        tokio::time::timeout(s(60), whole).await.expect("the changes are told");
        assert_eq!(states, ["pending", *committed, "done"], "{}", self.name);
    }

    async fn assert_balances(&self, world: &World, context: &str) {
        let [key, balance, marks] = self.account;
        let [accounts, _] = self.collections;
        let first = format!("{marks}.0");
        wait_until(&format!("{context}: no mark is left"), s(30), async || {
            let marked = doc! { &first: { "$exists": true } };
            let marked = collection(world, accounts).count_documents(marked).await;
            marked.expect("MongoDB is there") == 0
        })
        .await;
        for (id, expected) in &self.balances {
            let account = one(world, accounts, doc! { key: *id }).await;
            let held = account.get(balance).map(Amount::from_bson);
            assert_eq!(held, Some(Amount::from_bson(expected)), "{context}: {account}");
        }
    }

    /// The audit has read all documents, and finds nothing.
    async fn assert_audited(&self, world: &World, context: &str) {
        let audit = world.producer(&["audit", "--at-rest", "--json"]).await;
        assert!(audit.is_success(), "{context}: {}\n{}", audit.stdout, audit.stderr);
        let report = audit.json();
        let read = ["accounts", "transactions"].map(|field| report[field].as_u64());
        let there = [self.balances.len() as u64, 2].map(Some);
        assert_eq!(read, there, "{context}: {report}");
    }

    /// The names of all fields in both collections.
    async fn fields(&self, world: &World) -> BTreeSet<String> {
        let mut fields = BTreeSet::new();
        for name in self.collections {
            let mut found = collection(world, name).find(doc! {}).await.expect("MongoDB is there");
            while found.advance().await.expect("MongoDB is there") {
                let document = found.deserialize_current().expect("BSON");
                fields.extend(document.keys().cloned());
            }
        }
        fields
    }
}

fn collection(world: &World, name: &str) -> Collection<Document> {
    world.store.database().collection(name)
}

async fn one(world: &World, name: &str, filter: Document) -> Document {
    let found = collection(world, name).find_one(filter).await.expect("MongoDB is there");
    found.expect("the document is there")
}

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().expect("a decimal"))
}

#[tokio::test]
async fn the_manuals_transfer_ends_as_its_tutorial_says() {
    let article = Article {
        name: "two-phase-commits",
        collections: ["accounts", "transactions"],
        account: ["_id", "balance", "pendingTransactions"],
        state: "state",
        paid: (doc! { "_id": 1 }, "applied"),
        refused: (doc! { "_id": 2 }, "canceled", "insufficient_funds"),
        balances: vec![("A", 900.into()), ("B", 1_100.into())],
        added: &["application", "tandem"],
    };
    article.settles().await;
}

#[tokio::test]
async fn the_manuals_balances_may_fall_below_zero_and_be_doubles_of_an_old_shell() {
    let article = Article {
        name: "balances-below-zero",
        collections: ["accounts", "transactions"],
        account: ["_id", "balance", "pendingTransactions"],
        state: "state",
        paid: (doc! { "_id": 1 }, "applied"),
        refused: (doc! { "_id": 2 }, "canceled", "account_not_found"),
        balances: vec![("A", (-100).into()), ("B", 2_100.into())],
        added: &["application", "pendingCredits", "pendingDebits", "tandem"],
    };
    article.settles().await;
}

#[tokio::test]
async fn joe_pays_peter_by_name() {
    let article = Article {
        name: "accounts-by-name",
        collections: ["accounts", "transactions"],
        account: ["name", "balance", "pendingTransactions"],
        state: "state",
        paid: (doc! { "amount": 100 }, "committed"),
        refused: (doc! { "amount": 2_000 }, "canceled", "insufficient_funds"),
        balances: vec![("Joe Moneylender", 900.into()), ("Peter Bum", 1_100.into())],
        added: &["application", "tandem"],
    };
    article.settles().await;
}

#[tokio::test]
async fn users_give_points_to_all_but_those_who_are_locked() {
    let article = Article {
        name: "scores-of-users",
        collections: ["user", "transaction"],
        account: ["name", "score", "pendingTransactions"],
        state: "state",
        paid: (doc! { "to": "B" }, "committed"),
        refused: (doc! { "to": "C" }, "canceled", "account_frozen"),
        balances: vec![("allenny.iteye.com", 90.into()), ("B", 10.into()), ("C", 0.into())],
        added: &["pendingTransactions", "tandem"],
    };
    article.settles().await;
}

#[tokio::test]
async fn classes_with_capitals_and_decimals_settle_as_their_driver_writes_them() {
    let article = Article {
        name: "classes-with-capitals",
        collections: ["UserAccounts", "TransactionCollection"],
        account: ["_id", "Balance", "PendingTransactions"],
        state: "State",
        paid: (doc! { "_id": "AForB" }, "applied"),
        refused: (doc! { "_id": "BForA" }, "cancelled", "insufficient_funds"),
        balances: vec![("A", decimal("900")), ("B", decimal("1100"))],
        added: &["tandem"],
    };
    article.settles().await;
}
