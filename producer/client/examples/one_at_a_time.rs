//! Several programs pay from one account to another, and at most one payment is in flight: the key
//! `A-for-B` belongs to one of them until that is decided.
//!
//! ```sh
//! cargo run -p client --example one_at_a_time -- alice bob 5
//! ```

use std::env::{args, var};

use client::{Account, Amount, Client, Config, Error, Outcome, Submission};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = args().skip(1).collect();
    let [from, to, programs] = arguments.as_slice() else {
        return Err("usage: one_at_a_time FROM TO HOW-MANY-PROGRAMS".into());
    };
    let client = Client::connect(&config()?).await?;
    // Accounts that are there stay as they are.
    let opened = [Account::new(from, Amount::Int(10_000)), Account::new(to, Amount::ZERO)];
    for account in client.create_accounts(&opened).await? {
        account?;
    }

    let mut paying = Vec::new();
    for program in 1..=programs.parse::<u32>()? {
        paying.push(tokio::spawn(pay(client.clone(), program, from.clone(), to.clone())));
    }
    for program in paying {
        program.await??;
    }
    println!("{to} has {}", client.account(to).await?.balance);
    Ok(())
}

/// Pays 1 as soon as nobody else is paying.
async fn pay(client: Client, program: u32, from: String, to: String) -> Result<(), Failure> {
    let payment =
        Submission::transfer(&from, &to, 1).with_exclusive_key(format!("{from}-for-{to}"));
    loop {
        // The clone has the same id: whatever happens to this program, it pays once.
        let holder = match client.submit(payment.clone()).await {
            Err(Error::KeyInUse { holder, .. }) => holder,
            submitted => {
                let paid = client.outcome(&submitted?.id).await? == Outcome::Done;
                println!("program {program}: {}", if paid { "paid" } else { "not paid" });
                return Ok(());
            }
        };
        // When it is decided, the key is free, and another program may still be faster.
        client.outcome(&holder).await?;
    }
}

fn config() -> Result<Config, Failure> {
    let config = Config::new(var("TANDEM_MONGODB_URI")?, var("TANDEM_AMQP_URL")?);
    let database = var("TANDEM_DATABASE").unwrap_or_else(|_| "tandem".to_owned());
    let prefix = var("TANDEM_QUEUE_PREFIX").unwrap_or_else(|_| "tandem".to_owned());
    Ok(config.database(database).queue_prefix(prefix))
}
