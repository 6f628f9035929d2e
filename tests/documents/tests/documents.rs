//! What documents and comments say about files and flags is so.

use std::fs::read_to_string;
use std::path::Path;

use documents::{
    CONFIGURATION, LIMITS, METRICS, configuration, limit_tests, limits, metrics, references, root,
};

#[test]
fn the_page_of_settings_is_that_of_the_programs() {
    let written = read_to_string(root().join(CONFIGURATION)).expect(CONFIGURATION);
    assert!(
        written == configuration(),
        "{CONFIGURATION} is not what the command lines say; write it anew: cargo run -p documents"
    );
}

#[test]
fn the_page_of_metrics_is_that_of_the_programs() {
    let written = read_to_string(root().join(METRICS)).expect(METRICS);
    assert!(
        written == metrics(),
        "{METRICS} is not what the programs show; write it anew: cargo run -p documents"
    );
}

#[test]
fn the_page_of_limits_is_that_of_the_programs_and_names_tests_that_exist() {
    let written = read_to_string(root().join(LIMITS)).expect(LIMITS);
    assert!(
        written == limits(),
        "{LIMITS} is not what the programs have; write it anew: cargo run -p documents"
    );
    let sources = ["common", "producer", "worker", "tests"].map(|folder| root().join(folder));
    let text: String = sources.iter().map(|folder| all_of(folder)).collect();
    for test in limit_tests() {
        assert!(text.contains(&format!("fn {test}()")), "{LIMITS} names {test}, which is no test");
    }
}

/// The text of all sources in a folder.
fn all_of(folder: &Path) -> String {
    let entries =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("it").path());
    entries
        .map(|path| match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => read_to_string(&path).expect("UTF-8"),
            None if path.is_dir() => all_of(&path),
            Some(_) | None => String::new(),
        })
        .collect()
}

#[test]
fn documents_and_comments_name_only_what_exists() {
    let missing = references::missing(&root()).expect("the workspace can be read");
    assert!(missing.is_empty(), "{} are missing:\n{}", missing.len(), missing.join("\n"));
}
