//! What the command lines of the programs understand, for checks of files that call them.

use std::collections::BTreeMap;

use clap::{Arg, Command, CommandFactory};
use producer_cli::Cli;
use serde_json::{Value, json};

use super::configuration::{commands, is_switch, worker};

/// The flags and variables of each command: `{"producer serve": {"flags": {"--listen": true},
/// "variables": {"TANDEM_LISTEN": "127.0.0.1:8080"}, "drain": 70}}`. A flag is `true` if it takes a
/// value; `drain` is for how many seconds a server goes on after it was told to stop, if no variable
/// says it.
#[must_use]
pub fn settings() -> Value {
    let mut producer = Cli::command();
    producer.build();
    let mut all = BTreeMap::from([("worker".to_owned(), understood(&worker(), &[]))]);
    for command in commands(&producer) {
        let name = command.get_bin_name().unwrap_or(command.get_name());
        all.insert(name.to_owned(), understood(command, &[&producer]));
    }
    let serve = all.get_mut("producer serve").expect("there is such a command");
    serve["drain"] = json!(api::limits::DRAIN_LIMIT.as_secs());
    json!(all)
}

fn understood(command: &Command, above: &[&Command]) -> Value {
    let inherited = above.iter().flat_map(|above| above.get_arguments());
    let all: Vec<&Arg> = command.get_arguments().chain(inherited).collect();
    let flag = |arg: &&Arg| Some((format!("--{}", arg.get_long()?), !is_switch(arg)));
    let mut flags: BTreeMap<String, bool> = all.iter().filter_map(flag).collect();
    flags.extend(["--help", "--version"].map(|flag| (flag.to_owned(), false)));
    let variable = |arg: &&Arg| {
        let default = arg.get_default_values().first().map(|value| value.to_string_lossy());
        Some((arg.get_env()?.to_string_lossy().into_owned(), default.unwrap_or_default().into()))
    };
    let variables: BTreeMap<String, String> = all.iter().filter_map(variable).collect();
    json!({ "flags": flags, "variables": variables })
}
