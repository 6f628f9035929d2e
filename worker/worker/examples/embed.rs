//! Runs a worker inside a program, which has its own registry of metrics, for so many seconds.
//!
//! ```sh
//! cargo run -p worker --example embed -- 10
//! ```

use std::env::{args, var};
use std::time::Duration;

use prometheus::{Registry, TextEncoder};
use worker::{Config, Worker};

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let seconds: u64 = args().nth(1).ok_or("usage: embed SECONDS")?.parse()?;
    let mut config = Config::new(var("TANDEM_MONGODB_URI")?, var("TANDEM_AMQP_URL")?);
    config.mongo.database = var("TANDEM_DATABASE").ok();
    config.amqp.queue_prefix = var("TANDEM_QUEUE_PREFIX").unwrap_or_else(|_| "tandem".to_owned());
    config.name = Some("embedded".to_owned());

    let registry = Registry::new();
    let worker = Worker::new(config).registry(&registry)?.start();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    // Finishes what is begun, and hands the rest to other workers.
    worker.stop();
    worker.wait().await?;
    print!("{}", TextEncoder::new().encode_to_string(&registry.gather())?);
    Ok(())
}
