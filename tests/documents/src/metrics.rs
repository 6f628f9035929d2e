//! The page of all metrics, made from what the programs show when they start.
//!
//! Owns how the page looks; names, kinds, labels and meanings are those of `/metrics`. Writes
//! nothing: the program of this crate does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const INTRODUCTION: &str = "\
# Metrics

This page is made from what the programs show at `/metrics` when they start. To write it anew:
`cargo run -p documents`.

No label is an id. Every value of a label that stands here exists from the start, with 0, so
`increase()` and `rate()` see the first event. What looks at the whole ledger
(`tandem_oldest_unfinished_age_seconds`, `tandem_unfinished_transactions`, `tandem_events_due`) is
asked by one worker at a time, all of them together every 10 s: take the maximum over all workers.
Beside these, each program shows the figures of its process (`process_*`).
[operating.md](operating.md#monitoring) says what to do with them.
";

/// One metric as its page describes it.
#[derive(Default)]
struct Family {
    kind: String,
    help: String,
    /// The labels, with their values.
    labels: BTreeMap<String, BTreeSet<String>>,
}

/// The page as it should be.
#[must_use]
pub fn metrics() -> String {
    let mut page = INTRODUCTION.to_owned();
    section(&mut page, "`worker`", &families(&worker::metrics::Metrics::new().page()));
    section(&mut page, "`producer serve`", &families(&api::metrics_at_start()));
    let audit = families(&audit::exposition::example());
    section(&mut page, "`producer audit --metrics-file`", &audit);
    page
}

fn section(page: &mut String, title: &str, families: &BTreeMap<String, Family>) {
    let head = "| metric | kind | labels | meaning |\n| --- | --- | --- | --- |";
    write!(page, "\n## {title}\n\n{head}\n").expect("a string takes all");
    for (name, Family { kind, help, labels }) in families {
        let labels: Vec<String> = labels.iter().map(|(name, values)| label(name, values)).collect();
        let labels = labels.join("<br>");
        writeln!(page, "| `{name}` | {kind} | {labels} | {help} |").expect("a string takes all");
    }
}

/// A label with its values, where these say more than the name.
fn label(name: &str, values: &BTreeSet<String>) -> String {
    if ["route", "method", "status", "version"].contains(&name) {
        return format!("`{name}`");
    }
    let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
    format!("`{name}`: {}", values.join(", "))
}

/// The metrics of Tandem on a page of Prometheus's text format.
fn families(page: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in page.lines() {
        if let Some((name, help)) =
            line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '))
        {
            current = name.to_owned();
            families.entry(current.clone()).or_default().help = help.to_owned();
        } else if let Some((_, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            families.entry(current.clone()).or_default().kind = kind.to_owned();
        } else if let Some((_, labels)) = line.split_once('{') {
            let labels = labels.rsplit_once('}').map_or("", |(labels, _)| labels);
            let family = families.entry(current.clone()).or_default();
            for (name, value) in labels.split(',').filter_map(|label| label.split_once('=')) {
                if name != "le" {
                    let values = family.labels.entry(name.to_owned()).or_default();
                    values.insert(value.trim_matches('"').to_owned());
                }
            }
        }
    }
    families.retain(|name, _| name.starts_with("tandem_"));
    families
}
