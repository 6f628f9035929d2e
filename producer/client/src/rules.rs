//! What a ledger's settings and its schema ask of a submission or an account: ids of one kind,
//! amounts in one form with the places of their currency, and the currency of what names none.
//!
//! Owns these checks, and the ids that Tandem makes. Promises that such an id is made from a text
//! alone, so that whoever makes it again makes the same one: a text is its own id; an `ObjectId` is
//! the beginning of the text's SHA-256. Whole numbers are the owner's, and only reversals get some,
//! below zero. Fails with [`Error::Invalid`], which names the field.

use std::sync::Arc;

use layout::IdKind;
use ledger::account::Account;
use ledger::amount::Amount;
use ledger::notation::{Notation, NotationError};
use ledger::transaction::Body;
use ledger::visible;

use crate::client::Client;
use crate::error::Error;
use crate::submission::Order;

/// What the ledger asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    accounts: IdKind,
    transactions: IdKind,
    currency: Option<String>,
    notation: Arc<Notation>,
}

/// What a ledger asks for that writes amounts in this way, without a currency of its own; its ids are
/// texts.
impl From<Notation> for Rules {
    fn from(notation: Notation) -> Rules {
        Rules { notation: Arc::new(notation), ..Rules::default() }
    }
}

impl Client {
    /// What the ledger asks for, as far as it was looked at: as long as it was not, ids are texts and
    /// amounts are minor units.
    #[must_use]
    pub fn rules(&self) -> Rules {
        let layout = self.store().layout();
        Rules {
            accounts: layout.map(|layout| layout.accounts.id_kind()).unwrap_or_default(),
            transactions: layout.map(|layout| layout.transactions.id_kind()).unwrap_or_default(),
            currency: layout.and_then(|layout| layout.currency()).map(str::to_owned),
            notation: self.store().notation(),
        }
    }

    /// The same of the ledger as it is.
    ///
    /// # Errors
    /// When the server stays away, or the settings can't be read.
    pub async fn known_rules(&self) -> Result<Rules, Error> {
        self.insist(|| self.store().know_layout()).await?;
        Ok(self.rules())
    }
}

impl Rules {
    /// How the ledger writes amounts.
    #[must_use]
    pub fn notation(&self) -> &Arc<Notation> {
        &self.notation
    }

    /// Whether all ids are texts.
    fn has_texts(&self) -> bool {
        (self.accounts, self.transactions) == (IdKind::default(), IdKind::default())
    }

    /// Whether the ids of accounts are texts.
    pub(crate) fn has_texts_of_accounts(&self) -> bool {
        self.accounts == IdKind::Text
    }

    /// The id of a transaction that is made from this text.
    ///
    /// # Errors
    /// Where the ids are whole numbers, because then its submitter has to give one.
    pub fn made(&self, text: String) -> Result<String, Error> {
        match self.transactions {
            IdKind::Int64 => {
                let problem = "is missing; the ids of this ledger are whole numbers, and Tandem \
                               makes none: give one";
                Err(Error::invalid("id", problem))
            }
            kind => Ok(kind.derived(text)),
        }
    }

    /// The id of a transaction that Tandem makes for something that has a name: a reversal, or the
    /// transfer of an opening balance.
    pub(crate) fn derived(&self, text: String) -> String {
        self.transactions.derived(text)
    }

    /// The order as the ledger asks for it.
    ///
    /// # Errors
    /// Names the id that is of another kind, or the amount that is in another form.
    pub fn fit(&self, mut order: Order) -> Result<Order, Error> {
        if !self.has_texts() {
            check("id", self.transactions, &order.id)?;
            for leg in order.body.legs() {
                check("account", self.accounts, &leg.account)?;
            }
        }
        if order.body.currency.is_none() && self.currency.is_some() {
            order.body = order.body.in_currency(self.currency.clone());
        }
        // A reversal moves what somebody else's document has moved.
        if order.body.reverses.is_none() {
            self.check_amounts(&order.body)?;
        }
        Ok(order)
    }

