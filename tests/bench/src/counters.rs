//! The server's own counts of its work, from `serverStatus`.
//!
//! Documents come from `metrics.document`; commands come from `metrics.commands`, without those by
//! which clients stay in contact. Nothing is counted by the contenders themselves.

use std::collections::BTreeMap;

use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};
use serde::{Deserialize, Serialize};

/// Commands that are no work: monitoring, logins, and reading these counters.
const HOUSEKEEPING: [&str; 9] = [
    "hello",
    "isMaster",
    "ismaster",
    "serverStatus",
    "ping",
    "buildInfo",
    "endSessions",
    "saslStart",
    "saslContinue",
];

/// The counters at one moment, or between two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Documents inserted.
    pub inserted: i64,
    /// Documents updated.
    pub updated: i64,
    /// Documents returned.
    pub returned: i64,
    /// Update statements, of which a command may hold many.
    pub statements: i64,
    /// Write conflicts.
    pub conflicts: i64,
    /// Commands, by name.
    pub commands: BTreeMap<String, i64>,
}

impl Counters {
    /// Asks the server.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn read(database: &Database) -> mongodb::error::Result<Counters> {
        Ok(Counters::of(&database.run_command(doc! { "serverStatus": 1 }).await?))
    }

    fn of(status: &Document) -> Counters {
        let metrics = status.get_document("metrics").cloned().unwrap_or_default();
        let part = |name: &str| metrics.get_document(name).cloned().unwrap_or_default();
        let (documents, operations) = (part("document"), part("operation"));
        let opcounters = status.get_document("opcounters").cloned().unwrap_or_default();
        let totals = part("commands").into_iter().filter_map(|(name, counts)| {
            let total = number(counts.as_document()?, "total");
            (total > 0 && !HOUSEKEEPING.contains(&name.as_str())).then_some((name, total))
        });
        Counters {
            inserted: number(&documents, "inserted"),
            updated: number(&documents, "updated"),
            returned: number(&documents, "returned"),
            statements: number(&opcounters, "update"),
            conflicts: number(&operations, "writeConflicts"),
            commands: totals.collect(),
        }
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Counters) -> Counters {
        let commands = self.commands.iter().filter_map(|(name, total)| {
            let since = total - earlier.commands.get(name).copied().unwrap_or(0);
            (since > 0).then(|| (name.clone(), since))
        });
        Counters {
            inserted: self.inserted - earlier.inserted,
            updated: self.updated - earlier.updated,
            returned: self.returned - earlier.returned,
            statements: self.statements - earlier.statements,
            conflicts: self.conflicts - earlier.conflicts,
            commands: commands.collect(),
        }
    }

    /// All commands.
    #[must_use]
    pub fn commands_total(&self) -> i64 {
        self.commands.values().sum()
    }
}

fn number(document: &Document, field: &str) -> i64 {
    match document.get(field) {
        Some(Bson::Int64(number)) => *number,
        Some(Bson::Int32(number)) => i64::from(*number),
        #[expect(clippy::cast_possible_truncation, reason = "a count")]
        Some(Bson::Double(number)) => *number as i64,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(updated: i64, finds: i32) -> Document {
        doc! {
            "opcounters": { "update": updated },
            "metrics": {
                "document": { "updated": updated, "inserted": 1_i64 },
                "operation": { "writeConflicts": 2_i64 },
                "commands": {
                    "find": { "total": finds, "failed": 0 },
                    "hello": { "total": 99 },
                    "update": { "total": 0_i64 },
                    "<UNKNOWN>": 3_i64,
                },
            },
        }
    }

    #[test]
    fn differences_count_work_and_not_the_keeping_in_touch() {
        let since = Counters::of(&status(10, 7)).since(&Counters::of(&status(4, 2)));
        assert_eq!((since.updated, since.inserted, since.conflicts), (6, 0, 0));
        assert_eq!(since.commands, BTreeMap::from([("find".to_owned(), 5)]));
        assert_eq!(since.commands_total(), 5);
    }
}
