//! Whether the servers of a directory still serve.
//!
//! Owns what says that they don't: their processes, and what the broker has logged about itself.
//! While an alarm is on, no message is published, and once dead lettering was given up, no queue is
//! declared. Everything that needs one waits until its deadline and blames something else.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::identity::Identity;
use super::mongodb::Member;
use super::{Deployment, rabbitmq};
use crate::console::{Failure, say, tail};

/// How often servers are looked at.
const EACH: Duration = Duration::from_secs(5);

/// An alarm that lasts so long ends by itself no more.
const ALARM_MAX: Duration = Duration::from_secs(120);

/// Who has given up, and that it has: two lines of the broker's log, with another between them.
const DEAD_LETTERING: &str = "supervisor: {local,rabbit_fifo_dlx_sup}";
const GAVE_UP: &str = "reason: reached_max_restart_intensity";
const APART_MAX: u64 = 2;

/// Returns when a server has ended by itself, the broker takes no messages for minutes, or has
/// given up dead lettering.
pub async fn until_ill(servers: &Deployment) -> Failure {
    let mut broker = Broker::new(rabbitmq::log(servers.directory()));
    loop {
        tokio::time::sleep(EACH).await;
        if let Some(failure) = ended(servers) {
            return failure;
        }
        if let Some(failure) = broker.look(Instant::now()) {
            return failure;
        }
    }
}

/// The first server that was started here and runs no more.
fn ended(servers: &Deployment) -> Option<Failure> {
    let members = servers.mongodb().map(|set| set.members.as_slice()).unwrap_or_default();
    if servers.set_to_wait_for().is_some() && !members.iter().all(Member::is_alive) {
        return Some(Failure("mongod has ended by itself".to_owned()));
    }
    let node = servers.node_to_wait_for()?;
    let is_alive = node.process.as_ref().is_some_and(Identity::is_alive);
    let end = || tail(&rabbitmq::log(servers.directory()));
    (!is_alive).then(|| Failure(format!("rabbitmq has ended by itself:\n{}", end())))
}

/// How a broker is, by its log.
struct Broker {
    log: PathBuf,
    read: u64,
    alarms: Vec<(String, Instant)>,
    /// Lines since the last one about who moves dead letters.
    since_dead_lettering: Option<u64>,
    gave_up: bool,
}

impl Broker {
    fn new(log: PathBuf) -> Broker {
        Broker { log, read: 0, alarms: vec![], since_dead_lettering: None, gave_up: false }
    }

    /// Reads what is new in the log.
    fn look(&mut self, now: Instant) -> Option<Failure> {
        let new = read_from(&self.log, self.read).unwrap_or_default();
        let lines = new.rfind('\n').map_or("", |end| &new[..=end]);
        self.read += lines.len() as u64;
        for line in lines.lines() {
            self.hear_alarm(line, now);
            self.hear_end(line);
        }
        if self.gave_up {
            let log = self.log.display();
            return Some(Failure(format!("the broker has given up dead lettering: {log}")));
        }
        let (kind, since) = self.alarms.first()?;
        let lasts = now.duration_since(*since);
        let said = || format!("the broker has been short of {kind} for {} s", lasts.as_secs());
        (lasts > ALARM_MAX).then(|| Failure(format!("{}:\n{}", said(), tail(&self.log))))
    }

    fn hear_alarm(&mut self, line: &str, now: Instant) {
        let Some((before, after)) = line.split_once(" resource limit alarm ") else { return };
        let kind = before.rsplit(' ').next().unwrap_or_default().to_owned();
        self.alarms.retain(|(other, _)| *other != kind);
        let is_on = after.starts_with("set");
        say(format!("the broker {} short of {kind}", if is_on { "is" } else { "is no longer" }));
        if is_on {
            self.alarms.push((kind, now));
        }
    }

