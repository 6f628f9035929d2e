//! What test programs say of their tests, line by line.
//!
//! Promises that a test without a result is noticed: each program announces how many it runs.

/// The tests of some programs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many were announced.
    pub announced: usize,
    pub passed: usize,
    pub ignored: usize,
    /// Their names.
    pub failed: Vec<String>,
}

impl Tally {
    /// Takes in a line of a program's output.
    pub fn read(&mut self, line: &str) {
        if let Some(announced) = announced(line) {
            self.announced += announced;
        } else if let Some((name, result)) =
            line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... "))
        {
            match result.split(',').next() {
                Some("ok") => self.passed += 1,
                Some("ignored") => self.ignored += 1,
                Some("FAILED") => self.failed.push(name.to_owned()),
                _ => {}
            }
        }
    }

    /// How many have no result.
    pub fn unknown(&self) -> usize {
        self.announced.saturating_sub(self.passed + self.ignored + self.failed.len())
    }
}

/// `running 12 tests`
fn announced(line: &str) -> Option<usize> {
    let (count, tests) = line.strip_prefix("running ")?.split_once(' ')?;
    matches!(tests, "test" | "tests").then(|| count.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_that_is_announced_has_a_result_or_is_missed() {
        let said = "\
running 5 tests
test money::is_right ... ok
test money::is_slow has been running for over 60 seconds
test money::is_measured ... ignored, a measurement: run it alone
test money::is_late ... FAILED
test money::is_refused - should panic ... ok

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s

running 1 test
test src/lib.rs - (line 3) ... ok";
        let mut tally = Tally::default();
        said.lines().for_each(|line| tally.read(line));
        let failed = vec!["money::is_late".to_owned()];
        assert_eq!(tally, Tally { announced: 6, passed: 3, ignored: 1, failed });
        assert_eq!(tally.unknown(), 1);
    }
}
