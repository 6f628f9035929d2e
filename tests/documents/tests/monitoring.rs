//! Alerts and dashboard fit the programs and the runbook.
//!
//! Needs `promtool` in the directory that `TANDEM_PROMETHEUS` names; `deploy/test` sets it.

use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::process::Command;

use documents::root;

const ALERTS: &str = "deploy/monitoring/alerts.yaml";
const UNITS: &str = "deploy/monitoring/alerts.test.yaml";
const DASHBOARD: &str = "deploy/monitoring/dashboard.json";
const HANDBOOK: &str = "deploy/operating.md";

fn read(file: &str) -> String {
    read_to_string(root().join(file)).expect(file)
}

fn promtool(arguments: &[&str]) {
    let directory = std::env::var_os("TANDEM_PROMETHEUS")
        .expect("deploy/test sets TANDEM_PROMETHEUS: run this test by it");
    let program: PathBuf = Path::new(&directory).join("promtool");
    let said = Command::new(program).args(arguments).current_dir(root()).output();
    let said = said.expect("promtool runs");
    let text = [said.stdout, said.stderr].concat();
    assert!(said.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&text));
}

/// The names of our metrics in a text, without what a histogram appends.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|word| word.starts_with("tandem_"));
    let bare = |name: &str| {
        let endings = ["_bucket", "_sum", "_count"];
        let found = endings.iter().find_map(|ending| name.strip_suffix(ending));
        found.unwrap_or(name).to_owned()
    };
    names.map(bare).collect()
}

/// The values that follow a key, one a line.
fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix(key)).collect()
}

#[test]
fn every_metric_of_alerts_and_dashboard_is_shown_from_the_start() {
    let pages = [
        worker::metrics::Metrics::new().page(),
        api::metrics_at_start(),
        audit::exposition::example(),
    ]
    .concat();
    // A family without a sample is not on the page.
    let shown: BTreeSet<String> =
        pages.lines().filter(|line| !line.starts_with('#')).flat_map(metrics).collect();
    for file in [ALERTS, UNITS, DASHBOARD, HANDBOOK] {
        let named = metrics(&read(file));
        assert!(named.len() > 5, "{file}: only {named:?} were found");
        let missing: Vec<_> = named.difference(&shown).collect();
        assert!(missing.is_empty(), "{file}: no program shows {missing:?} from its start");
    }
}

#[test]
fn every_alert_links_to_a_section_of_the_runbook() {
    let alerts = read(ALERTS);
    let slug = |title: &str| {
        let kept = title.to_lowercase().replace(' ', "-");
        kept.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect::<String>()
    };
    let handbook = read(HANDBOOK);
    let runbook = handbook.split_once("\n## Runbook\n").expect("there is a runbook").1;
    let sections: BTreeSet<_> = values(runbook, "### ").into_iter().map(slug).collect();
    let links = values(&alerts, "runbook_url: ");
    assert_eq!(links.len(), values(&alerts, "alert: ").len(), "each alert has a link");
    for link in &links {
        let (page, anchor) = link.split_once('#').expect(link);
        assert!(page.ends_with(HANDBOOK), "{link}");
        assert!(sections.contains(anchor), "{link}: the runbook has no such section");
    }
}

#[test]
fn alerts_fire_on_what_they_are_for_and_on_nothing_else() {
    promtool(&["check", "rules", ALERTS]);
    promtool(&["test", "rules", UNITS]);
    let (alerts, units) = (read(ALERTS), read(UNITS));
    for alert in values(&alerts, "alert: ") {
        assert!(units.contains(&format!("alertname=\"{alert}\"")), "no unit of {alert} fires");
    }
}

#[test]
fn the_configuration_of_the_compose_files_prometheus_is_valid() {
    promtool(&["check", "config", "--syntax-only", "deploy/compose/prometheus.yml"]);
}
