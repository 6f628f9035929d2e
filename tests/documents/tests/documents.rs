//! What documents and comments say about files and flags is so.

use std::fs::read_to_string;

use documents::{CONFIGURATION, METRICS, configuration, metrics, references, root};

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
fn documents_and_comments_name_only_what_exists() {
    let missing = references::missing(&root()).expect("the workspace can be read");
    assert!(missing.is_empty(), "{} are missing:\n{}", missing.len(), missing.join("\n"));
}
