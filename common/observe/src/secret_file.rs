//! Reading a file of secrets.
//!
//! Promises that a file that everybody on the machine can read is refused: its secrets are none any
//! more. Fails with a sentence that names the file.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The rights of those who are neither the owner nor of the group.
const OTHERS: u32 = 0o007;

/// What a file of secrets says. `what` names the secrets, for the sentence that refuses it.
///
/// # Errors
/// When it can't be read, or everybody on the machine can read it.
pub fn read(path: &Path, what: &str) -> Result<Vec<u8>, String> {
    let failed = |error| format!("{}: {error}", path.display());
    let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode();
    if mode & OTHERS != 0 {
        let (path, mode) = (path.display(), mode & 0o777);
        return Err(format!(
            "{path}: everybody on this machine can read {what} (mode {mode:03o}); take the rights of \
             others away"
        ));
    }
    std::fs::read(path).map_err(failed)
}
