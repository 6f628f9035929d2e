//! Submits a transfer and awaits what becomes of it.
//!
//! ```sh
//! cargo run -p client --example submit -- alice bob 1250
//! ```

use std::env::{args, var};

use client::{Account, Amount, Client, Config, Outcome, Submission};

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = args().skip(1).collect();
    let [from, to, value] = arguments.as_slice() else {
        return Err("usage: submit FROM TO AMOUNT-IN-MINOR-UNITS".into());
    };
    let client = Client::connect(&config()?).await?;
    // Accounts that are there stay as they are.
    let opened = [Account::new(from, Amount::Int(10_000)), Account::new(to, Amount::ZERO)];
    for account in client.create_accounts(&opened).await? {
        account?;
    }

    let receipt = client.submit(Submission::transfer(from, to, value.parse::<i64>()?)).await?;
    println!("{}: submitted", receipt.id);
    match client.outcome(&receipt.id).await? {
        Outcome::Held => println!("{}: reserved", receipt.id),
        Outcome::Done => println!("{}: paid", receipt.id),
        Outcome::Canceled { code, message } => println!("not paid: {message} ({code})"),
    }
    println!("{to} has {}", client.account(to).await?.balance);
    Ok(())
}

fn config() -> Result<Config, Failure> {
    let config = Config::new(var("TANDEM_MONGODB_URI")?, var("TANDEM_AMQP_URL")?);
    let database = var("TANDEM_DATABASE").unwrap_or_else(|_| "tandem".to_owned());
    let prefix = var("TANDEM_QUEUE_PREFIX").unwrap_or_else(|_| "tandem".to_owned());
    Ok(config.database(database).queue_prefix(prefix))
}
