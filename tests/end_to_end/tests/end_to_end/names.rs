//! Names that are sent to servers are checked before any server is asked.

use std::collections::BTreeMap;

use harness::queues::Queues;
use harness::wait::s;
use harness::world::{World, transfer};
use ledger::limits::{APPLICATION_BYTES_MAX, QUEUE_PREFIX_BYTES_MAX};
use ledger::transaction::State;

#[tokio::test]
async fn a_name_that_a_server_would_refuse_ends_the_start_and_names_its_variable() {
    let world = World::new().await;
    let long = "n".repeat(300);
    for (variable, value) in [
        ("TANDEM_QUEUE_PREFIX", ""),
        ("TANDEM_QUEUE_PREFIX", &long),
        ("TANDEM_QUEUE_PREFIX", "amq.x"),
        ("TANDEM_QUEUE_PREFIX", "a\nb"),
        ("TANDEM_DATABASE", ""),
        ("TANDEM_DATABASE", &long),
        ("TANDEM_DATABASE", "a.b"),
        ("TANDEM_DATABASE", "local"),
        ("TANDEM_AMQP_URL", &format!("amqp://127.0.0.1:1/{long}")),
    ] {
        let mut worker = world.worker("one").env(variable, value).launch();
        let exit = worker.exit(s(30)).await;
        assert_eq!(exit.code(), Some(2), "{variable}={value}: {}", worker.log());
        assert!(worker.log().contains(variable), "{variable}={value}: {}", worker.log());
        let env = BTreeMap::from([(variable.to_owned(), value.to_owned())]);
        let refused = harness::producer::run(&env, &["init"]).await;
        assert_eq!(refused.code, Some(2), "{variable}={value}: {}", refused.stderr);
        assert!(refused.stderr.contains(variable), "{variable}={value}: {}", refused.stderr);
    }
    let mut worker = world.worker(&"n".repeat(APPLICATION_BYTES_MAX + 1)).launch();
    assert_eq!(worker.exit(s(30)).await.code(), Some(2), "{}", worker.log());
    assert!(worker.log().contains("TANDEM_NAME"), "{}", worker.log());
    world.finish().await;
}

#[tokio::test]
async fn the_longest_names_are_taken_by_both_servers() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let prefix = format!("{}{}", world.name, "q".repeat(QUEUE_PREFIX_BYTES_MAX - world.name.len()));
    let name = "n".repeat(APPLICATION_BYTES_MAX);
    let worker = world.worker(&name).env("TANDEM_QUEUE_PREFIX", &prefix).start().await;
    world.insert(&[transfer("t", "a", "b", 1)]).await;
    world.wait_state("t", State::Done, s(30)).await;
    drop(worker);
    Queues::new(&world.servers.amqp_url, &prefix).delete_all().await;
    world.assert_at_rest().await;
    world.finish().await;
}
