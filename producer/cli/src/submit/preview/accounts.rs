//! What the accounts of a file lack at this moment.
//!
//! Owns the sums of what a file takes from each account and brings to it. Says of each account
//! whether it is missing, frozen or closed, holds amounts of another form, or is short: even if all
//! that the file brings came first, or unless it does.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use client::AccountId;
use ledger::account::{Account, Status};
use ledger::amount::Amount;
use ledger::limits::echo;
use ledger::transaction::{Body, format_nanos};
use ledger::visible::alike_told;
use serde::Serialize;

use super::shortened;
use crate::context::Context;
use crate::exit::Error;

/// No more accounts are looked at.
pub const ACCOUNTS_MAX: usize = 1_000_000;

/// Accounts that are looked up together.
const CHUNK: usize = 1_000;

/// The most examples of each finding.
const EXAMPLES_MAX: usize = 10;

/// What a file does to an account, in units of 10^-9.
#[derive(Clone, Debug, Default)]
struct Moves {
    takes: i128,
    brings: i128,
    has_whole: bool,
    has_decimal: bool,
    /// Those of its transactions; none stands for those without.
    currencies: BTreeSet<Option<String>>,
}

/// The accounts of a file.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    all: HashMap<AccountId, Moves>,
    /// Legs of accounts beyond the first [`ACCOUNTS_MAX`].
    unseen: u64,
}

/// Something that accounts lack.
#[derive(Debug, Default, Serialize)]
struct Found {
    count: u64,
    examples: Vec<String>,
}

impl Found {
    fn add(&mut self, example: String) {
        self.count += 1;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(example);
        }
    }
}

/// What the accounts of a file lack.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    /// How many accounts were looked at.
    looked_at: u64,
    /// Legs whose accounts were not, because there are too many.
    not_looked_at: u64,
    missing: Found,
    /// For names of the examples, accounts that there are and that look like them.
    alike: BTreeMap<String, String>,
    frozen: Found,
    closed: Found,
    /// Their documents break the schema.
    unreadable: Found,
    /// They have another currency than transactions of the file, or only one of them has any.
    other_currency: Found,
    /// They hold whole amounts and the file has decimals, or the other way round.
    other_form: Found,
    /// They have too little, even if all that the file brings came first.
    short: Found,
    /// They have too little, unless what the file brings comes first.
    short_at_first: Found,
}

impl Accounts {
    /// A row that is to be submitted.
    pub fn add(&mut self, body: &Body) {
        for leg in body.legs() {
            if self.all.len() >= ACCOUNTS_MAX && !self.all.contains_key(&leg.account) {
                self.unseen += 1;
                continue;
            }
            let moves = self.all.entry(leg.account.clone()).or_default();
            match leg.amount.nanos() {
                debit if debit < 0 => moves.takes += -debit,
                credit => moves.brings += credit,
            }
            moves.has_whole |= leg.amount.is_int();
            moves.has_decimal |= !leg.amount.is_int();
            if !moves.currencies.contains(&body.currency) {
                moves.currencies.insert(body.currency.clone());
            }
        }
    }

    /// Looks at all of them.
    pub async fn look(self, context: &Context) -> Result<Findings, Error> {
        let progress = context.console.progress("accounts", Some(self.all.len() as u64));
        let mut findings = Findings { not_looked_at: self.unseen, ..Findings::default() };
        let mut all: Vec<(AccountId, Moves)> = self.all.into_iter().collect();
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for chunk in all.chunks(CHUNK) {
            let ids: Vec<&str> = chunk.iter().map(|(id, _)| id.as_ref()).collect();
            let mut found = context.client.accounts_named(&ids).await?;
            for (id, moves) in chunk {
                findings.add(id, moves, found.remove(id.as_ref()));
            }
            progress.at(findings.looked_at, "");
        }
        let missing: Vec<&str> = findings.missing.examples.iter().map(String::as_str).collect();
        findings.alike = context.client.accounts_like(&missing).await?.into_iter().collect();
        Ok(findings)
    }
}

