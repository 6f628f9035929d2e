//! Schemas that nobody has thought of: paths, keys, kinds of ids, words, numbers and what is missing
//! are drawn, and on each of them money moves in every way that there is.
//!
//! `TANDEM_SCHEMA_SEEDS=100..200` draws others than the usual ones.

use std::collections::BTreeMap;

use harness::laid_out::at;
use harness::world::World;
use mongodb::bson::{Bson, Document, doc};

use super::drawn::{Collection, Drawn};
use super::{assert_sound, collection, one, wait_count, world_of};

const USUAL: std::ops::Range<u64> = 0..4;
/// A ledger of a drawn schema, in which money moves.
struct Ledger {
    world: World,
    drawn: Drawn,
    /// What the accounts should have, by their texts.
    expected: BTreeMap<String, i32>,
    a: (String, Bson),
    b: (String, Bson),
    frozen: (String, Bson),
    /// An account with a list or a number on the way to a field, if there is a way.
    odd: Option<Bson>,
}

impl Ledger {
    async fn new(seed: u64) -> Ledger {
        let mut drawn = Drawn::new(seed);
        let world = world_of(&drawn.to_toml()).await;
        if drawn.decimals {
            let decimals = ["init", "--apply", "--amounts", "decimals"];
            world.producer(&decimals).await.expect_success();
        }
        let kind = drawn.of_accounts.ids;
        let [a, b, frozen] = [(); 3].map(|()| drawn.id(kind));
        let mut accounts = Vec::new();
        for (id, balance) in [(&a, 1_000), (&b, 100), (&frozen, 0)] {
            let mut fields = vec![("_id", id.1.clone()), ("balance", drawn.number(balance))];
            if id.0 == frozen.0 {
                fields.push(("status", drawn.frozen.as_str().into()));
            }
            accounts.push(Drawn::document(&drawn.of_accounts, &fields));
        }
        // Nobody's trouble: no account.
        accounts.push(doc! { "w": [1], "Größe": 5 });
        let parent = drawn.of_accounts.parent().map(str::to_owned);
        let odd = parent.map(|parent| {
            let id = drawn.id(kind).1;
            let mut account = Drawn::document(&drawn.of_accounts, &[("_id", id.clone())]);
            let on_the_way = if seed.is_multiple_of(2) { Bson::from(7) } else { vec![7].into() };
            account.insert(parent, on_the_way);
            accounts.push(account);
            id
        });
        collection(&world, &drawn.of_accounts.name)
            .insert_many(accounts)
            .await
            .expect("MongoDB is there");
        let expected = [(&a, 1_000), (&b, 100), (&frozen, 0)];
        let expected = expected.map(|(id, balance)| (id.0.clone(), balance)).into();
        Ledger { world, drawn, expected, a, b, frozen, odd }
    }

    fn moved(&mut self, value: i32) {
        *self.expected.get_mut(&self.a.0).expect("it is there") -= value;
        *self.expected.get_mut(&self.b.0).expect("it is there") += value;
    }

    /// Payments that the owner inserts, without a message: one that is done, and two that are not.
    async fn foreign(&mut self) {
        let kind = self.drawn.of_transactions.ids;
        let mut payments = Vec::new();
        let nobody = self.drawn.id(self.drawn.of_accounts.ids).1;
        let good = (self.b.1.clone(), 10);
        let mut refused = vec![(self.frozen.1.clone(), 5), (nobody, 5), (self.b.1.clone(), 9_999)];
        refused.extend(self.odd.clone().map(|odd| (odd, 5)));
        let count = refused.len() as u64;
        for (to, value) in refused.into_iter().chain([good]) {
            let fields = [
                ("_id", self.drawn.id(kind).1),
                ("source", self.a.1.clone()),
                ("destination", to),
                ("value", self.drawn.number(value)),
                ("state", self.drawn.words["initial"].as_str().into()),
            ];
            payments.push(Drawn::document(&self.drawn.of_transactions, &fields));
        }
        let name = &self.drawn.of_transactions.name;
        let before = self.count("done").await;
        let canceled = self.count("canceled").await;
        collection(&self.world, name).insert_many(payments).await.expect("MongoDB is there");
        self.wait("done", before + 1).await;
        self.wait("canceled", canceled + count).await;
        self.moved(10);
    }

    fn in_state(&self, state: &str) -> Document {
        doc! { self.drawn.of_transactions.paths["state"].as_str(): self.drawn.words[state].as_str() }
    }

    async fn count(&self, state: &str) -> u64 {
        let found = collection(&self.world, &self.drawn.of_transactions.name);
        found.count_documents(self.in_state(state)).await.expect("MongoDB is there")
    }

    async fn wait(&self, state: &str, count: u64) {
        let name = &self.drawn.of_transactions.name;
        wait_count(&self.world, name, self.in_state(state), count).await;
    }

