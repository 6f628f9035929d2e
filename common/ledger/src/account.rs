//! An account as the protocol sees it, and the rule by which it refuses a posting.
//!
//! Owns [`Account`] and [`Account::refusal`]: the same rule that the server applies inside the
//! guarded update (`mongo::statements`). There it only *explains* a refusal and never decides a
//! write; in a native transaction, whose reads can't grow stale unnoticed, it decides
//! ([`netting`]).
//!
//! Others make accounts, too. So whole numbers are read as Int64, Int32 and doubles alike, and what
//! is missing means nothing of it: see [`Account::from_raw`].
//!
//! [`netting`]: crate::netting

use std::collections::BTreeSet;

use bson::raw::RawElement;
use bson::spec::ElementType;
use bson::{Bson, DateTime, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use strum::{EnumCount, VariantArray};

use crate::amount::Amount;
use crate::limits::{self, NAME_BYTES_MAX, echo};
use crate::transaction::{AccountId, Reason, ReasonCode, TransactionId, pick_first};
use crate::visible::other_form;

/// The field in which an account keeps when its floor was changed last, what it was before, and
/// why: `{ at, from, reason, by }`. Nothing is decided by it.
pub const FLOOR_CHANGE: &str = "floorChange";

/// Whether an account takes new postings. Undo and settle ignore it: held money must go home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, VariantArray)]
pub enum Status {
    /// Takes postings.
    Open,
    /// Refuses postings until it is unfrozen.
    Frozen,
    /// Refuses postings for good.
    Closed,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; Status::COUNT] =
        *Status::VARIANTS.first_chunk().expect("as many as are counted");

    /// The name in the document.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Open => "open",
            Status::Frozen => "frozen",
            Status::Closed => "closed",
        }
    }

    /// Reads the name in the document.
    #[must_use]
    pub fn parse(name: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// One account document.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// Its `_id`.
    pub id: AccountId,
    /// Posted, spendable money.
    pub balance: Amount,
    /// Debits posted by transactions in flight; already taken from `balance`.
    pub pending_debits: Amount,
    /// Credits posted by transactions in flight; not yet in `balance`.
    pub pending_credits: Amount,
    /// The marks: which transactions in flight have posted here.
    pub pending_transactions: BTreeSet<TransactionId>,
    /// How many of the marks are debits of holds.
    pub pending_holds: u32,
    /// The lowest allowed balance; `None` is unlimited.
    pub floor: Option<Amount>,
    /// Whether it takes postings.
    pub status: Status,
    /// The currency that a posting must match; none matches only transactions without one.
    pub currency: Option<String>,
    /// What the auditor starts from.
    pub opening_balance: Amount,
}

impl Account {
    /// A fresh account with nothing pending.
    #[must_use]
    pub fn new(id: &str, balance: Amount) -> Account {
        // With as many places as the balance, as sums on the server have.
        let zero = balance.checked_add(balance.negated()).unwrap_or(Amount::ZERO);
        Account {
            id: id.into(),
            balance,
            pending_debits: zero,
            pending_credits: zero,
            pending_transactions: BTreeSet::new(),
            pending_holds: 0,
            floor: Some(zero),
            status: Status::Open,
            currency: None,
            opening_balance: balance,
        }
    }

    /// The document to insert.
    #[must_use]
    pub fn to_document(&self, now: DateTime) -> Document {
        let marks: Vec<_> = self.pending_transactions.iter().map(AsRef::as_ref).collect();
        let mut document = doc! {
            "_id": self.id.as_ref(),
            "balance": self.balance,
            "pendingDebits": self.pending_debits,
            "pendingCredits": self.pending_credits,
            "pendingTransactions": marks,
            "floor": self.floor.map_or(Bson::Null, Bson::from),
            "status": self.status.as_str(),
            "openingBalance": self.opening_balance,
            "createdAt": now,
        };
        if let Some(currency) = &self.currency {
            document.insert("currency", currency);
        }
        if self.pending_holds > 0 {
            document.insert("pendingHolds", i64::from(self.pending_holds));
        }
        document
    }

