//! The crates depend on each other as ARCHITECTURE.md says, and on nothing that would tie them
//! together.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;

use documents::{root, rust_files};
use serde_json::Value;

/// Each crate of the product, and the crates of the product that it may depend on.
const ALLOWED: [(&str, &[&str]); 18] = [
    ("ledger", &[]),
    ("settings", &["ledger"]),
    ("observe", &["ledger"]),
    ("layout", &["ledger"]),
    ("flags", &["ledger", "settings"]),
    ("mongo", &["layout", "ledger", "settings"]),
    ("queue", &["ledger", "observe", "settings"]),
    ("client", &["layout", "ledger", "mongo", "observe", "queue", "settings"]),
    ("input", &["client", "ledger"]),
    ("audit", &["client", "layout", "ledger", "mongo"]),
    ("adopt", &["client", "layout", "ledger", "mongo"]),
    ("overview", &["client", "ledger", "mongo", "queue"]),
    (
        "api",
        &[
            "audit", "client", "input", "ledger", "mongo", "observe", "overview", "queue",
            "settings",
        ],
    ),
    ("producer_console", &["api", "ledger", "mongo", "overview"]),
    (
        "producer_cli",
        &[
            "adopt",
            "api",
            "audit",
            "client",
            "flags",
            "producer_console",
            "input",
            "layout",
            "ledger",
            "mongo",
            "observe",
            "overview",
            "queue",
            "settings",
        ],
    ),
    ("engine", &["ledger"]),
    ("worker", &["engine", "ledger", "mongo", "observe", "queue", "settings"]),
    ("worker_cli", &["engine", "flags", "ledger", "settings", "worker"]),
];

/// Crates of others that only some of ours may depend on.
const ONLY: [(&str, &[&str]); 4] = [
    ("clap", &["flags", "producer_cli", "worker_cli"]),
    ("mongodb", &["adopt", "audit", "client", "mongo"]),
    ("lapin", &["queue", "worker"]),
    ("backoff", &["ledger"]),
];

/// A crate of the product, by its manifest.
struct Package {
    name: String,
    /// What it depends on when it is built for others.
    dependencies: BTreeSet<String>,
    has_features: bool,
}

