//! Clients of the API: shops that submit and decide, and people who look.
//!
//! Owns what each does next ([`next`], which is pure) and how it goes about it: one request after
//! the other with a pause between them, each with a connection of its own. What had no answer, or
//! one that leaves it open, is asked once more, with the same id. Promises to note every answer.
//! Nothing fails: what goes wrong is what is to be seen.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::http::{self, Answer};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use super::judge::{Deed, Word};
use super::phase::over;
use super::seen::{Outcome, Record, Seen, sentence, word};

/// How long a client waits for an answer.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How long a submission waits for its outcome.
const WAIT_S: u32 = 5;
/// Between two requests of a client, in milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 1_000..4_000;
/// Before something is asked once more.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const VALUE_MAX: i64 = 50;
const NOT_FOUND: u16 = 404;

/// Who signs in as what.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// Submits, decides holds, and reads.
    pub shop: String,
    /// Only reads.
    pub reader: String,
    /// Operates, decides holds, and reads.
    pub operator: String,
}

/// Where clients go, and what they write their answers into.
#[derive(Clone)]
pub struct Place {
    /// What stands before the servers of the API.
    pub address: SocketAddr,
    /// Their tokens.
    pub tokens: Tokens,
    /// How many accounts there are.
    pub accounts: usize,
    /// What was seen.
    pub record: Arc<Record>,
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Submits a transfer.
    Submit,
    /// Submits a transfer, and waits for its outcome.
    SubmitAndWait,
    /// Submits a hold.
    Hold,
    /// Confirms the hold in this place of its own.
    Confirm(usize),
    /// Releases the hold in this place.
    Release(usize),
    /// Cancels the transfer in this place.
    Cancel(usize),
    /// Reads the transaction in this place.
    Read(usize),
    /// Reads the statement of an account.
    Statement,
    /// Lists the newest transactions.
    List,
    /// Lists the transactions of an account.
    ListOfAccount,
    /// Lists dead letters.
    Letters,
    /// Reads the overview.
    Overview,
}

impl Action {
    /// Its name in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Action::Submit => "submit",
            Action::SubmitAndWait => "submit, `wait=5`",
            Action::Hold => "submit a hold",
            Action::Confirm(_) => "confirm a hold",
            Action::Release(_) => "release a hold",
            Action::Cancel(_) => "cancel",
            Action::Read(_) => "read a transaction",
            Action::Statement => "read a statement",
            Action::List => "list transactions",
            Action::ListOfAccount => "list transactions of an account",
            Action::Letters => "list dead letters",
            Action::Overview => "read the overview",
        }
    }
}

/// A transaction of a client, which was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// Its id.
    pub id: String,
    /// Whether it is a hold.
    pub is_hold: bool,
    /// Whether the client has asked for a decision.
    pub is_decided: bool,
}

/// What a client does next; what it can do depends on what it has.
#[must_use]
pub fn next(random: &mut StdRng, own: &[Own]) -> Action {
    let undecided = |is_hold: bool| {
        let fits = move |one: &&Own| one.is_hold == is_hold && !one.is_decided;
        own.iter().rposition(|one| fits(&one))
    };
    match (random.random_range(0..100), undecided(true), undecided(false)) {
        (0..30, _, _) => Action::Submit,
        (30..40, _, _) => Action::SubmitAndWait,
        (40..50, _, _) => Action::Hold,
        (50..56, Some(place), _) => Action::Confirm(place),
        (56..60, Some(place), _) => Action::Release(place),
        (60..64, _, Some(place)) => Action::Cancel(place),
        (64..78, _, _) if !own.is_empty() => Action::Read(random.random_range(0..own.len())),
        (78..84, _, _) => Action::Statement,
        (84..89, _, _) => Action::List,
        (89..94, _, _) => Action::ListOfAccount,
        (94..97, _, _) => Action::Letters,
        (97..100, _, _) => Action::Overview,
        // There is nothing yet that it could decide or read.
        (_, _, _) => Action::Submit,
    }
}

/// One client.
pub struct Client {
    place: Place,
    number: usize,
    random: StdRng,
    own: Vec<Own>,
    submitted: usize,
}

impl Client {
    /// The client of this number.
    #[must_use]
    pub fn new(place: Place, number: usize) -> Client {
        let random = StdRng::seed_from_u64(number as u64);
        Client { place, number, random, own: Vec::new(), submitted: 0 }
    }

