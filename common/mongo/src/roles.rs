//! What each program has to do with the ledger's documents, as roles of MongoDB.
//!
//! Owns the privileges: the roles that `producer roles` creates are made of them, and a worker
//! checks its own when it starts ([`super::rights`]). No role of a running program may change
//! collections, indexes or validators; that is for whoever runs `producer init`. Promises that
//! applying them again changes nothing else, and that users are never touched.

use mongodb::bson::{Document, doc};

use super::names::{
    ACCOUNTS, ACTS, EVENTS, FILES, JOBS, JOURNAL, NOTES, ORDER, PROGRESS, REQUESTS, SETTINGS,
    SETTLEMENT, SUMS, TRANSACTIONS, WORKERS,
};
use super::not_ready::NotReady;
use super::{Store, fault, shell};

/// The server's answer to the creation of a role that is there.
const ROLE_EXISTS: i32 = 51_002;

/// An action on documents, as MongoDB's privileges name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Find,
    Insert,
    Update,
    Remove,
    ChangeStream,
}

use Action::{ChangeStream, Find, Insert, Remove, Update};

impl Action {
    pub(super) fn name(self) -> &'static str {
        match self {
            Find => "find",
            Insert => "insert",
            Update => "update",
            Remove => "remove",
            ChangeStream => "changeStream",
        }
    }
}

/// The actions on the documents of one collection.
pub(super) type Privilege = (&'static str, &'static [Action]);

/// A worker inserts only lines, pages of their order, sums, notes, due events, how far it has swept
/// and what it says of itself. Whether it may is asked by an upsert, for which the server wants both
/// rights.
pub(super) const OF_A_WORKER: [Privilege; 11] = [
    (ACCOUNTS, &[Find, Update]),
    (TRANSACTIONS, &[Find, Update]),
    (JOURNAL, &[Find, Update, Insert]),
    (ORDER, &[Find, Update, Insert]),
    (SUMS, &[Find, Update, Insert]),
    (NOTES, &[Find, Update, Insert]),
    (EVENTS, &[Find, Update, Insert, Remove]),
    (PROGRESS, &[Find, Update, Insert]),
    (SETTINGS, &[Find]),
    (SETTLEMENT, &[Find]),
    (WORKERS, &[Find, Update, Insert]),
];

/// Submits transactions and waits for them. It can't change one that is there, so it can't cancel.
const OF_A_PRODUCER: [Privilege; 10] = [
    (ACCOUNTS, &[Find]),
    (TRANSACTIONS, &[Find, Insert]),
    (FILES, &[Find, Insert, Update]),
    (JOURNAL, &[Find]),
    (ORDER, &[Find]),
    (SUMS, &[Find]),
    (NOTES, &[Find]),
    (PROGRESS, &[Find]),
    (SETTINGS, &[Find]),
    (SETTLEMENT, &[Find]),
];

/// Everything that the HTTP API offers: opens and freezes accounts, sets floors, submits, cancels
/// and reverses, brings back what was parked, pauses settlement, and audits. What people do is
/// inserted, and never changed; the jobs that they begin are changed as they go on, and stay.
const OF_THE_API: [Privilege; 14] = [
    (ACCOUNTS, &[Find, Insert, Update]),
    (TRANSACTIONS, &[Find, Insert, Update, ChangeStream]),
    (JOURNAL, &[Find]),
    (ORDER, &[Find]),
    (SUMS, &[Find]),
    (NOTES, &[Find, Update, Remove]),
    (EVENTS, &[Find]),
    (REQUESTS, &[Find, Insert, Update]),
    (ACTS, &[Find, Insert]),
    (JOBS, &[Find, Insert, Update]),
    (PROGRESS, &[Find]),
    (SETTINGS, &[Find]),
    (SETTLEMENT, &[Find, Insert, Update]),
    (WORKERS, &[Find]),
];

/// Reads, and learns from a change stream what has changed since an audit began.
const OF_AN_AUDITOR: [Privilege; 13] = [
    (ACCOUNTS, &[Find]),
    (TRANSACTIONS, &[Find, ChangeStream]),
    (JOURNAL, &[Find]),
    (ORDER, &[Find]),
    (SUMS, &[Find]),
    (NOTES, &[Find]),
    (EVENTS, &[Find]),
    (ACTS, &[Find]),
    (JOBS, &[Find]),
    (PROGRESS, &[Find]),
    (SETTINGS, &[Find]),
    (SETTLEMENT, &[Find]),
    (WORKERS, &[Find]),
];

/// How a program looks whether the ledger is as it needs it.
const OF_ALL: [&str; 2] = ["listCollections", "listIndexes"];

/// A role of MongoDB for one kind of program.
#[derive(Clone, Copy, Debug)]
pub struct Role {
    /// Its name.
    pub name: &'static str,
    privileges: &'static [Privilege],
}

/// The roles of a ledger.
pub const ROLES: [Role; 4] = [
    Role { name: "tandem-worker", privileges: &OF_A_WORKER },
    Role { name: "tandem-producer", privileges: &OF_A_PRODUCER },
    Role { name: "tandem-api", privileges: &OF_THE_API },
    Role { name: "tandem-auditor", privileges: &OF_AN_AUDITOR },
];

