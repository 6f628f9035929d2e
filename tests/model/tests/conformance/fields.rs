//! Answers and documents in a form that both sides share.
//!
//! Owns what counts as the same: numbers of the same type and value, marks in any order, and times
//! that are the same whole number of hours away from the beginning of the sequence. A sequence
//! takes far less than half an hour, so two different times can't be confused.

use std::collections::{BTreeMap, BTreeSet};

use ledger::account::{Account, Status};
use ledger::amount::Amount;
use ledger::transaction::{Body, ReasonCode, State, TransactionId, format_nanos};
use ledger::{
    AccountRead, Claimed, Content, Ending, Refused, Seen, ServerMs, Transacted, Verdict, Written,
};
use model::sim::keyed::Inserted;
use mongodb::bson::{Bson, DateTime, Document};

use crate::operation::HOUR;

/// A document's fields in words.
pub type Fields = BTreeMap<String, String>;

/// All documents by id.
pub type Shown = BTreeMap<String, Fields>;

/// What an operation answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// So many matched, or changed, as the ledger counts, and the places of those that the server
    /// refuses to write.
    Written(usize, BTreeSet<usize>),
    /// Documents as read after a claim, and the places of those that the server refuses to write.
    Claimed(Shown, BTreeSet<usize>),
    /// A release has no answer.
    Released,
    /// These transactions are parked.
    Parked(BTreeSet<String>),
    /// A document was edited by hand.
    Edited,
    /// Documents as read.
    Documents(Shown),
    /// The submission was inserted.
    Submitted,
    /// It existed before with the same content.
    Unchanged(State),
    /// Another transaction has its exclusive key.
    KeyInUse(String),
    /// This transaction has an exclusive key.
    Holder(Option<String>),
    /// What became of two inserts with exclusive keys, one beside the other.
    Inserts([Inserted; 2]),
    /// The transaction to be canceled is in this state.
    Is(State),
    /// The account has the status that was asked for.
    Has(Status),
    /// A native transaction was committed, with these verdicts, or had a conflict.
    Transacted(Transacted),
    /// Transactions have ended, or had a conflict.
    Ended(Ending),
    /// There is no such document, or it is in the way, or the server refuses to write it.
    Refused,
}

impl Answer {
    /// Transactions as read.
    pub fn seen(seen: Vec<Seen>, begun: ServerMs) -> Answer {
        Answer::Documents(of_all(seen, begun))
    }

    /// Accounts as read.
    pub fn accounts(accounts: Vec<AccountRead>) -> Answer {
        let one = |AccountRead { id, marks, account, .. }: AccountRead| {
            // Each side describes the problem in its own words.
            let mut fields = account.as_ref().map_or_else(|_| Fields::new(), of_account);
            fields.insert("readable".to_owned(), account.is_ok().to_string());
            fields.insert("marks".to_owned(), format!("{marks:?}"));
            (id.to_string(), fields)
        };
        Answer::Documents(accounts.into_iter().map(one).collect())
    }

    /// What was written.
    pub fn written(Written { count, refused }: Written) -> Answer {
        Answer::Written(count, places(&refused))
    }

    /// What was claimed.
    pub fn claimed(Claimed { seen, refused }: Claimed, begun: ServerMs) -> Answer {
        Answer::Claimed(of_all(seen, begun), places(&refused))
    }

    /// Contents of transactions.
    pub fn bodies(contents: Vec<Content>) -> Answer {
        let one = |(id, body): Content| {
            (id.to_string(), Fields::from([("body".to_owned(), in_short(&body))]))
        };
        Answer::Documents(contents.into_iter().map(one).collect())
    }

    /// Transactions that are set apart.
    pub fn parked(ids: Vec<TransactionId>) -> Answer {
        Answer::Parked(ids.iter().map(ToString::to_string).collect())
    }

    /// The result of a native transaction. Each side describes an invalid document in its own
    /// words.
    pub fn transacted(transacted: Transacted) -> Answer {
        let wordless = |mut verdict: Verdict| {
            let reason =
                verdict.refused.as_mut().filter(|reason| is_wordless(reason.code.as_str()));
            reason.into_iter().for_each(|reason| reason.message.clear());
            verdict
        };
        Answer::Transacted(match transacted {
            Transacted::Conflict => transacted,
            Transacted::Committed(verdicts) => {
                Transacted::Committed(verdicts.into_iter().map(wordless).collect())
            }
        })
    }

    /// Whether somebody was in the way of a native transaction.
    fn is_conflict(&self) -> bool {
        matches!(self, Answer::Transacted(Transacted::Conflict) | Answer::Ended(Ending::Conflict))
    }

    /// Whether it did what it was asked for, at least in part.
    pub fn took_effect(&self) -> bool {
        match self {
            Answer::Written(count, _) => *count > 0,
            Answer::Documents(shown) | Answer::Claimed(shown, _) => !shown.is_empty(),
            Answer::Parked(ids) => !ids.is_empty(),
            Answer::Submitted | Answer::Has(_) | Answer::Released | Answer::Edited => true,
            Answer::Is(state) => matches!(state, State::Canceling | State::Canceled),
            Answer::Transacted(Transacted::Committed(_)) | Answer::Ended(Ending::Written) => true,
            Answer::Holder(holder) => holder.is_some(),
            Answer::Inserts(inserts) => inserts.contains(&Inserted::Conflict),
            Answer::Unchanged(_)
            | Answer::KeyInUse(_)
            | Answer::Transacted(Transacted::Conflict)
            | Answer::Ended(Ending::Conflict)
            | Answer::Refused => false,
        }
    }
}

