//! A follower of the numbers: what somebody knows of all ends who only asks for what comes next.
//!
//! Owns a task that follows from the first number on during the whole run, through every fault.
//! Promises a verdict: the numbers it was told have no gap, each end has one, reading them all once
//! more says the same, and books that are kept by them are those of the accounts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use client::{Client, EndFilter, Ended, Error, LIMIT_MAX};
use harness::laid_out;
use ledger::event::End;
use mongo::{Store, TRANSACTIONS};
use mongodb::bson::doc;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::{books, clerk};

/// How long it may take until all ends have numbers, once all transactions are final.
const NUMBERED_LIMIT: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(100);

/// An end as it was told: its number, the transaction, and how it ended.
type Told = (u64, String, String);

/// What a follower was told.
struct Heard {
    told: Vec<Told>,
    /// The balances that it keeps.
    books: BTreeMap<String, i64>,
}

/// A follower at work.
pub struct Numbers {
    client: Client,
    following: JoinHandle<Result<Heard, String>>,
    /// Tells it how many ends there are in all, once that is known.
    count: tokio::sync::watch::Sender<Option<u64>>,
}

impl Numbers {
    /// Starts to follow.
    ///
    /// # Errors
    /// When the settings make no sense.
    pub async fn follow(env: &BTreeMap<String, String>) -> Result<Numbers, String> {
        let client = clerk::client(env, "follower").await?;
        let (count, known) = tokio::sync::watch::channel(None);
        let follower = client.clone();
        let following = tokio::spawn(async move {
            let mut heard = Heard { told: Vec::new(), books: books::opened() };
            let (mut after, mut known_at) = (0, None);
            loop {
                let page = follower.ended_after(after, LIMIT_MAX, &EndFilter::default()).await;
                match page {
                    Ok(page) => {
                        after = page.next;
                        page.items.iter().for_each(|end| heard.hear(end.number, &end.ended));
                    }
                    Err(Error::Unavailable { .. }) => {}
                    Err(error) => return Err(format!("a follower was told: {error}")),
                }
                if let Some(count) = *known.borrow() {
                    let since: &mut Instant = known_at.get_or_insert_with(Instant::now);
                    if heard.told.len() as u64 >= count || since.elapsed() > NUMBERED_LIMIT {
                        return Ok(heard);
                    }
                }
                tokio::time::sleep(POLL).await;
            }
        });
        Ok(Numbers { client, following, count })
    }

    /// Waits until it was told of all ends, and compares; `others` is what nobody tells of. Returns
    /// how many there were, and what is wrong.
    ///
    /// # Errors
    /// When the database can't be read.
    pub async fn close(
        self,
        store: &Store,
        others: &HashMap<String, i64>,
    ) -> Result<(usize, Vec<String>), String> {
        let failed = |error: mongodb::error::Error| error.to_string();
        let mut ends = Vec::new();
        for end in End::ALL {
            let ended = doc! { "state": end.as_str(), "line": { "$exists": true } };
            ends.push((end, laid_out::count(store, TRANSACTIONS, ended).await.map_err(failed)?));
        }
        let Numbers { client, following, count } = self;
        count.send_replace(Some(ends.iter().map(|(_, count)| count).sum()));
        let Heard { told, books } = match following.await.map_err(|panic| panic.to_string())? {
            Ok(heard) => heard,
            Err(problem) => return Ok((0, vec![problem])),
        };
        let wrong_books = books::compare(store, &books, others).await?.into_iter();
        let mut wrong: Vec<String> =
            wrong_books.map(|problem| format!("by the numbers, {problem}")).collect();
        for (end, count) in ends {
            let numbered = told.iter().filter(|(.., state)| state == end.as_str()).count();
            if numbered as u64 != count {
                wrong.push(format!("{count} are {}, and {numbered} have numbers", end.as_str()));
            }
        }
        if let Some((at, (number, ..))) = (1..).zip(&told).find(|(at, (number, ..))| at != number) {
            wrong.push(format!("a follower was told of {number} in place of {at}"));
        }
        let ids: HashSet<&str> = told.iter().map(|(_, id, _)| id.as_str()).collect();
        if ids.len() != told.len() {
            wrong.push(format!("{} ends have two numbers", told.len() - ids.len()));
        }
        if again(&client, told.len()).await? != told {
            wrong.push("the numbers say something else when they are read again".to_owned());
        }
        Ok((told.len(), wrong))
    }
}

impl Heard {
    fn hear(&mut self, number: u64, ended: &Ended) {
        self.told.push(told_of(number, ended));
        if ended.event["state"] != End::Done.state().as_str() {
            return;
        }
        for (account, amount) in effect(&ended.event) {
            *self.books.entry(account).or_default() += amount;
        }
    }
}

/// What an event of what is done says of each account, in minor units.
fn effect(event: &Value) -> Vec<(String, i64)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    // What is no whole number of minor units is missed when the books are compared.
    let amount = |value: &Value| value.as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
    let legs = event.get("captured").or_else(|| event.get("legs")).and_then(Value::as_array);
    match legs {
        Some(legs) => {
            legs.iter().map(|leg| (text(&leg["account"]), amount(&leg["amount"]))).collect()
        }
        None => {
            let value: i64 = amount(&event["value"]);
            vec![(text(&event["source"]), -value), (text(&event["destination"]), value)]
        }
    }
}

async fn again(client: &Client, count: usize) -> Result<Vec<Told>, String> {
    let (mut told, mut after) = (Vec::with_capacity(count), 0);
    loop {
        let page = client.ended_after(after, LIMIT_MAX, &EndFilter::default()).await;
        let page = page.map_err(|error| error.to_string())?;
        told.extend(page.items.iter().map(|end| told_of(end.number, &end.ended)));
        after = page.next;
        if page.is_last {
            return Ok(told);
        }
    }
}

fn told_of(number: u64, ended: &Ended) -> Told {
    let state = ended.event["state"].as_str().unwrap_or_default();
    (number, ended.id.to_string(), state.to_owned())
}
