//! What is built in is written down in full, and none of our crates may be unsafe.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;
use std::process::Command;

use documents::root;
use serde_json::Value;

fn output(command: &mut Command) -> String {
    let ran = command.current_dir(root()).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{command:?}: {told}");
    String::from_utf8(ran.stdout).expect("UTF-8")
}

/// The crates in a program, as `name version`.
fn built_in(program: &str) -> BTreeSet<String> {
    let arguments =
        ["tree", "--locked", "--edges", "normal", "--prefix", "none", "--package", program];
    let tree = output(Command::new(env!("CARGO")).args(arguments));
    let name = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next()?, words.next()?);
        Some(format!("{name} {}", version.trim_start_matches('v')))
    };
    tree.lines().filter_map(name).collect()
}

/// The checksums of Cargo.lock, by `name version`.
fn checksums() -> BTreeMap<String, String> {
    let lock = read_to_string(root().join("Cargo.lock")).expect("Cargo.lock");
    let field = |package: &str, name: &str| {
        let begin = format!("{name} = \"");
        let line = package.lines().find(|line| line.starts_with(&begin))?;
        Some(line[begin.len()..].trim_end_matches('"').to_owned())
    };
    lock.split("[[package]]")
        .filter_map(|package| {
            let name = format!("{} {}", field(package, "name")?, field(package, "version")?);
            Some((name, field(package, "checksum")?))
        })
        .collect()
}

#[test]
fn the_list_of_what_is_built_in_has_every_crate_with_its_checksum() {
    let list: Value = serde_json::from_str(&output(&mut Command::new(root().join("deploy/sbom"))))
        .expect("it is JSON");
    assert_eq!((&list["bomFormat"], &list["specVersion"]), (&"CycloneDX".into(), &"1.6".into()));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let components = list["components"].as_array().expect("components");
    let locked = checksums();
    let mut listed = BTreeMap::new();
    for component in components {
        let name = format!("{} {}", text(&component["name"]), text(&component["version"]));
        let reference = text(&component["bom-ref"]);
        assert_eq!(reference, format!("pkg:cargo/{}", name.replace(' ', "@")));
        assert!(
            ["library", "application"].contains(&component["type"].as_str().unwrap_or_default())
        );
        assert_ne!(text(&component["licenses"][0]["expression"]), "", "{name} has a licence");
        let checksum = component["hashes"][0]["content"].as_str();
        assert_eq!(checksum, locked.get(&name).map(String::as_str), "{name}");
        let before = listed.insert(name.clone(), text(&component["scope"]));
        assert_eq!(before, None, "{name} is listed twice");
    }
    for program in ["producer_cli", "worker_cli"] {
        let crates = built_in(program);
        assert!(crates.len() > 100, "{crates:?}");
        for name in crates {
            let scope = listed.get(&name).map(String::as_str);
            assert_eq!(scope, Some("required"), "{name}, which is in {program}");
        }
    }
    let references: BTreeSet<_> = components.iter().map(|one| text(&one["bom-ref"])).collect();
    for dependency in list["dependencies"].as_array().expect("dependencies") {
        for other in dependency["dependsOn"].as_array().expect("a list") {
            assert!(references.contains(&text(other)), "{other} is in no list");
        }
    }
}

#[test]
fn no_crate_of_ours_may_be_unsafe() {
    let workspace = read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    assert!(
        workspace.contains("[workspace.lints.rust]\nunsafe_code = \"forbid\"\n"),
        "{workspace}"
    );
    let members = workspace.split_once("members = [").and_then(|(_, rest)| rest.split_once(']'));
    let members = members.expect("a list of members").0.split('"').skip(1).step_by(2);
    let mut count = 0;
    for member in members {
        let manifest = read_to_string(root().join(member).join("Cargo.toml")).expect(member);
        assert!(manifest.contains("[lints]\nworkspace = true\n"), "{member} does not forbid it");
        count += 1;
    }
    assert!(count > 10, "{count} members");
}
