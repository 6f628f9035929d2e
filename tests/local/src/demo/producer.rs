//! Calls `producer` as a user does: a command, its exit code, its JSON.
//!
//! It takes the servers, the database and the queue prefix from the environment. Promises that no
//! call outlives the value that waits for it, or its time limit. A command that fails is a
//! [`Failure`] with what it said.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use harness::console::Failure;
use harness::process::exit_code;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::process::Command;

use super::programs::Programs;

const CALL_LIMIT: Duration = Duration::from_secs(120);
/// How many ids are asked about in one call, so that the command line does not get too long.
const IDS_PER_CALL: usize = 500;

/// How many transactions there are.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Stats {
    /// By state.
    pub states: BTreeMap<String, u64>,
    /// The canceled ones, by the code of the reason.
    pub reasons: BTreeMap<String, u64>,
}

/// What the demo reads of a transaction.
#[derive(Clone, Debug, Deserialize)]
pub struct Transaction {
    /// Its id.
    #[serde(rename = "_id")]
    pub id: String,
    /// Its state.
    pub state: String,
    /// When it was last written, as RFC 3339.
    #[serde(rename = "lastModified")]
    pub last_modified: String,
}

/// The program `producer`, on one database and one set of queues.
pub struct Producer<'a> {
    programs: &'a Programs,
}

impl Producer<'_> {
    /// The producer among these programs.
    #[must_use]
    pub fn new(programs: &Programs) -> Producer<'_> {
        Producer { programs }
    }

    /// Runs a command; its output.
    ///
    /// # Errors
    /// When it fails.
    pub async fn run(&self, arguments: &[&str]) -> Result<String, Failure> {
        let failed = |why: String| Failure(format!("producer {}: {why}", arguments[0]));
        let output = tokio::time::timeout(CALL_LIMIT, self.command(arguments).output()).await;
        let output = output
            .map_err(|_| failed(format!("no end within {} s", CALL_LIMIT.as_secs())))?
            .map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            let command = arguments[..arguments.len().min(3)].join(" ");
            let code = exit_code(output.status);
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Failure(format!("producer {command} exited with {code}:\n{said}")));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs a command that speaks to the user itself; its exit code.
    ///
    /// # Errors
    /// When it can't be run, or does not end within `limit`.
    pub async fn show(&self, arguments: &[&str], limit: Duration) -> Result<i32, Failure> {
        let ended = tokio::time::timeout(limit, self.command(arguments).status()).await;
        let status = ended
            .map_err(|_| Failure(format!("producer did not end within {} s", limit.as_secs())))?
            .map_err(|error| Failure(format!("cannot start producer: {error}")))?;
        Ok(exit_code(status))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::from(self.programs.command("producer"));
        // In a group of its own: ^C is for the demo, which then ends this.
        command.args(arguments).stdin(Stdio::null()).process_group(0).kill_on_drop(true);
        command
    }

    /// Checks that the books balance, and tells the user; the exit code.
    ///
    /// # Errors
    /// When it can't be run.
    pub async fn audit(&self) -> Result<i32, Failure> {
        self.show(&["audit"], CALL_LIMIT).await
    }

    /// Transactions by state, and canceled ones by reason.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn stats(&self) -> Result<Stats, Failure> {
        parsed(&self.run(&["stats", "--json"]).await?)
    }

    /// The ids of the transactions that a worker has claimed and not finished.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn in_flight(&self, worker: &str) -> Result<Vec<String>, Failure> {
        let open = "pending,applied,canceling";
        let command = ["list", "--state", open, "--application", worker, "--limit", "100000"];
        let lines = self.run(&[&command[..], &["--json"]].concat()).await?;
        Ok(transactions(&lines)?.into_iter().map(|one| one.id).collect())
    }

    /// The transactions with these ids.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn status(&self, ids: &[String]) -> Result<Vec<Transaction>, Failure> {
        let mut found = Vec::new();
        for some in ids.chunks(IDS_PER_CALL) {
            let ids = some.iter().map(String::as_str);
            let command: Vec<&str> = ["status"].into_iter().chain(ids).chain(["--json"]).collect();
            found.extend(transactions(&self.run(&command).await?)?);
        }
        Ok(found)
    }
}

fn transactions(lines: &str) -> Result<Vec<Transaction>, Failure> {
    lines.lines().filter(|line| !line.trim().is_empty()).map(parsed).collect()
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure(format!("producer printed other JSON than expected: {error}")))
}
