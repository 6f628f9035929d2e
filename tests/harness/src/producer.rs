//! The producer as a test calls it: a command, its exit code and what it printed.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::process::program;

/// No call may take longer, on a machine that is busy with other tests.
pub const CALL_LIMIT: Duration = Duration::from_secs(120);

/// The result of a call of the producer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Answer {
    /// Whether the exit code was 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// The result as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error} in {:?}\n{}", self.stdout, self.stderr))
    }

    /// The same answer.
    ///
    /// # Panics
    /// When the exit code was not 0.
    pub fn expect_success(self) -> Answer {
        let (code, out, err) = (self.code, &self.stdout, &self.stderr);
        assert!(self.is_success(), "the producer exited with {code:?}\n{out}\n{err}");
        self
    }
}

/// The command, ready to be run or spawned.
#[must_use]
pub fn command(env: &BTreeMap<String, String>, arguments: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new(program("producer"));
    command.args(arguments).envs(env);
    command
}

/// Runs a line as somebody types it into a shell, where `producer` is this program.
///
/// # Panics
/// When it can't be run, or does not end within [`CALL_LIMIT`].
pub async fn typed(env: &BTreeMap<String, String>, line: &str) -> Answer {
    let script = format!("producer() {{ \"$PRODUCER\" \"$@\"; }}\n{line}");
    let mut sh = std::process::Command::new("sh");
    sh.args(["-c", &script]).env("PRODUCER", program("producer")).envs(env);
    answered(CALL_LIMIT, sh, line).await
}

/// Runs the command to its end.
///
/// # Panics
/// When it can't be run, or does not end within [`CALL_LIMIT`].
pub async fn run(env: &BTreeMap<String, String>, arguments: &[&str]) -> Answer {
    run_within(CALL_LIMIT, env, arguments).await
}

/// The same with another limit.
///
/// # Panics
/// When it can't be run, or does not end within it.
pub async fn run_within(
    limit: Duration,
    env: &BTreeMap<String, String>,
    arguments: &[&str],
) -> Answer {
    answered(limit, command(env, arguments), &format!("producer {arguments:?}")).await
}

async fn answered(limit: Duration, command: std::process::Command, what: &str) -> Answer {
    let output = Command::from(command).stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(limit, output).await;
    let output = output
        .unwrap_or_else(|_| panic!("{what} did not end within {limit:?}"))
        .expect("it can be run");
    Answer {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
