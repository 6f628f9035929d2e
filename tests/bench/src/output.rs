//! The end of a program that measures one thing: its figures as a file, and its exit code.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

/// Where figures go beside the standard output.
#[derive(Clone, Debug, clap::Args)]
pub struct Output {
    /// Write the figures to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Output {
    /// Writes the figures if that was asked for. The exit code says whether that succeeded and what
    /// was measured is sound.
    #[must_use]
    pub fn conclude(self, figures: &impl Serialize, is_sound: bool) -> ExitCode {
        if let Some(file) = self.json {
            let figures = serde_json::json!(figures);
            if let Err(error) = std::fs::write(&file, format!("{figures:#}\n")) {
                eprintln!("{}: {error}", file.display());
                return ExitCode::FAILURE;
            }
        }
        if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
