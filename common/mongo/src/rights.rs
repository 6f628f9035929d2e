//! What the user may do on the server.
//!
//! Owns telling a missing right from all other errors, and the check that a worker makes when it
//! starts. Without the check, a worker that may read but not write would be ready, take deliveries
//! and return each of them, and its sweeper would publish again and again transactions that it
//! can't stamp. Promises that the check writes nothing. Fails with [`NotReady`], which names the
//! right.

use ledger::limits;
use mongodb::bson::{Document, doc};
use mongodb::error::{Error, ErrorKind};

use super::names::WORKERS;
use super::not_ready::NotReady;
use super::roles::{Action, OF_A_WORKER};
use super::schema::KEY;
use super::write::DUPLICATE_KEY;
use super::{Store, duplicate};

const UNAUTHORIZED: i32 = 13;
/// An index is there under another name, or with other options.
const INDEX_TAKEN: [i32; 2] = [85, 86];

impl Action {
    /// A command that needs the right. The server also asks for the rights of a command that it
    /// only explains, and then runs nothing of it.
    fn probe(self, collection: &str) -> Document {
        let update = |upsert: bool| {
            let change = doc! { "$set": { "probe": 1 } };
            let statement = doc! { "q": { "_id": "" }, "u": change, "upsert": upsert };
            doc! { "update": collection, "updates": [statement] }
        };
        let command = match self {
            Action::Find => doc! { "find": collection, "filter": { "_id": "" } },
            Action::Insert => update(true),
            Action::Update => update(false),
            Action::Remove => {
                let statement = doc! { "q": { "_id": "" }, "limit": 1 };
                doc! { "delete": collection, "deletes": [statement] }
            }
            Action::ChangeStream => {
                let pipeline = vec![doc! { "$changeStream": {} }];
                doc! { "aggregate": collection, "pipeline": pipeline, "cursor": {} }
            }
        };
        doc! { "explain": command, "verbosity": "queryPlanner" }
    }
}

impl Store {
    /// Checks that the user may do what a worker does. Writes nothing. A worker that may not say
    /// how it is works all the same; it is warned of in the log.
    ///
    /// # Errors
    /// [`NotReady::NotPermitted`] with the first right that is missing; else when the server is
    /// away or refuses.
    pub async fn check_rights(&self) -> Result<(), NotReady> {
        for (collection, actions) in OF_A_WORKER {
            for action in actions {
                let database = self.database.clone();
                let stored = self.stored_name(collection);
                let probe = action.probe(stored);
                let run = async move { database.run_command(probe).await.map(drop) };
                let what = format!("`{}` in the collection `{stored}`", action.name());
                match self.permitted(&what, run).await {
                    Err(error) if collection == WORKERS && !error.passes() => {
                        tracing::warn!(%error, "no overview shows this worker");
                    }
                    checked => checked?,
                }
            }
        }
        Ok(())
    }

    /// Runs driver code, and separates missing rights from all other errors.
    pub(super) async fn permitted<T: Send + 'static>(
        &self,
        what: &str,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, NotReady> {
        let what = what.to_owned();
        let told_apart = async move {
            work.await.map(Ok).or_else(|error| refusal(what, &error).map(Err).ok_or(error))
        };
        self.limited("schema", told_apart).await?
    }
}

fn refusal(what: String, error: &Error) -> Option<NotReady> {
    match error.kind.as_ref() {
        ErrorKind::Authentication { message, .. } => Some(NotReady::Login(message.clone())),
        ErrorKind::Command(command) => {
            let said = limits::echo(&command.message).into_owned();
            match command.code {
                UNAUTHORIZED => Some(NotReady::NotPermitted { what, said }),
                DUPLICATE_KEY if duplicate::index_in(&command.message) == Some(KEY) => {
                    Some(NotReady::KeyTwice(said))
                }
                code if INDEX_TAKEN.contains(&code) => Some(NotReady::IndexTaken(said)),
                _ => None,
            }
        }
        _ => None,
    }
}
