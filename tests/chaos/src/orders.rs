//! Programs that only insert: an order and its payment in one MongoDB transaction of their own, and no
//! message.
//!
//! Owns what they insert and what they were told. Promises that each order is tried again until it is
//! committed, and a sentence for each contradiction between that and the database. Some are aborted:
//! nothing may be left of them. They work through the clerks' kind of link: only faults of the servers
//! hit them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use client::mongodb::Collection;
use client::mongodb::error::Error as DriverError;
use client::{Client, Error, Submission};
use futures_util::{FutureExt, TryStreamExt};
use mongo::Store;
use mongodb::bson::{Document, doc};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::clerk::client;
use super::load::{CURRENCY, any};
use super::verdict::{EXCUSES, Found};

/// The collection of orders.
const ORDERS: &str = "orders";
/// What the ids of orders and payments begin with.
const PREFIX: &str = "order-";
/// How many insert at the same time.
const PROGRAMS: usize = 2;
/// The pause of one between two orders, in milliseconds.
const PAUSE_MS_MAX: u64 = 200;
/// One of so many is aborted.
const ABORTED_ONE_OF: u32 = 8;
/// How long one attempt may take, and the last order after the end.
const LIMIT: Duration = Duration::from_secs(60);
/// The pause between two attempts of one order.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// What a program was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Order and payment are stored.
    Committed,
    /// The program has aborted its transaction.
    Aborted,
    /// An answer that must never be given.
    Odd(String),
    /// No answer in time.
    Unknown,
}

impl Answer {
    /// Its name in the report.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Answer::Committed => "committed",
            Answer::Aborted => "aborted",
            Answer::Odd(_) => "odd",
            Answer::Unknown => "unknown",
        }
    }
}

/// An order, and its payment of the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its id.
    pub id: String,
    /// Signed changes of the payment, debit first.
    pub legs: Vec<(String, i64)>,
    /// What the program was told in the end.
    pub answer: Answer,
}

/// Whose transaction is aborted.
fn aborts(rng: &mut StdRng) -> bool {
    rng.random_range(0..ABORTED_ONE_OF) == 0
}

impl Order {
    fn new(rng: &mut StdRng, program: usize, number: u32) -> Order {
        let value = rng.random_range(1..=50);
        let (from, to) = (any(rng), any(rng));
        let to = if to == from { "hot0".to_owned() } else { to };
        let id = format!("{PREFIX}{program}-{number:06}");
        Order { id, legs: vec![(from, -value), (to, value)], answer: Answer::Unknown }
    }

    fn payment(&self) -> Submission {
        let legs = self.legs.iter().map(|(account, amount)| (account.as_str(), *amount));
        Submission::legs(legs).in_currency(CURRENCY).with_id(self.id.as_str())
    }
}

fn orders(store: &Store) -> Collection<Document> {
    store.database().collection(ORDERS)
}

/// Places orders until it is told to stop; returns all of them.
///
/// # Errors
/// When the environment makes no sense, or the collection can't be made.
pub async fn place(
    env: BTreeMap<String, String>,
    seed: u64,
    stop: watch::Receiver<bool>,
) -> Result<Vec<Order>, String> {
    let client = client(&env, "chaos-orders").await?;
    // A collection that is made within a transaction would conflict with whoever makes it, too.
    let made = client.store().database().create_collection(ORDERS).await;
    made.map_err(|error| error.to_string())?;
    let mut programs: JoinSet<Vec<Order>> =
        (0..PROGRAMS).map(|program| run(client.clone(), seed, program, stop.clone())).collect();
    let mut all = Vec::new();
    while let Some(some) = programs.join_next().await {
        all.extend(some.map_err(|panic| panic.to_string())?);
    }
    client.close().await;
    Ok(all)
}

async fn run(
    client: Client,
    seed: u64,
    program: usize,
    mut stop: watch::Receiver<bool>,
) -> Vec<Order> {
    let mut rng = StdRng::seed_from_u64(seed ^ (program as u64 + 101) << 40);
    let mut placed = Vec::new();
    for number in 0.. {
        let mut order = Order::new(&mut rng, program, number);
        let (aborted, pause) = (aborts(&mut rng), rng.random_range(0..PAUSE_MS_MAX));
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            () = tokio::time::sleep(Duration::from_millis(pause)) => {}
        }
        order.answer = match aborted {
            true => abort(&client, &order).await,
            false => until_told(&client, &order, &stop).await,
        };
        placed.push(order);
    }
    placed
}