    async fn run(&self, arguments: &[&str]) {
        self.world.producer(arguments).await.expect_success();
    }

    /// A transfer by the program, with more flags; returns its id.
    async fn transfer(&mut self, value: i32, flags: &[&str]) -> String {
        let (id, _) = self.drawn.id(self.drawn.of_transactions.ids);
        let (a, b, value) = (self.a.0.clone(), self.b.0.clone(), value.to_string());
        let mut arguments = vec!["transfer", &a, &b, &value, "--id", &id];
        arguments.extend(flags);
        self.run(&arguments).await;
        id
    }

    /// Everything that the program can do with a transaction.
    async fn own(&mut self) {
        let paid = self.transfer(7, &["--wait"]).await;
        self.run(&["reverse", &paid, "--wait"]).await;
        self.run(&["reverse", &paid, "--wait"]).await;
        let id = self.transfer(20, &["--hold", "--wait"]).await;
        self.run(&["confirm", &id]).await;
        self.moved(20);
        let id = self.transfer(30, &["--hold", "--wait"]).await;
        self.run(&["release", &id]).await;
        let later = self.transfer(40, &["--not-before", "+1h"]).await;
        self.run(&["cancel", &later]).await;
        self.submit().await;
    }

    async fn submit(&mut self) {
        let mut rows = String::new();
        for value in [1, 2] {
            let (id, _) = self.drawn.id(self.drawn.of_transactions.ids);
            let value =
                if self.drawn.decimals { format!("\"{value}.00\"") } else { value.to_string() };
            let (a, b) = (&self.a.0, &self.b.0);
            rows += &format!(
                "{{\"id\":{id:?},\"legs\":[{{\"account\":{a:?},\"amount\":{}}},{{\"account\":{b:?},\"amount\":{value}}}]}}\n",
                if self.drawn.decimals {
                    format!("\"-{}", &value[1..])
                } else {
                    format!("-{value}")
                },
            );
        }
        let file = self.world.directory().join("rows.jsonl");
        std::fs::write(&file, rows).expect("the directory is there");
        let file = file.to_str().expect("it is text").to_owned();
        for _ in 0..2 {
            self.run(&["submit", &file, "--wait"]).await;
        }
        self.moved(3);
    }

    /// Everybody has what he should, in his own fields, and nothing is in flight.
    async fn check(&self) {
        let Collection { name, ids, paths } = &self.drawn.of_accounts;
        for ((text, id), frozen) in [(&self.a, false), (&self.b, false), (&self.frozen, true)] {
            let account = one(&self.world, name, doc! { paths["_id"].as_str(): id }).await;
            let balance = at(&account, &paths["balance"]).expect("a balance");
            let balance: f64 = balance
                .to_string()
                .trim_matches('"')
                .parse()
                .unwrap_or_else(|_| panic!("{ids}: {balance} of {account}"));
            assert_eq!(balance, f64::from(self.expected[text]), "{account}");
            let marks = at(&account, &paths["pendingTransactions"]);
            let is_empty = marks.and_then(Bson::as_array).is_none_or(Vec::is_empty);
            assert!(is_empty, "{account}");
            let status = at(&account, &paths["status"]).and_then(Bson::as_str);
            assert_eq!(status, frozen.then_some(self.drawn.frozen.as_str()), "{account}");
            assert_eq!(account.get_str("claim").ok(), Some("a complaint"));
        }
    }
}

async fn money_moves(seed: u64) {
    let mut ledger = Ledger::new(seed).await;
    for engine in ["two-phase", "transaction"] {
        let worker = ledger.world.worker(engine).flag("--engine", engine).flag("--sweep-ms", 200);
        let worker = worker.flag("--orphan-ms", 500).start().await;
        ledger.foreign().await;
        ledger.own().await;
        drop(worker);
        // The worker may have been ended before it had settled the last.
        let worker = ledger.world.worker("last").flag("--sweep-ms", 200).flag("--orphan-ms", 500);
        let worker = worker.start().await;
        let marked = &ledger.drawn.of_accounts.paths["pendingTransactions"];
        let marked = doc! { format!("{marked}.0"): { "$exists": true } };
        wait_count(&ledger.world, &ledger.drawn.of_accounts.name, marked, 0).await;
        drop(worker);
        ledger.check().await;
        assert_sound(&ledger.world).await;
    }
    ledger.world.finish().await;
}

#[tokio::test]
async fn money_moves_in_every_way_under_whatever_schema() {
    let seeds = match std::env::var("TANDEM_SCHEMA_SEEDS") {
        Err(_) => USUAL,
        Ok(range) => {
            let (from, to) = range.split_once("..").expect("a range like 100..200");
            from.parse().expect("a number")..to.parse().expect("a number")
        }
    };
    for seed in seeds {
        let schema = Drawn::new(seed).to_toml();
        println!("seed {seed}:\n{schema}");
        money_moves(seed).await;
    }
}
