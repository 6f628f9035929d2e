//! A Prometheus of a test's own, which reads programs under test every second.
//!
//! Owns its process and its directory, which lies in that of the test. The programs `prometheus`
//! and `promtool` are in the directory that `TANDEM_PROMETHEUS` names; `deploy/test` sets it.
//! Panics when they are not there.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use ledger::uri::segment;
use serde_json::Value;

use crate::http;
use crate::process::Process;
use crate::wait::{s, wait_until};
use crate::worker::free_address;

/// A running Prometheus; it ends when the value is dropped.
pub struct Prometheus {
    process: Process,
    address: SocketAddr,
}

/// One of its programs.
///
/// # Panics
/// When the environment does not say where they are.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let directory = std::env::var_os("TANDEM_PROMETHEUS")
        .expect("deploy/test sets TANDEM_PROMETHEUS: run this test by it");
    Path::new(&directory).join(name)
}

impl Prometheus {
    /// Starts one that reads `targets` and evaluates the rules of `rules`, both every second, and
    /// waits until it has read each of them.
    ///
    /// # Panics
    /// When it does not start, or reads them not in time.
    pub async fn start(directory: &Path, targets: &[SocketAddr], rules: &Path) -> Prometheus {
        let home = directory.join("prometheus");
        std::fs::create_dir_all(&home).expect("the directory can be made");
        let targets: Vec<String> = targets.iter().map(|target| format!("'{target}'")).collect();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: ['{}']\n\
             scrape_configs: [{{job_name: tandem, static_configs: [{{targets: [{}]}}]}}]\n",
            rules.display(),
            targets.join(", ")
        );
        let file = home.join("prometheus.yml");
        std::fs::write(&file, config).expect("the configuration can be written");
        let address = free_address();
        let mut command = Command::new(program("prometheus"));
        command.args([
            format!("--config.file={}", file.display()),
            format!("--storage.tsdb.path={}", home.join("data").display()),
            format!("--web.listen-address={address}"),
        ]);
        let process = Process::start(&mut command, directory.join("logs").join("prometheus.log"));
        let mut prometheus = Prometheus { process, address };
        wait_until("Prometheus has read all programs", s(60), async || {
            assert!(prometheus.process.exited().is_none(), "Prometheus has ended by itself");
            let up = prometheus.try_query("sum(up)").await;
            up.is_some_and(|up| (first(&up) - targets.len() as f64).abs() < 0.5)
        })
        .await;
        prometheus
    }

    /// The result of a query now: a list of samples.
    ///
    /// # Panics
    /// When it refuses the query.
    pub async fn query(&self, query: &str) -> Vec<Value> {
        let result = self.try_query(query).await;
        result.unwrap_or_else(|| panic!("Prometheus does not answer the query {query}"))
    }

    async fn try_query(&self, query: &str) -> Option<Vec<Value>> {
        let answer = self.get(&format!("query?query={}", segment(query))).await?;
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        answer["data"]["result"].as_array().cloned()
    }

    /// Its rules, as its API shows them.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn rules(&self) -> Vec<Value> {
        let answer = self.get("rules").await.expect("Prometheus answers");
        let groups = answer["data"]["groups"].as_array().cloned().unwrap_or_default();
        groups.iter().flat_map(|group| group["rules"].as_array().cloned()).flatten().collect()
    }

    async fn get(&self, path: &str) -> Option<Value> {
        let answer = http::get(self.address, &format!("/api/v1/{path}")).await?;
        serde_json::from_str(&answer.body).ok()
    }
}

/// The value of the first sample; NaN when there is none.
#[must_use]
pub fn first(samples: &[Value]) -> f64 {
    let value = samples.first().and_then(|sample| sample["value"][1].as_str());
    value.and_then(|value| value.parse().ok()).unwrap_or(f64::NAN)
}