/// Places the same order again until it is known what became of it.
async fn until_told(client: &Client, order: &Order, stop: &watch::Receiver<bool>) -> Answer {
    let mut stopped_at = None;
    loop {
        match tokio::time::timeout(LIMIT, commit(client, order)).await {
            Ok(Ok(())) => return Answer::Committed,
            Ok(Err(error)) => match error.get_custom::<Error>() {
                None | Some(Error::Unavailable { .. }) => {}
                Some(odd) => return Answer::Odd(odd.to_string()),
            },
            Err(_) => {}
        }
        if *stop.borrow() {
            let since = stopped_at.get_or_insert_with(Instant::now);
            if since.elapsed() > LIMIT {
                return Answer::Unknown;
            }
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

async fn commit(client: &Client, order: &Order) -> Result<(), DriverError> {
    let mut session = client.mongodb().start_session().await?;
    let context = (client.clone(), orders(client.store()), order.clone());
    let placing = session.start_transaction().and_run(context, |session, context| {
        let (client, orders, order) = context;
        async move {
            let known = orders.find_one(doc! { "_id": &order.id }).session(&mut *session).await?;
            if known.is_none() {
                let document = doc! { "_id": &order.id };
                orders.insert_one(document).session(&mut *session).await?;
                client.submit_in(session, order.payment()).await?;
            }
            Ok(())
        }
        .boxed()
    });
    placing.await
}

/// Whatever fails on the way, nothing of it is committed.
async fn abort(client: &Client, order: &Order) -> Answer {
    let placing = async {
        let mut session = client.mongodb().start_session().await?;
        session.start_transaction().await?;
        let document = doc! { "_id": &order.id };
        orders(client.store()).insert_one(document).session(&mut session).await?;
        client.submit_in(&mut session, order.payment()).await?;
        session.abort_transaction().await
    };
    drop(tokio::time::timeout(LIMIT, placing).await);
    Answer::Aborted
}

/// Which of these orders are in the database.
///
/// # Errors
/// When it can't be read.
pub async fn stored(store: &Store) -> Result<HashSet<String>, DriverError> {
    let found = orders(store).find(doc! {}).await?;
    let id = |order: Document| order.get_str("_id").unwrap_or("?").to_owned();
    found.map_ok(id).try_collect().await
}

/// The contradictions between an order, what its program was told, and the database.
#[must_use]
pub fn of_order(
    order: &Order,
    stored: &HashSet<String>,
    found: &HashMap<String, Found>,
) -> Option<String> {
    let (is_there, payment) = (stored.contains(&order.id), found.get(&order.id));
    let broken = |rule: &str| Some(format!("{rule}: {order:?}, stored {is_there}, {payment:?}"));
    if let Answer::Odd(_) = order.answer {
        return broken("an order got an odd answer");
    }
    if is_there != payment.is_some() {
        return broken("an order without its payment, or a payment without its order");
    }
    match (&order.answer, payment) {
        (Answer::Committed, None) => broken("committed, and lost"),
        (Answer::Aborted, Some(_)) => broken("aborted, and there"),
        (_, None) => None,
        (_, Some(payment)) if !payment.has_legs(&order.legs) => broken("paid with other content"),
        (_, Some(payment)) if !payment.is_final() => broken("a payment that never came to an end"),
        (_, Some(payment)) => {
            let excused = payment.is_done() || EXCUSES.contains(&payment.reason.as_str());
            if excused { None } else { broken("a payment was canceled without a cause") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_and_its_payment_are_both_there_or_neither_and_what_is_aborted_is_not() {
        let legs = vec![("a".to_owned(), -3), ("b".to_owned(), 3)];
        let order = |answer| Order { id: "o".into(), legs: legs.clone(), answer };
        let payment = |state: &str| Found {
            id: "o".into(),
            state: state.into(),
            legs: legs.clone(),
            ..Found::default()
        };
        let judged = |answer, is_there: bool, payment: Option<Found>| {
            let stored = is_there.then(|| "o".to_owned()).into_iter().collect();
            let found = payment.into_iter().map(|found| ("o".to_owned(), found)).collect();
            of_order(&order(answer), &stored, &found)
        };
        let done = || Some(payment("done"));
        assert_eq!(judged(Answer::Committed, true, done()), None);
        assert_eq!(judged(Answer::Unknown, true, done()), None);
        assert_eq!(judged(Answer::Unknown, false, None), None);
        assert_eq!(judged(Answer::Aborted, false, None), None);
        let excused = Found { reason: "insufficient_funds".into(), ..payment("canceled") };
        assert_eq!(judged(Answer::Committed, true, Some(excused)), None);
        let other = Found { legs: vec![], ..payment("done") };
        for (answer, is_there, payment, said) in [
            (Answer::Committed, false, None, "lost"),
            (Answer::Committed, true, None, "without its payment"),
            (Answer::Unknown, false, done(), "without its order"),
            (Answer::Aborted, true, done(), "aborted, and there"),
            (Answer::Odd("why".into()), true, done(), "odd answer"),
            (Answer::Committed, true, Some(payment("pending")), "never came to an end"),
            (Answer::Committed, true, Some(payment("canceled")), "without a cause"),
            (Answer::Committed, true, Some(other), "other content"),
        ] {
            let broken = judged(answer, is_there, payment);
            assert!(broken.as_ref().is_some_and(|broken| broken.contains(said)), "{broken:?}");
        }
    }
}
