//! Secrets out of files: `TANDEM_MONGODB_URI_FILE` and `TANDEM_AMQP_URL_FILE`, as container
//! platforms mount them.
//!
//! Promises that such a file counts like the variable without `_FILE`, that a line break at its end
//! does not belong to the secret, and that nothing of a file's content is in an error. Fails when
//! both the variable and its file are given, or the file can't be read; the error names the
//! variables.

use std::ffi::OsString;

/// The variables that may be in a file, and their flags.
const SECRETS: [(&str, &str); 2] =
    [("TANDEM_MONGODB_URI", "--mongodb-uri"), ("TANDEM_AMQP_URL", "--amqp-url")];

/// The arguments of this process, with the secrets of files among them.
///
/// # Errors
/// As [`arguments`].
pub fn of_process() -> Result<Vec<OsString>, String> {
    arguments(std::env::args_os(), |name| std::env::var_os(name))
}

/// A program's arguments, with the secrets of files as flags at their beginning.
///
/// # Errors
/// When a secret is given twice, or its file can't be read or is empty.
pub fn arguments(
    given: impl IntoIterator<Item = OsString>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<OsString>, String> {
    let mut arguments: Vec<OsString> = given.into_iter().collect();
    for (name, flag) in SECRETS {
        let in_file = format!("{name}_FILE");
        let Some(path) = variable(&in_file).filter(|path| !path.is_empty()) else { continue };
        let is_flag = |argument: &OsString| {
            let argument = argument.to_string_lossy();
            argument == flag
                || argument.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='))
        };
        if arguments.iter().any(is_flag) {
            return Err(format!("{flag} and {in_file} are both given; leave one of them out"));
        }
        if variable(name).is_some_and(|value| !value.is_empty()) {
            return Err(format!("{name} and {in_file} are both set; leave one of them out"));
        }
        let shown = path.to_string_lossy();
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{in_file}: {shown}: {error}"))?;
        let secret = text.trim_end_matches(['\r', '\n']);
        if secret.is_empty() {
            return Err(format!("{in_file}: {shown} is empty"));
        }
        let at = arguments.len().min(1);
        arguments.insert(at, format!("{flag}={secret}").into());
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `MONGODB` in a file; the path as the variable names it.
    fn with(set: &[(&str, &str)], given: &[&str]) -> Result<Vec<String>, String> {
        let variable = |name: &str| {
            let found = set.iter().find(|(set, _)| *set == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let arguments = arguments(given.iter().map(OsString::from), variable)?;
        Ok(arguments.into_iter().map(|argument| argument.into_string().expect("UTF-8")).collect())
    }

    #[test]
    fn a_secret_in_a_file_counts_like_its_variable_and_is_in_no_error() {
        let path = std::env::temp_dir().join(format!("tandem-secret-{}", std::process::id()));
        std::fs::write(&path, "mongodb://u:hidden@h/\r\n").expect("it can be written");
        let path = path.to_str().expect("UTF-8");
        let file = ("TANDEM_MONGODB_URI_FILE", path);
        let read = with(&[file], &["producer", "stats"]).expect("it is there");
        assert_eq!(read, ["producer", "--mongodb-uri=mongodb://u:hidden@h/", "stats"]);
        assert_eq!(with(&[], &["worker"]).expect("nothing to do"), ["worker"]);
        let twice = with(&[file, ("TANDEM_MONGODB_URI", "x")], &["worker"]).expect_err("twice");
        assert!(twice.contains("TANDEM_MONGODB_URI and TANDEM_MONGODB_URI_FILE"), "{twice}");
        let flag = with(&[file], &["worker", "--mongodb-uri=x"]).expect_err("twice");
        assert!(flag.contains("--mongodb-uri") && !flag.contains("hidden"), "{flag}");
        std::fs::write(path, "\n").expect("it can be written");
        assert!(with(&[file], &["worker"]).expect_err("empty").contains("is empty"));
        std::fs::remove_file(path).expect("it is ours");
        let gone = with(&[file], &["worker"]).expect_err("gone");
        assert!(gone.contains("TANDEM_MONGODB_URI_FILE") && gone.contains(path), "{gone}");
    }
}
