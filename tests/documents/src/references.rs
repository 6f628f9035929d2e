//! What documents and comments name: files, headings, packages, programs.
//!
//! Looks at links and at everything between backticks, in all Markdown files and in the comments of
//! all Rust files. Owns what counts as a name: paths that begin with a folder of the repository,
//! names with the extension of a file, and the packages, programs and examples in commands for
//! cargo. All other words are not judged. Fails only when a file can't be read.

mod text;
mod tree;

use std::fs::read_to_string;
use std::io;
use std::path::Path;

use tree::Tree;

/// Text that nobody who has only this repository can look up.
const ELSEWHERE: [&str; 2] = [concat!("design", ".md"), concat!("design", " §")];

/// Every name of something that does not exist, as `file:line: what`.
///
/// # Errors
/// When a file can't be read.
pub fn missing(root: &Path) -> io::Result<Vec<String>> {
    let tree = Tree::read(root)?;
    let mut missing = Vec::new();
    for file in tree.files() {
        let written = match file.extension().and_then(|extension| extension.to_str()) {
            Some("md") => read_to_string(root.join(file))?,
            Some("rs") => text::comments(&read_to_string(root.join(file))?),
            _ => continue,
        };
        let mut problem = |line: usize, what: &str| {
            missing.push(format!("{}:{line}: {what}", file.display()));
        };
        for (number, line) in written.lines().enumerate() {
            if ELSEWHERE.iter().any(|elsewhere| line.contains(elsewhere)) {
                problem(number + 1, "cites a document that is not in this repository");
            }
        }
        for (line, words) in text::quoted(&written) {
            for what in tree.problems(file, &words) {
                problem(line, &what);
            }
        }
        for (line, target) in text::links(&written) {
            if let Some(what) = tree.link_problem(file, &target)? {
                problem(line, &what);
            }
        }
    }
    Ok(missing)
}
