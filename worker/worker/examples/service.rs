//! A settlement service in one program: lines `FROM TO AMOUNT` on standard input are submitted, a
//! worker of the same process settles them, and each line is answered.
//!
//! ```sh
//! echo 'alice bob 1250' | cargo run -p worker --example service
//! ```

use std::env::var;

use client::{Account, Amount, Client, Outcome, Submission};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::task::JoinSet;
use worker::Worker;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (mongodb, amqp) = (var("TANDEM_MONGODB_URI")?, var("TANDEM_AMQP_URL")?);
    let database = var("TANDEM_DATABASE").unwrap_or_else(|_| "tandem".to_owned());
    let prefix = var("TANDEM_QUEUE_PREFIX").unwrap_or_else(|_| "tandem".to_owned());
    let mut settings = worker::Config::new(&mongodb, &amqp);
    settings.mongo.database = Some(database.clone());
    settings.amqp.queue_prefix.clone_from(&prefix);
    let config = client::Config::new(&mongodb, &amqp).database(database).queue_prefix(prefix);
    let client = Client::connect(&config).await?;
    let worker = Worker::new(settings).start();

    let mut lines = BufReader::new(stdin()).lines();
    let mut answers = JoinSet::new();
    while let Some(line) = lines.next_line().await? {
        let client = client.clone();
        // Concurrent submissions share inserts and publishes.
        answers.spawn(async move {
            let answer = settle(&client, &line).await;
            println!("{line}: {}", answer.unwrap_or_else(|failure| failure.to_string()));
        });
    }
    answers.join_all().await;
    worker.stop();
    Ok(worker.wait().await?)
}

async fn settle(client: &Client, line: &str) -> Result<String, Failure> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [from, to, value] = fields.as_slice() else { return Err("is not FROM TO AMOUNT".into()) };
    let opened = [Account::new(from, Amount::Int(10_000)), Account::new(to, Amount::ZERO)];
    client.create_accounts(&opened).await?;
    let receipt = client.submit(Submission::transfer(from, to, value.parse::<i64>()?)).await?;
    Ok(match client.outcome(&receipt.id).await? {
        Outcome::Held => "reserved".to_owned(),
        Outcome::Done => "paid".to_owned(),
        Outcome::Canceled { message, .. } => format!("not paid: {message}"),
    })
}