impl Role {
    /// Each collection, as it is called in the database, and the names of the actions on its
    /// documents.
    pub fn privileges<'a>(
        &self,
        store: &'a Store,
    ) -> impl Iterator<Item = (&'a str, Vec<&'static str>)> {
        self.own_privileges().map(|(own, actions)| (store.stored_name(own), actions))
    }

    fn own_privileges(&self) -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
        let names = |actions: &[Action]| actions.iter().map(|action| action.name()).collect();
        self.privileges.iter().map(move |(collection, actions)| (*collection, names(actions)))
    }

    /// The command that creates the role in a ledger's database, or changes it.
    fn command(&self, verb: &str, store: &Store) -> Document {
        let database = store.database().name();
        let on = |collection: &str| doc! { "db": database, "collection": collection };
        let of_documents = self
            .privileges(store)
            .map(|(collection, actions)| doc! { "resource": on(collection), "actions": actions });
        let of_all = doc! { "resource": on(""), "actions": OF_ALL.to_vec() };
        let privileges: Vec<Document> = of_documents.chain([of_all]).collect();
        doc! { verb: self.name, "privileges": privileges, "roles": [] }
    }

    /// The command as `mongosh` takes it, for a role that is not there yet.
    #[must_use]
    pub fn shell_command(&self, store: &Store) -> String {
        let database = store.database().name();
        let command = shell::document(&self.command("createRole", store));
        format!("db.getSiblingDB({}).runCommand({command})", shell::text(database))
    }

    /// The command of `mongosh` that creates a user of this role with a name like it.
    #[must_use]
    pub fn shell_user(&self, database: &str) -> String {
        let (name, database) = (shell::text(self.name), shell::text(database));
        format!(
            "db.getSiblingDB({database}).createUser({{user: {name}, pwd: passwordPrompt(), roles: \
             [{name}]}})"
        )
    }
}

impl Store {
    /// Creates the role in the ledger's database; one that is there gets these privileges and no
    /// others. Returns whether it is new.
    ///
    /// # Errors
    /// [`NotReady::NotPermitted`] when this user may not make roles; when the server is away.
    pub async fn apply_role(&self, role: &Role) -> Result<bool, NotReady> {
        // What the collections are called.
        self.learn_once().await?;
        let what = format!("make the role `{}`", role.name);
        let database = self.database.clone();
        let [create, update] = ["createRole", "updateRole"].map(|verb| role.command(verb, self));
        let applied = async move {
            match database.run_command(create).await {
                Ok(_) => Ok(true),
                Err(error) if fault::code_of(&error) == Some(ROLE_EXISTS) => {
                    database.run_command(update).await.map(|_| false)
                }
                Err(error) => Err(error),
            }
        };
        self.permitted(&what, applied).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_api_changes_accounts_and_transactions_beside_workers() {
        let may = |role: &str, action: &str, collection: &str| {
            let role = ROLES.iter().find(|one| one.name == role).expect("a role");
            role.own_privileges().any(|(on, names)| on == collection && names.contains(&action))
        };
        for collection in [ACCOUNTS, TRANSACTIONS] {
            assert!(may("tandem-worker", "update", collection));
            assert!(may("tandem-api", "update", collection));
            assert!(!may("tandem-producer", "update", collection));
            assert!(!may("tandem-auditor", "update", collection));
            assert!(ROLES.iter().all(|role| !may(role.name, "remove", collection)));
            assert!(!may("tandem-worker", "insert", collection));
        }
    }

    #[test]
    fn the_api_may_pause_settlement_and_nobody_changes_another_setting() {
        for role in ROLES {
            let on = |collection: &str| {
                let found = role.own_privileges().find(|(on, _)| *on == collection);
                found.expect("everybody reads it").1
            };
            assert_eq!(on(SETTINGS), ["find"], "{}", role.name);
            let expected: &[&str] = match role.name {
                "tandem-api" => &["find", "insert", "update"],
                _ => &["find"],
            };
            assert_eq!(on(SETTLEMENT), expected, "{}", role.name);
        }
    }

    #[test]
    fn the_api_alone_notes_what_people_do_and_nobody_changes_or_removes_it() {
        for role in ROLES {
            let on_acts = role.own_privileges().find(|(on, _)| *on == ACTS);
            let expected: Option<&[&str]> = match role.name {
                "tandem-api" => Some(&["find", "insert"]),
                "tandem-auditor" => Some(&["find"]),
                _ => None,
            };
            assert_eq!(on_acts.as_ref().map(|(_, names)| &names[..]), expected, "{}", role.name);
        }
    }

    #[test]
    fn the_api_alone_runs_jobs_and_nobody_removes_one() {
        for role in ROLES {
            let on_jobs = role.own_privileges().find(|(on, _)| *on == JOBS);
            let expected: Option<&[&str]> = match role.name {
                "tandem-api" => Some(&["find", "insert", "update"]),
                "tandem-auditor" => Some(&["find"]),
                _ => None,
            };
            assert_eq!(on_jobs.as_ref().map(|(_, names)| &names[..]), expected, "{}", role.name);
        }
    }

    #[test]
    fn workers_alone_write_lines_all_others_read_them_and_nobody_removes_one() {
        for role in ROLES {
            let on_lines = role.own_privileges().find(|(on, _)| *on == JOURNAL);
            let (_, actions) = on_lines.expect("everybody reads them");
            let expected: &[&str] = match role.name {
                // Only an update takes the server's date, and only an upsert inserts by an update.
                "tandem-worker" => &["find", "update", "insert"],
                _ => &["find"],
            };
            assert_eq!(actions, expected, "{}", role.name);
        }
    }
}
