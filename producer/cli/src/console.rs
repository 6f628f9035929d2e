//! What a command says on standard error while it runs: notes and progress.
//!
//! Owns the terminal's last line. On a terminal progress is a bar; otherwise a plain line every few
//! seconds, so that a log stays readable. Never fails: a closed standard error is ignored.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often progress shows where there is no terminal.
const PLAIN_EVERY: Duration = Duration::from_secs(5);

/// Standard error.
#[derive(Debug, Default)]
pub struct Console {
    bar: Mutex<Option<ProgressBar>>,
    quiet: bool,
}

impl Console {
    /// A console that says nothing.
    #[must_use]
    pub fn quiet() -> Console {
        Console { quiet: true, ..Console::default() }
    }

    /// Says a line, above the bar if there is one.
    pub fn note(&self, line: impl AsRef<str>) {
        if self.quiet {
            return;
        }
        let write = || drop(writeln!(std::io::stderr(), "{}", line.as_ref()));
        match &*self.bar.lock().expect("no holder panics") {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Starts to show progress of `label` towards `total`; `None` when the end is not known.
    pub fn progress(&self, label: &'static str, total: Option<u64>) -> Progress<'_> {
        let bar = (!self.quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
            bar.set_style(style(total.is_some()));
            bar.set_prefix(label);
            bar
        });
        self.bar.lock().expect("no holder panics").clone_from(&bar);
        let begun = Instant::now();
        Progress { console: self, bar, label, total, begun, from: 0, said: Mutex::new(begun) }
    }
}

fn style(bounded: bool) -> ProgressStyle {
    let template = if bounded {
        "{prefix} [{bar:30}] {human_pos}/{human_len} {per_sec} {msg}"
    } else {
        "{prefix} {human_pos} {per_sec} {msg}"
    };
    ProgressStyle::with_template(template)
        .expect("the template is a constant")
        .progress_chars("=> ")
}

/// One running progress; it leaves the screen when dropped.
#[derive(Debug)]
pub struct Progress<'a> {
    console: &'a Console,
    bar: Option<ProgressBar>,
    label: &'static str,
    total: Option<u64>,
    begun: Instant,
    from: u64,
    said: Mutex<Instant>,
}

impl Progress<'_> {
    /// The same, which begins at this position: what an interrupted run has done before counts for
    /// the position, and not for the rate.
    #[must_use]
    pub fn from(mut self, position: u64) -> Self {
        self.from = position;
        if let Some(bar) = &self.bar {
            bar.set_position(position);
            bar.reset_eta();
        }
        self
    }

    /// Shows a position and what else there is to say.
    pub fn at(&self, position: u64, message: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(message.to_owned());
            bar.set_position(position);
            return;
        }
        let mut said = self.said.lock().expect("no holder panics");
        if said.elapsed() >= PLAIN_EVERY {
            *said = Instant::now();
            self.console.note(self.line(position, self.begun.elapsed(), message));
        }
    }

    fn line(&self, position: u64, elapsed: Duration, message: &str) -> String {
        let of = self.total.map(|total| format!("/{total}")).unwrap_or_default();
        let rate = per_second(position.saturating_sub(self.from), elapsed);
        format!("{}: {position}{of}, {rate:.0}/s {message}", self.label)
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            *self.console.bar.lock().expect("no holder panics") = None;
        }
    }
}

/// A rate; zero instead of infinite if no time has passed.
#[must_use]
pub fn per_second(count: u64, elapsed: Duration) -> f64 {
    let seconds = elapsed.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_before_an_interruption_is_in_the_position_and_not_in_the_rate() {
        let console = Console::quiet();
        let second = Duration::from_secs(1);
        let fresh = console.progress("looking", Some(9_000));
        assert_eq!(fresh.line(500, second, "accounts"), "looking: 500/9000, 500/s accounts");
        let resumed = console.progress("looking", Some(9_000)).from(8_000);
        assert_eq!(resumed.line(8_500, second, "accounts"), "looking: 8500/9000, 500/s accounts");
    }
}
