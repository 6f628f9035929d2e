//! The recipes in other languages do what they say, with the drivers of these languages alone.

use std::path::PathBuf;
use std::process::Command;

use futures_util::future::join_all;
use harness::api::Api;
use harness::deployment::root;
use harness::process::Process;
use harness::wait::{s, wait_until};
use harness::world::World;
use ledger::amount::Amount;
use ledger::transaction::State;

const LANGUAGES: [&str; 2] = ["node", "python"];

/// What `deploy/programs` has fetched for the recipes.
pub(crate) fn packages(what: &str) -> PathBuf {
    PathBuf::from(std::env::var("TANDEM_RECIPES").expect("deploy/test sets it")).join(what)
}

struct Recipe<'a> {
    world: &'a World,
    api: &'a Api,
    language: &'static str,
    packages: PathBuf,
}

impl<'a> Recipe<'a> {
    fn of(language: &'static str, world: &'a World, api: &'a Api) -> Recipe<'a> {
        let packages = packages("drivers");
        Recipe { world, api, language, packages }
    }

    /// A module of Node.js finds packages only in a directory above its own.
    fn node(&self) -> Command {
        let directory = self.world.directory();
        let (script, packages) = (directory.join("order.mjs"), directory.join("node_modules"));
        if !packages.exists() {
            std::fs::copy(root().join("deploy/recipes/node/order.mjs"), &script)
                .and_then(|_| {
                    std::os::unix::fs::symlink(self.packages.join("node_modules"), packages)
                })
                .expect("the directory can be written");
        }
        let mut node = Command::new("node");
        node.arg(script);
        node
    }

    fn python(&self) -> Command {
        let mut python = Command::new("python3");
        python.env("PYTHONPATH", &self.packages).arg(root().join("deploy/recipes/python/order.py"));
        python
    }

    fn start(&self, name: &str, arguments: &[&str]) -> Process {
        let mut command = if self.language == "node" { self.node() } else { self.python() };
        let api = format!("http://{}", self.api.address);
        command.args(arguments).envs(self.world.env()).env("TANDEM_API", api);
        Process::start(&mut command, self.world.directory().join(format!("{name}.log")))
    }

    /// Runs it to its end. Says whether it has succeeded, and what it has printed.
    async fn run(&self, name: &str, arguments: &[&str]) -> (bool, String) {
        let mut running = self.start(name, arguments);
        (running.exit(s(60)).await.success(), running.log())
    }
}

async fn world() -> World {
    let world = World::new().await;
    world.accounts(&[("alice", 100), ("shop", 0)]).await;
    let orders = world.store.database().create_collection("orders");
    orders.await.expect("MongoDB is there");
    world
}

#[tokio::test]
async fn an_order_is_paid_once_by_whoever_and_however_often_it_is_placed() {
    for language in LANGUAGES {
        let world = world().await;
        let api = world.api(&[]).await;
        let worker = world.worker("one").flag("--orphan-ms", 3_600_000).start().await;
        let recipe = Recipe::of(language, &world, &api);
        let at_once = (0..4).map(|n| {
            let recipe = &recipe;
            async move { recipe.run(&format!("at-once-{n}"), &["17", "alice", "30"]).await }
        });
        for (succeeded, printed) in join_all(at_once).await {
            assert!(succeeded && printed.contains("committed order-17\npaid\n"), "{printed}");
        }
        let (succeeded, printed) = recipe.run("watch", &["17", "alice", "30", "watch"]).await;
        assert!(succeeded && printed.contains("paid\n"), "{printed}");
        let (succeeded, printed) = recipe.run("other", &["17", "alice", "31"]).await;
        assert!(!succeeded && printed.contains("another content"), "{printed}");
        for (name, how) in [("dear", "poll"), ("dear-too", "watch")] {
            let (succeeded, printed) = recipe.run(name, &[name, "alice", "71", how]).await;
            assert!(succeeded && printed.contains("not paid: "), "{printed}");
            assert!(printed.contains("alice"), "{printed}");
        }
        assert_eq!(world.balance("shop").await, Amount::Int(30), "{language}");
        world.assert_at_rest().await;
        drop((worker, api));
        world.finish().await;
    }
}

#[tokio::test]
async fn who_dies_after_the_commit_has_paid_and_learns_it_by_placing_the_order_again() {
    for (language, how) in LANGUAGES.into_iter().flat_map(|one| [(one, "poll"), (one, "watch")]) {
        let world = world().await;
        let api = world.api(&[]).await;
        let recipe = Recipe::of(language, &world, &api);
        let mut dying = recipe.start("dying", &["18", "alice", "30", how]);
        wait_until("it has committed", s(60), async || {
            assert!(dying.exited().is_none(), "{}", dying.log());
            dying.log().contains("committed order-18\n")
        })
        .await;
        dying.kill();
        let worker = world.worker("one").flag("--orphan-ms", 3_600_000).start().await;
        world.wait_state("order-18", State::Done, s(60)).await;
        let (succeeded, printed) = recipe.run("again", &["18", "alice", "30", how]).await;
        assert!(succeeded && printed.contains("paid\n"), "{printed}");
        assert_eq!(world.balance("shop").await, Amount::Int(30), "{language}");
        world.assert_at_rest().await;
        drop((worker, api));
        world.finish().await;
    }
}
