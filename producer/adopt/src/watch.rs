//! Whether somebody else than Tandem moves accounts and transactions just now.
//!
//! Owns the change streams on both collections, and telling an update of Tandem's from that of an
//! old processor. A worker of Tandem claims a transaction before it moves it, and the claim stays
//! counted in the document; it changes a balance only together with the marks or in a native
//! transaction, and writes an opening with the first. Whatever moves otherwise is somebody else's:
//! an old processor, or, where nothing but a balance has changed, perhaps a program that adds to
//! balances and may go on with that. Promises to read nothing but changes, for as long as it is
//! told. Where the server gives no change stream, it says so.

use std::time::{Duration, Instant};

use layout::is_within;
use mongo::error_in_words;
use mongodb::Database;
use mongodb::bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use mongodb::error::Error as DriverError;
use mongodb::options::FullDocumentType;
use serde::Serialize;

use super::looked::{Sample, id_of};
use super::number::shown;
use super::shape::{Shape, at, present};
use super::tally::SAMPLES_MAX;

/// How long the server waits for a change before it answers that there is none.
const AWAIT: Duration = Duration::from_millis(200);

/// How many changes are read of each collection at most.
pub const CHANGES_MAX: u64 = 10_000;

/// What was seen to move without a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// How long both collections were watched.
    pub seconds: u64,
    /// How many changes of accounts were not Tandem's.
    pub accounts: u64,
    /// How many of these have changed the balance, and nothing else that an old processor writes.
    pub balances: u64,
    /// How many of these have replaced the whole account, and with it what Tandem writes there.
    pub replaced: u64,
    /// How many changes of transactions were not Tandem's.
    pub transactions: u64,
    /// Some of them.
    pub samples: Vec<Sample>,
    /// Why it was not looked at.
    pub not_looked_at: Option<String>,
}

/// Which of the two collections a change is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Account,
    Transaction,
}

/// What is watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched<'a> {
    pub(super) database: &'a Database,
    pub(super) accounts: (&'a str, Shape<'a>),
    pub(super) transactions: (&'a str, Shape<'a>),
    /// Whether the ledger is set up, so that Tandem may be what moves.
    pub(super) is_ledger: bool,
}

/// Watches both collections for so long.
pub(super) async fn watch(watched: Watched<'_>, seconds: u64) -> Moved {
    if seconds == 0 {
        let told = Some("--watch 0".to_owned());
        return Moved { not_looked_at: told, ..Moved::default() };
    }
    let limit = Duration::from_secs(seconds);
    let both = tokio::join!(
        changes(watched, Kind::Account, limit),
        changes(watched, Kind::Transaction, limit)
    );
    match both {
        (Ok(accounts), Ok(transactions)) => {
            let (of_accounts, of_transactions) = (accounts.count, transactions.count);
            let Seen { balances, replaced, .. } = accounts;
            let all = transactions.samples.into_iter().chain(accounts.samples);
            Moved {
                seconds,
                accounts: of_accounts,
                balances,
                replaced,
                transactions: of_transactions,
                samples: all.collect(),
                not_looked_at: None,
            }
        }
        (Err(error), _) | (_, Err(error)) => {
            Moved { not_looked_at: Some(error_in_words(&error)), ..Moved::default() }
        }
    }
}

#[derive(Default)]
struct Seen {
    count: u64,
    balances: u64,
    replaced: u64,
    samples: Vec<Sample>,
}

/// A change that is not Tandem's.
struct Change {
    sample: Sample,
    is_balance_alone: bool,
    is_replaced: bool,
}

impl Moved {
    /// What to do about programs that replace whole accounts, if there are any.
    #[must_use]
    pub fn replacing(&self) -> Option<String> {
        (self.replaced > 0).then(|| {
            format!(
                "{} accounts were replaced whole: a program that does so takes away what Tandem and \
                 others have written since it has read; let it update fields ($set, $inc) instead",
                self.replaced
            )
        })
    }

