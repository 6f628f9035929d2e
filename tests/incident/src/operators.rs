//! Two operators in real browsers: the program `tests/incident/operators.mjs`, steered by the names of
//! phases.
//!
//! Promises that what it tells of each page is noted in the phase in which it comes. What was to be
//! canceled counts as accepted where the page said that it is done, and otherwise as unknown. Fails
//! with what the program said when it has ended by itself.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use harness::deployment::root;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;

use super::judge::{Deed, Word};
use super::phase::Phase;
use super::seen::{Outcome, Record, Seen};

/// How long the browsers may take to end.
const END_LIMIT: Duration = Duration::from_secs(180);

/// A page, as the program tells it.
#[derive(Debug, Deserialize)]
struct Page {
    who: String,
    page: String,
    status: u16,
    ms: f64,
    said: String,
    done: bool,
    cancels: Option<String>,
}

/// The browsers.
pub struct Operators {
    child: Child,
    phases: ChildStdin,
    reading: JoinHandle<String>,
    complaints: JoinHandle<String>,
}

impl Operators {
    /// Starts them. `url` is that of the console, and `backlog` how many transactions will wait.
    ///
    /// # Errors
    /// When the environment names no browser, or the program can't be started.
    pub fn start(
        url: &str,
        token: &str,
        backlog: usize,
        home: &str,
        record: Arc<Record>,
    ) -> Result<Operators, String> {
        let mut command = Command::new("node");
        for name in ["TANDEM_BROWSER", "TANDEM_CHROMIUM"] {
            let value = std::env::var(name).unwrap_or_default();
            if value.is_empty() {
                return Err(format!("{name} is not set: run this by deploy/incident"));
            }
            command.env(name, value);
        }
        command
            .arg(root().join("tests/incident/operators.mjs"))
            .env("INCIDENT_URL", url)
            .env("INCIDENT_TOKEN", token)
            .env("INCIDENT_BACKLOG", backlog.to_string())
            .env("HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| format!("node can't be run: {error}"))?;
        let none = || "node has no pipes".to_owned();
        let (phases, pages) = (child.stdin.take().ok_or_else(none)?, child.stdout.take());
        let (pages, mut errors) = (pages.ok_or_else(none)?, child.stderr.take().ok_or_else(none)?);
        let reading = tokio::spawn(async move {
            let (mut lines, mut last) = (BufReader::new(pages).lines(), String::new());
            while let Ok(Some(line)) = lines.next_line().await {
                note(&record, &line);
                last = line;
            }
            last
        });
        let complaints = tokio::spawn(async move {
            let mut said = Vec::new();
            // What can't be read is not said.
            let _ = errors.read_to_end(&mut said).await;
            String::from_utf8_lossy(&said).into_owned()
        });
        Ok(Operators { child, phases, reading, complaints })
    }

    /// Tells them what is the matter.
    ///
    /// # Errors
    /// When they have ended.
    pub async fn tell(&mut self, phase: Phase) -> Result<(), String> {
        self.say(word(phase)).await
    }

    /// Lets them end.
    ///
    /// # Errors
    /// When they had ended before, do not end, or failed.
    pub async fn end(mut self) -> Result<(), String> {
        self.say("end").await?;
        let ended = tokio::time::timeout(END_LIMIT, self.child.wait()).await;
        let ended = ended.map_err(|_| format!("the browsers did not end within {END_LIMIT:?}"))?;
        let status = ended.map_err(|error| format!("the browsers: {error}"))?;
        match status.success() {
            true => Ok(()),
            false => Err(self.last_words(&format!("the browsers ended with {status}")).await),
        }
    }

    async fn say(&mut self, line: &str) -> Result<(), String> {
        let line = format!("{line}\n");
        let said = self.phases.write_all(line.as_bytes()).await;
        match (said, self.child.try_wait()) {
            (Ok(()), Ok(None)) => Ok(()),
            (Ok(()) | Err(_), _) => Err(self.last_words("the browsers have ended").await),
        }
    }

    async fn last_words(&mut self, what: &str) -> String {
        // They are whole when the process has ended.
        let _ = self.child.start_kill();
        let complaints = (&mut self.complaints).await.unwrap_or_default();
        let last = (&mut self.reading).await.unwrap_or_default();
        format!("{what}: {complaints}; the last page: {last}")
    }
}

/// The word by which the program knows a phase.
fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Before => "before",
        Phase::Gathering => "gathering",
        Phase::Away => "away",
        Phase::Killed => "killed",
        Phase::Back => "back",
    }
}

fn note(record: &Record, line: &str) {
    let Ok(page) = serde_json::from_str::<Page>(line) else { return };
    let Page { who, page, status, ms, said, cancels, done } = page;
    if let Some(id) = cancels {
        let word = if done { Word::Accepted } else { Word::Unknown };
        record.answer(&id, Deed::Cancel, word);
    }
    record.see(Seen {
        what: format!("{who}: {page}"),
        phase: record.phase(),
        took: Duration::from_secs_f64(ms.max(0.0) / 1_000.0),
        outcome: if status == 0 { Outcome::NoAnswer } else { Outcome::Status(status) },
        said: Some(said).filter(|said| !said.is_empty()),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_noted_in_its_phase_with_what_it_said() {
        let record = Record::default();
        record.begin(Phase::Away);
        let page = r#"{"who":"olivia","page":"overview","status":200,"ms":12.5,"said":"x: away","done":false}"#;
        note(&record, page);
        note(
            &record,
            r#"{"who":"omar","page":"overview","status":0,"ms":3,"said":"","done":false}"#,
        );
        note(&record, "no page");
        let seen = record.take().seen;
        assert_eq!(seen.len(), 2);
        assert_eq!((seen[0].what.as_str(), seen[0].phase), ("olivia: overview", Phase::Away));
        assert_eq!(
            (seen[0].took, seen[0].said.as_deref()),
            (Duration::from_micros(12_500), Some("x: away"))
        );
        assert_eq!((seen[1].outcome, seen[1].said.as_deref()), (Outcome::NoAnswer, None));
    }

    #[test]
    fn what_a_page_did_not_say_is_done_is_unknown() {
        let record = Record::default();
        for done in ["true", "false"] {
            let canceled = format!(
                r#"{{"who":"omar","page":"cancel","status":200,"ms":3,"said":"","cancels":"t","done":{done}}}"#
            );
            note(&record, &canceled);
        }
        let words: Vec<Word> = record.take().answered.iter().map(|one| one.word).collect();
        assert_eq!(words, [Word::Accepted, Word::Unknown]);
    }
}
