//! Articles on two-phase commits in MongoDB, settled as they write them: `mongosh` runs their own
//! statements from `articles/`, under the schemas of `deploy/schemas`. Nobody sends a message.

use harness::deployment::root;
use harness::wait::{s, wait_until};
use harness::world::World;
use ledger::amount::Amount;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};
use tokio::process::Command;

const ENGINES: [&str; 2] = ["two-phase", "transaction"];

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
    /// How each transaction ends: what finds it, and its state.
    ends: [(Document, &'static str); 2],
    /// What each account holds in the end.
    balances: Vec<(&'static str, Bson)>,
}

impl Article {
    /// Runs the statements, sets the ledger up, and lets a worker settle what it finds.
    async fn settles(&self) {
        for engine in ENGINES {
            let world = World::new().await;
            world.store.database().drop().await.expect("MongoDB is there");
            self.run_statements(&world).await;
            let schema = root().join(format!("deploy/schemas/{}.toml", self.name));
            let schema = schema.to_str().expect("UTF-8");
            let init = ["init", "--schema", schema, "--apply", "--no-validator"];
            world.producer(&init).await.expect_success();
            let worker = world.worker("one").flag("--engine", engine).flag("--sweep-ms", 200);
            let worker = worker.flag("--orphan-ms", 500).start().await;
            let context = format!("{} by {engine}", self.name);
            self.assert_ends(&world, &context).await;
            self.assert_balances(&world, &context).await;
            drop(worker);
            world.finish().await;
        }
    }

    async fn run_statements(&self, world: &World) {
        let script = format!("{}.js", self.name.replace('-', "_"));
        let script = root().join("tests/end_to_end/tests/end_to_end/articles").join(script);
        let mongosh = std::env::var("TANDEM_MONGOSH").expect("run the tests by deploy/test");
        let output = Command::new(mongosh)
            .args([&world.servers.mongodb_uri, "--quiet", "--norc", "--eval"])
            .arg(format!("db = db.getSiblingDB({:?})", world.name))
            .arg("--file")
            .arg(script)
            .env("HOME", world.directory())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(s(60), output).await.expect("mongosh ends");
        let output = output.expect("mongosh runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}\n{errors}", self.name);
    }

    async fn assert_ends(&self, world: &World, context: &str) {
        let [_, transactions] = self.collections.map(|name| collection(world, name));
        for (found_by, state) in &self.ends {
            let what = format!("{context}: {found_by} is {state}");
            wait_until(&what, s(60), async || {
                let found = transactions.find_one(found_by.clone()).await;
                let found = found.expect("MongoDB is there").expect("it was inserted");
                found.get_str(self.state).ok() == Some(*state)
            })
            .await;
        }
    }

    async fn assert_balances(&self, world: &World, context: &str) {
        let [key, balance, marks] = self.account;
        let [accounts, _] = self.collections.map(|name| collection(world, name));
        let first = format!("{marks}.0");
        wait_until(&format!("{context}: no mark is left"), s(30), async || {
            let marked = accounts.count_documents(doc! { &first: { "$exists": true } }).await;
            marked.expect("MongoDB is there") == 0
        })
        .await;
        for (id, expected) in &self.balances {
            let found = accounts.find_one(doc! { key: *id }).await;
            let account = found.expect("MongoDB is there").expect("it was inserted");
            let held = account.get(balance).map(Amount::from_bson);
            assert_eq!(held, Some(Amount::from_bson(expected)), "{context}: {account}");
        }
    }
}

fn collection(world: &World, name: &str) -> Collection<Document> {
    world.store.database().collection(name)
}

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().expect("a decimal"))
}

/// The MongoDB manual's tutorial, by one of its schemas.
fn tutorial(name: &'static str) -> Article {
    Article {
        name,
        collections: ["accounts", "transactions"],
        account: ["_id", "balance", "pendingTransactions"],
        state: "state",
        ends: [(doc! { "_id": 1 }, "done"), (doc! { "_id": 2 }, "canceled")],
        balances: vec![("A", 900.into()), ("B", 1_100.into())],
    }
}

#[tokio::test]
async fn the_manuals_transfer_ends_as_its_tutorial_says() {
    tutorial("two-phase-commits").settles().await;
}

#[tokio::test]
async fn the_manuals_transfer_ends_as_well_with_the_doubles_of_an_old_shell() {
    tutorial("pending-sums").settles().await;
}

#[tokio::test]
async fn joe_pays_peter_by_name() {
    let article = Article {
        name: "accounts-by-name",
        collections: ["accounts", "transactions"],
        account: ["name", "balance", "pendingTransactions"],
        state: "state",
        ends: [(doc! { "amount": 100 }, "done"), (doc! { "amount": 2_000 }, "canceled")],
        balances: vec![("Joe Moneylender", 900.into()), ("Peter Bum", 1_100.into())],
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
        ends: [(doc! { "to": "B" }, "done"), (doc! { "to": "C" }, "canceled")],
        balances: vec![("allenny.iteye.com", 90.into()), ("B", 10.into()), ("C", 0.into())],
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
        ends: [(doc! { "_id": "AForB" }, "done"), (doc! { "_id": "BForA" }, "cancelled")],
        balances: vec![("A", decimal("900")), ("B", decimal("1100"))],
    };
    article.settles().await;
}
