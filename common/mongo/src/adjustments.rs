//! Adjustments: differences that a person books, because others have moved a balance.
//!
//! Owns the form of such a line of the journal. It has one account and one entry, named like the
//! line itself, and says why, by whom, and at which moment the difference was seen:
//!
//! ```text
//! { …a line…, adjustment: { reason, by, seenAt } }
//! ```
//!
//! It moves no money, because the balance has moved before. So it is one insert, and statements and
//! sums have it like any other line. Promises that the n-th adjustment of an account is booked once:
//! its number is in its name. Whoever has counted fewer, because somebody else has booked meanwhile,
//! books nothing ([`Store::book_adjustments`]).

use ledger::LedgerError;
use ledger::amount::Amount;
use ledger::hex::hex;
use ledger::limits::NAME_BYTES_MAX;
use ledger::transaction::AccountId;
use mongodb::bson::{RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, Timestamp, rawdoc};
use sha2::{Digest, Sha256};

use super::Store;
use super::journal::insertion;
use super::lines::{BadLine, Line};
use super::names::JOURNAL;
use super::own::LINE;
use super::read::cstr;

/// The field by which a line is one of these.
const ADJUSTMENT: &str = "adjustment";
/// How many bytes of the digest of an account stand in the names of its adjustments.
const DIGEST_BYTES: usize = 12;

/// A difference to be booked.
#[derive(Clone, Debug, PartialEq)]
pub struct Adjustment {
    /// Whose balance has moved.
    pub account: AccountId,
    /// How many adjustments the account has had before.
    pub before: u64,
    /// By how much it has moved.
    pub amount: Amount,
    /// Why.
    pub reason: String,
    /// Who says so; at most [`NAME_BYTES_MAX`].
    pub by: String,
    /// The moment at which the difference was seen.
    pub seen_at: Timestamp,
}

/// What a line says of itself, if it is an adjustment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adjusted<'a> {
    /// Why.
    pub reason: &'a str,
    /// Who has said so.
    pub by: &'a str,
    /// The moment at which the difference was seen.
    pub seen_at: Timestamp,
}

impl Adjustment {
    /// The name of its line, which is that of its entry, too.
    #[must_use]
    pub fn id(&self) -> String {
        let digest = Sha256::digest(self.account.as_bytes());
        format!("adjustment-{}-{}", hex(&digest[..DIGEST_BYTES]), self.before + 1)
    }

    /// Inserts the line.
    fn statement(&self) -> RawDocumentBuf {
        let id = self.id();
        let mut entry = RawArrayBuf::new();
        entry.push(id.as_str());
        entry.push(0);
        entry.push(RawBson::from(self.amount));
        let content = rawdoc! {
            "kind": LINE.kind,
            "application": self.by.as_str(),
            "accounts": [self.account.as_ref()],
            "nets": [RawBson::from(self.amount)],
            "done": [entry],
            "canceled": [],
            "adjustment": {
                "reason": self.reason.as_str(), "by": self.by.as_str(), "seenAt": self.seen_at,
            },
        };
        insertion(&id, content)
    }

    /// Whether a stored line is this one.
    fn is(&self, line: &RawDocument) -> bool {
        let said = Line::from_raw(line).ok().and_then(|line| line.adjusted().ok().flatten());
        said.is_some_and(|said| {
            (said.reason, said.by, said.seen_at) == (&self.reason, &self.by, self.seen_at)
        })
    }
}

impl<'a> Line<'a> {
    /// Why it was booked, if it is an adjustment.
    ///
    /// # Errors
    /// When it makes no sense as one.
    pub fn adjusted(&self) -> Result<Option<Adjusted<'a>>, BadLine> {
        let bad = || self.bad("its `adjustment` makes no sense".to_owned());
        let said = match self.document().get(ADJUSTMENT) {
            Ok(None) => return Ok(None),
            Ok(Some(said)) => said.as_document().ok_or_else(bad)?,
            Err(_) => return Err(bad()),
        };
        let text = |field| said.get_str(field).map_err(|_| bad());
        let seen_at = said.get_timestamp("seenAt").map_err(|_| bad())?;
        Ok(Some(Adjusted { reason: text("reason")?, by: text("by")?, seen_at }))
    }
}