    /// Reads a stored document from its bytes. What it takes is what the guard of a post takes
    /// (`mongo::numbers`): exact numbers within the limits, and only whole ones where the balance
    /// is whole.
    ///
    /// What is missing or null means nothing of it: no money, no marks, no restriction by a status.
    /// A missing floor is 0, and one of null is unlimited. An account without an opening balance
    /// has not been written by Tandem yet: it opened with what it holds.
    ///
    /// # Errors
    /// Says which field is of the wrong type or out of range, and what to write.
    pub fn from_raw(document: &RawDocument) -> Result<Account, String> {
        let picked = pick_first(document, FIELDS).map_err(|_| NO_NAME.to_owned())?;
        let [id, status, currency, marks, floor, balance, debits, credits, opening, holds] =
            &picked;
        let numbers = Numbers::beside(balance.as_ref())?;
        let number = |field, element: &Option<RawElement<'_>>| {
            Ok::<_, String>(numbers.read(field, element.as_ref())?.unwrap_or(Amount::ZERO))
        };
        let is_null = |element: &RawElement<'_>| element.element_type() == ElementType::Null;
        let pending_debits = number("pendingDebits", debits)?;
        Ok(Account {
            id: text("_id", id.as_ref())?.into(),
            balance: numbers.balance,
            pending_debits,
            pending_credits: number("pendingCredits", credits)?,
            pending_transactions: read_marks(marks.as_ref())?,
            pending_holds: read_holds(holds.as_ref()),
            floor: match floor {
                Some(floor) if is_null(floor) => None,
                floor => Some(number("floor", floor)?),
            },
            status: read_status(status.as_ref())?,
            currency: match present(currency.as_ref()) {
                None => None,
                currency => Some(text("currency", currency)?.to_owned()),
            },
            opening_balance: numbers.opening(opening.as_ref(), pending_debits)?,
        })
    }

    /// As [`Account::from_raw`], for a document that was read into a tree.
    ///
    /// # Errors
    /// As [`Account::from_raw`].
    pub fn from_document(document: &Document) -> Result<Account, String> {
        let raw = RawDocumentBuf::try_from(document).map_err(|error| error.to_string())?;
        Account::from_raw(&raw)
    }

    /// Why this account would refuse a posting now, or `None` if it would take it.
    #[must_use]
    pub fn refusal(&self, amount: Amount, currency: Option<&str>) -> Option<Reason> {
        let refuse = |code, message: String| {
            Some(Reason::new(code, format!("account {:?} {message}", echo(&self.id))))
        };
        match self.status {
            Status::Open => {}
            Status::Frozen => return refuse(ReasonCode::AccountFrozen, "is frozen".into()),
            Status::Closed => return refuse(ReasonCode::AccountClosed, "is closed".into()),
        }
        if self.currency.as_deref() != currency {
            let own = echo(self.currency.as_deref().unwrap_or("no currency"));
            let asked = echo(currency.unwrap_or("no currency"));
            let message = format!("has {own}, the transaction {asked}");
            return refuse(ReasonCode::CurrencyMismatch, message);
        }
        if self.balance.is_int() != amount.is_int() {
            let message = format!("holds {}, which is of another kind than {amount}", self.balance);
            return refuse(ReasonCode::AmountTypeMismatch, message);
        }
        if amount.is_negative() { self.debit_refusal(amount) } else { self.credit_refusal(amount) }
    }

    /// Why this account would not take the debit of one more hold now, or `None` if it would.
    #[must_use]
    pub fn hold_refusal(&self) -> Option<Reason> {
        let (holds, most) = (self.pending_holds, limits::HOLDS_MAX);
        (holds >= most).then(|| {
            let message = format!(
                "account {:?} has {holds} holds, and may have {most}; confirm or release some",
                echo(&self.id)
            );
            Reason::new(ReasonCode::HoldLimit, message)
        })
    }

    fn debit_refusal(&self, amount: Amount) -> Option<Reason> {
        let Some(after) = self.balance.checked_add(amount) else {
            let message = format!("account {:?} would fall below -10^18", echo(&self.id));
            return Some(Reason::new(ReasonCode::BalanceLimit, message));
        };
        if self.pending_debits.checked_add(amount.negated()).is_none() {
            let id = echo(&self.id);
            let message = format!("account {id:?} would have debits beyond 10^18 in flight");
            return Some(Reason::new(ReasonCode::BalanceLimit, message));
        }
        let floor = self.floor.filter(|floor| after < *floor)?;
        let message = format!(
            "account {:?}: balance {} less {} would be below its floor {floor}",
            echo(&self.id),
            self.balance,
            amount.negated()
        );
        Some(Reason::new(ReasonCode::InsufficientFunds, message))
    }

    fn credit_refusal(&self, amount: Amount) -> Option<Reason> {
        // Only the sum counts, as on the server: a negative balance makes room on the way.
        let credits = self.pending_credits.nanos() + amount.nanos();
        let holdings = self.balance.nanos() + self.pending_debits.nanos() + credits;
        let most = Amount::Int(Amount::MAX).nanos();
        (holdings > most || credits > most).then(|| self.too_much())
    }

    pub(crate) fn too_much(&self) -> Reason {
        let message = format!("account {:?} would hold more than 10^18", echo(&self.id));
        Reason::new(ReasonCode::BalanceLimit, message)
    }
}

