//! How many transactions there are, by state and by reason: all of them are read for it, or a sample.
//!
//! In collections that others have documents in, what was final before Tandem came is counted apart:
//! the end that a worker writes names its line, and nobody else's does.

use std::collections::BTreeMap;

use futures_util::TryStreamExt;
use ledger::transaction::State;
use mongo::TRANSACTIONS;
use mongodb::bson::raw::cstr;
use mongodb::bson::{Bson, Document, RawArrayBuf, doc, rawdoc};
use serde::Serialize;

use crate::client::Client;
use crate::error::Error;

/// How many transactions there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// By state; every state has an entry. Under a schema, of the final ones those that a worker
    /// has ended.
    pub states: BTreeMap<String, u64>,
    /// The canceled ones of these, by the code of their reason.
    pub reasons: BTreeMap<String, u64>,
    /// The final ones that no worker has ended, by state; only under a schema, where others may
    /// have made them final.
    #[serde(rename = "endedByOthers", skip_serializing_if = "Option::is_none")]
    pub ended_by_others: Option<BTreeMap<String, u64>>,
    /// Whether the counts are estimated, by a sample of some thousand documents: what few are in may
    /// be counted as none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

/// By how many documents, drawn by chance, counts are estimated: less than a twentieth of more than
/// 100,000, because the server goes through all of them for a larger share. A state that one in a
/// thousand has is missed once in 150 times.
pub const SAMPLE: u32 = 5_000;

impl Client {
    /// Counts all transactions. The server reads all of them for this.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn stats(&self) -> Result<Stats, Error> {
        self.counted(None).await
    }

    /// Counts all transactions if there are at most so many; of more, estimates the counts by a
    /// sample, which takes the same time however many there are. `most` is at least 100,000: of
    /// less, the server goes through all of them for a sample.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn stats_reading(&self, most: u64) -> Result<Stats, Error> {
        self.counted(Some(most)).await
    }

    async fn counted(&self, most: Option<u64>) -> Result<Stats, Error> {
        self.known_rules().await?;
        let is_shared = self.store().layout().is_some();
        let pipeline = pipeline(is_shared);
        let counted = async {
            let (transactions, mut pipeline) = self.store().computing(TRANSACTIONS, pipeline)?;
            let sampled_of = match most {
                None => None,
                Some(most) => {
                    Some(transactions.estimated_document_count().await?).filter(|all| *all > most)
                }
            };
            if sampled_of.is_some() {
                pipeline.insert(0, doc! { "$sample": { "size": SAMPLE } });
            }
            let groups = transactions.aggregate(pipeline).await?.try_collect().await?;
            Ok((groups, sampled_of))
        };
        let (mut groups, sampled_of): (Vec<Document>, Option<u64>) =
            counted.await.map_err(|error| mongo::query_failed("stats", &error))?;
        if let Some(all) = sampled_of {
            scale(&mut groups, all);
        }
        if is_shared {
            // What is in no state of ours is somebody else's.
            groups.retain(|group| state_in(group).is_some());
        }
        Ok(Stats { estimated: sampled_of.is_some(), ..collect(&groups, is_shared) })
    }
}

/// Makes counts of a sample the counts of all. What was drawn and is in no group is somebody else's.
fn scale(groups: &mut [Document], all: u64) {
    let count = |group: &Document| group.get_i64("count").unwrap_or_default();
    let drawn = u64::from(SAMPLE).min(all).max(1);
    for group in groups {
        let share = i128::from(count(group)) * i128::from(all) / i128::from(drawn);
        group.insert("count", i64::try_from(share).unwrap_or(i64::MAX));
    }
}

fn pipeline(is_shared: bool) -> RawArrayBuf {
    let mut pipeline = RawArrayBuf::new();
    let mut key = rawdoc! { "state": "$state", "code": "$reason.code" };
    if is_shared {
        // Others have documents there, too. What has no id of the right kind is theirs.
        pipeline.push(rawdoc! { "$match": { "_id": { "$type": "string" } } });
        key.append(cstr!("hasLine"), rawdoc! { "$eq": [{ "$type": "$line" }, "string"] });
    }
    pipeline.push(rawdoc! { "$group": { "_id": key, "count": { "$sum": 1_i64 } } });
    pipeline
}

