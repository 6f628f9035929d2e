//! The list of accounts.
//!
//! The number of marks stands beside the document, and not in it: under a schema the place for it in
//! the document may be within something that is no object, and the list would hide that.

use std::collections::BTreeSet;

use mongo::ACCOUNTS;
use mongodb::bson::raw::cstr;
use mongodb::bson::{Document, RawArrayBuf, RawDocument, rawdoc};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::cursor::{Begin, InOrder, Way};
use super::room::{AT_ONCE, Room, Tell, Told};
use super::{Page, and_one, check_limit, id_of};
use crate::client::Client;
use crate::error::Error;
use crate::readable::readable;

impl Client {
    /// Accounts by their names, with `marks`, the number of transactions in flight on each, in
    /// place of the marks themselves, which may be many. A page has 1 to 1,000 accounts, and fewer
    /// where they have more than [`PAGE_BYTES_MAX`](super::PAGE_BYTES_MAX) together; `cursor` is the
    /// `next` of the page before, or the `prev` of the one behind.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a wrong limit or cursor, and when the server stays away.
    pub async fn accounts(
        &self,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page<Document>, Error> {
        self.accounts_told(&[], limit, cursor, Told::whole).await
    }

    /// The same, with what `tell` makes of each document; of those accounts only whose names begin
    /// with one of the prefixes, or of all, if there is none.
    ///
    /// # Errors
    /// As [`Client::accounts`]; and [`Error::Refused`] where there are prefixes, and the names of
    /// accounts are no texts, so that they are not in the order of their beginnings.
    pub async fn accounts_told<T: Send + 'static>(
        &self,
        prefixes: &[String],
        limit: u32,
        cursor: Option<&str>,
        tell: Tell<T>,
    ) -> Result<Page<T>, Error> {
        let limit = check_limit(limit)?;
        let of = json!(["accounts"]);
        let begin = Begin::<Name>::of(&of, cursor)?;
        let way = begin.way;
        let rules = self.known_rules().await?;
        if !prefixes.is_empty() && !rules.has_texts_of_accounts() {
            let problem = "their ids are no texts, so they can't be listed by how they begin";
            return Err(Error::refused("accounts", problem));
        }
        let marks = self.store().stored_path(ACCOUNTS, MARKS);
        let (mut items, mut so_far) = (Vec::new(), Room::<Name, T>::new(limit));
        for names in ranges(prefixes, &begin) {
            let read = || {
                let room = so_far.rest();
                let pipeline = pipeline(&names, way, room.left(), &marks);
                let more = move |room: &mut Room<Name, T>, found: &RawDocument| {
                    let Some(account) = listed(found) else { return true };
                    let Some(id) = id_of(&account) else { return true };
                    room.take(Name(id), found.as_bytes().len(), tell(account))
                };
                self.store().aggregate_while("accounts", ACCOUNTS, pipeline, AT_ONCE, room, more)
            };
            let room = self.insist(read).await?;
            so_far = room.rest();
            let is_over = room.is_over();
            let (found, on) = room.parted(way, None);
            items.extend(found);
            if is_over {
                return Ok(begin.page(&of, (items, on)));
            }
        }
        Ok(begin.page(&of, (items, None)))
    }
}

/// The field of an account's marks.
const MARKS: &str = "pendingTransactions";

/// The name of an account, which is its place in the list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Name(String);

impl InOrder for Name {
    const WAY: Way = Way::Up;

    fn above(&self) -> Name {
        Name(format!("{}\0", self.0))
    }
}

/// A range of names, as the database compares texts: byte by byte.
#[derive(Debug, PartialEq, Eq)]
struct Names {
    /// The least one.
    from: String,
    /// The first name beyond it, if there is one.
    to: Option<String>,
}

/// The names that begin with one of these, or all, as far as they are on the way: in its order, each
/// once.
fn ranges(prefixes: &[String], begin: &Begin<Name>) -> Vec<Names> {
    let all = [String::new()];
    let prefixes = if prefixes.is_empty() { &all[..] } else { prefixes };
    let gap = begin.gap.as_ref().map(|Name(gap)| gap.as_str());
    let mut ranges: Vec<Names> = Vec::new();
    let mut known = None;
    for prefix in prefixes.iter().collect::<BTreeSet<_>>() {
        // One that begins with an earlier one is within its range.
        if known.is_some_and(|known: &String| prefix.starts_with(known.as_str())) {
            continue;
        }
        known = Some(prefix);
        let (mut from, mut to) = (prefix.as_str(), beyond(prefix));
        match (begin.way, gap) {
            (Way::Up, Some(gap)) => from = from.max(gap),
            (Way::Down, Some(gap)) if is_before(gap, to.as_deref()) => to = Some(gap.to_owned()),
            _ => {}
        }
        if is_before(from, to.as_deref()) {
            ranges.push(Names { from: from.to_owned(), to });
        }
    }
    if begin.way == Way::Down {
        ranges.reverse();
    }
    ranges
}