/// The refusal of an account that is not there.
#[must_use]
pub fn missing(id: &str) -> Reason {
    let plain = match other_form(id) {
        Some(form) if !form.is_empty() => {
            format!("; it has characters that nobody sees, and looks like {:?}", echo(&form))
        }
        Some(_) | None => String::new(),
    };
    let message = format!("account {:?} does not exist{plain}", echo(id));
    Reason::new(ReasonCode::AccountNotFound, message)
}

/// The refusal of an account whose document breaks the schema.
#[must_use]
pub fn unreadable(id: &str, problem: &str) -> Reason {
    Reason::new(ReasonCode::AccountInvalid, format!("account {:?}: {}", echo(id), echo(problem)))
}

/// The fields that [`Account::from_raw`] reads.
const FIELDS: [&str; 10] = [
    "_id",
    "status",
    "currency",
    "pendingTransactions",
    "floor",
    "balance",
    "pendingDebits",
    "pendingCredits",
    "openingBalance",
    "pendingHolds",
];

/// What an account opened with, whatever its marks, status and floor are.
///
/// # Errors
/// As [`Account::from_raw`].
pub fn opening_from_raw(document: &RawDocument) -> Result<Amount, String> {
    let picked = pick_first(document, ["balance", "pendingDebits", "openingBalance"]);
    let [balance, debits, opening] = picked.map_err(|_| NO_NAME.to_owned())?;
    let numbers = Numbers::beside(balance.as_ref())?;
    let debits = numbers.read("pendingDebits", debits.as_ref())?.unwrap_or(Amount::ZERO);
    numbers.opening(opening.as_ref(), debits)
}

/// Whether balance and opening are stored as Tandem writes them. If so, adding to the balance keeps
/// it so; otherwise the server would add to a double, or the opening would never be written.
#[must_use]
pub fn is_as_written(document: &RawDocument) -> bool {
    let written = [ElementType::Int64, ElementType::Decimal128];
    pick_first(document, ["balance", "openingBalance"]).is_ok_and(|numbers| {
        let is_written = |number: RawElement<'_>| written.contains(&number.element_type());
        numbers.into_iter().all(|number| number.is_some_and(is_written))
    })
}

/// The numbers of an account: the balance, and how the others are read beside it.
struct Numbers {
    balance: Amount,
}

impl Numbers {
    fn beside(balance: Option<&RawElement<'_>>) -> Result<Numbers, String> {
        let balance = match stored("balance", balance)? {
            None => Amount::ZERO,
            Some(value) => Amount::from_raw(value).map_err(|error| format!("balance: {error}"))?,
        };
        Ok(Numbers { balance })
    }

    /// A number; none where nothing is stored.
    fn read(&self, field: &str, of: Option<&RawElement<'_>>) -> Result<Option<Amount>, String> {
        let Some(value) = stored(field, of)? else { return Ok(None) };
        let amount = Amount::from_raw(value)
            .map_err(|error| format!("{field}: {}", error.beside(self.balance)))?;
        let is_double = matches!(value, RawBsonRef::Double(_));
        match (self.balance.is_int(), amount.is_int()) {
            (true, false) => Err(format!(
                "{field}: {amount} is a decimal number, and balance a whole one; write minor units \
                 like NumberLong(\"1250\")"
            )),
            (false, true) if is_double => Err(format!(
                "{field}: {amount} is a double, and balance a decimal number; write \
                 NumberDecimal(\"{amount}\")"
            )),
            (true, true) | (false, true | false) => Ok(Some(amount)),
        }
    }

    /// The opening; of an account that has none yet, what it holds.
    fn opening(&self, of: Option<&RawElement<'_>>, debits: Amount) -> Result<Amount, String> {
        const FIELD: &str = "openingBalance";
        match self.read(FIELD, of)? {
            Some(opening) => Ok(opening),
            None => self.balance.checked_add(debits).ok_or_else(|| {
                let (balance, most) = (self.balance, Amount::MAX);
                format!(
                    "{FIELD}: it is missing, and balance {balance} and pendingDebits {debits} are \
                     together more than {most}; write what the account had at first"
                )
            }),
        }
    }
}

