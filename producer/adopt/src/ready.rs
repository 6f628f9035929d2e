//! Whether documents may be written: what has to be there, and who must not be at work.
//!
//! Owns the refusals of [`adopt`](super::adopt) and [`undo`](super::undo) that come before any
//! write. Each says what to do. Fails also when the server is away.

use client::Client;
use layout::Layout;
use ledger::remedy::Remedy;
use mongo::SILENT_MS;

use super::{Error, settings};

/// The layout of a ledger that is set up with a schema.
pub(super) async fn layout(client: &Client) -> Result<&Layout, Error> {
    let refused = |problem: String| Err(Error::NotNow(problem));
    client.check_ground().await?;
    match settings(client).await? {
        None => {
            return refused(format!(
                "there is no ledger in this database yet: write a schema that says where accounts \
                 and transactions are, set the ledger up with {}, then run the same command again; \
                 {} looks before that",
                Remedy::InitSchema,
                Remedy::LookAtAdoption
            ));
        }
        Some(settings) if !settings.complete => {
            return refused(format!(
                "the ledger is not set up to the end: run {} again, then the same command",
                Remedy::Init
            ));
        }
        Some(_) => {}
    }
    match client.store().layout() {
        Some(layout) => Ok(layout),
        None => refused(format!(
            "this ledger has no schema, so Tandem's fields do not stand apart from your own, and \
             nothing could take them away again. There is nothing to adopt: the first update by a \
             worker writes the opening of an account that has none; what has to be repaired before \
             is named by {}",
            Remedy::LookAtAdoption
        )),
    }
}

/// Nobody settles.
pub(super) async fn no_worker(client: &Client, why: &str) -> Result<(), Error> {
    let seen = client.insist(|| client.store().workers()).await?;
    let now = client.database_now().await?;
    let Some(worker) = seen.iter().find(|worker| worker.is_here(now)) else { return Ok(()) };
    let (name, seconds) = (&worker.report.name, (now - worker.seen_at).max(0) / 1_000);
    Err(Error::NotNow(format!(
        "a worker of Tandem is at work ({name:?}, seen {seconds} s ago), and {why}: stop all workers \
         (SIGTERM), then run the same command again; one that was killed counts as gone after {} s",
        SILENT_MS / 1_000
    )))
}
