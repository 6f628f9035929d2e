//! A program of the ledger's owner that adds to balances all the time, as it did before Tandem.
//!
//! It writes past all links; faults of the servers hit it as well. Owns its updates, and the sum of
//! what they have added to each account: that stands in the same document and is written by the same
//! update, so an answer that was lost makes no difference. Promises not to take what an account does
//! not have. Its ledger has a schema: there an audit tells apart what others have moved.

use std::collections::{BTreeMap, HashMap};
use std::process::Command;
use std::time::Duration;

use futures_util::TryStreamExt;
use harness::laid_out::{self, at};
use harness::process::program;
use mongo::{ACCOUNTS, Store};
use mongodb::bson::{Bson, Document, doc};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use tokio::sync::watch;

use super::load::accounts;

/// The pause between two updates.
const PACE: Duration = Duration::from_millis(4);
/// Where it keeps the sum of what it has added to an account.
const SUM: &str = "theirs.sum";
/// It takes only from accounts that have more than this.
const PLENTY: i64 = 1_000;

/// The program.
pub struct Outsider {
    store: Store,
    rng: StdRng,
}

impl Outsider {
    /// One that draws accounts and amounts from a seed.
    #[must_use]
    pub fn new(store: Store, seed: u64) -> Outsider {
        Outsider { store, rng: StdRng::seed_from_u64(seed) }
    }

    /// Adds until it is told to stop; returns how many updates were acknowledged.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) -> u64 {
        let (ids, mut updates) = (accounts(), 0);
        loop {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return updates,
                () = tokio::time::sleep(PACE) => {}
            }
            let id = &ids[self.rng.random_range(0..ids.len())];
            let amount = self.rng.random_range(-3..=9_i32);
            updates += u64::from(self.add(id, amount).await);
        }
    }

    /// Whether an update was acknowledged. While the server is away it fails, which does not matter.
    async fn add(&self, id: &str, amount: i32) -> bool {
        let typed = match amount.rem_euclid(3) {
            0 => Bson::Int32(amount),
            1 => Bson::Int64(amount.into()),
            _ => Bson::Double(amount.into()),
        };
        let path = |name: &str| laid_out::path(&self.store, ACCOUNTS, name);
        let filter = doc! { path("_id"): id, path("balance"): { "$gt": PLENTY } };
        let update = doc! { "$inc": { path("balance"): typed, SUM: i64::from(amount) } };
        let updated = self.store.accounts().update_one(filter, update).await;
        updated.is_ok_and(|updated| updated.matched_count == 1)
    }
}

/// What it has added to each account.
///
/// # Errors
/// When the database can't be read.
pub async fn sums(store: &Store) -> Result<HashMap<String, i64>, mongodb::error::Error> {
    let key = laid_out::path(store, ACCOUNTS, "_id");
    let found = store.accounts().find(doc! { SUM: { "$exists": true } }).await?;
    let found: Vec<Document> = found.try_collect().await?;
    let sum = |found: &Document| {
        let id = at(found, &key)?.as_str()?.to_owned();
        Some((id, at(found, SUM)?.as_i64()?))
    };
    Ok(found.iter().filter_map(sum).collect())
}

/// Books what it has added with the owner's own command, and prints what was booked.
///
/// # Errors
/// When the command refuses, or books another sum.
pub fn absorb(env: &BTreeMap<String, String>, sums: &HashMap<String, i64>) -> Result<(), String> {
    let mut command = Command::new(program("producer"));
    command.args(["accounts", "absorb", "--reason", "an old program", "--by", "chaos"]);
    let output = command.args(["--yes", "--json"]).envs(env).output();
    let output = output.map_err(|error| format!("absorbing: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("absorbing failed: {said}\n{errors}"));
    }
    let report: Value = serde_json::from_str(&said).map_err(|error| format!("{error}: {said}"))?;
    let moved = sums.values().filter(|sum| **sum != 0).count() as u64;
    if report["booked"]["accounts"].as_u64() != Some(moved) {
        return Err(format!("{moved} accounts were moved, and it booked {said}"));
    }
    eprintln!("chaos: absorbed: {moved} accounts, {} in all", sums.values().sum::<i64>());
    Ok(())
}
