//! Whether the servers of a directory still serve.
//!
//! Owns what says that they don't: their processes, and what the broker has logged about its alarms.
//! While an alarm is on, no message is published, so everything that waits for one waits until its
//! deadline and blames something else.

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

/// Returns when a server has ended by itself, or the broker takes no messages for minutes.
pub async fn until_ill(servers: &Deployment) -> Failure {
    let mut alarms = Alarms::new(rabbitmq::log(servers.directory()));
    loop {
        tokio::time::sleep(EACH).await;
        if let Some(failure) = ended(servers) {
            return failure;
        }
        if let Some(failure) = alarms.look(Instant::now()) {
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

/// The alarms of a broker, by its log.
struct Alarms {
    log: PathBuf,
    read: u64,
    on: Vec<(String, Instant)>,
}

impl Alarms {
    fn new(log: PathBuf) -> Alarms {
        Alarms { log, read: 0, on: vec![] }
    }

    /// Reads what is new in the log.
    fn look(&mut self, now: Instant) -> Option<Failure> {
        let new = read_from(&self.log, self.read).unwrap_or_default();
        let lines = new.rfind('\n').map_or("", |end| &new[..=end]);
        self.read += lines.len() as u64;
        for line in lines.lines() {
            self.hear(line, now);
        }
        let (kind, since) = self.on.first()?;
        let lasts = now.duration_since(*since);
        let said = || format!("the broker has been short of {kind} for {} s", lasts.as_secs());
        (lasts > ALARM_MAX).then(|| Failure(format!("{}:\n{}", said(), tail(&self.log))))
    }

    fn hear(&mut self, line: &str, now: Instant) {
        let Some((before, after)) = line.split_once(" resource limit alarm ") else { return };
        let kind = before.rsplit(' ').next().unwrap_or_default().to_owned();
        self.on.retain(|(other, _)| *other != kind);
        let is_on = after.starts_with("set");
        say(format!("the broker {} short of {kind}", if is_on { "is" } else { "is no longer" }));
        if is_on {
            self.on.push((kind, now));
        }
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

    fn log_of(text: &str) -> (PathBuf, Alarms) {
        let log =
            std::env::temp_dir().join(format!("alarms-{}.log", uuid::Uuid::new_v4().simple()));
        std::fs::write(&log, text).expect("a file");
        let alarms = Alarms::new(log.clone());
        (log, alarms)
    }

    #[test]
    fn an_alarm_that_lasts_is_a_failure_and_one_that_ends_is_none() {
        let begun = Instant::now();
        let late = begun + ALARM_MAX + EACH;
        let (log, mut alarms) = log_of(SET);
        assert!(alarms.look(begun).is_none());
        let Failure(said) = alarms.look(late).expect("it lasts");
        assert!(said.starts_with("the broker has been short of memory for 125 s"), "{said}");
        std::fs::write(&log, format!("{SET}{CLEARED}")).expect("a file");
        assert!(alarms.look(late).is_none());
        std::fs::remove_file(log).expect("it is there");
    }

    #[test]
    fn a_line_that_is_written_in_two_pieces_is_read_once_it_is_whole() {
        let begun = Instant::now();
        let (log, mut alarms) = log_of(&SET[..40]);
        assert!(alarms.look(begun).is_none() && alarms.on.is_empty());
        std::fs::write(&log, SET).expect("a file");
        assert!(alarms.look(begun).is_none());
        assert_eq!(alarms.on, [("memory".to_owned(), begun)]);
        std::fs::remove_file(log).expect("it is there");
    }
}
