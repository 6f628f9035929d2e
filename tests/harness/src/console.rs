//! What the programs that run servers tell people.
//!
//! Owns progress, expected failures and timings. Progress goes to stderr, so that stdout carries
//! results only and a shell can evaluate it. A [`Failure`] is an outcome to explain, such as a
//! missing program or a server that does not start; anything else that goes wrong is a panic.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::interrupt::interruptible;

/// How many of a log's last lines are shown.
const TAIL_LINES: usize = 8;
/// How much of each of them.
const LINE_CHARS_MAX: usize = 300;

/// Something went wrong that the text explains, with what to do about it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

/// One line of progress.
pub fn say(text: impl std::fmt::Display) {
    eprintln!("tandem: {text}");
}

/// The end of a log, indented, for a failure's text.
#[must_use]
pub fn tail(log: &Path) -> String {
    let Ok(bytes) = std::fs::read(log) else {
        return format!("  ({} cannot be read)", log.display());
    };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return format!("  ({} is empty)", log.display());
    }
    let shown = lines[lines.len().saturating_sub(TAIL_LINES)..].iter().map(|line| {
        let start: String = line.chars().take(LINE_CHARS_MAX).collect();
        format!("  | {start}")
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// Seconds per part of a longer run, told when the value goes.
pub struct Timings {
    begun: Instant,
    parts: Vec<(&'static str, Duration)>,
}

impl Default for Timings {
    fn default() -> Timings {
        Timings { begun: Instant::now(), parts: Vec::new() }
    }
}

impl Timings {
    /// Times one part, also one that fails.
    pub async fn part<T>(&mut self, name: &'static str, work: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let done = work.await;
        self.parts.push((name, begun.elapsed()));
        done
    }
}

impl Drop for Timings {
    fn drop(&mut self) {
        self.parts.push(("total", self.begun.elapsed()));
        let width = self.parts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let line = |(name, took): &(&str, Duration)| {
            format!("\n  {name:<width$}  {:7.1} s", took.as_secs_f64())
        };
        say(format!("time{}", self.parts.iter().map(line).collect::<String>()));
    }
}

/// Runs the work of a program, and ends the program: with the work's exit code, with 1 after a
/// failure, which is told, and with 128 + signal when interrupted.
///
/// On a signal the work is dropped where it waits, so whatever must not be left behind is held by
/// a value whose `Drop` removes it.
pub async fn conclude(work: impl Future<Output = Result<i32, Failure>>) -> ! {
    let code = match interruptible(work).await {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => {
            eprintln!("tandem: error: {failure}");
            1
        }
        Err(interrupted) => {
            say(format!("interrupted by {}", interrupted.name));
            128 + interrupted.number
        }
    };
    // Without the runtime's own end, in which a database driver's last tasks may panic.
    std::process::exit(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_missing_or_empty_is_named() {
        let log = std::env::temp_dir().join(format!("tail-{}", uuid::Uuid::new_v4()));
        assert!(tail(&log).ends_with("cannot be read)"));
        std::fs::write(&log, "").expect("it can be written");
        assert!(tail(&log).ends_with("is empty)"));
        std::fs::write(&log, "1\n2\n3\n4\n5\n6\n7\n8\n9\n").expect("it can be written");
        assert!(tail(&log).starts_with("  | 2\n") && tail(&log).ends_with("  | 9"));
        std::fs::remove_file(log).expect("it is ours");
    }
}
