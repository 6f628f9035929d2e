//! Clients that public generators make from the published description compile, and settle
//! transfers.

use std::path::{Path, PathBuf};
use std::process::Command;

use harness::deployment::root;
use harness::process::Process;
use harness::wait::s;
use harness::world::World;
use serde_json::{Value, json};

use crate::recipes::packages;

const DESCRIPTION: &str = "common/schemas/openapi.json";

/// A program with its generated client, ready to be run.
struct Client {
    directory: PathBuf,
    program: fn() -> Command,
}

/// Runs something to its end in this directory. Says whether it has succeeded, and what it has
/// printed.
async fn run(mut command: Command, directory: &Path, log: &str) -> (bool, String) {
    command.current_dir(directory);
    let mut running = Process::start(&mut command, directory.join(format!("{log}.log")));
    (running.exit(s(120)).await.success(), running.log())
}

async fn must_run(command: Command, directory: &Path, log: &str) {
    let (succeeded, printed) = run(command, directory, log).await;
    assert!(succeeded, "{log}: {printed}");
}

fn copied(language: &str, files: &[&str], directory: &Path) {
    std::fs::create_dir_all(directory).expect("the directory can be made");
    for file in files {
        let from = root().join("deploy/recipes/generated").join(language).join(file);
        std::fs::copy(from, directory.join(file)).expect("the file can be copied");
    }
}

fn node(script: &str) -> Command {
    let mut node = Command::new("node");
    node.arg(script);
    node
}

fn python() -> Command {
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", packages("generators"));
    python
}

async fn typescript(world: &World) -> Client {
    let directory = world.directory().join("typescript");
    copied("typescript", &["package.json", "tsconfig.json", "transfer.ts"], &directory);
    let modules = packages("generators").join("node_modules");
    std::os::unix::fs::symlink(modules, directory.join("node_modules")).expect("a link");
    let mut generate = node("node_modules/openapi-typescript/bin/cli.js");
    generate.arg(root().join(DESCRIPTION)).args(["--output", "api.d.ts"]);
    must_run(generate, &directory, "generate").await;
    let mut compile = node("node_modules/typescript/bin/tsc");
    compile.args(["--project", "."]);
    must_run(compile, &directory, "compile").await;
    Client { directory, program: || node("built/transfer.js") }
}

async fn in_python(world: &World) -> Client {
    let directory = world.directory().join("python");
    copied("python", &["transfer.py", "generate.yaml"], &directory);
    let mut generate = python();
    generate
        .args(["-m", "openapi_python_client", "generate", "--path"])
        .arg(root().join(DESCRIPTION));
    generate.args(["--meta", "none", "--output-path", "tandem_client"]);
    generate.args(["--config", "generate.yaml", "--fail-on-warning"]);
    must_run(generate, &directory, "generate").await;
    let mut load = python();
    load.args([
        "-c",
        "import pkgutil, importlib, tandem_client as client\n\
        for module in pkgutil.walk_packages(client.__path__, 'tandem_client.'):\n\
        \x20   importlib.import_module(module.name)",
    ]);
    must_run(load, &directory, "load").await;
    let program = || {
        let mut python = python();
        python.arg("transfer.py");
        python
    };
    Client { directory, program }
}

impl Client {
    async fn transfer(&self, api: &str, token: &str, arguments: [&str; 4]) -> (bool, String) {
        let mut command = (self.program)();
        command.args(arguments);
        command.env("TANDEM_API", api).env("TANDEM_TOKEN", token);
        run(command, &self.directory, "transfer").await
    }

    async fn ends(&self, api: &str, token: &str, arguments: [&str; 4]) -> Value {
        let (succeeded, printed) = self.transfer(api, token, arguments).await;
        assert!(succeeded, "{printed}");
        serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}"))
    }
}

#[tokio::test]
async fn clients_made_by_public_generators_pay_and_learn_what_became_of_it() {
    for language in ["typescript", "python"] {
        let world = World::new().await;
        world.accounts(&[("alice", 100), ("bob", 0)]).await;
        let worker = world.worker("one").start().await;
        let tokens = world.directory().join("tokens");
        let token = world.token(&tokens, "shop", "read,submit").await;
        let api = world.api(&["--tokens", tokens.to_str().expect("UTF-8")]).await;
        let address = format!("http://{}", api.address);
        let client = match language {
            "typescript" => typescript(&world).await,
            _ => in_python(&world).await,
        };
        let ends = async |arguments| client.ends(&address, &token, arguments).await;
        let paid = ends(["rent", "alice", "bob", "30"]).await;
        assert_eq!(paid["state"], "done", "{language}: {paid}");
        assert!(paid["number"].as_u64().is_some_and(|number| number > 0), "{language}: {paid}");
        assert_eq!(ends(["rent", "alice", "bob", "30"]).await, paid, "{language}");
        for (id, payer, code, advice) in [
            ("dear", "alice", "insufficient_funds", "ask for less"),
            ("nobody", "nobody", "account_not_found", "open the account"),
        ] {
            let refused = ends([id, payer, "bob", "1000"]).await;
            assert_eq!(refused["state"], "canceled", "{language}: {refused}");
            assert_eq!(refused["code"], code, "{language}: {refused}");
            assert_eq!(refused["advice"], json!(advice), "{language}: {refused}");
        }
        for (token, arguments, problem) in [
            (&*token, ["rent", "alice", "bob", "31"], "conflict"),
            (&*token, ["half", "alice", "bob", "much"], "invalid"),
            ("another", ["rent", "alice", "bob", "30"], "unauthorized"),
        ] {
            let (succeeded, printed) = client.transfer(&address, token, arguments).await;
            let told = format!("urn:tandem:problem:{problem}: ");
            assert!(!succeeded && printed.contains(&told), "{language}: {printed}");
        }
        world.assert_at_rest().await;
        drop((worker, api));
        world.finish().await;
    }
}
