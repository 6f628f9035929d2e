//! Producers: one chunk of rows after another, each submitted until its outcome is known.
//!
//! A producer process that dies is started again with the same file. Its last answers, row by row,
//! are kept, and the ledger is judged by them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::{Mutex, mpsc, watch};

use super::clerk::{Ask, Task};
use super::faults::now_ms;
use super::load::{Load, Row, Sort};
use super::programs::Place;

/// How far a delayed producer may fall behind its pace before it leaves rows out.
const LAG_MAX: Duration = Duration::from_secs(15);
/// How long the last chunk may take after the end.
const LAST_CHUNK_LIMIT: Duration = Duration::from_secs(120);
/// A producer that waits reports a row as unfinished after so long.
const WAIT_LIMIT_S: &str = "45";
/// The pause between two attempts of one chunk.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// What a producer was told about a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is in the ledger, by this submission.
    Submitted,
    /// It existed before.
    Known,
    /// It is in the ledger, and was not final when the producer had waited long enough.
    Unfinished,
    /// It is on hold.
    Held,
    /// Another content has its id.
    Conflict,
    /// It is no valid row.
    Invalid,
    /// It is settled.
    Done,
    /// It is canceled, and why.
    Canceled(String),
    /// No answer, because no attempt came to its end.
    Unknown,
}

impl Told {
    fn parse(line: &str) -> Result<Told, String> {
        let told: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let text = |field: &str| told[field].as_str().unwrap_or_default();
        Ok(match text("outcome") {
            "submitted" => Told::Submitted,
            "scheduled" | "initial" | "pending" | "applied" | "canceling" => Told::Unfinished,
            "held" => Told::Held,
            "unchanged" => Told::Known,
            "conflict" => Told::Conflict,
            "invalid" => Told::Invalid,
            "done" => Told::Done,
            "canceled" => Told::Canceled(text("reason").to_owned()),
            other => return Err(format!("the outcome {other:?} is not known")),
        })
    }
}

/// One producer.
pub struct Producer {
    /// Where its process runs.
    pub place: Place,
    /// Its number.
    pub number: usize,
    /// Its rows.
    pub load: Load,
    /// Whether it waits for the end of each chunk.
    pub waits: bool,
    /// Where its files are.
    pub files: PathBuf,
    /// When the submission of each chunk began, in Unix milliseconds.
    pub begun_ms: Mutex<Vec<i64>>,
    /// The answers, by chunk and row.
    pub told: Mutex<Vec<Vec<Told>>>,
    /// Faults of the producer itself, which must never happen.
    pub problems: Mutex<Vec<String>>,
}

