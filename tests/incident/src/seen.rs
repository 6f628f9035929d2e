//! What clients and operators have seen, and what they were told of their transactions.
//!
//! Owns the record that all of them write into, and how an answer is read: which of the three words
//! it is, and which sentence it says. Promises that what is noted belongs to the phase in which it
//! was asked. Reading an answer never fails: what makes no sense is noted as it is.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use harness::http::Answer;
use ledger::transaction::State;
use serde_json::Value;

use super::judge::{Answered, Deed, Word};
use super::phase::Phase;

/// How an answer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// With this status.
    Status(u16),
    /// None came, or the connection was closed.
    NoAnswer,
}

/// One request, or one page.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Who did what, as it stands in the table.
    pub what: String,
    /// When it was asked.
    pub phase: Phase,
    /// Until the answer was there, or nobody waited for it any more.
    pub took: Duration,
    /// How it began.
    pub outcome: Outcome,
    /// What it said of a problem.
    pub said: Option<String>,
}

/// Everything that was seen and told.
#[derive(Debug, Default)]
pub struct Told {
    /// Every request and page.
    pub seen: Vec<Seen>,
    /// What was told of each deed.
    pub answered: Vec<Answered>,
    /// Ends that were told of transactions.
    pub ends: Vec<(String, State)>,
    /// Transactions that were accepted and of which it was said later that they are not there.
    pub lost: Vec<String>,
    /// What probes were told that should not be.
    pub probes: Vec<String>,
}

/// What everybody writes into.
#[derive(Debug)]
pub struct Record {
    phase: Mutex<Phase>,
    told: Mutex<Told>,
}

impl Default for Record {
    fn default() -> Record {
        Record { phase: Mutex::new(Phase::Before), told: Mutex::default() }
    }
}

impl Record {
    /// The phase of this moment.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *held(&self.phase)
    }

    /// Another phase begins.
    pub fn begin(&self, phase: Phase) {
        *held(&self.phase) = phase;
    }

    /// Notes a request or page.
    pub fn see(&self, seen: Seen) {
        held(&self.told).seen.push(seen);
    }

    /// Notes what was told of a deed.
    pub fn answer(&self, id: &str, deed: Deed, word: Word) {
        held(&self.told).answered.push(Answered { id: id.to_owned(), deed, word });
    }

    /// Notes the end that an answer tells of a transaction, if it tells one.
    pub fn end(&self, id: &str, answer: &Answer) {
        let state = json(answer)["state"].as_str().and_then(State::parse);
        if let Some(state) = state.filter(|state| state.is_final()) {
            held(&self.told).ends.push((id.to_owned(), state));
        }
    }

    /// Notes that an accepted transaction was not found.
    pub fn lose(&self, id: &str) {
        held(&self.told).lost.push(id.to_owned());
    }

    /// Notes what a probe was told that should not be.
    pub fn probe(&self, told: String) {
        held(&self.told).probes.push(told);
    }

    /// How many requests and pages there were, and how many had no answer.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let told = held(&self.told);
        let none = told.seen.iter().filter(|seen| seen.outcome == Outcome::NoAnswer).count();
        (told.seen.len(), none)
    }

    /// Everything, when nobody writes any more.
    #[must_use]
    pub fn take(&self) -> Told {
        std::mem::take(&mut held(&self.told))
    }
}

fn held<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The body of an answer; nothing where it is no JSON.
#[must_use]
pub fn json(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_default()
}

/// Which of the three words an answer is. Every problem but `unknown` says that nothing was done.
#[must_use]
pub fn word(answer: Option<&Answer>) -> Word {
    let Some(answer) = answer else { return Word::Unknown };
    if (200..300).contains(&answer.status) {
        return Word::Accepted;
    }
    match json(answer)["type"].as_str() {
        Some("urn:tandem:problem:unknown") | None => Word::Unknown,
        Some(_) => Word::Refused,
    }
}

/// The sentence of the problem that an answer tells of; none of a success.
#[must_use]
pub fn sentence(answer: Option<&Answer>) -> Option<String> {
    let answer = answer?;
    if (200..300).contains(&answer.status) {
        return None;
    }
    let problem = json(answer);
    let said = problem["detail"].as_str().or(problem["title"].as_str());
    Some(said.unwrap_or(&answer.body).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer { status, head: String::new(), body: body.to_owned() }
    }

    fn problem(status: u16, word: &str) -> Answer {
        let problem = serde_json::json!({
            "type": format!("urn:tandem:problem:{word}"), "title": "a title", "detail": "why",
        });
        answer(status, &problem.to_string())
    }

    #[test]
    fn an_answer_is_one_of_three_words_and_nothing_said_is_unknown() {
        assert_eq!(word(None), Word::Unknown);
        assert_eq!(word(Some(&answer(202, "{}"))), Word::Accepted);
        assert_eq!(word(Some(&problem(503, "unavailable"))), Word::Refused);
        assert_eq!(word(Some(&problem(503, "unknown"))), Word::Unknown);
        assert_eq!(word(Some(&problem(429, "rate-limited"))), Word::Refused);
        // Of something that stands in between.
        assert_eq!(word(Some(&answer(502, "Bad gateway"))), Word::Unknown);
    }

    #[test]
    fn the_sentence_of_a_problem_is_its_detail() {
        assert_eq!(sentence(Some(&problem(503, "unavailable"))).as_deref(), Some("why"));
        assert_eq!(sentence(Some(&answer(502, "Bad gateway"))).as_deref(), Some("Bad gateway"));
        assert_eq!(sentence(Some(&answer(200, "{}"))), None);
        assert_eq!(sentence(None), None);
    }

    #[test]
    fn only_final_states_count_as_ends_that_were_told() {
        let record = Record::default();
        record.end("a", &answer(200, r#"{"state":"done"}"#));
        record.end("b", &answer(202, r#"{"state":"initial"}"#));
        record.end("c", &answer(503, "no JSON"));
        assert_eq!(record.take().ends, [("a".to_owned(), State::Done)]);
    }
}
