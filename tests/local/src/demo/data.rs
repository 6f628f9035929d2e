//! The demo's input: accounts, transfers, and what must become of each.
//!
//! The same arguments and random numbers give the same input. Exactly the transfers that are meant
//! to be refused can be: an account never sends more than it has at the start, in any order of
//! settlement, and the values meant to be too high exceed all the money there is. Fails only when
//! the files can't be written.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use harness::console::Failure;
use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};
use serde::Serialize;

/// What each account holds at the start, in minor units.
pub const BALANCE: u64 = 1_000_000;
/// The fewest transfers among which there is one for each way to be refused.
pub const TRANSFERS_MIN: usize = 10;
/// The fewest accounts: two to transfer between, and a frozen one.
pub const ACCOUNTS_MIN: usize = 3;

const VALUE_MAX: u64 = 5_000;
const CURRENCY: &str = "EUR";
const REFUSED_PER_REASON_MAX: usize = 20;

/// The code of a transfer that its source can't pay.
pub const INSUFFICIENT: &str = "insufficient_funds";
/// The code of a transfer from or to a frozen account.
pub const FROZEN: &str = "account_frozen";
/// The code of a transfer from or to nobody.
pub const NOT_FOUND: &str = "account_not_found";

/// How many transfers must end in which way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Settled.
    pub done: u64,
    /// Refused, by the code of the reason.
    pub canceled: BTreeMap<String, u64>,
}

/// A row of accounts.csv.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Its name.
    pub account: String,
    /// What it holds at the start.
    pub balance: u64,
    /// What it must keep.
    pub floor: u64,
    /// What it holds its balance in.
    pub currency: &'static str,
    /// `open` or `frozen`.
    pub status: &'static str,
}

/// A row of transfers.csv.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Transfer {
    /// Its id.
    pub id: String,
    /// Who pays.
    pub source: String,
    /// Who is paid.
    pub destination: String,
    /// How much, in minor units.
    pub value: u64,
    /// Of what.
    pub currency: &'static str,
}

/// Everything that the demo submits, and what must become of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The accounts, of which the last is frozen.
    pub accounts: Vec<Account>,
    /// The transfers, in the order in which they are submitted.
    pub transfers: Vec<Transfer>,
    /// What must become of the transfers.
    pub expected: Expected,
}

/// A transfer that has no id yet.
struct Row {
    source: String,
    destination: String,
    value: u64,
}

impl Input {
    /// Makes up the input. There must be at least [`TRANSFERS_MIN`] transfers and [`ACCOUNTS_MIN`]
    /// accounts.
    ///
    /// # Panics
    /// When there are fewer accounts.
    #[must_use]
    pub fn generate(rng: &mut impl Rng, transfers: usize, accounts: usize) -> Input {
        let width = accounts.to_string().len().max(4);
        let names: Vec<String> =
            (1..=accounts).map(|number| format!("acct-{number:0width$}")).collect();
        let (frozen, active) = names.split_last().expect("there are accounts");
        let refused = refused(rng, active, frozen, transfers);
        let mut canceled = BTreeMap::new();
        for (reason, _) in &refused {
            *canceled.entry((*reason).to_owned()).or_default() += 1;
        }
        let mut rows = settled(rng, active, transfers.saturating_sub(refused.len()));
        let expected = Expected { done: rows.len() as u64, canceled };
        rows.extend(refused.into_iter().map(|(_, row)| row));
        rows.shuffle(rng);
        let transfers = (1..).zip(rows).map(|(number, row)| row.numbered(number)).collect();
        let accounts = names.iter().map(|name| account(name, name == frozen)).collect();
        Input { accounts, transfers, expected }
    }

    /// Writes accounts.csv and transfers.csv.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn write(&self, directory: &Path) -> Result<(), Failure> {
        write(&directory.join("accounts.csv"), &self.accounts)?;
        write(&directory.join("transfers.csv"), &self.transfers)
    }
}

impl Row {
    fn numbered(self, number: usize) -> Transfer {
        let Row { source, destination, value } = self;
        Transfer { id: format!("demo-{number:07}"), source, destination, value, currency: CURRENCY }
    }
}

fn account(name: &str, frozen: bool) -> Account {
    let status = if frozen { "frozen" } else { "open" };
    Account { account: name.to_owned(), balance: BALANCE, floor: 0, currency: CURRENCY, status }
}

/// Transfers that can't be refused: each source can pay all of its own from the start.
fn settled(rng: &mut impl Rng, active: &[String], count: usize) -> Vec<Row> {
    let pairs: Vec<_> = (0..count).map(|_| pair(rng, active)).collect();
    let mut sent: HashMap<&str, u64> = HashMap::new();
    for (source, _) in &pairs {
        *sent.entry(source).or_default() += 1;
    }
    let row = |(source, destination): (&str, &str)| {
        let highest = VALUE_MAX.min(BALANCE / sent[source]);
        let value = rng.random_range(1..=highest);
        Row { source: source.to_owned(), destination: destination.to_owned(), value }
    };
    pairs.into_iter().map(row).collect()
}

