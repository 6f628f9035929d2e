//! Transfers that somebody else inserts: without a date, and without a message.
//!
//! Everything is there before the workers start, in the fields that its owner would write. No
//! message tells of it, and no index by creation leads to it, so the sweepers have to find it: the
//! time runs from the start of the workers to the last end, and their first look is part of it.
//! Without a schema, it is one that changes the names of the collections, and so the place of
//! Tandem's own fields.

use std::time::{Duration, Instant};

use harness::laid_out;
use layout::Layout;
use mongo::TRANSACTIONS;
use mongodb::bson::{Document, doc};
use serde::{Deserialize, Serialize};

use super::contender::{Contender, Kind};
use super::field::{Field, Setup};
use super::names::Names;
use super::tandem;
use super::workload::{Load, Transfer, Workload};
use super::{Bench, say, throughput};

/// Who is measured if nobody is named.
const CONTENDERS: [Contender; 2] = [Contender::Tandem, Contender::Auto];
/// The collections of others, if no schema names them.
const OF_OTHERS: &str =
    "[accounts]\ncollection = \"user\"\n[transactions]\ncollection = \"payment\"";
/// Documents of one insert.
const CHUNK: usize = 10_000;

/// What became of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Undated {
    /// Whose workers.
    pub contender: Contender,
    /// Transfers.
    pub transfers: usize,
    /// From the start of the workers to the first that was settled, in seconds.
    pub first_s: f64,
    /// The same to the last.
    pub seconds: f64,
    /// Transfers by seconds.
    pub per_s: f64,
    /// What the audit found. If there is anything here, none of the figures count.
    pub problems: Vec<String>,
}

/// One contender after the other.
pub async fn run(bench: &mut Bench) {
    for contender in contenders(bench) {
        let setup = bench.setup(contender);
        // The validators of a ledger as Tandem makes it would refuse what has no date.
        let of_others = || Layout::from_toml(OF_OTHERS).expect("it is good");
        let layout = Some(setup.layout.unwrap_or_else(of_others));
        let setup = Setup { layout, ..setup };
        let field = bench.field_of(&setup).await;
        let ran = measure(bench, &field, contender).await;
        field.finish().await;
        match ran {
            Ok(undated) => {
                say(line(&undated));
                bench.report.undated.push(undated);
            }
            Err(problem) => bench.failed(format!("undated {}: {problem}", contender.name())),
        }
    }
}

/// Those that run Tandem's workers and are named, or else the two usual ones.
pub(super) fn contenders(bench: &Bench) -> Vec<Contender> {
    let named = |contender: &Contender| match bench.args.only.as_slice() {
        [] => CONTENDERS.contains(contender),
        _ => matches!(contender.kind(), Kind::Tandem { .. }),
    };
    throughput::available(bench.args.contenders()).into_iter().filter(named).collect()
}

async fn measure(bench: &Bench, field: &Field, contender: Contender) -> Result<Undated, String> {
    let (accounts, transfers) = (bench.args.accounts, bench.args.scale().transfers);
    tandem::prepare(field, accounts).await;
    let load = Load::generate(Workload::Uniform, accounts, transfers, bench.args.seed);
    insert(field, &load).await?;
    field.settle_down().await;
    let begun = Instant::now();
    let mut workers = contender.crew(&bench.crew).launch(field);
    workers.wait_settled(1).await?;
    let first = begun.elapsed();
    workers.wait_settled(transfers as u64).await?;
    let elapsed = begun.elapsed();
    workers.stop().await;
    let mut problems = field.problems(&load.books(transfers)).await;
    problems.extend(tandem::audit(field, transfers).await.err());
    problems.truncate(10);
    Ok(put_together(contender, transfers, (first, elapsed), problems))
}

/// A transfer as somebody else writes it: what a worker needs, and no more.
pub(super) fn initial(names: Names, transfer: &Transfer) -> Document {
    let [(source, _), (destination, value)] = transfer.legs[..] else {
        unreachable!("uniform transfers have two legs")
    };
    doc! {
        "_id": names.transfer(&transfer.id),
        "source": names.account(source),
        "destination": names.account(destination),
        "value": value,
        "state": "initial",
    }
}

/// Inserts them as their owner does.
async fn insert(field: &Field, load: &Load) -> Result<(), String> {
    let document = |transfer: &Transfer| {
        laid_out::stored(&field.store, TRANSACTIONS, initial(field.names, transfer))
    };
    for chunk in load.transfers.chunks(CHUNK) {
        let documents: Vec<_> = chunk.iter().map(document).collect();
        let inserted = field.store.transactions().insert_many(documents).await;
        inserted.map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a count of transfers is small")]
fn put_together(
    contender: Contender,
    transfers: usize,
    (first, elapsed): (Duration, Duration),
    problems: Vec<String>,
) -> Undated {
    let (first_s, seconds) = (first.as_secs_f64(), elapsed.as_secs_f64());
    let per_s = transfers as f64 / seconds;
    Undated { contender, transfers, first_s, seconds, per_s, problems }
}

fn line(undated: &Undated) -> String {
    format!(
        "{:<12} {} undated: {:.0}/s, the first after {:.1} s {}",
        undated.contender.name(),
        undated.transfers,
        undated.per_s,
        undated.first_s,
        undated.problems.join("; ")
    )
}
