//! The page of all flags and variables, made from the definitions of the command lines.
//!
//! Owns how the page looks; names, defaults and meanings are those that `--help` shows. Writes
//! nothing: the program of this crate does.

use std::fmt::Write;

use clap::{Arg, ArgAction, Args, Command, CommandFactory};
use flags::{AmqpFlags, LogFlags, MongoFlags};
use producer_cli::Cli;

const INTRODUCTION: &str = "\
# Configuration

This page is made from the definitions of the command lines. To write it anew:
`cargo run -p documents`.

A flag wins over its environment variable. The variable of a switch takes `true` or `false`. A
program checks its settings when it starts; it ends with exit code 2 and names the variable if one
can't work. A program of yours that embeds a worker or a client sets them as fields of
`worker::Config` and `client::Config`.

Servers: MongoDB 6.0 or newer, as a replica set or a sharded cluster (on which Tandem has never
run); RabbitMQ 3.10 or newer.
All workers and producers of one ledger need the same database and the same queue prefix.
";

/// The page as it should be.
#[must_use]
pub fn configuration() -> String {
    let mut page = INTRODUCTION.to_owned();
    let shared = shared();
    let worker = worker();
    let mut producer = Cli::command();
    producer.build();

    section(&mut page, 2, "`worker` and `producer`", "", &flags(&shared, &[]));
    section(&mut page, 2, "`worker`", "Beside those above:", &flags(&worker, &[&shared]));
    section(&mut page, 2, "`producer`", "Beside those above:", &flags(&producer, &[&shared]));
    for command in commands(&producer) {
        let about = command.get_about().map(|about| format!("{about}.")).unwrap_or_default();
        let title = format!("`{}`", command.get_bin_name().unwrap_or(command.get_name()));
        section(&mut page, 3, &title, &about, &flags(command, &[&shared, &producer]));
    }
    page
}

/// What both programs understand.
fn shared() -> Command {
    let servers = AmqpFlags::augment_args(MongoFlags::augment_args(Command::new("both")));
    LogFlags::augment_args(servers)
}

/// Everything that the worker understands.
pub(crate) fn worker() -> Command {
    worker_cli::Cli::command()
}

/// The commands that do something, also those of a group.
pub(crate) fn commands(command: &Command) -> Vec<&Command> {
    let mut all = Vec::new();
    for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
        match command.has_subcommands() {
            true => all.extend(commands(command)),
            false => all.push(command),
        }
    }
    all
}

/// The arguments of a command that are not among those of the others.
fn flags<'a>(command: &'a Command, others: &[&Command]) -> Vec<&'a Arg> {
    let elsewhere = |arg: &Arg| {
        let mut all = others.iter().flat_map(|other| other.get_arguments());
        all.any(|other| other.get_id() == arg.get_id() && other.is_global_set())
    };
    let own = |arg: &&Arg| !["help", "version"].contains(&arg.get_id().as_str());
    command.get_arguments().filter(own).filter(|arg| !elsewhere(arg)).collect()
}

fn section(page: &mut String, level: usize, title: &str, text: &str, flags: &[&Arg]) {
    let hashes = "#".repeat(level);
    write!(page, "\n{hashes} {title}\n").expect("a string takes all");
    if !text.is_empty() {
        write!(page, "\n{text}\n").expect("a string takes all");
    }
    if flags.is_empty() {
        return;
    }
    let variables = flags.iter().any(|arg| arg.get_env().is_some());
    page.push_str(match variables {
        true => "\n| flag | variable | default | meaning |\n| --- | --- | --- | --- |\n",
        false => "\n| flag | default | meaning |\n| --- | --- | --- |\n",
    });
    for arg in flags {
        let mut cells = vec![name(arg)];
        if variables {
            cells.extend([arg
                .get_env()
                .map_or(String::new(), |name| code(&name.to_string_lossy()))]);
        }
        cells.extend([default(arg), meaning(arg)]);
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        writeln!(page, "| {} |", cells.join(" | ")).expect("a string takes all");
    }
}

/// `--flag VALUE`, or the argument's name.
fn name(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default().join(" ");
    match arg.get_long() {
        Some(long) if is_switch(arg) => code(&format!("--{long}")),
        Some(long) => code(&format!("--{long} {values}")),
        None => code(&values),
    }
}

fn default(arg: &Arg) -> String {
    let defaults: Vec<_> = arg.get_default_values().iter().map(|v| v.to_string_lossy()).collect();
    match (arg.is_required_set(), is_switch(arg)) {
        (true, _) => "required".to_owned(),
        (false, true) => code("false"),
        (false, false) if defaults.is_empty() => String::new(),
        (false, false) => code(&defaults.join(" ")),
    }
}

/// The help text on one line, with the values that may be chosen.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut meaning = help.split_whitespace().collect::<Vec<_>>().join(" ");
    if is_switch(arg) {
        return meaning;
    }
    for value in arg.get_possible_values().iter().filter(|value| !value.is_hide_set()) {
        let of_value = value.get_help().map(|help| format!(": {help}")).unwrap_or_default();
        write!(meaning, "<br>{}{of_value}", code(value.get_name())).expect("a string takes all");
    }
    meaning
}

pub(crate) fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::SetFalse)
}

fn code(text: &str) -> String {
    format!("`{text}`")
}
