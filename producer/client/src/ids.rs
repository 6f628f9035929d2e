//! Ids as the ledger's schema wants them, and the currency of what names none.
//!
//! Owns what is checked of a submission or an account because of the schema, and the ids that
//! Tandem makes. Promises that such an id is made from a text alone, so that whoever makes it again
//! makes the same one: a text is its own id; an `ObjectId` is the beginning of the text's SHA-256.
//! Whole numbers are the owner's, and only reversals get some, below zero. Fails with
//! [`Error::Invalid`], which names the field.

use layout::{IdKind, Layout};
use ledger::account::Account;
use ledger::visible;

use crate::client::Client;
use crate::error::Error;
use crate::submission::Order;

/// What the schema says of ids and currencies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ids {
    accounts: IdKind,
    transactions: IdKind,
    currency: Option<String>,
}

impl Client {
    /// What the ledger's schema says; texts as long as the ledger was not looked at.
    #[must_use]
    pub fn ids(&self) -> Ids {
        self.store().layout().map(Ids::of).unwrap_or_default()
    }

    /// The same of the ledger as it is.
    ///
    /// # Errors
    /// When the server stays away, or the settings can't be read.
    pub(crate) async fn known_ids(&self) -> Result<Ids, Error> {
        self.insist(|| self.store().know_layout()).await?;
        Ok(self.ids())
    }
}

impl Ids {
    fn of(layout: &Layout) -> Ids {
        Ids {
            accounts: layout.accounts.id_kind(),
            transactions: layout.transactions.id_kind(),
            currency: layout.currency().map(str::to_owned),
        }
    }

    /// Whether all ids are texts and nothing has a currency that it does not name.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Ids::default()
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

    /// The id of a reversal that is made from this text.
    pub(crate) fn of_reversal(&self, text: String) -> String {
        self.transactions.derived(text)
    }

    /// The order as the schema wants it.
    ///
    /// # Errors
    /// Names the id that is of another kind.
    pub fn fit(&self, mut order: Order) -> Result<Order, Error> {
        if self.is_plain() {
            return Ok(order);
        }
        check("id", self.transactions, &order.id)?;
        for leg in order.body.legs() {
            check("account", self.accounts, &leg.account)?;
        }
        if order.body.currency.is_none() {
            order.body = order.body.in_currency(self.currency.clone());
        }
        Ok(order)
    }

    /// The account as the schema wants it.
    ///
    /// # Errors
    /// Where its id is of another kind, or looks like that of another account.
    pub(crate) fn fit_account(&self, mut account: Account) -> Result<Account, Error> {
        check("account", self.accounts, &account.id)?;
        if let Some(problem) = visible::problem(&account.id) {
            return Err(Error::invalid("account", problem));
        }
        account.currency = account.currency.or_else(|| self.currency.clone());
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
        let ids = Ids { accounts: IdKind::Int64, transactions: IdKind::ObjectId, currency: None };
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
    fn whole_numbers_are_given_and_only_reversals_get_some_below_zero() {
        let ids = Ids { transactions: IdKind::Int64, ..Ids::default() };
        assert!(matches!(ids.made("x".to_owned()), Err(Error::Invalid { .. })));
        let reversal: i64 = ids.of_reversal("reverse:7".to_owned()).parse().expect("a number");
        assert!(reversal < 0);
    }

    #[test]
    fn what_names_no_currency_has_that_of_the_ledger() {
        let ids = Ids { currency: Some("EUR".to_owned()), ..Ids::default() };
        let currency = |order| ids.fit(order).expect("valid").body.currency;
        assert_eq!(currency(order("t", "a")).as_deref(), Some("EUR"));
        let mut dollars = order("t", "a");
        dollars.body = dollars.body.in_currency(Some("USD".to_owned()));
        assert_eq!(currency(dollars).as_deref(), Some("USD"));
    }
}