    fn check_amounts(&self, body: &Body) -> Result<(), Error> {
        let (legs, currency) = (body.legs(), body.currency.as_deref());
        let wrong = |(at, amount): (usize, Amount)| {
            let problem = self.notation.check(amount, currency).err()?;
            let field = match legs.len() {
                2 => "value".to_owned(),
                _ => format!("legs[{at}].amount"),
            };
            Some(Error::invalid(&field, problem.to_string()))
        };
        // The credit of a transfer is its value.
        let wrong = legs.iter().enumerate().rev().find_map(|(at, leg)| wrong((at, leg.amount)));
        wrong.map_or(Ok(()), Err)
    }

    /// The account as the ledger asks for it.
    ///
    /// # Errors
    /// Where its id is of another kind, or looks like that of another account, or an amount is in
    /// another form, or its currency looks like another one.
    pub fn fit_account(&self, mut account: Account) -> Result<Account, Error> {
        check("account", self.accounts, &account.id)?;
        if let Some(problem) = visible::problem(&account.id) {
            return Err(Error::invalid("account", problem));
        }
        account.currency = account.currency.or_else(|| self.currency.clone());
        let currency = account.currency.as_deref();
        let own = |it: &&str| self.currency.as_deref() != Some(*it);
        let problem = currency.filter(own).and_then(|it| self.notation.problem_of_currency(it));
        if let Some(problem) = problem {
            return Err(Error::invalid("currency", problem));
        }
        let told = |field| move |problem: NotationError| Error::invalid(field, problem.to_string());
        self.notation.check(account.balance, currency).map_err(told("balance"))?;
        // A floor of zero fits both forms.
        if let Some(floor) = account.floor.filter(|floor| !floor.is_zero()) {
            self.notation.check(floor, currency).map_err(told("floor"))?;
        }
        Ok(account)
    }
}

fn check(field: &str, kind: IdKind, id: &str) -> Result<(), Error> {
    if kind.takes(id) {
        return Ok(());
    }
    let echo = ledger::limits::echo(id);
    Err(Error::invalid(
        field,
        format!("{echo:?} is not {}, as the ids of this ledger are", kind.told()),
    ))
}

#[cfg(test)]
mod tests {
    use ledger::amount::Amount;
    use ledger::transaction::Body;

    use super::*;

    fn order(id: &str, source: &str) -> Order {
        let body = Body::transfer(source, "7", Amount::Int(1)).expect("valid");
        Order { id: id.into(), body, origin: None }
    }

    #[test]
    fn an_id_of_another_kind_is_refused_with_its_field() {
        let ids =
            Rules { accounts: IdKind::Int64, transactions: IdKind::ObjectId, ..Rules::default() };
        let made = ids.made("rent".to_owned()).expect("an ObjectId");
        assert_eq!(made.len(), 24);
        assert_eq!(ids.made("rent".to_owned()), Ok(made.clone()));
        assert!(ids.fit(order(&made, "5")).is_ok());
        for (order, named) in [(order("rent", "5"), "id: \"rent\""), (order(&made, "x"), "account")]
        {
            let error = ids.fit(order).expect_err(named).to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn whole_numbers_are_given_and_what_tandem_makes_gets_some_below_zero() {
        let ids = Rules { transactions: IdKind::Int64, ..Rules::default() };
        assert!(matches!(ids.made("x".to_owned()), Err(Error::Invalid { .. })));
        let reversal: i64 = ids.derived("reverse:7".to_owned()).parse().expect("a number");
        assert!(reversal < 0);
    }

    #[test]
    fn what_names_no_currency_has_that_of_the_ledger() {
        let ids = Rules { currency: Some("EUR".to_owned()), ..Rules::default() };
        let currency = |order| ids.fit(order).expect("valid").body.currency;
        assert_eq!(currency(order("t", "a")).as_deref(), Some("EUR"));
        let mut dollars = order("t", "a");
        dollars.body = dollars.body.in_currency(Some("USD".to_owned()));
        assert_eq!(currency(dollars).as_deref(), Some("USD"));
    }
}
