//! What people do: who did what, to what, why, and what became of it.
//!
//! Owns the collection `tandem.acts`. An act has two documents, and its second one names the first:
//!
//! ```text
//! { _id, kind, at, what, on: { kind, ids, count },
//!   who: { name, person, via, from, claimed, request }, reason }
//! { _id: "ID.end", kind, act: ID, endedAt, result, code, message }
//! ```
//!
//! Each is inserted once and never changed, so who acts needs no right to change what was noted.
//! Promises that both moments are of the server's clock, that inserting one again changes nothing,
//! and that nothing in them is long. An act without its second document goes on, or whoever did it
//! has died, or could not note the end: nobody knows, and nothing else is told. They are kept for
//! ever. Fails with an error of the command.

mod documents;

use std::collections::HashMap;

use ledger::{LedgerError, ServerMs};
use mongodb::bson::{DateTime, Document, RawDocument, RawDocumentBuf, doc, rawdoc};

use self::documents::end_of;
use super::Store;
use super::index::Index;
use super::names::{ACTS, BY_SUBJECT, BY_TIME};
use super::own::ACT;
use super::read::Fields;
use super::statements::raw;
use super::write::none_refused;

pub use self::documents::{
    ACT_IDS_MAX, ActEnd, ActResult, ActSubject, ActVia, ActWho, NewAct, SeenAct, SeenEnd,
    SubjectKind,
};

const OPERATION: &str = "acts";

/// Which acts are asked for; the newest come first, unless they are `above` a gap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActsAsked {
    /// Only those that name this id.
    pub subject: Option<(SubjectKind, String)>,
    /// Only those that were begun then or later.
    pub since: Option<ServerMs>,
    /// Only those that were begun before.
    pub until: Option<ServerMs>,
    /// Only those on one side of this moment and this id: those that are less, or, if they are asked
    /// for `above`, the others.
    pub gap: Option<(ServerMs, String)>,
    /// Whether those above the gap are asked for, the oldest of them first.
    pub above: bool,
    /// So many at most.
    pub limit: usize,
}

impl ActsAsked {
    /// The command that finds them.
    fn command(&self) -> RawDocumentBuf {
        let mut at = doc! { "$type": "date" };
        let date = DateTime::from_millis;
        at.extend(self.since.map(|since| ("$gte".to_owned(), date(since).into())));
        at.extend(self.until.map(|until| ("$lt".to_owned(), date(until).into())));
        let (side, sort) = if self.above { ("$gte", 1) } else { ("$lte", -1) };
        if let Some((moment, _)) = &self.gap {
            let since = self.since.filter(|_| self.above);
            at.insert(side, date(since.map_or(*moment, |since| since.max(*moment))));
        }
        let mut filter = doc! { "kind": ACT.condition(), "at": at };
        if let Some((kind, id)) = &self.subject {
            filter.extend(doc! { "on.kind": kind.as_str(), "on.ids": id });
        }
        if let Some((at, id)) = &self.gap {
            let (moment, name) = if self.above { ("$gt", "$gte") } else { ("$lt", "$lt") };
            let side = [doc! { "at": { moment: date(*at) } }, doc! { "_id": { name: id } }];
            filter.insert("$or", side.to_vec());
        }
        rawdoc! {
            "find": ACTS,
            "filter": raw(&filter),
            "sort": { "at": sort, "_id": sort },
            "hint": if self.subject.is_some() { BY_SUBJECT } else { BY_TIME },
            "limit": i64::try_from(self.limit).unwrap_or(i64::MAX),
        }
    }
}

/// By their moments, and by what they are done to. The documents that say how an act has ended are
/// in neither.
pub(super) fn indexes() -> Vec<Index> {
    let begun = || doc! { "at": { "$type": "date" } };
    vec![
        Index::new(BY_TIME, doc! { "at": 1, "_id": 1 }, begun()),
        Index::new(BY_SUBJECT, doc! { "on.kind": 1, "on.ids": 1, "at": 1, "_id": 1 }, begun()),
    ]
}