impl Producer {
    /// Submits a chunk every `pace` until it is told to stop; then finishes the present one.
    pub async fn run(
        self: Arc<Producer>,
        pace: Duration,
        mut stop: watch::Receiver<bool>,
        asks: mpsc::UnboundedSender<Ask>,
    ) {
        // The clerks stay until all producers have ended.
        let ask = |task: Task, after: Duration| drop(asks.send(Ask { task, after }));
        let mut due = Instant::now();
        for chunk in 0.. {
            let wait = due.saturating_duration_since(Instant::now());
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(wait) => {}
            }
            due = (due + pace).max(Instant::now().checked_sub(LAG_MAX).unwrap_or(due));
            let rows = self.load.chunk(self.number, chunk);
            // Clerks act while the rows are being submitted.
            if let Some(id) = to_cancel(&rows, chunk) {
                ask(Task::Cancel(id), Duration::from_millis(u64::from(chunk % 16) * 50));
            }
            let begun_ms = self.begin().await;
            for one in rows.iter().filter_map(|row| asks_while_scheduled(row, begun_ms)) {
                ask(one.task, one.after);
            }
            let told = self.submit(chunk, &rows, &mut stop).await;
            for one in rows.iter().zip(&told).flat_map(|(row, told)| asks_about(row, told)) {
                ask(one.task, one.after);
            }
            self.told.lock().await.push(told);
            if let Some(id) = transfer(&rows, 40 + chunk as usize % 40) {
                ask(Task::Reverse(id), Duration::ZERO);
            }
        }
    }

    /// Notes that the submission of the next chunk begins now.
    async fn begin(&self) -> i64 {
        let now_ms = now_ms();
        self.begun_ms.lock().await.push(now_ms);
        now_ms
    }

    /// Submits a chunk until its outcome is told.
    async fn submit(
        &self,
        chunk: u32,
        rows: &[Row],
        stop: &mut watch::Receiver<bool>,
    ) -> Vec<Told> {
        let file = self.files.join(format!("{}-{chunk:06}.jsonl", self.place.name));
        let results = self.files.join(format!("{}-{chunk:06}.results.jsonl", self.place.name));
        let text = {
            let begun_ms = self.begun_ms.lock().await;
            // A row of an earlier chunk is repeated as it was.
            let line = |row: &Row| row.line(begun_ms[row.chunk as usize]) + "\n";
            rows.iter().map(line).collect::<String>()
        };
        std::fs::write(&file, text).expect("the chunk can be written");
        let (file_name, results_name) = (file.display().to_string(), results.display().to_string());
        let mut arguments =
            vec!["submit", &file_name, "--skip-invalid", "--json", "--results", &results_name];
        if self.waits {
            arguments.extend(["--wait", "--wait-limit", WAIT_LIMIT_S]);
        }
        let mut stopped_at = None;
        loop {
            self.place.start(&arguments).await;
            let ended = loop {
                if let Some(ended) = self.place.ended().await {
                    break ended;
                }
                tokio::time::sleep(Duration::from_millis(15)).await;
                if *stop.borrow_and_update() {
                    let since = stopped_at.get_or_insert_with(Instant::now);
                    if since.elapsed() > LAST_CHUNK_LIMIT {
                        self.place.kill().await;
                        self.problem(format!("chunk {chunk} was not told after the end")).await;
                        return vec![Told::Unknown; rows.len()];
                    }
                }
            };
            match read_results(&results, rows.len()) {
                Ok(Some(told)) => {
                    self.place.forget_log();
                    let _ = std::fs::remove_file(&file);
                    let _ = std::fs::remove_file(&results);
                    return told;
                }
                // The process was killed, or gave up because a server stayed away; the log says
                // why.
                Ok(None) if ended.status.is_none_or(|status| status.code() != Some(2)) => {}
                Ok(None) => {
                    self.problem(format!("its file was refused: {}", ended.last_words)).await
                }
                Err(problem) => self.problem(problem).await,
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    async fn problem(&self, problem: String) {
        self.problems.lock().await.push(format!("{}: {problem}", self.place.name));
    }
}

/// The transfer of a chunk that a clerk cancels.
#[must_use]
pub fn to_cancel(rows: &[Row], chunk: u32) -> Option<String> {
    transfer(rows, chunk as usize % 40)
}

fn transfer(rows: &[Row], number: usize) -> Option<String> {
    let mut transfers = rows.iter().filter(|row| row.sort == Sort::Transfer);
    transfers.nth(number).map(|row| row.id.clone())
}

/// Whether a row stands in this chunk for the first time.
fn is_new(row: &Row) -> bool {
    matches!(row.sort, Sort::Transfer | Sort::Refused)
}

/// What the clerks are asked to do with a row while it is scheduled, once.
fn asks_while_scheduled(row: &Row, begun_ms: i64) -> Option<Ask> {
    is_new(row).then(|| row.terms.ask(&row.id, begun_ms)).flatten()
}

/// What the clerks are asked to do with a row, each hold once.
fn asks_about(row: &Row, told: &Told) -> Vec<Ask> {
    let has_ended = matches!(told, Told::Canceled(_));
    let hold = row.hold.filter(|_| is_new(row) && !has_ended);
    hold.map_or_else(Vec::new, |hold| hold.asks(row))
}

/// The answers; `None` if the results were not written to their end.
fn read_results(path: &Path, rows: usize) -> Result<Option<Vec<Told>>, String> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(None) };
    let told: Result<Vec<Told>, String> = text.lines().map(Told::parse).collect();
    let told = told.map_err(|problem| format!("{}: {problem}", path.display()))?;
    if told.len() != rows {
        return Err(format!("{}: {} results for {rows} rows", path.display(), told.len()));
    }
    Ok(Some(told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_read_from_the_results() {
        let line = |outcome: &str, reason: &str| {
            format!(
                r#"{{"line":1,"transaction":"t","outcome":"{outcome}","reason":"{reason}","message":""}}"#
            )
        };
        assert_eq!(Told::parse(&line("submitted", "")), Ok(Told::Submitted));
        assert_eq!(Told::parse(&line("applied", "")), Ok(Told::Unfinished));
        assert_eq!(Told::parse(&line("unchanged", "")), Ok(Told::Known));
        assert_eq!(Told::parse(&line("held", "")), Ok(Told::Held));
        let canceled = Told::Canceled("account_frozen".to_owned());
        assert_eq!(Told::parse(&line("canceled", "account_frozen")), Ok(canceled));
        assert!(Told::parse(&line("gone", "")).is_err() && Told::parse("{").is_err());
    }
}
