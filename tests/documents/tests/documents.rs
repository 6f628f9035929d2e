//! What documents and comments say about files and flags is so.

use std::fs::read_to_string;

use documents::{
    CONFIGURATION, LIMITS, METRICS, OPENAPI, configuration, limit_tests, limits, metrics,
    references, root, rust_files,
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
fn the_published_description_of_the_api_is_that_of_the_server() {
    let written = read_to_string(root().join(OPENAPI)).expect(OPENAPI);
    assert!(
        written == api::openapi::text(),
        "{OPENAPI} is not what the server tells; write it anew: cargo run -p documents"
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
    let files = sources.iter().flat_map(|folder| rust_files(folder));
    let text: String = files.map(|file| read_to_string(file).expect("UTF-8")).collect();
    for test in limit_tests() {
        assert!(text.contains(&format!("fn {test}()")), "{LIMITS} names {test}, which is no test");
    }
}

#[test]
fn documents_and_comments_name_only_what_exists() {
    let missing = references::missing(&root()).expect("the workspace can be read");
    assert!(missing.is_empty(), "{} are missing:\n{}", missing.len(), missing.join("\n"));
}
