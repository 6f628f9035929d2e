//! The benchmark measures, and gives no figure unless the books balance.

use std::process::Command;
use std::sync::Arc;

use bench::args::{Events, History};
use bench::baseline::{self, Baseline};
use bench::feed::Pace;
use bench::field::Field;
use bench::usage::ServerPids;
use bench::workload::{Load, Workload};
use harness::process::program;
use harness::servers::{self, Servers};
use harness::wait::s;
use mongodb::bson::doc;

#[tokio::test]
async fn books_that_do_not_balance_are_found_for_every_baseline() {
    let load = Arc::new(Load::generate(Workload::Refused, 100, 60, 3));
    for baseline in
        [Baseline::Articles, Baseline::Native, Baseline::NativeLean, Baseline::NativeBatch]
    {
        let (events, history) = (Events::Unheard, History::Default);
        let pids = ServerPids::default();
        let field = Field::new(&Servers::from_env(), pids, events, history).await;
        baseline::prepare(&field, baseline, load.accounts).await.expect("prepared");
        let pace = Pace::Flood(s(60));
        let driven = baseline::drive(&field, baseline, 8, &load, pace).await.expect("driven");
        assert_eq!(driven.executed, 60);
        assert_eq!(field.problems(&load.books(60)).await, Vec::<String>::new(), "{baseline:?}");
        assert_eq!(load.books(60).canceled, canceled(&field).await, "{baseline:?}");

        let more = doc! { "$inc": { "balance": 1 } };
        let (id, accounts) = ("account-0000007", field.store.accounts());
        accounts.update_one(doc! { "_id": id }, more).await.expect("updated");
        let problems = field.problems(&load.books(60)).await.join("\n");
        assert!(problems.contains(id), "{baseline:?}: {problems:?}");
        field.finish().await;
    }
}

async fn canceled(field: &Field) -> usize {
    let counted = field.store.transactions().count_documents(doc! { "state": "canceled" }).await;
    usize::try_from(counted.expect("MongoDB is there")).expect("a small count")
}

#[test]
fn the_program_measures_every_part_and_writes_its_files() {
    let home = servers::directory(&format!("bench-{}", uuid::Uuid::new_v4().simple()));
    std::fs::create_dir_all(&home).expect("a directory");
    let json = home.join("bench.json");
    let output = Command::new(program("bench"))
        .args(["--quick", "--workload", "uniform", "--part", "throughput,latency,idle"])
        .args(["--only", "native,tandem,auto", "--transfers", "400", "--accounts", "200", "--json"])
        .arg(&json)
        .arg("--picture")
        .arg(&home)
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&json).expect("a file")).expect("JSON");
    let summary = &report["summary"];
    for figure in [
        "uniform_vs_native",
        "two_phase_uniform_vs_native",
        "documents_per_transfer_uniform",
        "commands_per_transfer",
        "idle_p50_ms",
        "two_phase_idle_p50_ms",
        "worker_peak_mib",
    ] {
        assert!(summary[figure].as_f64().is_some_and(|value| value > 0.0), "{figure}: {summary}");
    }
    assert!(summary["half_hot_vs_native"].is_null(), "{summary}");
    let situations: Vec<_> =
        report["latencies"].as_array().expect("a list").iter().map(|l| &l["situation"]).collect();
    assert_eq!(situations, ["idle", "idle", "idle", "half", "half", "half"]);
    let tables = String::from_utf8_lossy(&output.stdout);
    assert!(tables.contains("| **Tandem** |"), "{tables}");
    for file in ["bench.svg", "bench.png"] {
        assert!(std::fs::metadata(home.join(file)).is_ok_and(|file| file.len() > 1_000), "{file}");
    }
    std::fs::remove_dir_all(home).expect("the directory is ours");
}