impl Store {
    /// Notes that somebody is about to do something. Doing it again with the same id changes
    /// nothing.
    ///
    /// # Errors
    /// When the outcome is unknown, or the server is away or refuses.
    pub async fn begin_act(&self, id: &str, act: &NewAct) -> Result<(), LedgerError> {
        let at = DateTime::from_millis(self.server_now().await?);
        self.insert_act("begin act", &act.to_document(id, at)).await
    }

    /// Notes how an act has ended. Doing it again changes nothing.
    ///
    /// # Errors
    /// When the outcome is unknown, or the server is away or refuses.
    pub async fn end_act(&self, id: &str, end: &ActEnd) -> Result<(), LedgerError> {
        let at = DateTime::from_millis(self.server_now().await?);
        self.insert_act("end act", &end.to_document(id, at)).await
    }

    /// One that is there already was inserted by an earlier attempt.
    async fn insert_act(
        &self,
        operation: &'static str,
        document: &Document,
    ) -> Result<(), LedgerError> {
        let left = self.insert_as(operation, ACTS, [raw(document)]).await?;
        none_refused(operation, left.refused.into_iter().chain(left.taken))
    }

    /// Acts, without their ends; none in place of one that can't be read.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn acts(&self, asked: &ActsAsked) -> Result<Vec<Option<SeenAct>>, LedgerError> {
        let parse = |document: &RawDocument| {
            let document = Document::try_from(document).ok();
            Some(document.and_then(|document| SeenAct::parse(&document)))
        };
        self.find(OPERATION, asked.command(), parse).await
    }

    /// How acts have ended, by their ids, where that was noted.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn ends_of_acts(
        &self,
        ids: &[&str],
    ) -> Result<HashMap<String, SeenEnd>, LedgerError> {
        let names: Vec<String> = ids.iter().map(|id| end_of(id)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = self.documents(OPERATION, ACTS, &names, Fields::All).await?;
        let read = found.iter().filter_map(|found| Document::try_from(&**found).ok());
        Ok(read.filter_map(|document| SeenEnd::parse(&document)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_are_found_through_the_index_of_what_is_asked_for_and_go_on_where_a_page_ended() {
        let field = |asked: &ActsAsked, name: &str| {
            Document::try_from(asked.command())
                .expect("BSON")
                .get(name)
                .cloned()
                .expect("it is there")
        };
        let all = ActsAsked { since: Some(5), limit: 3, ..ActsAsked::default() };
        assert_eq!(field(&all, "hint"), BY_TIME.into());
        let subject = Some((SubjectKind::Account, "a".to_owned()));
        let one = ActsAsked { subject, gap: Some((7, "x".to_owned())), ..all };
        assert_eq!(field(&one, "hint"), BY_SUBJECT.into());
        let filter = field(&one, "filter");
        let filter = filter.as_document().expect("a filter");
        let date = DateTime::from_millis;
        let at = doc! { "$type": "date", "$gte": date(5), "$lte": date(7) };
        assert_eq!(filter.get_document("at").ok(), Some(&at));
        let later = doc! { "_": [{ "at": { "$lt": date(7) } }, { "_id": { "$lt": "x" } }] };
        assert_eq!(filter.get("$or"), later.get("_"));
        let text = |name| filter.get_str(name).ok();
        assert_eq!((text("on.kind"), text("on.ids")), (Some("account"), Some("a")));
        let above = ActsAsked { above: true, ..one };
        let filter = field(&above, "filter");
        let filter = filter.as_document().expect("a filter");
        let at = doc! { "$type": "date", "$gte": date(7) };
        assert_eq!(filter.get_document("at").ok(), Some(&at), "the later of both moments");
        let side = doc! { "_": [{ "at": { "$gt": date(7) } }, { "_id": { "$gte": "x" } }] };
        assert_eq!(filter.get("$or"), side.get("_"));
        assert_eq!(field(&above, "sort"), doc! { "at": 1, "_id": 1 }.into());
    }
}
