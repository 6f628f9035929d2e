//! Takes comments, quoted text and links out of a file. Pure; line numbers are kept.

/// The comments of a Rust file, each on its own line; all other lines are empty.
pub fn comments(source: &str) -> String {
    let lines = source.lines().map(|line| match line.trim_start().strip_prefix("//") {
        Some(comment) => comment.trim_start_matches(['/', '!']),
        None => line.split_once(" // ").map_or("", |(_, comment)| comment),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// What stands between backticks, and the lines of fenced blocks, each with its line number.
pub fn quoted(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut fenced, mut open) = (false, None::<(usize, String)>);
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            (fenced, open) = (!fenced, None);
        } else if fenced {
            found.push((number, line.to_owned()));
        } else if line.trim().is_empty() {
            // Text between backticks does not go beyond its paragraph.
            open = None;
        } else {
            for (index, part) in line.split('`').enumerate() {
                open = match (open.take(), index) {
                    (None, 0) => None,
                    (None, _) => Some((number, part.to_owned())),
                    (Some((begun, head)), 0) => Some((begun, format!("{head} {part}"))),
                    (Some(whole), _) => {
                        found.push(whole);
                        None
                    }
                };
            }
        }
    }
    found
}

/// The targets of links, each with its line number.
pub fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        found.extend(targets.map(|(target, _)| (number, target.to_owned())));
    }
    found
}

/// The anchor that a heading has on the web: small letters, hyphens for spaces, nothing else.
pub fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_keep_their_lines() {
        let source = "//! one `a`\nlet b = 1; // two\nlet url = \"a://b\";\n    /// three";
        assert_eq!(comments(source), " one `a`\ntwo\n\n three");
    }

    #[test]
    fn quoted_text_is_found_over_lines_and_in_blocks() {
        let text = "see `one` and `two\nlines`.\n\nodd ` one\n\n```sh\nrun it\n```\n`last`";
        let found = quoted(text);
        let expected = [(1, "one"), (1, "two lines"), (7, "run it"), (9, "last")];
        assert_eq!(found, expected.map(|(line, words)| (line, words.to_owned())));
    }

    #[test]
    fn links_and_anchors_are_those_of_the_web() {
        let text = "[a](b.md) and\n[`c`](d.md#e-f)";
        assert_eq!(links(text), [(1, "b.md".to_owned()), (2, "d.md#e-f".to_owned())]);
        assert_eq!(anchor("Bulkheads: a document's `fate`"), "bulkheads-a-documents-fate");
    }
}
