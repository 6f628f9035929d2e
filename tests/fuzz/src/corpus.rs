//! The inputs that are kept: `corpus/<target>/<file>`.
//!
//! A name that begins with `accepted` or `refused` says what has to become of the file; any other
//! name only says that the file must do no harm.

use std::path::{Path, PathBuf};

use super::runner::{Check, Verdict, judged};

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// Runs every kept input.
///
/// # Panics
/// Names the file that fails, or that is not refused or accepted as its name says.
pub fn replay(target: &str, check: Check) -> usize {
    let folder = folder(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.sort_unstable();
    for file in &files {
        let input = std::fs::read(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let verdict = judged(check, &input);
        let verdict = verdict.unwrap_or_else(|problem| panic!("{}: {problem}", file.display()));
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let as_said = match verdict {
            _ if name.starts_with("accepted") => verdict.accepted > 0 && verdict.refused == 0,
            _ if name.starts_with("refused") => verdict.accepted == 0 && verdict.refused > 0,
            Verdict { .. } => true,
        };
        assert!(as_said, "{}: {verdict:?}, which is not what its name says", file.display());
    }
    files.len()
}

/// Keeps an input that failed; tells where.
pub fn keep(target: &str, input: &[u8]) -> PathBuf {
    // FNV-1a: the same input gets the same name.
    let digest = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    let file = folder(target).join(format!("found-{digest:016x}"));
    let written =
        std::fs::create_dir_all(folder(target)).and_then(|()| std::fs::write(&file, input));
    written.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    file
}