    /// Goes on until it is told to stop.
    pub async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        loop {
            let pause = Duration::from_millis(self.random.random_range(PAUSE_MS));
            tokio::select! {
                () = over(&mut stopped) => return,
                () = sleep(pause) => {}
            }
            let action = next(&mut self.random, &self.own);
            self.act(action).await;
        }
    }

    async fn act(&mut self, action: Action) {
        let tokens = self.place.tokens.clone();
        match action {
            Action::Submit => self.submit(action, false, None).await,
            Action::SubmitAndWait => self.submit(action, false, Some(WAIT_S)).await,
            Action::Hold => self.submit(action, true, None).await,
            Action::Confirm(at) => self.decide(action, at, Deed::Confirm).await,
            Action::Release(at) => self.decide(action, at, Deed::Release).await,
            Action::Cancel(at) => self.decide(action, at, Deed::Cancel).await,
            Action::Read(at) => self.read(action, at).await,
            Action::Statement => {
                let path = format!("/v1/accounts/{}/statement", self.account());
                self.look(action, &tokens.reader, &path).await;
            }
            Action::List => self.look(action, &tokens.reader, "/v1/transactions").await,
            Action::ListOfAccount => {
                let path = format!("/v1/transactions?account={}", self.account());
                self.look(action, &tokens.reader, &path).await;
            }
            Action::Letters => self.look(action, &tokens.operator, "/v1/dead-letters").await,
            Action::Overview => self.look(action, &tokens.reader, "/v1/overview").await,
        }
    }

    async fn submit(&mut self, action: Action, is_hold: bool, wait: Option<u32>) {
        self.submitted += 1;
        let id = format!("client-{}-{}", self.number, self.submitted);
        let source = self.random.random_range(0..self.place.accounts);
        let destination = (source + 1) % self.place.accounts;
        let mut transfer = json!({
            "id": id, "source": account(source), "destination": account(destination),
            "value": self.random.random_range(1..=VALUE_MAX),
        });
        if is_hold {
            transfer["hold"] = json!(true);
        }
        let wait = wait.map_or(String::new(), |seconds| format!("?wait={seconds}"));
        let path = format!("/v1/transactions{wait}");
        let (word, answer) = self.insist(action.name(), &path, &transfer).await;
        let Place { record, .. } = &self.place;
        record.answer(&id, Deed::Submit, word);
        if let Some(answer) = answer.filter(|_| word == Word::Accepted) {
            record.end(&id, &answer);
            self.own.push(Own { id, is_hold, is_decided: false });
        }
    }

    async fn decide(&mut self, action: Action, at: usize, deed: Deed) {
        let Own { id, is_decided, .. } = &mut self.own[at];
        *is_decided = true;
        let id = id.clone();
        let path = format!("/v1/transactions/{id}/{}", deed.name());
        let (word, answer) = self.insist(action.name(), &path, &Value::Null).await;
        self.place.record.answer(&id, deed, word);
        if let Some(answer) = answer.filter(|_| word == Word::Accepted) {
            self.place.record.end(&id, &answer);
        }
    }

    async fn read(&mut self, action: Action, at: usize) {
        let id = self.own[at].id.clone();
        let path = format!("/v1/transactions/{id}");
        let request = ("GET", path.as_str());
        let token = self.place.tokens.shop.clone();
        let Some(answer) = self.place.ask(action.name(), request, &token, "").await else { return };
        if answer.status == NOT_FOUND {
            self.place.record.lose(&id);
        }
        self.place.record.end(&id, &answer);
    }

    async fn look(&mut self, action: Action, token: &str, path: &str) {
        self.place.ask(action.name(), ("GET", path), token, "").await;
    }

    /// Asks, and once more if it is not known what became of the first request.
    async fn insist(&self, what: &str, path: &str, body: &Value) -> (Word, Option<Answer>) {
        let (place, token) = (&self.place, &self.place.tokens.shop);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = place.ask(what, ("POST", path), token, &body).await;
        let first = word(answer.as_ref());
        if first != Word::Unknown {
            return (first, answer);
        }
        sleep(AGAIN_AFTER).await;
        let answer = place.ask(what, ("POST", path), token, &body).await;
        (first.then(word(answer.as_ref())), answer)
    }

    fn account(&mut self) -> String {
        account(self.random.random_range(0..self.place.accounts))
    }
}

impl Place {
    /// Asks once, and notes the answer.
    pub async fn ask(
        &self,
        what: &str,
        (method, path): (&str, &str),
        token: &str,
        body: &str,
    ) -> Option<Answer> {
        let (phase, begun) = (self.record.phase(), Instant::now());
        let authorization = format!("Bearer {token}");
        let mut headers = vec![("Authorization", authorization.as_str())];
        if !body.is_empty() {
            headers.push(("Content-Type", "application/json"));
        }
        let answer = http::send(self.address, method, path, &headers, body, PATIENCE).await;
        let outcome = match &answer {
            Some(answer) => Outcome::Status(answer.status),
            None => Outcome::NoAnswer,
        };
        let (what, said) = (what.to_owned(), sentence(answer.as_ref()));
        self.record.see(Seen { what, phase, took: begun.elapsed(), outcome, said });
        answer
    }
}

/// The account of this number.
#[must_use]
pub fn account(number: usize) -> String {
    format!("account-{number:04}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn own(is_hold: bool, is_decided: bool) -> Own {
        Own { id: "t".to_owned(), is_hold, is_decided }
    }

    #[test]
    fn whoever_has_nothing_decides_nothing() {
        let mut random = StdRng::seed_from_u64(1);
        for _ in 0..10_000 {
            let action = next(&mut random, &[]);
            let names_one = matches!(
                action,
                Action::Confirm(_) | Action::Release(_) | Action::Cancel(_) | Action::Read(_)
            );
            assert!(!names_one, "{action:?}");
        }
    }

    #[test]
    fn everything_is_done_now_and_then_and_nothing_is_decided_twice() {
        let all = [own(true, true), own(true, false), own(false, false), own(false, true)];
        let (mut random, mut names) = (StdRng::seed_from_u64(1), BTreeSet::new());
        for _ in 0..10_000 {
            let action = next(&mut random, &all);
            names.insert(action.name());
            match action {
                Action::Confirm(at) | Action::Release(at) => assert_eq!(at, 1),
                Action::Cancel(at) => assert_eq!(at, 2),
                Action::Read(at) => assert!(at < all.len()),
                Action::Submit
                | Action::SubmitAndWait
                | Action::Hold
                | Action::Statement
                | Action::List
                | Action::ListOfAccount
                | Action::Letters
                | Action::Overview => {}
            }
        }
        assert_eq!(names.len(), 12, "{names:?}");
    }
}
