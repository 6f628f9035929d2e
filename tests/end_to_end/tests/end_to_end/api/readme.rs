//! The examples of the README that speak HTTP, as they stand there.

use std::process::Stdio;

use harness::deployment::root;
use harness::world::World;
use tokio::process::Command;

/// The block of the README that has `curl` in it.
fn example() -> String {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("it is there");
    let blocks = readme.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let mut examples = blocks.filter(|block| block.contains("curl"));
    let example = examples.next().expect("there is one").to_owned();
    assert_eq!(examples.next(), None, "and not another one");
    example
}

#[tokio::test]
async fn the_examples_with_curl_run_as_they_stand() {
    let world = World::new().await;
    let worker = world.worker("one").start().await;
    let api = world.api(&[]).await;
    let running = Command::new("sh")
        .args(["-eu", "-c", &example()])
        .env("TANDEM_LISTEN", api.address.to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output();
    let output = running.await.expect("sh runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("urn:tandem:problem"), "{said}");
    for expected in [r#"{"id":"rent-2026-12","state":"done"}"#, r#""closing":"3750""#] {
        assert!(said.contains(expected), "{expected} is missing in: {said}");
    }
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}
