//! Authorises a card payment, and captures what was delivered: the rest of the reserved money comes
//! home.
//!
//! ```sh
//! cargo run -p client --example card -- alice shop 5000 3000
//! ```

use std::env::{args, var};
use std::time::{Duration, SystemTime};

use client::{Account, Amount, Capture, Client, Config, Outcome, Submission};

type Failure = Box<dyn std::error::Error>;

/// How long a shop may take to deliver. What is not captured by then comes home by itself.
const DELIVERY: Duration = Duration::from_secs(7 * 24 * 3_600);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = args().skip(1).collect();
    let [card, shop, ordered, delivered] = arguments.as_slice() else {
        return Err("usage: card FROM TO ORDERED DELIVERED, in minor units".into());
    };
    let (ordered, delivered) = (ordered.parse::<i64>()?, delivered.parse::<i64>()?);
    let client = Client::connect(&config()?).await?;
    // Accounts that are there stay as they are.
    let opened = [Account::new(card, Amount::Int(10_000)), Account::new(shop, Amount::ZERO)];
    for account in client.create_accounts(&opened).await? {
        account?;
    }

    if !authorise(&client, card, shop, ordered).await? {
        return Ok(());
    }
    Ok(capture(&client, card, shop, delivered).await?)
}

/// Each order is one transaction, whatever is retried.
fn order(card: &str, shop: &str) -> String {
    format!("order:{card}:{shop}:1")
}

/// Reserves the money; nothing of it reaches the shop yet. Says whether the card has it.
async fn authorise(
    client: &Client,
    card: &str,
    shop: &str,
    value: i64,
) -> Result<bool, client::Error> {
    // A shop keeps this moment with its order: the same id again has to come with the same terms.
    let expires = SystemTime::now() + DELIVERY;
    let hold = Submission::transfer(card, shop, value).held().hold_expires_at(expires);
    let receipt = client.submit(hold.with_id(order(card, shop))).await?;
    match client.outcome(&receipt.id).await? {
        Outcome::Canceled { code, message } => {
            println!("not authorised: {message} ({code})");
            Ok(false)
        }
        Outcome::Held | Outcome::Done => {
            let left = client.account(card).await?.balance;
            println!("authorised {value}; {card} may spend {left}");
            Ok(true)
        }
    }
}

/// Captures what was delivered. After a failure the same call again captures it once.
async fn capture(client: &Client, card: &str, shop: &str, value: i64) -> Result<(), client::Error> {
    let id = order(card, shop);
    let capture = Capture::Value(Amount::Int(value));
    client.confirm(&id, &capture).await?;
    let again = client.confirm(&id, &capture).await?;
    assert!(again.known, "it was confirmed, and is not confirmed once more");
    if client.outcome(&id).await? == Outcome::Done {
        let [card_has, shop_has] =
            [client.account(card).await?.balance, client.account(shop).await?.balance];
        println!("captured {value}; {card} has {card_has}, {shop} has {shop_has}");
    }
    Ok(())
}

fn config() -> Result<Config, Failure> {
    let config = Config::new(var("TANDEM_MONGODB_URI")?, var("TANDEM_AMQP_URL")?);
    let database = var("TANDEM_DATABASE").unwrap_or_else(|_| "tandem".to_owned());
    let prefix = var("TANDEM_QUEUE_PREFIX").unwrap_or_else(|_| "tandem".to_owned());
    Ok(config.database(database).queue_prefix(prefix))
}
