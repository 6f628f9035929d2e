//! The input of the contenders: accounts and transfers, the same for all, from a seed.
//!
//! Promises that exactly the transfers marked as refused can be refused, in any order of
//! settlement: no account sends more than it has at the start, and a refused value exceeds all
//! money. So the final balances are known beforehand.

use std::io::{BufWriter, Write};
use std::path::Path;

use clap::ValueEnum;
use ledger::amount::Amount;
use ledger::transaction::{Body, Leg};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use super::names::Names;

/// The opening balance of every account, in minor units.
pub const OPENING: i64 = 1_000_000_000;
/// More money than all accounts have together.
const REFUSED_VALUE: i64 = 1_000_000_000_000_000_000;
/// The highest value of a leg that is not refused.
const VALUE_MAX: i64 = 100;
/// One of so many accounts is a merchant, if there are merchants.
const MERCHANTS_ONE_IN: usize = 10;
/// The beginning of ids that are observed.
pub const SAMPLE: &str = "sample-";

/// Which accounts pay which.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Random pairs of all accounts
    Uniform,
    /// Half of all transfers pay one account
    HalfHot,
    /// Customers pay merchants, who are popular by Zipf's law
    Zipf,
    /// Random accounts, one paying three others in one transaction
    MultiLeg,
    /// Random pairs, 5 % of which ask for more than there is
    Refused,
    /// Random pairs, each id in a message of its own
    SingleIds,
    /// The schema-design book's scenario: 25 rounds of 1,000 users, a round each second
    Book,
}

impl Workload {
    /// Its name, as on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Workload::Uniform => "uniform",
            Workload::HalfHot => "half-hot",
            Workload::Zipf => "zipf",
            Workload::MultiLeg => "multi-leg",
            Workload::Refused => "refused",
            Workload::SingleIds => "single-ids",
            Workload::Book => "book",
        }
    }

    /// Its name in tables.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Workload::Uniform => "uniform",
            Workload::HalfHot => "half to one account",
            Workload::Zipf => "Zipf (merchants)",
            Workload::MultiLeg => "4 legs",
            Workload::Refused => "5 % refused",
            Workload::SingleIds => "single ids",
            Workload::Book => "book: 25 × 1,000",
        }
    }
}

/// One transfer: accounts by number, signed amounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Its `_id`.
    pub id: String,
    /// The payer first.
    pub legs: Vec<(usize, i64)>,
    /// Whether it must be refused.
    pub refused: bool,
}

impl Transfer {
    /// The transfer as the producer submits it, with ids as the ledger has them.
    ///
    /// # Panics
    /// When it is not a valid transaction: a mistake in this file.
    #[must_use]
    pub fn body(&self, names: Names) -> Body {
        let legs = self.legs.iter().map(|(account, amount)| Leg {
            account: names.account(*account).into(),
            amount: Amount::Int(*amount),
        });
        Body::new(legs.collect()).expect("legs of distinct accounts that sum to zero")
    }
}

/// The `_id` of an account.
#[must_use]
pub fn account_id(number: usize) -> String {
    format!("account-{number:07}")
}

/// Accounts and transfers.
#[derive(Clone, Debug)]
pub struct Load {
    /// How many accounts there are; each begins with [`OPENING`].
    pub accounts: usize,
    /// The transfers, in order of submission.
    pub transfers: Vec<Transfer>,
}

impl Load {
    /// The same arguments give the same load.
    #[must_use]
    pub fn generate(workload: Workload, accounts: usize, transfers: usize, seed: u64) -> Load {
        let mut maker = Maker::new(workload, accounts, seed);
        let transfers = (0..transfers).map(|number| maker.transfer(number)).collect();
        Load { accounts, transfers }
    }

    /// Gives one of so many transfers an id that is observed; returns how many.
    pub fn mark_samples(&mut self, every: usize) -> usize {
        let sampled = self.transfers.iter_mut().step_by(every.max(1));
        sampled.map(|transfer| transfer.id.insert_str(0, SAMPLE)).count()
    }

    /// What the books must say after the first `executed` transfers.
    #[must_use]
    pub fn books(&self, executed: usize) -> Books {
        let mut books = Books::opened(self.accounts);
        books.add(&self.transfers[..executed]);
        books
    }

    /// Writes the producer's input file: CSV where every transfer has two legs, else JSON lines. Ids
    /// are as the ledger has them.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn write(&self, directory: &Path, names: Names) -> std::io::Result<std::path::PathBuf> {
        let simple = self.transfers.iter().all(|transfer| transfer.legs.len() == 2);
        let path = directory.join(if simple { "transfers.csv" } else { "transfers.jsonl" });
        let mut file = BufWriter::new(std::fs::File::create(&path)?);
        if simple {
            writeln!(file, "id,source,destination,value")?;
        }
        for Transfer { id, legs, .. } in &self.transfers {
            let id = names.transfer(id);
            if simple {
                let (source, destination) = (names.account(legs[0].0), names.account(legs[1].0));
                writeln!(file, "{id},{source},{destination},{}", legs[1].1)?;
            } else {
                let legs = legs.iter().map(|(account, amount)| {
                    serde_json::json!({ "account": names.account(*account), "amount": amount })
                });
                let legs: Vec<_> = legs.collect();
                writeln!(file, "{}", serde_json::json!({ "id": id, "legs": legs }))?;
            }
        }
        file.flush()?;
        Ok(path)
    }
}

/// What the books must say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Books {
    /// The balance of each account.
    pub balances: Vec<i64>,
    /// Transfers that were settled.
    pub done: usize,
    /// Transfers that were refused.
    pub canceled: usize,
}