fn packages() -> Vec<Package> {
    let command = ["metadata", "--no-deps", "--format-version", "1", "--locked"];
    let ran = Command::new(env!("CARGO")).args(command).current_dir(root()).output();
    let ran = ran.expect("cargo runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let metadata: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let packages = metadata["packages"].as_array().expect("a list").iter();
    let tests = root().join("tests");
    packages
        .filter(|package| !Path::new(&text(&package["manifest_path"])).starts_with(&tests))
        .map(|package| {
            let all = package["dependencies"].as_array().expect("a list").iter();
            let built_in = all.filter(|one| one["kind"].is_null());
            Package {
                name: text(&package["name"]),
                dependencies: built_in.map(|one| text(&one["name"])).collect(),
                has_features: !package["features"].as_object().expect("an object").is_empty(),
            }
        })
        .collect()
}

#[test]
fn crates_depend_on_each_other_as_the_map_says() {
    let packages = packages();
    let ours: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let mapped: BTreeMap<&str, &[&str]> = ALLOWED.into_iter().collect();
    let names: BTreeSet<&str> = mapped.keys().copied().collect();
    assert_eq!(ours, names, "the crates of the product, and those of the map");
    for Package { name, dependencies, .. } in &packages {
        let allowed = mapped[name.as_str()];
        let used = dependencies.iter().map(String::as_str).filter(|other| ours.contains(other));
        let forbidden: Vec<&str> = used.filter(|other| !allowed.contains(other)).collect();
        assert!(forbidden.is_empty(), "{name} must not depend on {forbidden:?}");
    }
}

#[test]
fn driver_broker_and_flags_stay_in_their_crates() {
    for Package { name, dependencies, .. } in packages() {
        for (other, allowed) in ONLY {
            let may = allowed.contains(&name.as_str());
            assert!(may || !dependencies.contains(other), "{name} must not depend on {other}");
        }
    }
}

#[test]
fn only_the_command_line_of_the_producer_has_features() {
    for Package { name, has_features, .. } in packages() {
        assert_eq!(has_features, name == "producer_cli", "{name}");
    }
}

/// The items that a program sees of the client, by their heads. The driver's types must not be
/// among them: whoever uses the client would depend on the driver's version. Only what takes the
/// caller's session has them, for which the client re-exports the driver.
#[test]
fn no_public_item_of_the_client_names_a_type_of_the_driver() {
    let (mut count, mut named) = (0, Vec::new());
    let takes_a_session = |path: &std::path::PathBuf| path.ends_with("in_session.rs");
    let files = rust_files(&root().join("producer/client/src")).into_iter();
    for path in files.filter(|path| !takes_a_session(path)) {
        let text = read_to_string(&path).expect("UTF-8");
        let types = driver_types(&text);
        for (at, _) in text.match_indices("    pub ").chain(text.match_indices("\npub ")) {
            let head = text[at..].trim_start().split(['{', ';']).next().unwrap_or_default();
            if ["pub(", "pub use mongo::", "pub use mongodb"]
                .iter()
                .any(|own| head.starts_with(own))
            {
                continue;
            }
            count += 1;
            let words: BTreeSet<&str> =
                head.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            if types.iter().any(|of_driver| words.contains(of_driver.as_str())) {
                named.push(format!("{}: {head}", path.display()));
            }
        }
        // An implementation of a trait can be used, too, but has no `pub`.
        named.extend(
            text.lines()
                .filter(|line| line.starts_with("impl") && line.contains("mongodb::"))
                .map(|line| format!("{}: {line}", path.display())),
        );
    }
    assert!(count > 100, "only {count} public items were found");
    assert!(named.is_empty(), "{named:#?}");
}

/// The names that a file has for types of the driver; those of BSON are a crate of their own.
fn driver_types(text: &str) -> Vec<String> {
    let uses = text.lines().filter(|line| line.starts_with("use mongodb"));
    let uses = uses.filter(|line| !line.starts_with("use mongodb::bson"));
    let words = uses.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
    let upper = words.filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()));
    upper.map(str::to_owned).chain(["mongodb".to_owned()]).collect()
}

/// Where a command may be written out: the values that messages are made of, and what lays them
/// out.
const COMMANDS: [&str; 2] = ["common/ledger/src/remedy.rs", "common/ledger/src/shell.rs"];

#[test]
fn a_command_stands_in_a_message_only_as_a_remedy() {
    let mut elsewhere = Vec::new();
    for folder in ["common", "producer", "worker"] {
        for file in rust_files(&root().join(folder)) {
            let path = file.strip_prefix(root()).expect("it is in the project").to_owned();
            let is_of_tests = path.to_str().is_some_and(|path| path.contains("tests"));
            if is_of_tests || COMMANDS.iter().any(|allowed| path == Path::new(allowed)) {
                continue;
            }
            let text = read_to_string(&file).expect("a source");
            let found = written_out(&text).into_iter();
            elsewhere.extend(found.map(|line| format!("{}: {line}", path.display())));
        }
    }
    assert!(elsewhere.is_empty(), "make a `Remedy` of it:\n{}", elsewhere.join("\n"));
    let message = "let told = format!(\"drop it, then run `producer init --apply`\");\n";
    assert_eq!(written_out(message).len(), 1, "what it looks for is found");
}

/// Lines with a command of a message. The help of a command has examples, and so have comments and
/// tests.
fn written_out(text: &str) -> Vec<&str> {
    let code = text.split_once("#[cfg(test)]").map_or(text, |(code, _)| code);
    let (mut lines, mut is_help) = (Vec::new(), false);
    for line in code.lines() {
        is_help |= line.contains("HELP: &str =") || line.contains("after_help =");
        let names_one = line.contains("`producer") || line.contains("  producer init");
        if !is_help && !line.trim_start().starts_with("//") && names_one {
            lines.push(line.trim());
        }
        is_help &= !["\";", "\")]"].iter().any(|end| line.trim_end().ends_with(end));
    }
    lines
}
