//! A follower of the numbers: what somebody knows of all ends who only asks for what comes next.
//!
//! Owns a task that follows from the first number on during the whole run, through every fault.
//! Promises a verdict: the numbers it was told have no gap, each end has one, and reading them all
//! once more says the same.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use client::{Client, EndFilter, Error, LIMIT_MAX};
use harness::laid_out;
use ledger::event::End;
use mongo::{Store, TRANSACTIONS};
use mongodb::bson::doc;
use tokio::task::JoinHandle;

use super::clerk;

/// How long it may take until all ends have numbers, once all transactions are final.
const NUMBERED_LIMIT: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(100);

/// An end as it was told: its number, the transaction, and how it ended.
type Told = (u64, String, String);

/// A follower at work.
pub struct Numbers {
    client: Client,
    following: JoinHandle<Result<Vec<Told>, String>>,
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
            let (mut told, mut after, mut known_at) = (Vec::new(), 0, None);
            loop {
                let page = follower.ended_after(after, LIMIT_MAX, &EndFilter::default()).await;
                match page {
                    Ok(page) => {
                        after = page.next;
                        told.extend(page.items.iter().map(|end| told_of(end.number, &end.ended)));
                    }
                    Err(Error::Unavailable { .. }) => {}
                    Err(error) => return Err(format!("a follower was told: {error}")),
                }
                if let Some(count) = *known.borrow() {
                    let since: &mut Instant = known_at.get_or_insert_with(Instant::now);
                    if told.len() as u64 >= count || since.elapsed() > NUMBERED_LIMIT {
                        return Ok(told);
                    }
                }
                tokio::time::sleep(POLL).await;
            }
        });
        Ok(Numbers { client, following, count })
    }

    /// Waits until it was told of all ends, and compares. Returns how many there were, and what is
    /// wrong.
    ///
    /// # Errors
    /// When the database can't be read.
    pub async fn close(self, store: &Store) -> Result<(usize, Vec<String>), String> {
        let failed = |error: mongodb::error::Error| error.to_string();
        let mut ends = Vec::new();
        for end in End::ALL {
            let ended = doc! { "state": end.as_str(), "line": { "$exists": true } };
            ends.push((end, laid_out::count(store, TRANSACTIONS, ended).await.map_err(failed)?));
        }
        let Numbers { client, following, count } = self;
        count.send_replace(Some(ends.iter().map(|(_, count)| count).sum()));
        let told = match following.await.map_err(|panic| panic.to_string())? {
            Ok(told) => told,
            Err(problem) => return Ok((0, vec![problem])),
        };
        let mut wrong = Vec::new();
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

fn told_of(number: u64, ended: &client::Ended) -> Told {
    let state = ended.event["state"].as_str().unwrap_or_default();
    (number, ended.id.to_string(), state.to_owned())
}