    fn hear_end(&mut self, line: &str) {
        if line.ends_with(DEAD_LETTERING) {
            self.since_dead_lettering = Some(0);
            return;
        }
        let Some(lines) = &mut self.since_dead_lettering else { return };
        *lines += 1;
        self.gave_up |= *lines <= APART_MAX && line.ends_with(GAVE_UP);
    }
}

fn read_from(log: &Path, position: u64) -> std::io::Result<String> {
    let mut file = File::open(log)?;
    file.seek(SeekFrom::Start(position))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    // What is no UTF-8 keeps its length in bytes, so that the position stays right.
    Ok(bytes.into_iter().map(|byte| if byte.is_ascii() { char::from(byte) } else { '?' }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = "2026-11-28 [warning] <0.4.0> memory resource limit alarm set on node a@b.\n";
    const CLEARED: &str =
        "2026-11-28 [warning] <0.4.0> memory resource limit alarm cleared on node a@b\n";

    /// From the log of a RabbitMQ 3.10.8.
    const CRASHED: &str = "\
        2026-11-28 [error] <0.5.0>     supervisor: {local,rabbit_fifo_dlx_sup}\n\
        2026-11-28 [error] <0.5.0>     errorContext: child_terminated\n\
        2026-11-28 [error] <0.5.0>     reason: {{badmatch,{error,ra_command_failed}},\n";
    const GIVEN_UP: &str = "\
        2026-11-28 [error] <0.5.0>     supervisor: {local,rabbit_fifo_dlx_sup}\n\
        2026-11-28 [error] <0.5.0>     errorContext: shutdown\n\
        2026-11-28 [error] <0.5.0>     reason: reached_max_restart_intensity\n";
    const ANOTHER: &str = "\
        2026-11-28 [error] <0.6.0>     supervisor: {<0.6.0>,rabbit_channel_sup}\n\
        2026-11-28 [error] <0.6.0>     errorContext: shutdown\n\
        2026-11-28 [error] <0.6.0>     reason: reached_max_restart_intensity\n";

    fn log_of(text: &str) -> (PathBuf, Broker) {
        let log =
            std::env::temp_dir().join(format!("broker-{}.log", uuid::Uuid::new_v4().simple()));
        std::fs::write(&log, text).expect("a file");
        let broker = Broker::new(log.clone());
        (log, broker)
    }

    #[test]
    fn an_alarm_that_lasts_is_a_failure_and_one_that_ends_is_none() {
        let begun = Instant::now();
        let late = begun + ALARM_MAX + EACH;
        let (log, mut broker) = log_of(SET);
        assert!(broker.look(begun).is_none());
        let Failure(said) = broker.look(late).expect("it lasts");
        assert!(said.starts_with("the broker has been short of memory for 125 s"), "{said}");
        std::fs::write(&log, format!("{SET}{CLEARED}")).expect("a file");
        assert!(broker.look(late).is_none());
        std::fs::remove_file(log).expect("it is there");
    }

    #[test]
    fn a_line_that_is_written_in_two_pieces_is_read_once_it_is_whole() {
        let begun = Instant::now();
        let (log, mut broker) = log_of(&SET[..40]);
        assert!(broker.look(begun).is_none() && broker.alarms.is_empty());
        std::fs::write(&log, SET).expect("a file");
        assert!(broker.look(begun).is_none());
        assert_eq!(broker.alarms, [("memory".to_owned(), begun)]);
        std::fs::remove_file(log).expect("it is there");
    }

    #[test]
    fn a_broker_that_has_given_up_dead_lettering_is_ill_and_one_that_goes_on_is_not() {
        let begun = Instant::now();
        let (log, mut broker) = log_of(&format!("{CRASHED}{ANOTHER}"));
        assert!(broker.look(begun).is_none());
        std::fs::write(&log, format!("{CRASHED}{ANOTHER}{GIVEN_UP}")).expect("a file");
        let Failure(said) = broker.look(begun).expect("it has given up");
        assert!(said.starts_with("the broker has given up dead lettering"), "{said}");
        std::fs::remove_file(log).expect("it is there");
    }
}