/// The marks of an account, whatever the rest of its document holds: all that a settlement or an
/// undoing has to know of it. Only what may be a transaction's `_id` counts as a mark.
///
/// # Errors
/// When something else than a list stands there.
pub fn marks_from_raw(document: &RawDocument) -> Result<BTreeSet<TransactionId>, String> {
    let [marks] = pick_first(document, ["pendingTransactions"]).map_err(|_| NO_NAME.to_owned())?;
    read_marks(marks.as_ref())
}

fn read_marks(element: Option<&RawElement<'_>>) -> Result<BTreeSet<TransactionId>, String> {
    let Some(element) = present(element) else { return Ok(BTreeSet::new()) };
    match element.value() {
        Ok(RawBsonRef::Array(marks)) => Ok(marks
            .into_iter()
            .filter_map(|mark| mark.ok()?.as_str())
            .filter(|mark| mark.len() <= NAME_BYTES_MAX)
            .map(Into::into)
            .collect()),
        Ok(_) | Err(_) => Err(format!(
            "pendingTransactions is of the type {:?}, and no list; write [] if no transaction is in \
             flight on it",
            element.element_type()
        )),
    }
}

/// The number of holds. Most accounts have no such field; whatever is no whole number counts as
/// none, here as in the guard of a post.
fn read_holds(element: Option<&RawElement<'_>>) -> u32 {
    let holds = match element.map(RawElement::value) {
        Some(Ok(RawBsonRef::Int32(holds))) => i64::from(holds),
        Some(Ok(RawBsonRef::Int64(holds))) => holds,
        Some(Ok(_) | Err(_)) | None => 0,
    };
    u32::try_from(holds.max(0)).unwrap_or(u32::MAX)
}

fn read_status(element: Option<&RawElement<'_>>) -> Result<Status, String> {
    let Some(element) = present(element) else { return Ok(Status::Open) };
    let name = text("status", Some(element))?;
    Status::parse(name)
        .ok_or_else(|| format!("status {:?} is not open, frozen or closed", echo(name)))
}

/// What is wrong with a document in which fields can't be looked up.
const NO_NAME: &str = "has a field whose name is not valid text";

/// A field that is there, and not null.
fn present<'a, 'b>(element: Option<&'b RawElement<'a>>) -> Option<&'b RawElement<'a>> {
    let nothing = [ElementType::Null, ElementType::Undefined];
    element.filter(|element| !nothing.contains(&element.element_type()))
}

fn value<'a>(field: &str, element: &RawElement<'a>) -> Result<RawBsonRef<'a>, String> {
    element.value().map_err(|_| format!("{field} is not valid text"))
}

/// What a number is read from; none where nothing is stored.
fn stored<'a>(
    field: &str,
    element: Option<&RawElement<'a>>,
) -> Result<Option<RawBsonRef<'a>>, String> {
    let there = element.filter(|element| element.element_type() != ElementType::Null);
    there.map(|element| value(field, element)).transpose()
}

