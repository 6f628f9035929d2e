//! The benchmark measures, and gives no figure unless the books balance.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bench::args::{Events, History};
use bench::baseline::{self, Baseline};
use bench::feed::Pace;
use bench::field::{Field, Setup};
use bench::usage::ServerPids;
use bench::workload::{Load, Workload};
use harness::deployment::root;
use harness::process::program;
use harness::servers::{self, Servers};
use harness::wait::s;
use mongodb::bson::doc;
use serde_json::Value;

#[tokio::test]
async fn books_that_do_not_balance_are_found_for_every_baseline() {
    let load = Arc::new(Load::generate(Workload::Refused, 100, 60, 3));
    for baseline in
        [Baseline::Articles, Baseline::Native, Baseline::NativeLean, Baseline::NativeBatch]
    {
        let field = Field::new(&Servers::from_env(), ServerPids::default(), &setup()).await;
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

fn setup() -> Setup {
    let (events, history) = (Events::Unheard, History::Default);
    Setup { events, history, no_keys: false, layout: None }
}

async fn canceled(field: &Field) -> usize {
    let counted = field.store.transactions().count_documents(doc! { "state": "canceled" }).await;
    usize::try_from(counted.expect("MongoDB is there")).expect("a small count")
}

/// Runs the program in its short form; its report, and its tables.
fn measured(home: &Path, arguments: &[&str]) -> (Value, String) {
    tried(home, arguments).unwrap_or_else(|said| panic!("{said}"))
}

/// The same, or what the program says when it fails.
fn tried(home: &Path, arguments: &[&str]) -> Result<(Value, String), String> {
    std::fs::create_dir_all(home).expect("a directory");
    let json = home.join("bench.json");
    let output = Command::new(program("bench"))
        .args(["--quick", "--workload", "uniform"])
        .args(arguments)
        .args([OsStr::new("--json"), json.as_os_str(), OsStr::new("--picture"), home.as_os_str()])
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(said.into_owned());
    }
    for file in ["bench.svg", "bench.png"] {
        assert!(std::fs::metadata(home.join(file)).is_ok_and(|file| file.len() > 1_000), "{file}");
    }
    let report = serde_json::from_slice(&std::fs::read(&json).expect("a file")).expect("JSON");
    Ok((report, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// A directory of this test.
fn home() -> PathBuf {
    servers::directory(&format!("bench-{}", uuid::Uuid::new_v4().simple()))
}

fn assert_figures(report: &Value, names: &[&str]) {
    let summary = &report["summary"];
    for figure in names {
        let is_there = summary[figure].as_f64().is_some_and(|value| value > 0.0);
        assert!(is_there, "{figure}: {summary}");
    }
}

#[test]
fn the_program_measures_every_part_and_writes_its_files() {
    let home = home();
    let (report, tables) = measured(
        &home,
        &[
            "--part=throughput,latency,idle",
            "--only=native,tandem,auto",
            "--transfers=400",
            "--accounts=200",
            // The lowest rate is always measured, whoever keeps up with it.
            "--rates=1500",
        ],
    );
    assert_figures(
        &report,
        &[
            "uniform_vs_native",
            "two_phase_uniform_vs_native",
            "documents_per_transfer_uniform",
            "commands_per_transfer",
            "idle_p50_ms",
            "two_phase_idle_p50_ms",
            "latency_1500_p50_ms",
            "two_phase_latency_1500_p99_ms",
            "worker_peak_mib",
        ],
    );
    assert!(report["summary"]["half_hot_vs_native"].is_null(), "{}", report["summary"]);
    assert!(report["summary"]["latency_4500_p50_ms"].is_null(), "{}", report["summary"]);
    let latencies = report["latencies"].as_array().expect("a list");
    let seen: Vec<_> =
        latencies.iter().map(|l| (l["situation"].as_str(), l["together"].as_u64())).collect();
    let (idle, single, grouped) =
        ((Some("idle"), Some(1)), (Some("rate"), Some(1)), (Some("rate"), Some(25)));
    assert_eq!(seen, [[idle; 3], [single; 3], [grouped; 3]].concat());
    for latency in latencies {
        let ms = |name: &str| latency[name].as_f64().expect("a number");
        let ordered = [ms("p50_ms"), ms("p95_ms"), ms("p99_ms"), ms("max_ms")];
        assert!(ordered[0] > 0.1 && ordered.is_sorted(), "{latency}");
    }
    assert!(tables.contains("| **Tandem** |"), "{tables}");
    for together in [1, 25] {
        let heading = format!("| p50 / p99 ms, {together} at a time | 1,500/s |");
        assert!(tables.contains(&heading), "{tables}");
    }
    std::fs::remove_dir_all(home).expect("the directory is ours");
}

#[test]
fn ledgers_whose_documents_others_have_designed_are_measured_and_audited() {
    for schema in ["objectids-nested", "by-name"] {
        let home = home();
        let schema = root().join(format!("tests/bench/schemas/{schema}.toml"));
        let schema = format!("--schema={}", schema.display());
        // The picture is of the throughput.
        let parts = "--part=throughput,idle,undated";
        let arguments = [parts, "--only=auto", "--transfers=300", "--accounts=200", &schema];
        let (report, tables) = measured(&home, &arguments);
        assert_figures(&report, &["idle_p50_ms"]);
        let undated = report["undated"].as_array().expect("a list");
        assert_eq!(undated.len(), 1, "{report}");
        assert!(undated[0]["per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{}", undated[0]);
        assert!(tables.contains("| without date and message |"), "{tables}");
        std::fs::remove_dir_all(home).expect("the directory is ours");
    }
}

#[test]
fn more_workers_are_measured_near_the_servers_and_far_away() {
    let home = home();
    // Batches so small that the engine that chooses comes to know its accounts.
    let batches = "--worker-args=--batch-size 100";
    let (report, tables) =
        measured(&home, &["--part=scale", "--transfers=2000", "--accounts=500", batches]);
    assert_figures(&report, &["scale_8_vs_1"]);
    let replicas = report["replicas"].as_array().expect("a list");
    let seen: Vec<_> =
        replicas.iter().map(|r| (r["round_trip_ms"].as_u64(), r["workers"].as_u64())).collect();
    let (near, far) = (|n| (Some(0), Some(n)), |n| (Some(10), Some(n)));
    let far_twice: Vec<_> = [1, 2, 4, 8].into_iter().flat_map(|n| [far(n); 2]).collect();
    // Those that share the work, then those that stand by for one another.
    let near = [1, 2, 4, 1, 4].map(near).to_vec();
    assert_eq!(seen, [near, far_twice].concat());
    assert_eq!(replicas.iter().filter(|one| one["way"] == "standby").count(), 2);
    for one in replicas {
        let native = one["contender"] == "auto" && one["workers"] == 1;
        let share = one["conflicts"].as_f64();
        assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{one}");
        assert!(!native || share.is_some(), "one worker settles by native transactions: {one}");
    }
    assert!(tables.contains("| **Tandem, `--engine auto`** | 8 | share | 10 |"), "{tables}");
    std::fs::remove_dir_all(home).expect("the directory is ours");
}

#[test]
fn workers_that_stand_by_are_measured_and_those_with_a_small_part_of_a_core() {
    let home = home();
    // The picture is of the throughput.
    let parts = "--part=throughput,limited,standby";
    let arguments = [parts, "--only=tandem", "--transfers=400", "--accounts=500"];
    let (report, tables) = measured(&home, &arguments);
    let standby = &report["standby"].as_array().expect("a list")[0];
    assert_eq!(standby["problems"].as_array().map(Vec::len), Some(0), "{standby}");
    for (ended, count) in [("deaths_ms", 2), ("hangs_ms", 1)] {
        let times = standby[ended].as_array().expect("a list");
        assert_eq!(times.len(), count, "{standby}");
        assert!(times.iter().all(|ms| ms.as_f64().is_some_and(|ms| ms > 0.0)), "{standby}");
    }
    // Each looks every few seconds whether somebody is at work, and the broker hears of it.
    let to_broker = standby["idle_commands_per_s"][1].as_f64().expect("a number");
    assert!(to_broker > 0.0, "{standby}");
    let limited = report["limited"].as_array().expect("a list");
    // Where control groups can't be made nothing is measured.
    if !limited.is_empty() {
        let workers: Vec<_> = limited.iter().map(|one| one["workers"].as_u64()).collect();
        assert_eq!(workers, [1, 4, 1, 8].map(Some));
        assert!(limited.iter().all(|one| one["per_s"].as_f64() > Some(0.0)), "{limited:?}");
    }
    assert!(tables.contains("| standing by |"), "{tables}");
    std::fs::remove_dir_all(home).expect("the directory is ours");
}

#[test]
fn every_read_is_measured_on_a_filled_ledger_whose_books_balance() {
    let home = home();
    // The picture is of the throughput.
    let parts = "--part=throughput,reads";
    let arguments = [parts, "--only=tandem", "--transfers=400", "--accounts=200"];
    let more = ["--transactions=10050"];
    let (report, tables) = measured(&home, &[&arguments[..], &more[..]].concat());
    let reads = &report["reads"].as_array().expect("a list")[0];
    assert_eq!(reads["problems"].as_array().map(Vec::len), Some(0), "{reads}");
    for read in reads["each"].as_array().expect("a list") {
        let ms = |name: &str| read[name].as_f64().expect("a number");
        let ordered = [ms("p50_ms"), ms("p99_ms"), ms("max_ms")];
        assert!(ordered[0] > 0.0 && ordered.is_sorted(), "{read}");
    }
    assert!(tables.contains("| `listTransactions` | newest |"), "{tables}");
    std::fs::remove_dir_all(home).expect("the directory is ours");
}

#[test]
fn a_long_run_has_a_first_and_a_last_part() {
    let home = home();
    let run = |seconds: &str| {
        let seconds = format!("--seconds={seconds}");
        let arguments = [
            "--part=sustained",
            "--only=native,native-batch,tandem,auto",
            "--transfers=20000",
            "--accounts=500",
            &seconds,
        ];
        tried(&home, &arguments)
    };
    // On a slow machine a worker may not have settled anything yet after a quarter of a short run.
    let measured = run("8").or_else(|said| match said.contains("nothing was settled") {
        true => run("80"),
        false => Err(said),
    });
    let (report, tables) = measured.unwrap_or_else(|said| panic!("{said}"));
    assert_figures(
        &report,
        &["sustained_last_vs_first", "sustained_vs_native", "two_phase_sustained_vs_native"],
    );
    let runs = report["sustained"].as_array().expect("a list");
    assert_eq!(runs.len(), 4);
    for run in runs {
        let number = |value: &Value| value.as_f64().expect("a number");
        assert!(number(&run["seconds"]) >= 8.0, "{run}");
        for part in ["first", "last"] {
            // The process that is measured is known only where `deploy/bench` has started it.
            assert!(number(&run[part]["per_s"]) > 0.0, "{run}");
            assert!(number(&run[part]["mongod_per_1000"]) >= 0.0, "{run}");
        }
        assert!(run["course"].as_array().is_some_and(|points| points.len() > 3), "{run}");
    }
    assert!(tables.contains("| native, batched by one writer |"), "{tables}");
    std::fs::remove_dir_all(home).expect("the directory is ours");
}
