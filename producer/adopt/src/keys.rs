//! Whether the ids of accounts are unique, where accounts are known by another field than `_id`.
//!
//! Owns counting ids that several documents have. The server groups all documents by the field, on
//! its disk where memory is too small, so it takes as long as a sort of the collection; after
//! [`KEYS_LIMIT`] it is given up and said so. Where a unique index is there, nothing is counted.

use std::time::Duration;

use futures_util::TryStreamExt;
use layout::{Collection, IdKind};
use ledger::limits::echo;
use mongo::code_of;
use mongodb::Database;
use mongodb::bson::{Bson, Document, RawBson, doc};
use mongodb::error::Error as DriverError;
use serde::Serialize;

use super::tally::SAMPLES_MAX;

/// How long the server may group the documents.
pub const KEYS_LIMIT: Duration = Duration::from_secs(600);

/// The server's code when that time is over.
const TIME_LIMIT: i32 = 50;

/// Ids that several documents have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Keys {
    /// The path of the field.
    pub path: String,
    /// Whether an index keeps it unique.
    pub unique_index: bool,
    /// How many ids several documents have; none where that was not looked at.
    pub duplicates: Option<u64>,
    /// How many documents have them.
    pub documents: Option<u64>,
    /// Some of these ids.
    pub samples: Vec<String>,
    /// Why it was not looked at.
    pub not_looked_at: Option<String>,
}

/// Counts the ids that several documents have.
pub(super) async fn look(
    database: &Database,
    accounts: &Collection,
    unique_index: bool,
) -> Result<Keys, DriverError> {
    let path = accounts.path("_id").into_owned();
    let keys = Keys { path: path.clone(), unique_index, ..Keys::default() };
    if unique_index {
        return Ok(Keys { duplicates: Some(0), documents: Some(0), ..keys });
    }
    let collection = database.collection::<Document>(accounts.name());
    let stages = pipeline(&path);
    let counted = async {
        let all = collection.aggregate(stages).allow_disk_use(true).max_time(KEYS_LIMIT).await?;
        all.try_collect::<Vec<_>>().await
    };
    match counted.await {
        Ok(counted) => Ok(read(keys, &counted, accounts.id_kind())),
        Err(error) if code_of(&error) == Some(TIME_LIMIT) => {
            let told = format!("it took longer than {} s", KEYS_LIMIT.as_secs());
            Ok(Keys { not_looked_at: Some(told), ..keys })
        }
        Err(error) => Err(error),
    }
}

fn pipeline(path: &str) -> Vec<Document> {
    vec![
        // A document without an id is no account.
        doc! { "$match": { path: { "$ne": null } } },
        doc! { "$group": { "_id": format!("${path}"), "documents": { "$sum": 1_i64 } } },
        doc! { "$match": { "documents": { "$gt": 1 } } },
        doc! { "$facet": {
            "all": [{ "$group": {
                "_id": null, "ids": { "$sum": 1_i64 }, "documents": { "$sum": "$documents" },
            } }],
            "some": [{ "$sort": { "_id": 1 } }, { "$limit": SAMPLES_MAX as i64 }],
        } },
    ]
}

fn read(keys: Keys, counted: &[Document], ids: IdKind) -> Keys {
    let part = |name: &str| {
        let all = counted.first().and_then(|facets| facets.get_array(name).ok());
        all.into_iter().flatten().filter_map(Bson::as_document).collect::<Vec<_>>()
    };
    let number = |name: &str| {
        let all = part("all");
        let number = all.first().and_then(|all| all.get_i64(name).ok());
        Some(number.and_then(|number| u64::try_from(number).ok()).unwrap_or_default())
    };
    let text = |group: &&Document| {
        let id = group.get("_id").cloned().unwrap_or(Bson::Null);
        let raw = RawBson::try_from(id.clone()).ok();
        let text = raw.and_then(|raw| ids.text(raw.as_raw_bson_ref()));
        let text = text.unwrap_or_else(|| id.to_string());
        echo(&text).into_owned()
    };
    let samples = part("some").iter().map(text).collect();
    Keys { duplicates: number("ids"), documents: number("documents"), samples, ..keys }
}