fn text<'a>(field: &str, element: Option<&RawElement<'a>>) -> Result<&'a str, String> {
    let element = element.ok_or_else(|| format!("{field} is missing"))?;
    value(field, element)?.as_str().ok_or_else(|| {
        format!("{field} is of the type {:?}, and no text; write a text", element.element_type())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(account: &Account, amount: i64, currency: Option<&str>) -> Option<ReasonCode> {
        account.refusal(Amount::Int(amount), currency).map(|reason| reason.code)
    }

    #[test]
    fn every_refusal_has_its_code() {
        let open = Account::new("a", Amount::Int(100));
        assert_eq!(code(&open, -100, None), None);
        assert_eq!(code(&open, -101, None), Some(ReasonCode::InsufficientFunds));
        assert_eq!(code(&open, Amount::MAX, None), Some(ReasonCode::BalanceLimit));
        assert_eq!(code(&open, 1, Some("EUR")), Some(ReasonCode::CurrencyMismatch));
        let unlimited = Account { floor: None, ..open.clone() };
        assert_eq!(code(&unlimited, -1_000, None), None);
        assert_eq!(code(&unlimited, -Amount::MAX, None), None);
        let busy = Account { pending_debits: Amount::Int(1), ..unlimited.clone() };
        assert_eq!(code(&busy, -Amount::MAX, None), Some(ReasonCode::BalanceLimit));
        let owing = Account {
            balance: Amount::Int(-Amount::MAX),
            pending_credits: Amount::Int(1),
            ..unlimited.clone()
        };
        assert_eq!(code(&owing, Amount::MAX, None), Some(ReasonCode::BalanceLimit));
        let frozen = Account { status: Status::Frozen, ..open.clone() };
        assert_eq!(code(&frozen, 1, None), Some(ReasonCode::AccountFrozen));
        let closed = Account { status: Status::Closed, ..open.clone() };
        assert_eq!(code(&closed, 1, None), Some(ReasonCode::AccountClosed));
        let euros = Account { currency: Some("EUR".into()), ..open.clone() };
        assert_eq!(code(&euros, 1, None), Some(ReasonCode::CurrencyMismatch));
        assert_eq!(code(&euros, 1, Some("EUR")), None);
        let decimal = Account::new("d", Amount::parse("1.00").expect("a decimal"));
        assert_eq!(code(&decimal, 1, None), Some(ReasonCode::AmountTypeMismatch));
    }

    #[test]
    fn documents_read_back_as_what_was_written() {
        let mut account = Account::new("a", Amount::parse("12.50").expect("a decimal"));
        account.pending_transactions.insert("t".into());
        account.currency = Some("EUR".into());
        let document = account.to_document(DateTime::from_millis(0));
        assert_eq!(Account::from_document(&document), Ok(account));
    }

    #[test]
    fn only_the_sum_counts_towards_the_limit_of_credits() {
        let deep = Account {
            balance: Amount::Int(-Amount::MAX),
            pending_debits: Amount::Int(-1),
            ..Account::new("a", Amount::ZERO)
        };
        assert_eq!(code(&deep, 1, None), None);
        let full = Account {
            balance: Amount::Int(Amount::MAX),
            pending_debits: Amount::Int(1),
            pending_credits: Amount::Int(-2),
            ..Account::new("a", Amount::ZERO)
        };
        assert_eq!(code(&full, 1, None), None);
        assert_eq!(code(&full, 2, None), Some(ReasonCode::BalanceLimit));
    }

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse().expect("a decimal"))
    }

    #[test]
    fn what_the_guard_of_a_post_refuses_can_not_be_read() {
        let whole = Account::new("a", Amount::Int(5)).to_document(DateTime::from_millis(0));
        let exact = Amount::parse("5.00").expect("a decimal");
        let exact = Account::new("a", exact).to_document(DateTime::from_millis(0));
        let many = Bson::Array(vec![Bson::Int64(1)]);
        for (document, field, value, expected) in [
            (&whole, "floor", Bson::Int64(i64::MIN), "floor: -9223372036854775808 is too large"),
            (&whole, "floor", Bson::Undefined, "floor: a value of the type Undefined"),
            (
                &whole,
                "floor",
                decimal("0"),
                "floor: 0 is a decimal number, and balance a whole one",
            ),
            (&whole, "floor", Bson::Double(0.5), "NumberLong(\"1250\"), as its balance is whole"),
            (&whole, "balance", decimal("NaN"), "balance: NaN is no number"),
            (&whole, "balance", Bson::Double(f64::NAN), "balance: NaN is no number"),
            (&whole, "balance", Bson::Double(1.5), "balance: 1.5 is a double with a fraction"),
            (&whole, "balance", many, "balance: a value of the type Array"),
            (&whole, "pendingDebits", decimal("0.5"), "pendingDebits: 0.5 is a decimal"),
            (&whole, "openingBalance", Bson::from("5"), "\"5\" is a text; write NumberLong(\"5\")"),
            (&whole, "currency", Bson::Int32(1), "currency is of the type Int32, and no text"),
            (&whole, "status", Bson::from("x".repeat(9_000)), "(9000 bytes)"),
            (&whole, "status", Bson::Int32(1), "status is of the type Int32"),
            (&whole, "pendingTransactions", Bson::from("t"), "is of the type String, and no list"),
            (&exact, "balance", decimal("1E-10"), "more than 9 decimal places"),
            (&exact, "pendingCredits", decimal("-Infinity"), "-Infinity is no number"),
            (&exact, "pendingCredits", Bson::Double(5.0), "write NumberDecimal(\"5\")"),
            (&exact, "floor", decimal("1E+19"), "too large"),
        ] {
            let mut document = document.clone();
            document.insert(field, value);
            let error = Account::from_document(&document).expect_err(expected);
            assert!(error.contains(expected) && error.len() < 800, "{error}");
        }
        for (document, field, value) in [
            (&whole, "floor", Bson::Null),
            (&whole, "floor", Bson::Int32(-3)),
            (&whole, "floor", Bson::Double(-3.0)),
            (&whole, "balance", Bson::Double(5.0)),
            (&whole, "openingBalance", Bson::Null),
            (&whole, "currency", Bson::Null),
            (&whole, "status", Bson::Null),
            (&whole, "pendingTransactions", Bson::Null),
            (&exact, "floor", Bson::Int64(0)),
            (&exact, "balance", decimal("5.00000000000000000000")),
        ] {
            let mut document = document.clone();
            document.insert(field, value);
            assert!(Account::from_document(&document).is_ok(), "{document}");
        }
    }

    #[test]
    fn marks_are_read_whatever_the_rest_holds() {
        let raw = |document: &Document| RawDocumentBuf::try_from(document).expect("BSON");
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        let broken = doc! { "floor": f64::NAN, "pendingTransactions": ["t", 1, Bson::Null, long] };
        assert_eq!(marks_from_raw(&raw(&broken)), Ok(BTreeSet::from(["t".into()])));
        assert!(marks_from_raw(&raw(&doc! { "pendingTransactions": "t" })).is_err());
        assert_eq!(marks_from_raw(&raw(&doc! { "_id": "a" })), Ok(BTreeSet::new()));
    }

    #[test]
    fn what_is_missing_means_nothing_of_it() {
        let read = |document: Document| Account::from_document(&document).expect("it can be read");
        assert_eq!(read(doc! { "_id": "a" }), Account::new("a", Amount::ZERO));
        let nothing = doc! {
            "_id": "a", "balance": Bson::Null, "pendingDebits": Bson::Null,
            "pendingCredits": Bson::Null, "openingBalance": Bson::Null, "status": Bson::Null,
            "pendingTransactions": Bson::Null,
        };
        assert_eq!(read(nothing), Account::new("a", Amount::ZERO));
        for balance in [Bson::Int32(7), Bson::Double(7.0), Bson::Int64(7)] {
            let read = read(doc! { "_id": "a", "balance": balance });
            assert_eq!(read, Account::new("a", Amount::Int(7)));
        }
        let unlimited = read(doc! { "_id": "a", "floor": Bson::Null });
        assert_eq!(unlimited.floor, None);
        let exact = read(doc! { "_id": "a", "balance": decimal("1.50") });
        assert_eq!(exact.opening_balance, Amount::parse("1.50").expect("a decimal"));
        assert_eq!(exact.floor, Some(Amount::ZERO));
    }

    #[test]
    fn an_account_without_an_opening_opened_with_what_it_holds() {
        let raw = |document: &Document| RawDocumentBuf::try_from(document).expect("BSON");
        let held = doc! { "_id": "a", "balance": 90.0, "pendingDebits": 10, "pendingCredits": 5 };
        let read = Account::from_document(&held).expect("it can be read");
        assert_eq!(read.opening_balance, Amount::Int(100));
        assert_eq!(opening_from_raw(&raw(&held)), Ok(Amount::Int(100)));
        let much = doc! { "_id": "a", "balance": Amount::MAX, "pendingDebits": 1 };
        let error = Account::from_document(&much).expect_err("more than an amount");
        assert!(error.starts_with("openingBalance: it is missing"), "{error}");
    }

    #[test]
    fn only_what_tandem_has_written_is_as_written() {
        let as_written =
            |document: Document| is_as_written(&RawDocumentBuf::try_from(&document).expect("BSON"));
        let whole = Account::new("a", Amount::Int(5)).to_document(DateTime::from_millis(0));
        assert!(as_written(whole.clone()));
        assert!(as_written(doc! { "balance": decimal("5"), "openingBalance": 5_i64 }));
        for field in ["balance", "openingBalance"] {
            for value in [Bson::Int32(5), Bson::Double(5.0), Bson::Null] {
                let mut other = whole.clone();
                other.insert(field, value);
                assert!(!as_written(other.clone()), "{other}");
                other.remove(field);
                assert!(!as_written(other), "without {field}");
            }
        }
    }
}