fn is_before(name: &str, end: Option<&str>) -> bool {
    end.is_none_or(|end| name < end)
}

/// The first text after all that begin with this one; none if there is nothing beyond them.
fn beyond(prefix: &str) -> Option<String> {
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        // Between them are the numbers that are no characters.
        if let Some(next) = (last..=char::MAX).nth(1) {
            return Some(characters.into_iter().chain([next]).collect());
        }
    }
    None
}

/// A name is a text: a document with another `_id` is no account that a transaction can have.
/// `stored_marks` is where the marks stand in the document.
fn pipeline(names: &Names, way: Way, limit: usize, stored_marks: &str) -> RawArrayBuf {
    let marks = format!("${MARKS}");
    let count = rawdoc! { "$cond": [{ "$isArray": &*marks }, { "$size": &*marks }, 0] };
    let order = match way {
        Way::Up => 1,
        Way::Down => -1,
    };
    let from = names.from.as_str();
    // No account has an empty name.
    let mut name = match from {
        "" => rawdoc! { "$gt": from },
        _ => rawdoc! { "$gte": from },
    };
    if let Some(to) = &names.to {
        name.append(cstr!("$lt"), to.as_str());
    }
    [
        rawdoc! { "$match": { "_id": name } },
        rawdoc! { "$sort": { "_id": order } },
        rawdoc! { "$limit": and_one(limit) },
        rawdoc! { "$replaceWith": { "document": "$$ROOT", "marks": count } },
        rawdoc! { "$unset": format!("document.{stored_marks}") },
    ]
    .into_iter()
    .collect()
}

/// The document with the number of its marks.
fn listed(found: &RawDocument) -> Option<Document> {
    let mut account = readable(found.get_document("document").ok()?);
    account.insert("marks", found.get_i32("marks").ok()?);
    Some(account)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_of_prefixes_have_each_name_once_in_order() {
        let told = |prefixes: &[&str], gap: &str, way: Way| -> Vec<String> {
            let prefixes: Vec<String> = prefixes.iter().map(|&it| it.to_owned()).collect();
            let gap = (!gap.is_empty()).then(|| Name(gap.to_owned()));
            let told =
                |Names { from, to }: Names| format!("[{from}, {})", to.as_deref().unwrap_or("end"));
            ranges(&prefixes, &Begin { gap, way }).into_iter().map(told).collect()
        };
        assert_eq!(told(&[], "", Way::Up), ["[, end)"]);
        assert_eq!(told(&[], "m", Way::Up), ["[m, end)"]);
        assert_eq!(told(&[], "m", Way::Down), ["[, m)"]);
        let all = ["[a, b)", "[till-, till.)"];
        assert_eq!(told(&["till-", "a", "till-7", "a", "ab"], "", Way::Up), all);
        assert_eq!(told(&["till-", "a"], "abc", Way::Up), ["[abc, b)", "[till-, till.)"]);
        assert_eq!(told(&["till-", "a"], "abc", Way::Down), ["[a, abc)"]);
        assert_eq!(told(&["till-", "a"], "m", Way::Up), ["[till-, till.)"]);
        assert_eq!(told(&["till-", "a"], "m", Way::Down), ["[a, b)"]);
        assert_eq!(told(&["till-", "a"], "till-9", Way::Up), ["[till-9, till.)"]);
        assert_eq!(told(&["till-", "a"], "till-9", Way::Down), ["[till-, till-9)", "[a, b)"]);
        assert!(told(&["till-", "a"], "x", Way::Up).is_empty());
        assert!(told(&["till-", "a"], "a", Way::Down).is_empty());
        let last = format!("b{}", char::MAX);
        assert_eq!(beyond(&last).as_deref(), Some("c"));
        assert_eq!(beyond("\u{d7ff}").as_deref(), Some("\u{e000}"));
        assert_eq!(beyond(&char::MAX.to_string()), None);
    }
}