impl Store {
    /// Books some adjustments; returns for each whether it is booked. Doing it again changes nothing
    /// and says the same. One that is not was overtaken: the account has had another one meanwhile.
    ///
    /// # Errors
    /// When the server is away or refuses; any of them may be booked.
    pub async fn book_adjustments(
        &self,
        adjustments: &[Adjustment],
    ) -> Result<Vec<bool>, LedgerError> {
        const OPERATION: &str = "book adjustments";
        let statements: Vec<_> = adjustments.iter().map(Adjustment::statement).collect();
        let written = self.change(OPERATION, JOURNAL, statements).await?;
        // A name that is taken is refused, also if an earlier attempt has taken it. The lines say
        // whose they are.
        let ids: RawArrayBuf = adjustments.iter().map(Adjustment::id).collect();
        let mut filter = LINE.all();
        filter.append(cstr("_id"), rawdoc! { "$in": ids });
        let find = rawdoc! { "find": JOURNAL, "filter": filter };
        let lines = self.find(OPERATION, find, |line| Some(line.to_owned())).await;
        let lines = lines.map_err(LedgerError::after_a_write)?;
        let there = |adjustment: &Adjustment| {
            let id = adjustment.id();
            lines.iter().find(|line| line.get_str("_id").is_ok_and(|name| name == id))
        };
        // What is not there although no name was taken was refused for another reason.
        for refused in &written.refused {
            if there(&adjustments[refused.item]).is_none() {
                let error = LedgerError::lasting(OPERATION, refused.problem.clone());
                return Err(if written.count > 0 { error.after_a_write() } else { error });
            }
        }
        let booked = |one: &Adjustment| there(one).is_some_and(|line| one.is(line));
        Ok(adjustments.iter().map(booked).collect())
    }

    /// The line of an adjustment by its name; none where there is no such line, or it is another.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn adjustment(&self, id: &str) -> Result<Option<RawDocumentBuf>, LedgerError> {
        let mut filter = LINE.all();
        filter.append(cstr("_id"), id);
        filter.append(cstr(ADJUSTMENT), rawdoc! { "$exists": true });
        let find = rawdoc! { "find": JOURNAL, "filter": filter, "limit": 1 };
        let found = self.find("adjustment", find, |line| Some(line.to_owned())).await;
        Ok(found.map_err(LedgerError::without_effect)?.pop())
    }
}

const _: () = assert!("adjustment--18446744073709551615".len() + 2 * DIGEST_BYTES < NAME_BYTES_MAX);

#[cfg(test)]
mod tests {
    use mongodb::bson::DateTime;

    use super::*;

    fn adjustment() -> Adjustment {
        Adjustment {
            account: "a".into(),
            before: 2,
            amount: Amount::Int(-350),
            reason: "the old shop goes on".to_owned(),
            by: "ada".to_owned(),
            seen_at: Timestamp { time: 7, increment: 1 },
        }
    }

    /// The line that the statement inserts.
    fn line(adjustment: &Adjustment) -> RawDocumentBuf {
        let statement = adjustment.statement();
        let u = statement.get_document("u").and_then(|u| u.get_document("$setOnInsert"));
        let mut line = u.expect("it inserts").to_owned();
        line.append(cstr("_id"), adjustment.id());
        line.append(cstr("at"), DateTime::from_millis(7));
        line
    }

    #[test]
    fn an_adjustment_is_a_line_that_every_reader_of_lines_can_read() {
        let one = adjustment();
        let stored = line(&one);
        let read = Line::from_raw(&stored).expect("it makes sense");
        let booked = read.booked_on("a").expect("it makes sense");
        assert_eq!((booked.len(), booked[0].amount), (1, Amount::Int(-350)));
        assert_eq!((booked[0].id, read.id), (one.id().as_str(), one.id().as_str()));
        let said = read.adjusted().expect("it makes sense").expect("it is one");
        assert_eq!(
            (said.reason, said.by, said.seen_at),
            ("the old shop goes on", "ada", one.seen_at)
        );
    }

    #[test]
    fn the_number_of_an_adjustment_is_in_its_name_and_only_the_same_one_is_it() {
        let (one, mut next) = (adjustment(), adjustment());
        next.before += 1;
        assert!(one.id().ends_with("-3") && next.id().ends_with("-4"), "{}", one.id());
        assert!(one.is(&line(&one)));
        let other = Adjustment { by: "bob".to_owned(), ..adjustment() };
        assert_eq!(one.id(), other.id());
        assert!(!one.is(&line(&other)));
        let later = Adjustment { seen_at: Timestamp { time: 8, increment: 1 }, ..adjustment() };
        assert!(!one.is(&line(&later)));
    }

    #[test]
    fn an_adjustment_that_does_not_say_why_or_by_whom_makes_no_sense() {
        for without in ["reason", "by", "seenAt"] {
            let mut damaged = mongodb::bson::Document::try_from(line(&adjustment())).expect("BSON");
            damaged.get_document_mut(ADJUSTMENT).expect("it is one").remove(without);
            let damaged = RawDocumentBuf::try_from(&damaged).expect("BSON");
            assert!(Line::from_raw(&damaged).expect("a line").adjusted().is_err(), "{without}");
        }
    }
}
