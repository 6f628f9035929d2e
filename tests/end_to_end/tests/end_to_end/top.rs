//! `producer top`: the overview in a terminal, driven by tmux as a person drives it.

use harness::wait::{eventually, s, wait_until};
use harness::world::{World, transfer};
use serde_json::Value;

use crate::terminal::Tmux;

fn settled(screen: &str) -> Option<f64> {
    let rest = screen.lines().find_map(|line| line.trim().strip_prefix("settled "))?;
    rest.trim().split("/s").next()?.parse().ok()
}

#[tokio::test]
async fn top_starts_moves_under_load_follows_the_size_and_ends_cleanly_on_control_c() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000_000), ("b", 0)]).await;
    let worker = world.worker("settles").start().await;
    let top = Tmux::run(&world, (120, 40), "top", &[]);
    top.shows("Nothing is wrong").await;
    let screen = top.shows("settles ").await;
    assert!(screen.contains("MongoDB up") && screen.contains("RabbitMQ up"), "{screen}");
    for batch in 0..6 {
        let ids = (0..100).map(|n| transfer(&format!("t{batch}-{n}"), "a", "b", 1));
        world.submit(&ids.collect::<Vec<_>>(), 10).await;
    }
    let moved = eventually("the rate moves", s(60), async || {
        settled(&top.screen()).filter(|rate| *rate > 0.0)
    });
    assert!(moved.await > 0.0);
    top.shows("p99 ").await;
    top.resize(50, 12);
    wait_until("it is drawn for a small terminal", s(20), async || {
        let screen = top.screen();
        screen.contains("workers    1") && screen.lines().all(|line| line.chars().count() <= 50)
    })
    .await;
    top.resize(160, 50);
    top.shows("SETTLES/S").await;
    top.press("C-c");
    let screen = top.shows("ended with 0").await;
    assert!(!screen.contains("SETTLES/S"), "the screen is what it was before:\n{screen}");
    drop((top, worker));
    world.finish().await;
}

#[tokio::test]
async fn top_survives_servers_that_go_away_and_come_back() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (mongodb, uri) = world.mongodb_proxy().await;
    let (amqp, url) = world.amqp_proxy().await;
    let servers = [("TANDEM_MONGODB_URI", uri.as_str()), ("TANDEM_AMQP_URL", url.as_str())];
    let worker = world.worker("settles").start().await;
    let top = Tmux::run(&world, (120, 40), "top", &servers);
    top.shows("Nothing is wrong").await;
    mongodb.refuse();
    top.shows("MongoDB AWAY").await;
    let screen = top.shows("MongoDB does not answer").await;
    assert!(screen.contains("settles "), "what was known stays:\n{screen}");
    amqp.refuse();
    amqp.cut();
    top.shows("RabbitMQ does not answer").await;
    mongodb.restore();
    amqp.restore();
    top.shows("MongoDB up   RabbitMQ up").await;
    top.shows("Nothing is wrong").await;
    top.press("q");
    top.shows("ended with 0").await;
    drop((top, worker));
    world.finish().await;
}

#[tokio::test]
async fn without_a_terminal_top_says_what_to_run_and_looks_once_or_in_json() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let refused = world.producer(&["top"]).await;
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("--once") && refused.stderr.contains("stats --json"));
    let once = world.producer(&["top", "--once"]).await.expect_success();
    assert!(once.stdout.contains("No worker is there"), "{}", once.stdout);
    assert!(!once.stdout.contains('\u{1b}'), "plain text: {:?}", once.stdout);
    let json = world.producer(&["top", "--once", "--json"]).await.expect_success().json();
    assert_eq!(json["connections"]["mongodb"]["up"], Value::Bool(true));
    world.finish().await;
}
