//! Accounts: inserting them so that a repeat changes nothing, and reading one.
//!
//! An account counts as the same if it *started* with the same values: its balance changes later.

use std::collections::HashMap;

use ledger::LedgerError;
use ledger::account::Account;
use ledger::remedy::Remedy;
use ledger::visible;
use mongo::{ACCOUNTS, Fields, Store, raw};
use mongodb::bson::{DateTime, RawDocument, RawDocumentBuf};

use crate::client::Client;
use crate::error::{Effect, Error, Kind};

/// The most accounts of one insert.
const CHUNK: usize = 1_000;

/// An account that exists as it was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// It is new.
    Created,
    /// It was there, with the same opening content.
    Unchanged,
}

/// The result for an account to be created.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    /// It is new.
    Created,
    /// It exists with the same opening content.
    Unchanged,
    /// It exists with other content.
    Conflict {
        /// The fields that differ.
        differs: Vec<&'static str>,
        /// What differs, and what to do.
        problem: String,
    },
    /// The server refuses it.
    Refused(String),
    /// The server refuses it, and an earlier attempt may yet bring it.
    Open(String),
}

impl Client {
    /// Creates accounts; a result for each, in order: [`Error::Conflict`] for one that exists with
    /// another opening balance, floor or currency. Doing it again changes nothing.
    ///
    /// # Errors
    /// When the server stays away: then any of them may be there.
    pub async fn create_accounts(
        &self,
        accounts: &[Account],
    ) -> Result<Vec<Result<Opened, Error>>, Error> {
        // The form of amounts may have changed until there is an account.
        self.insist(|| self.store().check_settings()).await?;
        let ids = self.known_rules().await?;
        let mut results = Vec::with_capacity(accounts.len());
        for accounts in accounts.chunks(CHUNK) {
            let fit: Vec<Result<Account, Error>> =
                accounts.iter().cloned().map(|account| ids.fit_account(account)).collect();
            let accounts: Vec<Account> =
                fit.iter().filter_map(|fit| fit.as_ref().ok().cloned()).collect();
            let attempt = |earlier| open(self.store(), &accounts, earlier);
            let answers = match accounts.is_empty() {
                true => Ok((vec![], Effect::None)),
                false => self.insist_write(attempt).await,
            };
            // Those of the pieces before this one are there.
            let answers =
                answers.map_err(|e| if results.is_empty() { e } else { e.after_a_write() });
            let mut answers = answers?.0.into_iter();
            results.extend(fit.into_iter().map(|fit| {
                let account = fit?;
                told(&account, answers.next().expect("one for each that was sent"))
            }));
        }
        Ok(results)
    }

    /// Reads an account, with the transactions in flight on it.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Refused`] when its document makes no sense; and when the
    /// server stays away.
    pub async fn account(&self, id: &str) -> Result<Account, Error> {
        let document = self.account_document(id).await?;
        let told = |problem| Error::refused(id, self.wrong_with_account(problem));
        Account::from_raw(&document).map_err(told)
    }

    /// Reads accounts by their names; those that there are, each with its content or what is wrong
    /// with it.
    ///
    /// # Errors
    /// When the server stays away.
    pub async fn accounts_named(
        &self,
        ids: &[&str],
    ) -> Result<HashMap<String, Result<Account, String>>, Error> {
        let read = || self.store().documents("accounts", ACCOUNTS, ids, Fields::OfAnAccount);
        let found = self.insist(read).await?;
        let account = |document: &RawDocumentBuf| {
            let read = Account::from_raw(document);
            let id = match &read {
                Ok(account) => account.id.to_string(),
                Err(_) => document.get_str("_id").ok()?.to_owned(),
            };
            Some((id, read.map_err(|problem| self.wrong_with_account(problem))))
        };
        Ok(found.iter().filter_map(account).collect())
    }

    /// For each of these names, an account that there is and that looks the same or nearly, if there
    /// is one: `"bob "` for `bob`.
    ///
    /// # Errors
    /// When the server stays away.
    pub async fn accounts_like(&self, names: &[&str]) -> Result<HashMap<String, String>, Error> {
        let forms: Vec<(&str, String)> = names
            .iter()
            .flat_map(|name| visible::lookalikes(name).into_iter().map(|form| (*name, form)))
            .collect();
        let asked: Vec<&str> = forms.iter().map(|(_, form)| form.as_str()).collect();
        let there = self.accounts_named(&asked).await?;
        let found = forms.into_iter().filter(|(_, form)| there.contains_key(form));
        Ok(found.map(|(name, form)| (name.to_owned(), form)).collect())
    }

    /// What is wrong with an account's document, as its owner calls the fields.
    #[must_use]
    pub fn wrong_with_account(&self, problem: String) -> String {
        self.store().told(ACCOUNTS, problem)
    }

    /// Reads an account's document, whatever it holds.
    pub async fn account_document(&self, id: &str) -> Result<RawDocumentBuf, Error> {
        let ids = [id];
        let read = || self.store().documents("account", ACCOUNTS, &ids, Fields::All);
        let not_found = || Error::NotFound { kind: Kind::Account, id: id.to_owned() };
        self.insist(read).await?.pop().ok_or_else(not_found)
    }
}

fn told(account: &Account, answer: Answer) -> Result<Opened, Error> {
    let id = account.id.to_string();
    match answer {
        Answer::Created => Ok(Opened::Created),
        Answer::Unchanged => Ok(Opened::Unchanged),
        Answer::Conflict { differs, problem } => Err(Error::Conflict { id, problem, differs }),
        Answer::Refused(problem) => {
            let problem = format!("the server refuses it: {problem}");
            Err(Error::Refused { id, problem })
        }
        Answer::Open(said) => Err(Error::open(&id, &said)),
    }
}

