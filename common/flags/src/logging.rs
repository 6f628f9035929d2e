//! How the programs log: lines on standard error, as text or as JSON.

use clap::{Args, ValueEnum};

/// How to log.
#[derive(Args, Clone, Debug)]
pub struct LogFlags {
    /// Log lines as text or as JSON
    #[arg(long, env = "TANDEM_LOG_FORMAT", value_enum, default_value = "text", global = true)]
    pub log_format: LogFormat,

    /// What to log: a level, or targets like `info,mongo=debug`. The broker's client is silent
    /// unless it is named, as in `info,lapin=debug`
    #[arg(long, env = "TANDEM_LOG", default_value = "info", global = true)]
    pub log: String,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For log collectors: one JSON object a line.
    Json,
}

/// The broker's client. It logs as errors of its own what Tandem tells in lines of its own, or what
/// is no failure at all.
const BROKER_CLIENT: &str = "lapin";

/// What is logged of all that the programs are made of.
///
/// # Errors
/// When the setting does not parse.
fn filter(log: &str) -> Result<tracing_subscriber::EnvFilter, String> {
    let is_named = log.split(',').any(|one| one.trim_start().starts_with(BROKER_CLIENT));
    let log = if is_named { log.to_owned() } else { format!("{log},{BROKER_CLIENT}=off") };
    tracing_subscriber::EnvFilter::try_new(log)
        .map_err(|error| format!("TANDEM_LOG: {error}; write a level like info or debug"))
}

/// Starts logging to standard error. Later calls in the same process change nothing.
///
/// # Errors
/// When the filter does not parse.
pub fn init_logging(args: &LogFlags) -> Result<(), String> {
    let filter = filter(&args.log)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match args.log_format {
        LogFormat::Text => {
            let colors = std::io::IsTerminal::is_terminal(&std::io::stderr());
            lines.with_ansi(colors).try_init()
        }
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    if let Err(error) = started {
        tracing::debug!(%error, "logging was already started");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brokers_client_is_silent_unless_it_is_named() {
        for (log, expected) in [
            ("info", "lapin=off"),
            ("debug,common=trace", "lapin=off"),
            ("warn,lapin=debug", "lapin=debug"),
            ("info,lapin::channels=trace", "lapin::channels=trace"),
        ] {
            let filter = filter(log).expect(log).to_string();
            assert_eq!(filter.matches("lapin").count(), 1, "{filter}");
            assert!(filter.split(',').any(|one| one == expected), "{log}: {filter}");
        }
        assert!(filter("info,,=").is_err_and(|error| error.starts_with("TANDEM_LOG")));
    }
}
