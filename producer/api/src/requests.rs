//! An array under an idempotency key, before anything of it is written.
//!
//! Owns the comparison of such an array with what was accepted under its key before. Promises that
//! an array that lacks or changes something of that is refused as a whole, and that from then on
//! nothing is inserted of an earlier array that this one replaces: see [`mongo::Under`]. Fails with
//! the ids.

use std::collections::HashMap;
use std::sync::Arc;

use bson::{Document, doc};
use client::{Client, KeyedArray, Submission};
use mongo::{Fields, Request, TRANSACTIONS, Under};
use tokio::sync::Semaphore;

use super::keys::Key;
use super::problem::{Code, Problem};

/// The transactions of an array: each item, or what is wrong with it.
pub struct Array {
    /// The items.
    pub items: Vec<Result<Submission, Problem>>,
    /// The key that they come under.
    pub key: Option<Key>,
    /// Ids and contents of the items, as a digest. The same array has the same one, in whatever
    /// order.
    pub content: String,
}

/// How often others may be faster.
const TRIES_MAX: u32 = 10;

/// The most bytes of the ids of one array under a key, because all of them are kept in one
/// document.
pub const IDS_BYTES_MAX: usize = 8 << 20;
/// What an id takes beside its text.
const ID_BYTES: usize = 16;

/// How many ids are named in a sentence.
const NAMED_MAX: usize = 10;
/// How many transactions are read at once.
const READ_MAX: usize = 500;

/// Takes the key for this array. Returns what its items are inserted under.
pub async fn open(
    client: &Client,
    key: &Key,
    array: &Array,
) -> Result<Option<KeyedArray>, Problem> {
    let ids = by_id(array);
    check_size(ids.keys().copied())?;
    let under = Under { request: key.request(), content: array.content.clone() };
    for _ in 0..TRIES_MAX {
        let seen = client.insist(|| client.store().request(&under.request)).await?;
        match &seen {
            None if ids.is_empty() => return Ok(None),
            Some(seen) if seen.content == under.content => return Ok(Some(taken(under))),
            Some(seen) => {
                let broken = broken(client, seen, &ids).await?;
                if !broken.is_empty() {
                    return Err(reused(broken));
                }
            }
            None => {}
        }
        let take = || client.store().take_request(&under, seen.as_ref(), about(key));
        if client.insist(take).await? {
            return Ok(Some(taken(under)));
        }
    }
    let problem =
        "other arrays come under this Idempotency-Key at the same time; nothing was written";
    Err(Problem::new(Code::Unavailable, problem))
}

fn taken(under: Under) -> KeyedArray {
    KeyedArray { under, turn: Arc::new(Semaphore::new(1)) }
}

/// For people who look at the document.
fn about(key: &Key) -> Document {
    let mut about = doc! { "key": &key.text };
    about.extend(key.submitter.as_deref().map(|name| ("submittedBy".to_owned(), name.into())));
    about
}

fn by_id(array: &Array) -> HashMap<&str, &Submission> {
    array.items.iter().flatten().map(|submission| (submission.id(), submission)).collect()
}

fn check_size<'a>(ids: impl Iterator<Item = &'a str>) -> Result<(), Problem> {
    let bytes: usize = ids.map(|id| id.len() + ID_BYTES).sum();
    if bytes <= IDS_BYTES_MAX {
        return Ok(());
    }
    let problem = format!(
        "the ids of this array have {bytes} bytes; the limit for an array under an Idempotency-Key is \
         {IDS_BYTES_MAX}"
    );
    Err(Problem::new(Code::TooLarge, problem))
}

/// What was accepted and is not in the array as it was.
async fn broken(
    client: &Client,
    seen: &Request,
    ids: &HashMap<&str, &Submission>,
) -> Result<Vec<String>, Problem> {
    let is_there = |id: &&String| ids.contains_key(id.as_str());
    let (there, mut broken): (Vec<&String>, Vec<&String>) =
        seen.accepted.iter().partition(is_there);
    // An id that is made from the key has its content in it.
    let own = there.into_iter().filter(|id| !ids[id.as_str()].has_id_from_key());
    let own: Vec<&str> = own.map(String::as_str).collect();
    let mut changed = Vec::new();
    let of_ledger = client.rules();
    for part in own.chunks(READ_MAX) {
        let find = || client.store().documents("compare", TRANSACTIONS, part, Fields::All);
        for stored in client.insist(find).await? {
            let id = stored.get_str("_id").unwrap_or_default();
            if ids.get(id).is_some_and(|own| own.differs_from(&stored, &of_ledger)) {
                changed.push(id.to_owned());
            }
        }
    }
    broken.sort_unstable();
    Ok(broken.into_iter().cloned().chain(changed).collect())
}

fn reused(ids: Vec<String>) -> Problem {
    let named = ids[..ids.len().min(NAMED_MAX)].join(", ");
    let more = match ids.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let detail = format!(
        "under this Idempotency-Key were accepted, and this array lacks or changes: {named}{more}. Nothing \
         was written. Send them as they were; only refused items may be corrected or left out"
    );
    Problem { others: ids.into(), ..Problem::new(Code::KeyReused, detail) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_an_array_under_a_key_are_limited() {
        let long = "x".repeat(200);
        let most = IDS_BYTES_MAX / (200 + ID_BYTES);
        assert_eq!(check_size(std::iter::repeat_n(long.as_str(), most)), Ok(()));
        let problem = check_size(std::iter::repeat_n(long.as_str(), most + 1));
        assert_eq!(problem.expect_err("too many").code, Code::TooLarge);
    }

    #[test]
    fn some_of_the_ids_are_named_in_the_sentence_and_all_of_them_in_the_list() {
        let ids: Vec<String> = (0..12).map(|n| format!("t{n}")).collect();
        let problem = reused(ids.clone());
        assert!(problem.detail.contains("t0, t1,") && problem.detail.contains("t9 and 2 more"));
        assert_eq!(problem.told().ids, ids);
    }
}
