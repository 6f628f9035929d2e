//! The documents, held to the code.
//!
//! - [`configuration`]: `deploy/configuration.md`, made from the definitions of the command lines.
//! - [`limits`]: `deploy/limits.md`, made from constants and flags.
//! - [`metrics`]: `deploy/metrics.md`, made from what the programs show when they start.
//! - [`references`]: what documents and comments name (files, headings, packages) exists.
//! - [`settings`]: the same definitions for the checks of Dockerfile, manifests and units.
//! - The programs in `README.md` and `deploy/usage.md` compile: they are doctests of this crate.
//!
//! Fails as a test of the workspace that names file, line and what is missing there.

mod configuration;
mod limits;
mod metrics;
pub mod references;
mod settings;

use std::path::{Path, PathBuf};

pub use configuration::configuration;
pub use limits::{limits, tests as limit_tests};
pub use metrics::metrics;
pub use settings::settings;

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../deploy/usage.md")]
struct Usage;

/// Where [`configuration`] is kept.
pub const CONFIGURATION: &str = "deploy/configuration.md";

/// Where [`limits`] is kept.
pub const LIMITS: &str = "deploy/limits.md";

/// Where [`metrics`] is kept.
pub const METRICS: &str = "deploy/metrics.md";

/// Where the description of the HTTP API is kept, from which clients are generated.
pub const OPENAPI: &str = "common/schemas/openapi.json";

/// The folder of the workspace.
///
/// # Panics
/// Never: this crate lies two folders below it.
#[must_use]
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("tests/documents is in the workspace").to_owned()
}

/// The files of Rust below a folder.
///
/// # Panics
/// When the folder can't be read.
#[must_use]
pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder that can be read");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .flat_map(|path| match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => vec![path],
            None if path.is_dir() => rust_files(&path),
            Some(_) | None => Vec::new(),
        })
        .collect()
}
