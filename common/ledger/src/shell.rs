//! Commands in messages: how they are typed, and how they are shown.
//!
//! In a text a command stands between backticks, and begins with the name of one of the programs.
//! Promises that where people read it on a terminal it is a line of its own ([`laid_out`]), with no
//! punctuation behind it: whoever copies the line runs what is meant. Never fails.

/// Commands begin with one of these names.
const PROGRAMS: [&str; 2] = ["producer", "worker"];

/// A text as one word of a shell.
#[must_use]
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:/@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    // A backtick would end the command where it stands in a text.
    format!("'{}'", text.replace('\'', r"'\''").replace('`', r#"'"$(printf '\140')"'"#))
}

/// A text with each of its commands on a line of its own.
#[must_use]
pub fn laid_out(text: &str) -> String {
    let (mut lines, mut rest) = (Vec::new(), text);
    while let Some((before, command, after)) = next(rest) {
        lines.push(before.trim_end().to_owned());
        lines.push(format!("  {command}"));
        // The punctuation belongs to the sentence.
        rest = after.trim_start_matches([' ', '.', ',', ';', ':']);
    }
    lines.push(rest.to_owned());
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

/// What stands before the first command, the command, and what stands behind it.
fn next(text: &str) -> Option<(&str, &str, &str)> {
    let begins = |program: &&str| text.find(&format!("`{program} "));
    let at = PROGRAMS.iter().filter_map(begins).min()?;
    let (before, rest) = text.split_at(at);
    let (command, after) = rest[1..].split_once('`')?;
    Some((before, command, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_a_text_is_a_line_of_its_own() {
        for (text, expected) in [
            ("nothing to run", "nothing to run"),
            ("`id` is taken; see `producer`", "`id` is taken; see `producer`"),
            (
                "drop it, then run `producer init --apply`",
                "drop it, then run\n  producer init --apply",
            ),
            ("Repair it, then `producer unpark ID`.", "Repair it, then\n  producer unpark ID"),
            (
                "`producer init` lists it, `producer init --apply` applies it",
                "  producer init\nlists it,\n  producer init --apply\napplies it",
            ),
            ("run `worker --help`; or wait", "run\n  worker --help\nor wait"),
            ("an open `producer tick", "an open `producer tick"),
        ] {
            assert_eq!(laid_out(text), expected);
        }
    }

    #[test]
    fn a_quoted_text_is_one_word() {
        for (text, expected) in [
            ("0190-a", "0190-a"),
            ("a b", "'a b'"),
            ("it's $HOME", r"'it'\''s $HOME'"),
            ("a`b", r#"'a'"$(printf '\140')"'b'"#),
            ("", "''"),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }
}
