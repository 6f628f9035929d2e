//! Opening an account whose opening balance another account pays.
//!
//! An opening balance of its own makes money, which no account has paid. Here the account is opened
//! with 0, and a transfer from a counter-account pays the balance in: a transaction like any other,
//! so the floor of the counter-account holds. Promises that everything that can be told before is
//! told before anything is written, and that the id of the transfer is made from the name of the
//! account: the same call again pays nothing twice, and goes on where an earlier one has stopped; one
//! with another balance or counter-account is refused. Where the transfer is refused later, the
//! account stays open with 0. Fails as opening an account and submitting do.

use std::sync::Arc;

use ledger::account::{Account, Status};
use ledger::remedy::Remedy;
use ledger::transaction::{Body, TransactionId, check_name};
use mongodb::bson::RawDocumentBuf;

use crate::client::Client;
use crate::derived::named_after;
use crate::error::Error;
use crate::opening::Opened;
use crate::origin::Origin;
use crate::rules::Rules;
use crate::submission::{Order, Receipt, Submission};

/// An account that is open, and the transfer that pays its opening balance.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenedFrom {
    /// Whether the account is new.
    pub opened: Opened,
    /// The id of the transfer.
    pub transfer: TransactionId,
    /// The transfer as it was submitted, or why it was refused: then the account is open without it.
    pub receipt: Result<Receipt, Error>,
}

impl Client {
    /// Opens an account with 0, and submits the transfer of its balance from the account `from`.
    /// Doing it again changes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a balance that is not above zero, a floor above zero, an account that
    /// is not open, and as submitting has it; [`Error::Conflict`] where the account or the transfer
    /// exists with other content: of the transfer, it has its id. Nothing was written then. When a
    /// server stays away, any of it may be there.
    pub async fn open_from(
        &self,
        account: &Account,
        from: &str,
        origin: Option<Arc<Origin>>,
    ) -> Result<OpenedFrom, Error> {
        let rules = self.known_rules().await?;
        let order = order(account, from, origin, &rules)?;
        self.require_same(&order, &rules).await?;
        let zero = account.balance.zero();
        let empty = Account { balance: zero, opening_balance: zero, ..account.clone() };
        let opened = self.create_accounts(&[empty]).await?.remove(0)?;
        let transfer = order.id.clone();
        let receipt = match self.submit(order.into()).await {
            Err(error @ (Error::Unavailable { .. } | Error::Denied { .. })) => {
                return Err(error.after_a_write());
            }
            submitted => submitted,
        };
        Ok(OpenedFrom { opened, transfer, receipt })
    }

    /// An error if another transfer has opened the account, or something else has the id.
    async fn require_same(&self, order: &Order, rules: &Rules) -> Result<(), Error> {
        let Some(found) = self.transaction(&order.id).await? else { return Ok(()) };
        let stored = RawDocumentBuf::try_from(&found);
        let is_same =
            stored.is_ok_and(|it| !Submission::from(order.clone()).differs_from(&it, rules));
        if is_same {
            return Ok(());
        }
        let problem = "is another transaction, for example of another opening balance or from another \
                       account; look at it, and pay the money in by a transfer of your own";
        let (id, problem) = (order.id.to_string(), problem.to_owned());
        Err(Error::Conflict { id, problem, differs: Vec::new() })
    }
}

/// The transfer that pays the balance of an account, if all rules hold for both.
fn order(
    account: &Account,
    from: &str,
    origin: Option<Arc<Origin>>,
    rules: &Rules,
) -> Result<Order, Error> {
    let account = rules.fit_account(account.clone())?;
    let (id, balance) = (&*account.id, account.balance);
    check_name("from", from)?;
    if from == id {
        return Err(Error::invalid("from", "is the account itself; name the one that pays"));
    }
    if balance.is_zero() || balance.is_negative() {
        let problem =
            "is not above zero, and so nothing that another account pays; leave `from` out";
        return Err(Error::invalid("balance", problem));
    }
    if account.status != Status::Open {
        let problem =
            "an account that is not open takes no money; freeze it once it has its balance";
        return Err(Error::invalid("status", problem));
    }
    if let Some(floor) = account.floor.filter(|floor| balance.zero() < *floor) {
        let set = Remedy::SetFloor(id, &floor.to_string()).to_string();
        let problem =
            format!("is above 0, with which the account is opened; set it afterwards: {set}");
        return Err(Error::invalid("floor", problem));
    }
    let transfer = Body::transfer(from, id, balance)?.in_currency(account.currency.clone());
    let name = rules.derived(named_after(id, |account| format!("open:{account}")));
    let submission = Submission::of(transfer).with_id(name).with_origin(origin);
    rules.fit(submission.into_order()?)
}

#[cfg(test)]
mod tests {
    use ledger::amount::Amount;
    use ledger::limits::NAME_BYTES_MAX;

    use super::*;

    fn account(id: &str, balance: i64) -> Account {
        Account::new(id, Amount::Int(balance))
    }

    fn order_of(account: &Account, from: &str) -> Result<Order, Error> {
        order(account, from, None, &Rules::default())
    }

    #[test]
    fn the_same_account_has_the_same_transfer_in_every_version() {
        let euros = Account { currency: Some("EUR".to_owned()), ..account("alice", 5) };
        let order = order_of(&euros, "capital").expect("valid");
        assert_eq!((&*order.id, order.body.currency.as_deref()), ("open:alice", Some("EUR")));
        let legs: Vec<_> =
            order.body.legs().iter().map(|leg| (&*leg.account, leg.amount)).collect();
        assert_eq!(legs, [("capital", Amount::Int(-5)), ("alice", Amount::Int(5))]);
        let long = "x".repeat(NAME_BYTES_MAX);
        let id = order_of(&account(&long, 5), "capital").expect("valid").id;
        assert!(id.starts_with("open:sha256:") && id.len() <= NAME_BYTES_MAX, "{id}");
    }

    #[test]
    fn what_no_transfer_can_do_is_refused_by_its_field() {
        let frozen = Account { status: Status::Frozen, ..account("a", 5) };
        let above = Account { floor: Some(Amount::Int(1)), ..account("a", 5) };
        for (account, from, named) in [
            (account("a", 5), "a", "from"),
            (account("a", 5), "", "from"),
            (account("a", 0), "b", "balance"),
            (account("a", -5), "b", "balance"),
            (frozen, "b", "status"),
            (above, "b", "floor"),
        ] {
            let error = order_of(&account, from).expect_err(named);
            assert!(matches!(&error, Error::Invalid { field, .. } if field == named), "{error}");
        }
        let below = Account { floor: Some(Amount::Int(-9)), ..account("a", 5) };
        assert!(order_of(&below, "b").is_ok(), "the floor of who is paid is its own");
    }
}
