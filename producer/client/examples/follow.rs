//! Tells of each transaction that ends, and counts what an account has received.
//!
//! ```sh
//! cargo run -p client --example follow -- bob 10
//! ```
//!
//! It ends after so many different transactions. Events come at least once and in no order, so it
//! drops repeats by the id.

use std::collections::HashSet;
use std::env::{args, var};

use client::{Client, Config, Outcome};

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = args().skip(1).collect();
    let [account, count] = arguments.as_slice() else {
        return Err("usage: follow ACCOUNT TRANSACTIONS".into());
    };
    let client = Client::connect(&config()?).await?;
    let mut outcomes = client.outcomes().await?;
    println!("listening");

    let (mut known, mut received) = (HashSet::new(), 0);
    while known.len() < count.parse()? {
        let ended = outcomes.next().await?;
        if !known.insert(ended.id.clone()) {
            continue;
        }
        match ended.outcome {
            Outcome::Held => println!("{}: held", ended.id),
            Outcome::Done => println!("{}: done", ended.id),
            Outcome::Canceled { message, .. } => println!("{}: canceled: {message}", ended.id),
        }
        if ended.event["state"] == "done" && ended.event["destination"] == account.as_str() {
            // Of a hold, what was captured. Amounts are texts, so that no reader of JSON rounds
            // them.
            let captured = ended.event["captured"].as_array().into_iter().flatten();
            let captured = captured.filter(|leg| leg["account"] == account.as_str());
            let captured = captured.map(|leg| &leg["amount"]).next();
            let value = captured.unwrap_or(&ended.event["value"]).as_str().ok_or("no value")?;
            received += value.parse::<i64>()?;
        }
    }
    println!("{account} has received {received}");
    outcomes.close().await;
    Ok(())
}

fn config() -> Result<Config, Failure> {
    let config = Config::new(var("TANDEM_MONGODB_URI")?, var("TANDEM_AMQP_URL")?);
    let database = var("TANDEM_DATABASE").unwrap_or_else(|_| "tandem".to_owned());
    let prefix = var("TANDEM_QUEUE_PREFIX").unwrap_or_else(|_| "tandem".to_owned());
    Ok(config.database(database).queue_prefix(prefix))
}