impl Findings {
    fn add(&mut self, id: &str, moves: &Moves, found: Option<Result<Account, String>>) {
        self.looked_at += 1;
        let name = echo(id).into_owned();
        let account = match found {
            None => return self.missing.add(name),
            Some(Err(problem)) => return self.unreadable.add(format!("{name} ({problem})")),
            Some(Ok(account)) => account,
        };
        match account.status {
            Status::Open => {}
            Status::Frozen => self.frozen.add(name.clone()),
            Status::Closed => self.closed.add(name.clone()),
        }
        if moves.currencies.iter().any(|currency| *currency != account.currency) {
            let has = account.currency.as_deref().unwrap_or("no currency");
            self.other_currency.add(format!("{name} (has {})", echo(has)));
        }
        let is_int = account.balance.is_int();
        if (is_int && moves.has_decimal) || (!is_int && moves.has_whole) {
            self.other_form.add(format!("{name} (holds {})", account.balance));
        }
        let Some(floor) = account.floor.map(Amount::nanos) else { return };
        let has = account.balance.nanos() - floor;
        let told =
            || format!("{name} (needs {}, has {})", format_nanos(moves.takes), format_nanos(has));
        if moves.takes > has + moves.brings {
            self.short.add(told());
        } else if moves.takes > has {
            self.short_at_first.add(told());
        }
    }

    fn all(&self) -> [(&'static str, &Found); 8] {
        [
            ("missing", &self.missing),
            ("frozen", &self.frozen),
            ("closed", &self.closed),
            ("unreadable", &self.unreadable),
            ("of another currency", &self.other_currency),
            ("of another form of amounts", &self.other_form),
            ("short", &self.short),
            ("short, unless what this file brings comes first", &self.short_at_first),
        ]
    }

    /// Whether nothing was found that would refuse a row, as things stand, and all was looked at.
    pub fn is_empty(&self) -> bool {
        self.not_looked_at == 0 && self.all().iter().all(|(_, found)| found.count == 0)
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\naccounts: {}", self.looked_at)?;
        for (what, Found { count, examples }) in self.all() {
            if *count > 0 {
                write!(f, "\n  {count} {what}: {}", shortened(examples, *count))?;
            }
        }
        for (name, other) in &self.alike {
            write!(f, "\n  {name}: {}", alike_told(other))?;
        }
        match self.not_looked_at {
            0 => Ok(()),
            legs => write!(f, "\n  not looked at, beyond {ACCOUNTS_MAX}: those of {legs} legs"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(source: &str, destination: &str, value: &str) -> Body {
        let value = Amount::parse(value).expect(value);
        Body::transfer(source, destination, value).expect("valid")
    }

    #[test]
    fn an_account_is_short_by_what_the_whole_file_takes_and_brings() {
        let mut accounts = Accounts::default();
        for (source, destination, value) in [
            ("bank", "dave", "100"),
            ("dave", "bob", "60"),
            ("dave", "bob", "50"),
            ("eve", "bob", "1"),
        ] {
            accounts.add(&body(source, destination, value));
        }
        let mut findings = Findings::default();
        let account = |id: &str, balance| Some(Ok(Account::new(id, Amount::Int(balance))));
        for (id, found) in [
            ("bank", account("bank", 100)),
            ("dave", account("dave", 9)),
            ("bob", account("bob", 0)),
            ("eve", None),
        ] {
            findings.add(id, &accounts.all[id], found);
        }
        assert_eq!(findings.missing.examples, ["eve"]);
        assert_eq!(findings.short.examples, ["dave (needs 110, has 9)"]);
        assert_eq!(findings.short_at_first.count, 0);
        let mut richer = Findings::default();
        richer.add("dave", &accounts.all["dave"], account("dave", 10));
        assert_eq!((richer.short.count, richer.short_at_first.count), (0, 1));
        assert!(!richer.is_empty() && Findings::default().is_empty());
    }

    #[test]
    fn frozen_ones_and_those_of_another_form_are_told() {
        let mut accounts = Accounts::default();
        accounts.add(&body("a", "b", "1.50"));
        let mut findings = Findings::default();
        let mut frozen = Account::new("a", Amount::parse("9.00").expect("a decimal"));
        frozen.currency = Some("EUR".to_owned());
        frozen.status = Status::Frozen;
        findings.add("a", &accounts.all["a"], Some(Ok(frozen)));
        findings.add("b", &accounts.all["b"], Some(Ok(Account::new("b", Amount::Int(5)))));
        assert_eq!(findings.frozen.examples, ["a"]);
        assert_eq!(findings.other_currency.examples, ["a (has EUR)"]);
        assert_eq!(findings.other_form.examples, ["b (holds 5)"]);
        assert!(findings.to_string().contains("\n  1 frozen: a"), "{findings}");
    }
}