    /// Whether an old processor is at work. A balance that changes alone may be anybody's.
    #[must_use]
    pub fn is_processor(&self) -> bool {
        self.transactions > 0 || self.accounts > self.balances
    }
}

async fn changes(watched: Watched<'_>, kind: Kind, limit: Duration) -> Result<Seen, DriverError> {
    let (name, shape) = match kind {
        Kind::Account => watched.accounts,
        Kind::Transaction => watched.transactions,
    };
    let updates = doc! { "$match": { "operationType": { "$in": ["update", "replace"] } } };
    let mut stream = watched
        .database
        .collection::<Document>(name)
        .watch()
        .pipeline([updates])
        .full_document(FullDocumentType::UpdateLookup)
        .max_await_time(AWAIT)
        .await?
        .with_type::<RawDocumentBuf>();
    let (mut seen, mut read, begun) = (Seen::default(), 0, Instant::now());
    while begun.elapsed() < limit && read < CHANGES_MAX && stream.is_alive() {
        let Some(change) = stream.next_if_any().await? else { continue };
        read += 1;
        if let Some(change) = moved(&change, kind, shape, watched.is_ledger) {
            seen.count += 1;
            seen.balances += u64::from(change.is_balance_alone);
            seen.replaced += u64::from(change.is_replaced);
            if seen.samples.len() < SAMPLES_MAX {
                seen.samples.push(change.sample);
            }
        }
    }
    Ok(seen)
}

/// What a change has moved without a claim, if anything.
fn moved(change: &RawDocument, kind: Kind, shape: Shape<'_>, is_ledger: bool) -> Option<Change> {
    // It may have been removed since.
    let document =
        change.get_document("fullDocument").or(change.get_document("documentKey")).ok()?;
    let names: &[&str] = match kind {
        Kind::Account => &["balance", "pendingDebits", "pendingCredits", "pendingTransactions"],
        Kind::Transaction => &["state"],
    };
    let has_changed = |name: &str| touches(change, &shape.path(name));
    let name = *names.iter().find(|name| has_changed(name))?;
    let own = |name: &str| present(document, &shape.path(name)).is_some();
    let is_tandems = match kind {
        Kind::Account => {
            let is_native = change.get("txnNumber").is_ok_and(|number| number.is_some());
            (is_native || has_changed("pendingTransactions")) && own("openingBalance")
        }
        // A refusal or a cancellation before any claim is dated.
        Kind::Transaction => ["claim", "attempts", "decidedAt"].iter().any(|name| own(name)),
    };
    // Tandem replaces no document.
    if is_ledger && is_tandems && !is_replaced(change) {
        return None;
    }
    let path = shape.path(name);
    let value = at(document, &path).map(shown).unwrap_or_default();
    let sample = Sample { id: id_of(document, shape), path, value, becomes: None };
    let is_balance_alone = names.iter().filter(|name| has_changed(name)).eq(&["balance"]);
    Some(Change { sample, is_balance_alone, is_replaced: is_replaced(change) })
}

fn is_replaced(change: &RawDocument) -> bool {
    change.get_str("operationType").is_ok_and(|kind| kind == "replace")
}

/// Whether a change is one of this path, of an object on the way to it, or of something in it.
fn touches(change: &RawDocument, path: &str) -> bool {
    if is_replaced(change) {
        return true;
    }
    let is_near = |named: &str| is_within(named, path) || is_within(path, named);
    let Ok(update) = change.get_document("updateDescription") else { return false };
    let updated = update.get_document("updatedFields").ok();
    let updated = updated.is_some_and(|fields| {
        fields.iter_elements().flatten().any(|field| is_near(field.key().as_str()))
    });
    let removed = update.get_array("removedFields").ok();
    let removed = removed.is_some_and(|names| {
        names.into_iter().flatten().any(|name| name.as_str().is_some_and(is_near))
    });
    let cut = update.get_array("truncatedArrays").ok();
    let cut = cut.is_some_and(|arrays| {
        let field = |array: RawBsonRef<'_>| {
            array.as_document().is_some_and(|array| array.get_str("field").is_ok_and(is_near))
        };
        arrays.into_iter().flatten().any(field)
    });
    updated || removed || cut
}