/// Inserts accounts; an answer for each, in order. If an earlier attempt is open, a refused one may
/// be there all the same.
async fn open(
    store: &Store,
    accounts: &[Account],
    earlier: Effect,
) -> Result<Vec<Answer>, LedgerError> {
    let now = DateTime::from_millis(store.server_now().await?);
    let documents = accounts.iter().map(|account| raw(&account.to_document(now)));
    let left = store.insert(ACCOUNTS, documents).await?;
    let mut answers = vec![Answer::Created; accounts.len()];
    let mut looked_at = left.existing;
    // Only a look by its id tells an account that an earlier attempt has inserted, and that stands
    // in its own way, from another one.
    looked_at.extend(left.taken.iter().map(|taken| taken.item));
    if earlier == Effect::Unknown {
        looked_at.extend(left.refused.iter().map(|refused| refused.item));
    }
    for refused in left.refused.into_iter().chain(left.taken) {
        answers[refused.item] = match earlier {
            Effect::None => Answer::Refused(refused.problem),
            Effect::Unknown => Answer::Open(refused.problem),
        };
    }
    if !looked_at.is_empty() {
        let ids = looked_at.iter().map(|at| accounts[*at].id.as_ref()).collect();
        let mut found = find(store, ids).await.map_err(LedgerError::after_a_write)?;
        for at in looked_at {
            let account = &accounts[at];
            match found.remove(account.id.as_ref()) {
                Some(existing) => answers[at] = compare(account, &existing),
                None if matches!(answers[at], Answer::Open(_) | Answer::Refused(_)) => {}
                // It was inserted a moment ago, by this or another client, and is not durable yet.
                None => {
                    let problem = format!("{} is not durable yet", account.id);
                    return Err(LedgerError::passing("accounts", problem));
                }
            }
        }
    }
    Ok(answers)
}

/// Accounts by their ids, without the marks, which change and may be many.
async fn find(
    store: &Store,
    ids: Vec<&str>,
) -> Result<HashMap<String, RawDocumentBuf>, LedgerError> {
    let fields = Fields::OfAnAccount;
    let found = store.documents("accounts", ACCOUNTS, &ids, fields).await?;
    let keyed =
        |document: RawDocumentBuf| Some((document.get_str("_id").ok()?.to_owned(), document));
    Ok(found.into_iter().filter_map(keyed).collect())
}

fn compare(account: &Account, existing: &RawDocument) -> Answer {
    let stored = match Account::from_raw(existing) {
        Ok(stored) => stored,
        Err(problem) => {
            let problem = format!("the account exists and is broken: {problem}");
            return Answer::Conflict { differs: vec![], problem };
        }
    };
    let mut differs = Vec::new();
    let mut theirs = Vec::new();
    let mut compare = |field, told: &str, is_same: bool, value: Option<String>| {
        if !is_same {
            differs.push(field);
            theirs.push(format!("its {told} is {}", value.as_deref().unwrap_or("none")));
        }
    };
    let (balance, floor) = (stored.opening_balance, stored.floor);
    let is_same = balance == account.opening_balance;
    compare("balance", "openingBalance", is_same, Some(balance.to_string()));
    compare("floor", "floor", floor == account.floor, floor.map(|floor| floor.to_string()));
    compare("currency", "currency", stored.currency == account.currency, stored.currency);
    if differs.is_empty() {
        return Answer::Unchanged;
    }
    let theirs = theirs.join(", ");
    let advice = match differs[..] {
        ["floor"] => {
            let floor = account.floor.map_or("none".to_owned(), |floor| floor.to_string());
            format!("{} changes its floor", Remedy::SetFloor(&account.id, &floor))
        }
        _ => "choose another name".to_owned(),
    };
    let problem = format!("the account exists with other content ({theirs}); {advice}");
    Answer::Conflict { differs, problem }
}

#[cfg(test)]
mod tests {
    use ledger::account::Status;
    use ledger::amount::Amount;

    use super::*;

    #[test]
    fn an_account_is_the_same_while_its_opening_is() {
        let account = Account::new("a", Amount::Int(5));
        let stored = |account: &Account| {
            let document = account.to_document(DateTime::from_millis(0));
            RawDocumentBuf::try_from(&document).expect("BSON")
        };
        let moved = Account { balance: Amount::Int(9), status: Status::Frozen, ..account.clone() };
        assert_eq!(compare(&account, &stored(&moved)), Answer::Unchanged);
        let other = Account { opening_balance: Amount::Int(6), ..account.clone() };
        let euros = Account { currency: Some("EUR".into()), floor: None, ..account.clone() };
        let cases: [(Account, &[&str], &str); 3] = [
            (other, &["balance"], "(its openingBalance is 6)"),
            (
                Account { floor: None, ..account.clone() },
                &["floor"],
                "(its floor is none); `producer accounts set-floor a 0` changes its floor",
            ),
            (euros, &["floor", "currency"], "(its floor is none, its currency is EUR)"),
        ];
        for (other, fields, text) in cases {
            match compare(&account, &stored(&other)) {
                Answer::Conflict { differs, problem } => {
                    assert_eq!(differs, fields);
                    assert!(problem.contains(text), "{problem}");
                }
                answer => panic!("{fields:?}: {answer:?}"),
            }
        }
    }
}