fn state_in(group: &Document) -> Option<State> {
    let state = group.get_document("_id").and_then(|key| key.get_str("state"));
    state.ok().and_then(State::parse)
}

fn collect(groups: &[Document], is_shared: bool) -> Stats {
    let mut stats = Stats::default();
    for state in State::ALL {
        stats.states.insert(state.as_str().to_owned(), 0);
    }
    let ends = State::ALL.into_iter().filter(|state| state.is_final());
    let none = ends.map(|state| (state.as_str().to_owned(), 0));
    stats.ended_by_others = is_shared.then(|| none.collect());
    for group in groups {
        let Ok(key) = group.get_document("_id") else { continue };
        let count = match group.get("count") {
            Some(Bson::Int64(count)) => u64::try_from(*count).unwrap_or_default(),
            Some(_) | None => 0,
        };
        let state = key.get_str("state").unwrap_or("unknown");
        let is_final = state_in(group).is_some_and(State::is_final);
        if let Some(others) = &mut stats.ended_by_others
            && is_final
            && !key.get_bool("hasLine").unwrap_or_default()
        {
            *others.entry(state.to_owned()).or_default() += count;
            continue;
        }
        *stats.states.entry(state.to_owned()).or_default() += count;
        if state == State::Canceled.as_str() {
            let code = key.get_str("code").unwrap_or("unknown");
            *stats.reasons.entry(code.to_owned()).or_default() += count;
        }
    }
    stats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stands_for_all() {
        let group = |state: &str, count: i64| doc! { "_id": { "state": state }, "count": count };
        let mut groups = [group("done", 4_000), group("canceled", 500)];
        scale(&mut groups, 10_000_000);
        let stats = collect(&groups, false);
        // One in ten of those that were drawn is no transaction of ours.
        assert_eq!((stats.states["done"], stats.states["canceled"]), (8_000_000, 1_000_000));
        scale(&mut [], 5);
    }

    #[test]
    fn every_state_is_there_and_reasons_are_of_canceled_ones() {
        let group = |state: &str, code: Bson, count: i64| {
            doc! { "_id": { "state": state, "code": code }, "count": count }
        };
        let groups = [
            group("done", Bson::Null, 5),
            group("canceled", "insufficient_funds".into(), 2),
            group("canceled", "requested".into(), 1),
            group("canceling", "requested".into(), 4),
        ];
        let stats = collect(&groups, false);
        assert_eq!(stats.states.len(), State::ALL.len());
        assert_eq!((stats.states["done"], stats.states["canceled"]), (5, 3));
        assert_eq!((stats.states["canceling"], stats.states["initial"]), (4, 0));
        let reasons = [("insufficient_funds".to_owned(), 2), ("requested".to_owned(), 1)];
        assert_eq!(stats.reasons, BTreeMap::from(reasons));
        assert_eq!(stats.ended_by_others, None, "nobody else has ended any");
    }

    #[test]
    fn what_no_worker_has_ended_is_counted_apart_only_where_others_have_documents() {
        let group = |state: &str, has_line: bool, count: i64| {
            let key = doc! { "state": state, "code": "requested", "hasLine": has_line };
            doc! { "_id": key, "count": count }
        };
        let groups = [
            group("done", true, 5),
            group("done", false, 70),
            group("canceled", true, 2),
            group("canceled", false, 30),
            group("initial", false, 4),
        ];
        let stats = collect(&groups, true);
        assert_eq!((stats.states["done"], stats.states["canceled"]), (5, 2));
        assert_eq!((stats.states["initial"], stats.reasons["requested"]), (4, 2));
        let others = [("canceled".to_owned(), 30), ("done".to_owned(), 70)];
        assert_eq!(stats.ended_by_others, Some(others.into()));
    }
}
