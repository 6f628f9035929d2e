//! The demo's flags, and which of them make sense together.

use std::path::PathBuf;

use clap::Parser;

use super::data::{ACCOUNTS_MIN, BALANCE, TRANSFERS_MIN};

const EXAMPLES: &str = "\
Examples:
  deploy/demo                              20,000 transfers, 3 workers, one of them killed
  deploy/demo --transfers 200000           more of them
  deploy/demo --keep                       leave servers and data for a look around

Everything it writes is in the directory: logs/, accounts.csv, transfers.csv.
A server named by TANDEM_MONGODB_URI or TANDEM_AMQP_URL is used instead of an own one; the
demo's database and queues (demo_...) then stay there.

Exit codes:
  0    every transfer came to the end that its input calls for, and the audit found nothing
  1    it did not, or the demo could not be carried out
  2    bad usage
  130  interrupted; nothing is left running";

/// Settles transfers on real servers while a worker is killed.
#[derive(Clone, Debug, Parser)]
#[command(override_usage = "deploy/demo [OPTIONS]", after_help = EXAMPLES)]
pub struct Args {
    /// How many transfers to submit
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub transfers: usize,
    /// Between how many accounts
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub accounts: usize,
    /// How many workers settle them
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub workers: usize,
    /// Leave the servers running
    #[arg(long)]
    pub keep: bool,
    /// Where data, logs and files go [default: .local/demo]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

impl Args {
    /// Checks that the demo can work with these numbers.
    ///
    /// # Errors
    /// Which flag to change.
    pub fn validate(&self) -> Result<(), String> {
        if self.transfers < TRANSFERS_MIN {
            return Err(format!("--transfers must be at least {TRANSFERS_MIN}"));
        }
        if self.accounts < ACCOUNTS_MIN {
            return Err(format!("--accounts must be at least {ACCOUNTS_MIN}"));
        }
        // No account may be the source of so many transfers that it can't pay 1 in each.
        if self.transfers as u64 > (self.accounts as u64).saturating_mul(BALANCE / 10) {
            let few = "--transfers is too high: so few --accounts would run out of money";
            return Err(few.to_owned());
        }
        if self.workers < 1 {
            return Err("--workers must be at least 1".to_owned());
        }
        Ok(())
    }

    /// The directory of the demo, as an absolute path.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        let path = self.dir.clone().unwrap_or_else(|| harness::deployment::local().join("demo"));
        // Fails only for an empty path, or without a working directory.
        std::path::absolute(&path).unwrap_or(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_cannot_work_are_refused_by_the_name_of_the_flag() {
        let good = Args { transfers: 10, accounts: 3, workers: 1, keep: false, dir: None };
        assert_eq!(good.validate(), Ok(()));
        for (bad, flag) in [
            (Args { transfers: 9, ..good.clone() }, "--transfers must be at least 10"),
            (Args { accounts: 2, ..good.clone() }, "--accounts must be at least 3"),
            (Args { transfers: 300_001, ..good.clone() }, "--transfers is too high"),
            (Args { workers: 0, ..good.clone() }, "--workers must be at least 1"),
        ] {
            let problem = bad.validate().expect_err(flag);
            assert!(problem.starts_with(flag), "{problem}");
        }
    }
}
