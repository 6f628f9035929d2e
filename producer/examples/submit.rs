//! Pays bob 12.50 from alice, and waits until it is done or refused.
//!
//! ```sh
//! eval "$(deploy/up | sed 's/^/export /')"    # and accounts alice and bob, and a worker
//! cargo run -p producer --example submit -- rent-2026-11
//! ```

use producer::{Client, Config, Error, Outcome, Submission};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let server = |name: &str, default: &str| std::env::var(name).unwrap_or(default.to_owned());
    let config = Config::new(
        server("TANDEM_MONGODB_URI", "mongodb://127.0.0.1:27017/tandem"),
        server("TANDEM_AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/%2f"),
    );
    let client = Client::connect(&config).await?;

    let mut payment = Submission::transfer("alice", "bob", 12_50);
    if let Some(id) = std::env::args().nth(1) {
        payment = payment.with_id(id); // run it again: it is paid once
    }
    let receipt = client.submit(payment).await?;
    println!("{} is durable", receipt.id);

    match client.outcome(&receipt.id).await? {
        Outcome::Done => println!("paid; alice has {}", client.account("alice").await?.balance),
        Outcome::Canceled { code, message } => println!("not paid: {message} ({code})"),
    }
    client.close().await;
    Ok(())
}
