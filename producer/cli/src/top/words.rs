//! The overview in words: lines that fit a terminal or a report. Pure.

use ledger::shell::laid_out;
use overview::duration;
use overview::types::{
    Activity, Backlog, Connection, Count, Due, Latency, Overview, Rate, Severity, States, Worker,
};

/// What stands for a number that is not known.
const UNKNOWN: &str = "?";

/// The headings of the table of workers.
pub const HEADINGS: [&str; 7] =
    ["WORKER", "DOES", "ENGINE", "HOLDS", "SETTLES/S", "SEEN", "VERSION"];

/// Everything, as text without colors.
pub fn page(overview: &Overview, name: &str) -> String {
    let mut lines = vec![title(overview, name), String::new()];
    // People copy commands from here, and foreign text is in the rest of a problem.
    lines.extend(problems(overview, laid_out).into_iter().map(|(_, line)| line));
    lines.push(String::new());
    lines.extend(figures(overview));
    lines.extend([queues(overview), refusals(overview), String::new(), row(&HEADINGS)]);
    for worker in &overview.workers {
        let cells = cells(worker);
        lines.push(row(&cells.each_ref().map(String::as_str)));
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Whose ledger it is, and whether its servers are there.
pub fn title(overview: &Overview, name: &str) -> String {
    let connections = &overview.connections;
    format!(
        "Tandem {name}   {}   MongoDB {}   RabbitMQ {}",
        overview.at,
        connection(&connections.mongodb),
        connection(&connections.amqp)
    )
}

fn connection(connection: &Connection) -> String {
    match (connection.up, connection.data_age_ms) {
        (true, _) => "up".to_owned(),
        (false, Some(age_ms)) => format!("AWAY, data {} old", duration(age_ms)),
        (false, None) if connection.since.is_some() => "AWAY".to_owned(),
        (false, None) => UNKNOWN.to_owned(),
    }
}

/// What is wrong and what to do, the worst first; or that nothing is.
pub fn problems(
    overview: &Overview,
    remedy: fn(&str) -> String,
) -> Vec<(Option<Severity>, String)> {
    let connections = &overview.connections;
    if overview.problems.is_empty() {
        let looked = connections.mongodb.since.is_some() && connections.amqp.since.is_some();
        let words = if looked { "Nothing is wrong." } else { "Looking …" };
        return vec![(None, words.to_owned())];
    }
    let line = |problem: &overview::types::Problem| {
        let mark = match problem.severity {
            Severity::Critical => "!!",
            Severity::Warning => "! ",
            Severity::Info => "· ",
        };
        let words =
            format!("{mark} {}. {} {}", problem.title, problem.cause, remedy(&problem.remedy));
        (Some(problem.severity), words)
    };
    overview.problems.iter().map(line).collect()
}

/// The numbers, a line for each subject.
pub fn figures(overview: &Overview) -> [String; 5] {
    let waits = overview.backlog.map_or_else(|| UNKNOWN.to_owned(), backlog);
    let oldest = overview.oldest.as_ref().map_or_else(
        || "none".to_owned(),
        |oldest| format!("{}, {} for {}", oldest.id, oldest.state, duration(oldest.age_ms)),
    );
    let count = |count: Option<Count>| count.map_or_else(|| UNKNOWN.to_owned(), capped);
    let dead = overview.dead.map(|dead| Count { count: dead.messages, capped: false });
    [
        format!("settled    {}   {}", rate(overview.rate), latency(overview.latency_ms)),
        format!("unfinished {waits}   {}", overview.states.map(states).unwrap_or_default()),
        format!("oldest     {oldest}"),
        resting(overview.states, overview.due),
        format!(
            "set apart  parked {}   dead letters {}   events due {}",
            count(overview.parked),
            count(dead),
            count(overview.events_due)
        ),
    ]
}

fn rate(rate: Option<Rate>) -> String {
    match rate {
        Some(rate) => format!("{}/s, {}/s of them canceled", rate.settled, rate.canceled),
        None => format!("{UNKNOWN}/s"),
    }
}

fn latency(latency: Option<Latency>) -> String {
    match latency {
        Some(Latency { p50, p99 }) => format!("p50 {p50:.0} ms   p99 {p99:.0} ms"),
        None => "p50 -   p99 -".to_owned(),
    }
}

fn backlog(backlog: Backlog) -> String {
    let Backlog { transactions, capped: is_capped, clears_in_s, .. } = backlog;
    let all = capped(Count { count: transactions, capped: is_capped });
    match clears_in_s {
        Some(clears_in_s) if transactions > 0 => {
            let least = if is_capped { "at least " } else { "" };
            format!("{all}, {least}{} at this rate", duration(clears_in_s.saturating_mul(1_000)))
        }
        Some(_) | None => all,
    }
}

fn states(states: States) -> String {
    let States { initial, pending, applied, canceling, .. } = states;
    let named = [
        ("initial", initial),
        ("pending", pending),
        ("applied", applied),
        ("canceling", canceling),
    ];
    named.map(|(state, count)| format!("{state} {}", capped(count))).join("   ")
}

fn resting(states: Option<States>, due: Option<Due>) -> String {
    let count = |count: Option<Count>| count.map_or_else(|| UNKNOWN.to_owned(), capped);
    let due = match due {
        None => "none".to_owned(),
        Some(Due { count, capped: is_capped, late_ms, .. }) => {
            let count = capped(Count { count, capped: is_capped });
            format!("{count}, the first for {}", duration(late_ms))
        }
    };
    format!(
        "resting    scheduled {}   held {}   due {due}",
        count(states.map(|states| states.scheduled)),
        count(states.map(|states| states.held))
    )
}

/// `100,000+` where nobody has counted further.
fn capped(count: Count) -> String {
    let digits = count.count.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if count.capped {
        grouped.push('+');
    }
    grouped
}

/// The queues; those for retries together.
pub fn queues(overview: &Overview) -> String {
    let Some(queues) = &overview.queues else { return format!("queues     {UNKNOWN}") };
    let retrying = queues.iter().filter(|queue| queue.key.starts_with("retry."));
    let retrying: u64 = retrying.map(|queue| queue.messages).sum();
    let of = |key: &str| {
        let found = queues.iter().find(|queue| queue.key == key);
        found.map_or(0, |queue| queue.messages)
    };
    format!(
        "queues     work {}   solo {}   retry {retrying}   dead {}",
        of("work"),
        of("solo"),
        of("dead")
    )
}

/// The reasons for refusals, the most frequent first.
pub fn refusals(overview: &Overview) -> String {
    let mut reasons: Vec<_> = overview.refusals.iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let told: Vec<String> =
        reasons.iter().take(4).map(|(code, count)| format!("{code} {count}")).collect();
    let told = if told.is_empty() { "none".to_owned() } else { told.join("   ") };
    format!("refused    {told}   in {}", duration(overview.refusals_over_s * 1_000))
}

/// A row of the table of workers.
pub fn cells(worker: &Worker) -> [String; 7] {
    let does = match worker.activity {
        Activity::Silent => "SILENT",
        Activity::Draining => "drains",
        Activity::Working if worker.broker => "works",
        Activity::Paused if worker.broker => "paused",
        Activity::Drained if worker.broker => "drained",
        Activity::Standby if worker.broker => "stands by",
        Activity::Working | Activity::Paused | Activity::Drained | Activity::Standby => "NO BROKER",
        Activity::Stopped => "stopped",
    };
    let engine = match worker.engine == worker.engine_now {
        true => worker.engine.clone(),
        false => format!("{}: {}", worker.engine, worker.engine_now),
    };
    [
        worker.name.clone(),
        does.to_owned(),
        engine,
        worker.holds.to_string(),
        worker.settled.map_or_else(|| UNKNOWN.to_owned(), |settled| settled.to_string()),
        format!("{} ago", duration(worker.seen_ms_ago)),
        worker.version.clone(),
    ]
}

fn row(cells: &[&str; 7]) -> String {
    let [name, does, engine, holds, settles, seen, version] = cells;
    format!("{name:<24} {does:<10} {engine:<18} {holds:>7} {settles:>10} {seen:>10}  {version}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_say_when_nobody_counted_further() {
        let shown = |count, is_capped| capped(Count { count, capped: is_capped });
        assert_eq!(shown(0, false), "0");
        assert_eq!(shown(999, false), "999");
        assert_eq!(shown(100_000, true), "100,000+");
        assert_eq!(shown(1_234_567, false), "1,234,567");
    }
}
