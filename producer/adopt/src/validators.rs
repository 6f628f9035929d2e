//! Validators of the owner's own: whether they would refuse what Tandem writes.
//!
//! Owns what Tandem is known to write, and trying it: the server computes, for those of the first
//! documents that the validator takes today, the same documents with Tandem's fields, and says how
//! many of these the validator takes. Nothing is written. So the answer is as exact as the validator,
//! and is for the documents that were tried. A validator that can't be tried is named with the
//! reason.

use std::time::Duration;

use futures_util::TryStreamExt;
use ledger::transaction::State;
use mongo::{error_in_words, is_tandems_validator};
use mongodb::Database;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::error::Error as DriverError;
use serde::Serialize;

use super::shape::Shape;

/// How many documents of a collection are tried.
pub const TRIED_MAX: i64 = 100;

/// How long the server may try one thing.
const TRY_LIMIT: Duration = Duration::from_secs(30);

/// A validator of the owner's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Validator {
    /// The collection, by its name in the database.
    pub collection: String,
    /// Whether it only warns, so that nothing is refused.
    pub only_warns: bool,
    /// How many documents that it takes today were tried.
    pub tried: u64,
    /// What of Tandem's writing it would refuse.
    pub refuses: Vec<String>,
    /// Why it was not tried.
    pub not_looked_at: Option<String>,
}

/// Something that Tandem writes.
struct Write {
    what: String,
    set: Document,
}

/// What the first updates write to an account.
fn of_accounts(shape: Shape<'_>) -> Vec<Write> {
    let own = |fields: Document| stored(shape, fields);
    let balance = format!("${}", shape.path("balance"));
    let long = doc! { "$convert": { "input": balance, "to": "long", "onError": "$$REMOVE" } };
    vec![
        Write { what: "a balance that is an Int64".to_owned(), set: own(doc! { "balance": long }) },
        Write {
            what: "the fields of a posting".to_owned(),
            set: own(doc! {
                "pendingDebits": 1_i64, "pendingCredits": 1_i64,
                "pendingTransactions": ["an id"], "openingBalance": 1_i64, "pendingHolds": 1_i64,
                "floor": 0_i64,
            }),
        },
    ]
}

/// What a claim and each step write to a transaction.
fn of_transactions(shape: Shape<'_>) -> Vec<Write> {
    let now = DateTime::now();
    let claim = doc! {
        "claim": "a claim", "leaseUntil": now, "takeoverAt": now, "application": "a worker",
        "attempts": 1_i64, "createdAt": now, "lastModified": now, "claimedAt": now,
        "line": "a line",
    };
    let mut all =
        vec![Write { what: "the fields of a claim".to_owned(), set: stored(shape, claim) }];
    for state in [State::Pending, State::Applied, State::Done, State::Canceling, State::Canceled] {
        if let Some(word) = shape.words(&[state]).first() {
            let set = stored(shape, doc! { "state": *word });
            all.push(Write { what: format!("the state {word:?}"), set });
        }
    }
    let reason = doc! { "reason": { "code": "a code", "message": "a message" }, "decidedAt": now };
    all.push(Write { what: "the reason of a refusal".to_owned(), set: stored(shape, reason) });
    all
}

fn stored(shape: Shape<'_>, fields: Document) -> Document {
    fields.into_iter().map(|(name, value)| (shape.path(&name), value)).collect()
}

/// Tries what Tandem writes on some documents of both collections.
pub(super) async fn look(
    database: &Database,
    collections: [(&str, Shape<'_>); 2],
) -> Result<Vec<Validator>, DriverError> {
    let names: Vec<&str> = collections.iter().map(|(name, _)| *name).collect();
    let listed = database.list_collections().filter(doc! { "name": { "$in": names } }).await?;
    let listed: Vec<_> = listed.try_collect().await?;
    let mut validators = Vec::new();
    for (at, (name, shape)) in collections.into_iter().enumerate() {
        let found = listed.iter().find(|found| found.name == name);
        let Some(options) = found.map(|found| &found.options) else { continue };
        let is_theirs = |rules: &&Document| !rules.is_empty() && !is_tandems_validator(rules);
        let Some(rules) = options.validator.as_ref().filter(is_theirs) else { continue };
        let only_warns = options.validation_action
            == Some(mongodb::options::ValidationAction::Warn)
            || options.validation_level == Some(mongodb::options::ValidationLevel::Off);
        let writes = if at == 0 { of_accounts(shape) } else { of_transactions(shape) };
        let attempted = attempt(database, name, rules, writes).await;
        let not_looked_at = attempted.as_ref().err().map(error_in_words);
        let (tried, refuses) = attempted.unwrap_or_default();
        let collection = name.to_owned();
        validators.push(Validator { collection, only_warns, tried, refuses, not_looked_at });
    }
    Ok(validators)
}

async fn attempt(
    database: &Database,
    name: &str,
    rules: &Document,
    writes: Vec<Write>,
) -> Result<(u64, Vec<String>), DriverError> {
    let some = doc! { "$limit": TRIED_MAX };
    let tried = taken(database, name, vec![some.clone(), doc! { "$match": rules }]).await?;
    let mut refuses = Vec::new();
    for Write { what, set } in writes {
        let stages = vec![
            some.clone(),
            doc! { "$match": rules },
            doc! { "$set": set },
            doc! { "$match": rules },
        ];
        if taken(database, name, stages).await? < tried {
            refuses.push(what);
        }
    }
    Ok((tried, refuses))
}

/// How many documents a pipeline yields.
async fn taken(
    database: &Database,
    name: &str,
    mut stages: Vec<Document>,
) -> Result<u64, DriverError> {
    stages.push(doc! { "$count": "count" });
    let all = database.collection::<Document>(name).aggregate(stages).max_time(TRY_LIMIT).await?;
    let counted: Vec<Document> = all.try_collect().await?;
    let count = counted.first().and_then(|counted| counted.get("count"));
    let count = count.and_then(|count| count.as_i64().or(count.as_i32().map(i64::from)));
    Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or_default())
}

impl Validator {
    /// What it says to people.
    #[must_use]
    pub fn told(&self) -> String {
        let Validator { collection, only_warns, tried, refuses, not_looked_at } = self;
        let validator = format!("`{collection}` has a validator of your own");
        if let Some(why) = not_looked_at {
            return format!("{validator}, which could not be tried: {why}");
        }
        match (tried, refuses.as_slice(), only_warns) {
            (0, ..) => {
                format!("{validator}, and takes none of the documents that it was tried on")
            }
            (_, [], _) => format!("{validator}, which takes what Tandem writes ({tried} tried)"),
            (_, refuses, true) => {
                format!("{validator}, which would warn of {}", refuses.join(", "))
            }
            (_, refuses, false) => {
                let refuses = refuses.join(", ");
                format!(
                    "{validator}, which would refuse {refuses}; let it take them ({tried} tried)"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use layout::Layout;
    use mongodb::bson::Bson;

    use super::*;

    #[test]
    fn what_is_tried_stands_where_the_schema_says() {
        let text =
            "[transactions]\nfields = { state = \"flow.word\" }\nstate = { done = [\"ok\"] }";
        let layout = Layout::from_toml(text).expect("it is good");
        let writes = of_transactions(Shape::new(Some(&layout.transactions)));
        let has = |path: &str, value: &str| {
            writes.iter().any(|write| write.set.get(path) == Some(&Bson::from(value)))
        };
        assert!(has("flow.word", "ok") && has("tandem.claim", "a claim"));
        assert!(of_accounts(Shape::default())[1].set.contains_key("openingBalance"));
    }
}