/// Reasons and transfers that must be refused for them, half of them because of either side.
fn refused(
    rng: &mut impl Rng,
    active: &[String],
    frozen: &str,
    transfers: usize,
) -> Vec<(&'static str, Row)> {
    let each = (transfers / 100).clamp(1, REFUSED_PER_REASON_MAX);
    let all_money = BALANCE * (active.len() as u64 + 1);
    let mut refused = Vec::new();
    for number in 0..each {
        let (source, destination) = pair(rng, active);
        let (source, destination) = (source.to_owned(), destination.to_owned());
        let value = all_money + number as u64 + 1;
        refused.push((INSUFFICIENT, Row { source, destination, value }));
        for (reason, name) in [(FROZEN, frozen), (NOT_FOUND, &format!("nobody-{number}"))] {
            let account = active.choose(rng).expect("there are accounts").as_str();
            let (source, destination) =
                if number % 2 == 0 { (name, account) } else { (account, name) };
            let (source, destination) = (source.to_owned(), destination.to_owned());
            refused.push((reason, Row { source, destination, value: rng.random_range(1..=100) }));
        }
    }
    refused
}

/// Two different accounts, in random order.
fn pair<'a>(rng: &mut impl Rng, active: &'a [String]) -> (&'a str, &'a str) {
    let chosen = rand::seq::index::sample(rng, active.len(), 2);
    (&active[chosen.index(0)], &active[chosen.index(1)])
}

fn write(path: &Path, rows: &[impl Serialize]) -> Result<(), Failure> {
    let written = csv::Writer::from_path(path).and_then(|mut file| {
        rows.iter().try_for_each(|row| file.serialize(row))?;
        Ok(file.flush()?)
    });
    written.map_err(|error| Failure(format!("cannot write {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    fn generate(transfers: usize, accounts: usize) -> Input {
        Input::generate(&mut StdRng::seed_from_u64(1), transfers, accounts)
    }

    #[test]
    fn the_same_arguments_give_the_same_files() {
        let home = harness::servers::directory(&format!("data-{}", std::process::id()));
        let files = || {
            std::fs::create_dir_all(&home).expect("it can be made");
            generate(500, 20).write(&home).expect("they can be written");
            ["accounts.csv", "transfers.csv"]
                .map(|name| std::fs::read_to_string(home.join(name)).expect("it was written"))
        };
        let [accounts, transfers] = files();
        assert_eq!([accounts.clone(), transfers.clone()], files());
        assert!(
            accounts.starts_with("account,balance,floor,currency,status\nacct-0001,1000000,0,")
        );
        assert!(transfers.starts_with("id,source,destination,value,currency\ndemo-0000001,"));
        assert_eq!((accounts.lines().count(), transfers.lines().count()), (21, 501));
        std::fs::remove_dir_all(home).expect("it is ours");
    }

    #[test]
    fn what_is_expected_holds_in_any_order_of_settlement() {
        for (transfers, accounts) in [(20_000, 1_000), (4_000, 1_000), (50_000, 5), (10, 3)] {
            let input = generate(transfers, accounts);
            let open = input.accounts.iter().filter(|account| account.status == "open");
            let open: HashSet<&str> = open.map(|account| account.account.as_str()).collect();
            let all_money: u64 = input.accounts.iter().map(|account| account.balance).sum();
            let ids: HashSet<&str> = input.transfers.iter().map(|one| one.id.as_str()).collect();
            assert_eq!((input.transfers.len(), ids.len()), (transfers, transfers));

            let mut sent: HashMap<&str, u64> = HashMap::new();
            let mut good = 0;
            for one in &input.transfers {
                assert!(one.source != one.destination && one.value > 0, "{one:?}");
                let both_open = [&one.source, &one.destination].map(|n| open.contains(n.as_str()));
                if both_open == [true, true] && one.value <= all_money {
                    *sent.entry(&one.source).or_default() += one.value;
                    good += 1;
                }
            }
            assert!(sent.values().all(|sent| *sent <= BALANCE), "{transfers} of {accounts}");
            let Expected { done, canceled } = input.expected;
            assert_eq!(done, good);
            assert_eq!(canceled.values().sum::<u64>(), transfers as u64 - good);
            let reasons: Vec<&str> = canceled.keys().map(String::as_str).collect();
            assert_eq!(reasons, [FROZEN, NOT_FOUND, INSUFFICIENT]);
        }
    }
}
