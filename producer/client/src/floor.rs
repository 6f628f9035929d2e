//! Changing the floor of an account: a look, one guarded update, and a look at what is there.
//!
//! Promises that the floor is never above the balance at the moment at which it is written,
//! whatever workers post at the same time. The look before it only says in which form the account
//! keeps its amounts; the update decides. Setting a floor that the account has already changes
//! nothing. Fails with what is in the way, as the account was found afterwards.

use ledger::account::{Account, Status};
use ledger::amount::{Amount, AmountError};
use ledger::limits::{NAME_BYTES_MAX, REASON_BYTES_MAX, echo};
use ledger::notation::{Form, Notation};
use mongo::{ACCOUNTS, Fields, FloorChange};
use mongodb::bson::{RawDocument, RawDocumentBuf};

use crate::client::Client;
use crate::error::{Effect, Error, Kind};
use crate::readable::readable;

/// The floor that an account is to have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewFloor {
    /// The lowest balance that a debit may leave, in the form of the account's amounts; none is
    /// unlimited.
    pub floor: Option<Amount>,
    /// The currency that the account must have; none for whichever it has.
    pub currency: Option<String>,
    /// Why, for people; the account keeps it. At most [`REASON_BYTES_MAX`] bytes.
    pub reason: Option<String>,
    /// Who says so; the account keeps it. At most [`NAME_BYTES_MAX`] bytes.
    pub by: Option<String>,
}

/// An account that has the floor that was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloorSet {
    /// The floor, in the form of the account's amounts; none is unlimited.
    pub floor: Option<Amount>,
    /// Whether it was so before: then nothing was changed.
    pub known: bool,
}

impl Client {
    /// Gives an account another floor. Holds and transactions in flight keep what they have taken:
    /// it is out of the balance already. Doing it again changes nothing.
    ///
    /// # Errors
    /// [`Error::Refused`] when its balance is below this floor, when it is closed, of another
    /// currency, or can't be read; [`Error::Invalid`] when the floor is in another form than its
    /// amounts, or has more places than its currency; [`Error::NotFound`], and when MongoDB stays
    /// away.
    pub async fn set_floor(&self, id: &str, wanted: &NewFloor) -> Result<FloorSet, Error> {
        check_text("reason", wanted.reason.as_deref(), REASON_BYTES_MAX)?;
        check_text("by", wanted.by.as_deref(), NAME_BYTES_MAX)?;
        let before = self.rules_of_account(id).await?;
        let before = of_any_floor(&before).map_err(|problem| self.unreadable(id, problem))?;
        let change = fitting(&before, wanted, &self.store().notation())?;
        let request = |_| self.store().request_floor(id, &change);
        let (written, open) = self.insist_write(request).await?;
        let floor = change.floor;
        if written.count > 0 {
            return Ok(FloorSet { floor, known: false });
        }
        if let Some(refused) = written.refused.first() {
            let problem = format!("the server refuses it: {}", refused.problem);
            return Err(Error::refused(id, problem).unless_open(open));
        }
        // This attempt has changed nothing; one before it may have, or may do so yet.
        let found = self.rules_of_account(id).await.map_err(|error| error.unless_open(open))?;
        match Account::from_raw(&found) {
            Ok(found) if found.floor == floor => {
                Ok(FloorSet { floor, known: open == Effect::None })
            }
            Ok(found) => Err(Error::refused(id, refusal(&found, &change)).unless_open(open)),
            Err(problem) => Err(self.unreadable(id, problem).unless_open(open)),
        }
    }

    /// What the rules of an account rest on.
    async fn rules_of_account(&self, id: &str) -> Result<RawDocumentBuf, Error> {
        let ids = [id];
        let read = || self.store().documents("account", ACCOUNTS, &ids, Fields::OfAnAccount);
        let not_found = || Error::NotFound { kind: Kind::Account, id: id.to_owned() };
        self.insist(read).await?.pop().ok_or_else(not_found)
    }

    fn unreadable(&self, id: &str, problem: String) -> Error {
        Error::refused(id, self.wrong_with_account(problem))
    }
}

/// The account, whatever its floor is: a floor that can't be read is going to be replaced.
fn of_any_floor(document: &RawDocument) -> Result<Account, String> {
    Account::from_raw(document).or_else(|_| {
        let mut without = readable(document);
        without.remove("floor");
        Account::from_document(&without)
    })
}

fn check_text(field: &str, text: Option<&str>, bytes_max: usize) -> Result<(), Error> {
    let Some(text) = text else { return Ok(()) };
    if text.trim().is_empty() {
        return Err(Error::invalid(field, "says nothing; leave it out, or write something"));
    }
    if text.len() > bytes_max {
        let problem = format!("has {} bytes; the limit is {bytes_max}", text.len());
        return Err(Error::invalid(field, problem));
    }
    Ok(())
}

