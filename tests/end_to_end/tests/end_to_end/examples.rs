//! The examples of the libraries do what they say, on real servers.

use std::process::Stdio;

use harness::process::program;
use harness::world::World;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Runs an example to its end; returns what it has printed.
async fn example(world: &World, name: &str, arguments: &[&str], input: &str) -> String {
    let mut running = Command::new(program(&format!("examples/{name}")))
        .args(arguments)
        .envs(world.env())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the example can be started");
    let mut stdin = running.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).await.expect("it reads");
    drop(stdin);
    let output = running.wait_with_output().await.expect("it ends");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {}, {printed}", output.status);
    printed
}

#[tokio::test]
async fn the_example_that_submits_awaits_the_outcome() {
    let world = World::new().await;
    let worker = world.worker("one").start().await;
    let printed = example(&world, "submit", &["alice", "bob", "1250"], "").await;
    assert!(printed.contains("paid\n") && printed.contains("bob has 1250\n"), "{printed}");
    let refused = example(&world, "submit", &["alice", "bob", "999999"], "").await;
    assert!(refused.contains("not paid") && refused.contains("insufficient_funds"), "{refused}");
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn the_example_that_embeds_a_worker_settles_and_shows_its_metrics_in_its_own_registry() {
    let world = World::new().await;
    world.accounts(&[("a", 10), ("b", 0)]).await;
    world.submit(&[harness::world::transfer("t", "a", "b", 1)], 1).await;
    let printed = example(&world, "embed", &["5"], "").await;
    assert!(printed.contains("tandem_transitions_total{state=\"done\"} 1"), "{printed}");
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn the_example_service_answers_each_line() {
    let world = World::new().await;
    let printed = example(&world, "service", &[], "alice bob 1250\nbob carl 99999\nx\n").await;
    for answer in ["alice bob 1250: paid", "bob carl 99999: not paid", "x: is not FROM TO AMOUNT"] {
        assert!(printed.contains(answer), "{printed}");
    }
    world.assert_at_rest().await;
    world.finish().await;
}
