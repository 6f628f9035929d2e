//! The files that operators deploy are valid, and name only flags, variables and ports of the
//! programs.
//!
//! No container engine is needed. Each test runs a module of `tests/documents/deployment` with the
//! validators that `deploy/test` brings, and fails with what the module has found.

use std::io::Write;
use std::process::{Command, Stdio};

use documents::{root, settings};

fn check(module: &str) {
    let validators = std::env::var_os("TANDEM_VALIDATORS")
        .expect("deploy/test sets TANDEM_VALIDATORS: run this test by it");
    let paths =
        std::env::join_paths([validators.as_ref(), root().join("tests/documents").as_os_str()]);
    let mut python = Command::new("python3")
        .args(["-B", "-m", &format!("deployment.{module}")])
        .arg(root())
        .env("PYTHONPATH", paths.expect("paths without a colon"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python runs");
    let settings = settings().to_string();
    let mut input = python.stdin.take().expect("it is piped");
    input.write_all(settings.as_bytes()).expect("it reads");
    drop(input);
    let said = python.wait_with_output().expect("it ends");
    let text = [said.stdout, said.stderr].concat();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&text));
}

#[test]
fn image_and_compose_file_are_valid_and_fit_the_programs() {
    check("container");
}

#[test]
fn manifests_are_valid_and_fit_the_programs_and_each_other() {
    check("manifests");
}

#[test]
fn units_are_valid_and_hardened_and_fit_the_programs() {
    check("units");
}

#[test]
fn commands_in_the_operators_handbook_exist() {
    check("handbook");
}