/// The floor as this account keeps its amounts.
fn fitting(before: &Account, wanted: &NewFloor, notation: &Notation) -> Result<FloorChange, Error> {
    let currency = before.currency.as_deref();
    if let Some(asked) = wanted.currency.as_deref().filter(|asked| Some(*asked) != currency) {
        let own = currency.map_or("no currency".to_owned(), |own| echo(own).into_owned());
        let problem = format!("has {own}, and not {}", echo(asked));
        return Err(Error::refused(&before.id, problem));
    }
    let form = if before.balance.is_int() { Form::MinorUnits } else { Form::Decimals };
    let of_account = Notation { form, own: notation.own.clone() };
    let zero = before.balance.zero();
    let floor = match wanted.floor {
        None => None,
        // Zero fits both forms.
        Some(floor) if floor.is_zero() => Some(zero),
        Some(floor) => {
            let wrong = |error: String| Error::invalid("floor", error);
            of_account.check(floor, currency).map_err(|error| wrong(error.to_string()))?;
            let too_large = || wrong(AmountError::TooLarge(floor.to_string()).to_string());
            Some(floor.checked_add(zero).ok_or_else(too_large)?)
        }
    };
    Ok(FloorChange {
        floor,
        currency: before.currency.clone(),
        reason: wanted.reason.clone(),
        by: wanted.by.clone(),
    })
}

/// Why the guard did not hold, from the account as it was found afterwards.
fn refusal(found: &Account, change: &FloorChange) -> String {
    if found.status == Status::Closed {
        return "is closed, for good; create another account".to_owned();
    }
    let is_same_kind = change.floor.is_none_or(|floor| floor.is_int() == found.balance.is_int());
    let too_high = change.floor.filter(|floor| is_same_kind && found.balance < *floor);
    match too_high.filter(|_| found.currency == change.currency) {
        Some(floor) => format!(
            "its balance is {balance}, and pending debits of {debits} are out of that already, so it \
             would be below a floor of {floor}; the highest floor that it takes now is {balance}",
            balance = found.balance,
            debits = found.pending_debits,
        ),
        None => "was changed at the same moment; look at it, and try again".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(balance: &str, currency: Option<&str>) -> Account {
        let balance = Amount::parse(balance).expect("an amount");
        Account { currency: currency.map(str::to_owned), ..Account::new("a", balance) }
    }

    fn wanted(floor: &str) -> NewFloor {
        NewFloor { floor: Some(Amount::parse(floor).expect("an amount")), ..NewFloor::default() }
    }

    fn fits(account: &Account, wanted: &NewFloor) -> Result<Option<Amount>, String> {
        let fitting = fitting(account, wanted, &Notation::default());
        fitting.map(|change| change.floor).map_err(|error| error.to_string())
    }

    #[test]
    fn a_floor_is_of_the_form_and_the_currency_of_its_account() {
        let (whole, exact) = (account("100", Some("EUR")), account("1.00", Some("EUR")));
        assert_eq!(fits(&whole, &wanted("-50")), Ok(Some(Amount::Int(-50))));
        assert_eq!(fits(&exact, &wanted("-0.50")), Ok(Amount::parse("-0.50").ok()));
        assert_eq!(fits(&exact, &NewFloor::default()), Ok(None));
        // Zero fits both forms.
        let zero = fits(&exact, &wanted("0")).expect("it fits");
        assert!(zero.is_some_and(|zero| zero.is_zero() && !zero.is_int()), "{zero:?}");
        let francs = NewFloor { currency: Some("CHF".to_owned()), ..wanted("1") };
        for (account, wanted, expected) in [
            (&whole, wanted("-0.50"), "floor: -0.50 has a decimal point"),
            (&exact, wanted("-50"), "floor: -50 is a whole number of minor units"),
            (&exact, wanted("-0.505"), "floor: -0.505 has more decimal places than EUR has (2)"),
            (&whole, francs.clone(), "a: has EUR, and not CHF"),
            (&account("1", None), francs, "a: has no currency, and not CHF"),
        ] {
            let refused = fits(account, &wanted).expect_err(expected);
            assert!(refused.starts_with(expected), "{refused:?} should say {expected:?}");
        }
        let beyond = NewFloor { floor: Some(Amount::Int(i64::MIN)), ..NewFloor::default() };
        assert!(fits(&whole, &beyond).is_err_and(|refused| refused.contains("too large")));
    }

    #[test]
    fn a_refusal_says_what_is_in_the_way_and_the_highest_floor_that_would_be_taken() {
        let change = |floor: i64| FloorChange {
            floor: Some(Amount::Int(floor)),
            currency: None,
            reason: None,
            by: None,
        };
        let open = Account { pending_debits: Amount::Int(30), ..account("70", None) };
        let told = refusal(&open, &change(71));
        for expected in ["balance is 70,", "debits of 30 ", "floor of 71;", "takes now is 70"] {
            assert!(told.contains(expected), "{told}");
        }
        assert!(refusal(&open, &change(70)).contains("at the same moment"));
        let closed = Account { status: Status::Closed, ..open.clone() };
        assert!(refusal(&closed, &change(71)).starts_with("is closed"));
        let euros = Account { currency: Some("EUR".to_owned()), ..open };
        assert!(refusal(&euros, &change(71)).contains("at the same moment"));
    }

    #[test]
    fn a_reason_that_says_nothing_or_is_too_long_is_refused() {
        assert_eq!(check_text("reason", None, 3), Ok(()));
        assert_eq!(check_text("reason", Some("why"), 3), Ok(()));
        for text in ["", "  ", "long"] {
            let refused = check_text("reason", Some(text), 3).expect_err(text).to_string();
            assert!(refused.starts_with("reason: "), "{refused}");
        }
    }
}
