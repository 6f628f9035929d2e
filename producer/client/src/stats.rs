//! How many transactions there are, by state and by reason.

use std::collections::BTreeMap;

use futures_util::TryStreamExt;
use ledger::transaction::State;
use mongo::TRANSACTIONS;
use mongodb::bson::{Bson, Document, RawArrayBuf, rawdoc};
use serde::Serialize;

use crate::client::Client;
use crate::error::Error;

/// How many transactions there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// By state; every state has an entry.
    pub states: BTreeMap<String, u64>,
    /// The canceled ones, by the code of their reason.
    pub reasons: BTreeMap<String, u64>,
}

impl Client {
    /// Counts all transactions. The server reads all of them for this.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn stats(&self) -> Result<Stats, Error> {
        self.known_ids().await?;
        let mut pipeline = RawArrayBuf::new();
        let is_shared = self.store().layout().is_some();
        if is_shared {
            // Others have documents there, too. What has no id of the right kind is theirs.
            pipeline.push(rawdoc! { "$match": { "_id": { "$type": "string" } } });
        }
        pipeline.push(rawdoc! { "$group": {
            "_id": { "state": "$state", "code": "$reason.code" },
            "count": { "$sum": 1_i64 },
        } });
        let counted = async {
            let (transactions, pipeline) = self.store().computing(TRANSACTIONS, pipeline)?;
            transactions.aggregate(pipeline).await?.try_collect().await
        };
        let mut groups: Vec<Document> =
            counted.await.map_err(|error| mongo::query_failed("stats", &error))?;
        if is_shared {
            // And what is in no state of ours.
            groups.retain(is_in_a_state);
        }
        Ok(collect(&groups))
    }
}

fn is_in_a_state(group: &Document) -> bool {
    let state = group.get_document("_id").and_then(|key| key.get_str("state"));
    state.is_ok_and(|state| State::parse(state).is_some())
}

fn collect(groups: &[Document]) -> Stats {
    let mut stats = Stats::default();
    for state in State::ALL {
        stats.states.insert(state.as_str().to_owned(), 0);
    }
    for group in groups {
        let Ok(key) = group.get_document("_id") else { continue };
        let count = match group.get("count") {
            Some(Bson::Int64(count)) => u64::try_from(*count).unwrap_or_default(),
            Some(_) | None => 0,
        };
        let state = key.get_str("state").unwrap_or("unknown");
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
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn every_state_is_there_and_reasons_are_of_canceled_ones() {
        let group = |state: &str, code: Bson, count: i64| {
            doc! { "_id": { "state": state, "code": code }, "count": count }
        };
        let stats = collect(&[
            group("done", Bson::Null, 5),
            group("canceled", "insufficient_funds".into(), 2),
            group("canceled", "requested".into(), 1),
            group("canceling", "requested".into(), 4),
        ]);
        assert_eq!(stats.states.len(), State::ALL.len());
        assert_eq!((stats.states["done"], stats.states["canceled"]), (5, 3));
        assert_eq!((stats.states["canceling"], stats.states["initial"]), (4, 0));
        let reasons = [("insufficient_funds".to_owned(), 2), ("requested".to_owned(), 1)];
        assert_eq!(stats.reasons, BTreeMap::from(reasons));
    }
}