impl Books {
    /// Those of a ledger without transfers.
    #[must_use]
    pub fn opened(accounts: usize) -> Books {
        Books { balances: vec![OPENING; accounts], done: 0, canceled: 0 }
    }

    /// How many transfers there were.
    #[must_use]
    pub fn total(&self) -> usize {
        self.done + self.canceled
    }

    /// Adds what these transfers do.
    pub fn add(&mut self, transfers: &[Transfer]) {
        for transfer in transfers {
            if transfer.refused {
                self.canceled += 1;
                continue;
            }
            self.done += 1;
            for (account, amount) in &transfer.legs {
                self.balances[*account] += amount;
            }
        }
    }
}

/// Makes one transfer after the other.
struct Maker {
    workload: Workload,
    accounts: usize,
    rng: StdRng,
    /// The running sum of the merchants' shares.
    popularity: Vec<f64>,
}

impl Maker {
    fn new(workload: Workload, accounts: usize, seed: u64) -> Maker {
        assert!(accounts >= 2 * MERCHANTS_ONE_IN, "a load needs more accounts");
        let mut sum = 0.0;
        let merchants = accounts / MERCHANTS_ONE_IN;
        #[expect(clippy::cast_precision_loss, reason = "a rank is small")]
        let popularity = (1..=merchants).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        let popularity = popularity.collect();
        Maker { workload, accounts, rng: StdRng::seed_from_u64(seed), popularity }
    }

    fn transfer(&mut self, number: usize) -> Transfer {
        let id = self.id(number);
        let refused = self.workload == Workload::Refused && self.rng.random_ratio(1, 20);
        let value = if refused { REFUSED_VALUE } else { self.value() };
        let legs = match self.workload {
            Workload::Uniform | Workload::Refused | Workload::SingleIds | Workload::Book => {
                let destination = self.account();
                vec![(self.other_than(&[destination]), -value), (destination, value)]
            }
            Workload::HalfHot => {
                let destination = if number.is_multiple_of(2) { 0 } else { self.account() };
                vec![(self.other_than(&[destination]), -value), (destination, value)]
            }
            Workload::Zipf => {
                let merchant = self.merchant();
                let customer = self.rng.random_range(self.popularity.len()..self.accounts);
                vec![(customer, -value), (merchant, value)]
            }
            Workload::MultiLeg => self.four_legs(),
        };
        Transfer { id, legs, refused }
    }

    fn four_legs(&mut self) -> Vec<(usize, i64)> {
        let mut accounts = Vec::with_capacity(4);
        while accounts.len() < 4 {
            accounts.push(self.other_than(&accounts));
        }
        let mut legs = vec![(accounts[0], 0)];
        for account in &accounts[1..] {
            let value = self.value();
            legs.push((*account, value));
            legs[0].1 -= value;
        }
        legs
    }

    /// A UUIDv7, as clients give them, from the seed.
    fn id(&mut self, number: usize) -> String {
        const BEGUN_MS: u64 = 1_700_000_000_000;
        let random: [u8; 10] = self.rng.random();
        let at = BEGUN_MS + number as u64;
        uuid::Builder::from_unix_timestamp_millis(at, &random).into_uuid().to_string()
    }

    fn value(&mut self) -> i64 {
        self.rng.random_range(1..=VALUE_MAX)
    }

    fn account(&mut self) -> usize {
        self.rng.random_range(0..self.accounts)
    }

    fn other_than(&mut self, taken: &[usize]) -> usize {
        loop {
            let account = self.account();
            if !taken.contains(&account) {
                return account;
            }
        }
    }

    fn merchant(&mut self) -> usize {
        let total = *self.popularity.last().expect("there are merchants");
        let point = self.rng.random_range(0.0..total);
        self.popularity.partition_point(|sum| *sum <= point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(workload: Workload) -> Load {
        Load::generate(workload, 1_000, 10_000, 7)
    }

    #[test]
    fn every_transfer_is_valid_and_only_marked_ones_ask_for_too_much() {
        for workload in Workload::value_variants() {
            let load = load(*workload);
            for transfer in &load.transfers {
                assert_eq!(transfer.body(Names::default()).legs().len(), transfer.legs.len());
                let value = -transfer.legs[0].1;
                assert_eq!(transfer.refused, value > OPENING * 1_000, "{workload:?}");
            }
            let balances = load.books(10_000).balances;
            let lowest = *balances.iter().min().expect("accounts");
            // Also if all debits come before any credit.
            assert!(lowest > OPENING / 2, "{workload:?}: an account could run out of money");
            assert_eq!(balances.iter().sum::<i64>(), OPENING * 1_000);
        }
    }

    #[test]
    fn workloads_have_the_shares_they_are_named_after() {
        let to_first = |workload| {
            let load = load(workload);
            load.transfers.iter().filter(|transfer| transfer.legs[1].0 == 0).count()
        };
        assert!((4_900..5_100).contains(&to_first(Workload::HalfHot)));
        // The first of 100 merchants has 1 / H(100) = 19 % of all payments.
        assert!((1_700..2_200).contains(&to_first(Workload::Zipf)));
        assert!(to_first(Workload::Uniform) < 50);
        assert!((400..600).contains(&load(Workload::Refused).books(10_000).canceled));
        assert!(load(Workload::MultiLeg).transfers.iter().all(|transfer| transfer.legs.len() == 4));
    }

    #[test]
    fn a_seed_always_gives_the_same_load_with_distinct_ids() {
        let (one, other) = (load(Workload::Uniform), load(Workload::Uniform));
        assert_eq!(one.transfers, other.transfers);
        let mut ids: Vec<_> = one.transfers.iter().map(|transfer| &transfer.id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 10_000);
    }
}