fn places(refused: &[Refused]) -> BTreeSet<usize> {
    refused.iter().map(|refused| refused.item).collect()
}

fn of_all(seen: Vec<Seen>, begun: ServerMs) -> Shown {
    let count = seen.len();
    let shown: Shown =
        seen.into_iter().map(|seen| (seen.id.to_string(), of_seen(seen, begun))).collect();
    assert_eq!(shown.len(), count, "a transaction was read twice");
    shown
}

/// Whether the sentence of a reason describes an invalid document, in each side's own words.
fn is_wordless(code: &str) -> bool {
    [ReasonCode::AccountInvalid, ReasonCode::Invalid].iter().any(|odd| odd.as_str() == code)
}

fn in_short(body: &Result<Body, String>) -> String {
    body.as_ref().map_or_else(|_| "makes no sense".to_owned(), fields_of_body)
}

fn of_seen(seen: Seen, begun: ServerMs) -> Fields {
    let body = seen.body.as_ref().map_or_else(|| "is long".to_owned(), in_short);
    let time = |at: ServerMs| if at == 0 { "none".to_owned() } else { hours(at, begun) };
    [
        ("state", seen.state.to_string()),
        ("claim", format!("{:?}", seen.claim)),
        ("leaseUntil", time(seen.lease_until)),
        ("takeoverAt", time(seen.takeover_at)),
        ("attempts", seen.attempts.to_string()),
        ("attemptsAlone", seen.attempts_alone.to_string()),
        ("parked", seen.parked.to_string()),
        ("legs", seen.size.legs.to_string()),
        ("createdAt", seen.created_at.to_string()),
        ("serverNow", time(seen.server_now)),
        ("body", body),
    ]
    .map(|(field, text)| (field.to_owned(), text))
    .into()
}

fn fields_of_body(body: &Body) -> String {
    // The amounts in one notation: 1.50 and 1.5 are the same.
    let document = body.to_document("", DateTime::from_millis(0));
    let mut fields = of(&document, 0);
    fields.remove("state");
    format!("{fields:?}")
}

fn of_account(account: &Account) -> Fields {
    of(&account.to_document(DateTime::from_millis(0)), 0)
}

/// A document in words.
pub fn of(document: &Document, begun: ServerMs) -> Fields {
    document.iter().map(|(field, value)| (field.clone(), in_words(field, value, begun))).collect()
}

fn in_words(field: &str, value: &Bson, begun: ServerMs) -> String {
    match value {
        Bson::Int64(_) | Bson::Int32(_) | Bson::Decimal128(_) => number(value),
        Bson::Array(marks) if field == "pendingTransactions" => {
            let mut marks: Vec<String> = marks.iter().map(ToString::to_string).collect();
            marks.sort();
            format!("{marks:?}")
        }
        Bson::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| in_words(field, item, begun)).collect();
            items.join(", ")
        }
        Bson::Document(reason) if reason.get_str("code").is_ok_and(is_wordless) => {
            reason.get_str("code").unwrap_or_default().to_owned()
        }
        Bson::Document(document) => format!("{:?}", of(document, begun)),
        // The client's own clock; both sides get the same value.
        Bson::DateTime(time) if field == "createdAt" => time.timestamp_millis().to_string(),
        Bson::DateTime(time) => hours(time.timestamp_millis(), begun),
        other => other.to_string(),
    }
}

fn number(value: &Bson) -> String {
    let kind = format!("{:?}", value.element_type());
    match Amount::from_bson(value) {
        Ok(amount) => format!("{} ({kind})", format_nanos(amount.nanos())),
        Err(_) => format!("{value} ({kind})"),
    }
}

fn hours(at: ServerMs, begun: ServerMs) -> String {
    let hours = (at - begun + HOUR / 2).div_euclid(HOUR);
    format!("{hours:+} h")
}

/// The differences, one sentence for each field.
pub fn differences(real: &Shown, model: &Shown) -> Vec<String> {
    let mut found = Vec::new();
    let ids: BTreeSet<_> = real.keys().chain(model.keys()).collect();
    let none = Fields::new();
    for id in ids {
        let (real, model) = (real.get(id).unwrap_or(&none), model.get(id).unwrap_or(&none));
        let fields: BTreeSet<_> = real.keys().chain(model.keys()).collect();
        for field in fields.into_iter().filter(|field| real.get(*field) != model.get(*field)) {
            let word = |side: &Fields| side.get(field).cloned().unwrap_or("nothing".to_owned());
            found.push(format!(
                "{id}: {field} is {} in MongoDB, {} in the model",
                word(real),
                word(model)
            ));
        }
    }
    found
}

/// The difference between two answers, if there is one.
pub fn answers_differ(real: &Answer, model: &Answer) -> Option<String> {
    match (real, model) {
        (real, model) if real == model => None,
        // If the server has refused something, it may have written more than it says.
        (Answer::Written(real, refused), Answer::Written(model, too))
            if refused == too && !refused.is_empty() && real <= model =>
        {
            None
        }
        // Both say that nothing has happened; it is open which of two reasons the server finds
        // first.
        (Answer::Refused, model) if model.is_conflict() => None,
        (real, Answer::Refused) if real.is_conflict() => None,
        (Answer::Claimed(real, refused), Answer::Claimed(model, too)) if refused == too => {
            Some(format!("the answers differ: {}", differences(real, model).join("; ")))
        }
        (Answer::Documents(real), Answer::Documents(model)) => {
            Some(format!("the answers differ: {}", differences(real, model).join("; ")))
        }
        (real, model) => Some(format!("MongoDB answers {real:?}, the model {model:?}")),
    }
}