#[cfg(test)]
mod tests {
    use layout::Layout;
    use mongodb::bson::raw::cstr;
    use mongodb::bson::rawdoc;

    use super::*;

    fn update(fields: RawDocumentBuf, document: RawDocumentBuf) -> RawDocumentBuf {
        rawdoc! {
            "operationType": "update",
            "documentKey": { "_id": "a" },
            "updateDescription": { "updatedFields": fields, "removedFields": [] },
            "fullDocument": document,
        }
    }

    #[test]
    fn what_moves_without_a_claim_is_told_from_what_tandem_moves() {
        let is_moved = |change: &RawDocument, kind, is_ledger| {
            moved(change, kind, Shape::default(), is_ledger).is_some()
        };
        let pending = rawdoc! { "state": "pending" };
        let old = update(pending.clone(), rawdoc! { "_id": "t", "state": "pending" });
        let claimed = rawdoc! { "_id": "t", "state": "pending", "attempts": 1 };
        let claimed = update(pending, claimed);
        assert!(is_moved(&old, Kind::Transaction, true));
        assert!(!is_moved(&claimed, Kind::Transaction, true));
        assert!(is_moved(&claimed, Kind::Transaction, false));
        let note = update(rawdoc! { "note": 1 }, rawdoc! { "_id": "t", "state": "initial" });
        assert!(!is_moved(&note, Kind::Transaction, false));

        let account = rawdoc! { "_id": "a", "balance": 5_i64, "openingBalance": 5_i64 };
        let alone = update(rawdoc! { "balance": 5_i64 }, account.clone());
        let fields = rawdoc! { "balance": 5_i64, "pendingTransactions.0": "t" };
        let posted = update(fields, account);
        assert!(is_moved(&alone, Kind::Account, true));
        assert!(!is_moved(&posted, Kind::Account, true));
        assert!(is_moved(&posted, Kind::Account, false));
        let is_alone = |change: &RawDocument| {
            let change = moved(change, Kind::Account, Shape::default(), false);
            change.is_some_and(|change| change.is_balance_alone)
        };
        assert!(is_alone(&alone) && !is_alone(&posted));
        let replaced = rawdoc! {
            "operationType": "replace",
            "documentKey": { "_id": "a" },
            "fullDocument": { "_id": "a", "balance": 5_i64, "openingBalance": 5_i64 },
        };
        let replaced = moved(&replaced, Kind::Account, Shape::default(), true);
        assert!(replaced.is_some_and(|change| change.is_replaced && !change.is_balance_alone));
        let mut native = alone;
        native.append(cstr!("txnNumber"), 1_i64);
        assert!(!is_moved(&native, Kind::Account, true));
        assert!(is_moved(&native, Kind::Account, false));
    }

    #[test]
    fn a_change_is_found_by_its_path_by_what_is_on_the_way_and_by_what_is_removed() {
        let layout = Layout::from_toml("[accounts.fields]\nbalance = \"wallet.sum\"");
        let layout = layout.expect("it is good");
        let shape = Shape::new(Some(&layout.accounts));
        let document = rawdoc! { "_id": "a", "wallet": { "sum": 5 } };
        for (fields, is_found) in [
            (rawdoc! { "wallet.sum": 5 }, true),
            (rawdoc! { "wallet": { "sum": 5 } }, true),
            (rawdoc! { "wallet.summary": 5 }, false),
            (rawdoc! { "balance": 5 }, false),
        ] {
            let change = update(fields.clone(), document.clone());
            let found = moved(&change, Kind::Account, shape, true).is_some();
            assert_eq!(found, is_found, "{fields:?}");
        }
        let removed = rawdoc! {
            "operationType": "update",
            "documentKey": { "_id": "a" },
            "updateDescription": { "updatedFields": {}, "removedFields": ["wallet"] },
        };
        assert!(moved(&removed, Kind::Account, shape, true).is_some());
    }
}
