//! Confirming and releasing: the first counts, all others are told how it stands.

use client::{Capture, Error, Server};
use futures_util::future::join_all;
use harness::world::{World, transfer};
use ledger::amount::Amount;
use ledger::transaction::State;
use mongodb::bson::Document;

use super::{from_now, held, leg, on_hold, world};

const HOUR_MS: i64 = 3_600_000;

fn value(value: i64) -> Capture {
    Capture::Value(Amount::Int(value))
}

/// What a hold has captured for the shop.
async fn captured(world: &World, id: &str) -> Option<i64> {
    let captured = world.transaction(id).await.get_array("captured").cloned().ok()?;
    captured.iter().find_map(|leg| {
        let leg = leg.as_document()?;
        (leg.get_str("account").ok()? == "shop").then(|| leg.get_i64("amount").ok())?
    })
}

#[tokio::test]
async fn a_part_is_confirmed_and_the_document_says_what_and_when() {
    let world = world().await;
    held(&world, "t", 50, Some(from_now(HOUR_MS))).await;
    let before = world.transaction("t").await;
    let said = world.producer(&["confirm", "t", "--value", "30"]).await.expect_success();
    assert_eq!(said.stdout, "t: pending; captured card -30, shop 30\n");
    let after = world.transaction("t").await;
    assert_eq!(captured(&world, "t").await, Some(30));
    assert_eq!(after.get_i32("attempts").ok(), Some(1), "they begin anew");
    assert!(after.get_datetime("confirmedAt").is_ok());
    assert_eq!(after.get("dueAt"), None, "it expires no more");
    assert_eq!(after.get("value"), before.get("value"), "its legs never change");
    let doubt = |document: &Document| document.get_datetime("takeoverAt").copied().ok();
    assert!(doubt(&after) >= doubt(&before));
    world.producer(&["audit"]).await.expect_success();
    world.finish().await;
}

#[tokio::test]
async fn the_same_confirmation_again_changes_nothing_and_another_is_refused() {
    let world = world().await;
    held(&world, "t", 50, None).await;
    let capture = ["--capture", "shop=30", "--capture", "card=-30"];
    world.producer(&[&["confirm", "t"][..], &capture].concat()).await.expect_success();
    let confirmed = world.transaction("t").await;
    let again = world.producer(&["confirm", "t", "--value", "30", "--json"]).await;
    let again = again.expect_success().json();
    assert_eq!((&again["known"], &again["state"]), (&true.into(), &"pending".into()));
    for other in [&["--value", "31"][..], &[], &["--value", "3000"]] {
        let refused = world.producer(&[&["confirm", "t"], other].concat()).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        let told = "t: was confirmed before, with another capture: card -30, shop 30";
        assert!(refused.stderr.contains(told), "{refused:?}");
    }
    let released = world.producer(&["release", "t"]).await;
    assert_eq!(released.code, Some(1));
    assert!(released.stderr.contains("was confirmed, so it can't be released"), "{released:?}");
    assert_eq!(world.transaction("t").await, confirmed, "nothing was changed");
    world.finish().await;
}

#[tokio::test]
async fn of_confirmations_and_releases_at_once_exactly_one_wins() {
    const ROUNDS: usize = 20;
    let world = world().await;
    let client = world.client().await;
    for round in 0..ROUNDS {
        let id = format!("t{round}");
        held(&world, &id, 4, None).await;
        let captures: Vec<_> = (1..=3).map(value).collect();
        let (confirmed, released) = tokio::join!(
            join_all(captures.iter().map(|capture| client.confirm(&id, capture))),
            client.release(&id),
        );
        let won: Vec<i64> =
            (1..=3).zip(&confirmed).filter(|(_, c)| c.is_ok()).map(|c| c.0).collect();
        let is_released = released.is_ok();
        assert_eq!(won.len() + usize::from(is_released), 1, "{confirmed:?} {released:?}");
        assert_eq!(captured(&world, &id).await, won.first().copied());
        let expected = if is_released { State::Canceling } else { State::Pending };
        assert_eq!(world.state(&id).await, expected);
        for lost in confirmed.iter().filter_map(|confirmed| confirmed.as_ref().err()) {
            match is_released {
                true => assert!(lost.to_string().contains("it was released"), "{lost}"),
                false => assert!(matches!(lost, Error::Captured { .. }), "{lost:?}"),
            }
        }
    }
    world.producer(&["audit"]).await.expect_success();
    world.finish().await;
}

#[tokio::test]
async fn whoever_comes_too_late_or_too_early_is_told_the_truth() {
    let world = world().await;
    held(&world, "late", 10, Some(from_now(-1_000))).await;
    held(&world, "released", 10, None).await;
    held(&world, "good", 10, Some(from_now(HOUR_MS))).await;
    world.insert(&[on_hold(transfer("early", "card", "shop", 1), None)]).await;
    world.insert(&[transfer("plain", "card", "shop", 1)]).await;
    let released = world.producer(&["release", "released"]).await.expect_success();
    let told = "released: canceling; (released: released on request)\n";
    assert_eq!(released.stdout, told);
    let again = world.producer(&["release", "released", "--json"]).await.expect_success().json();
    assert_eq!((&again["known"], &again["reason"]["code"]), (&true.into(), &"released".into()));
    for (arguments, code, expected) in [
        (&["confirm", "late"][..], 1, "late: is held and can't be confirmed: it has expired"),
        (&["confirm", "released"], 1, "released: is canceling and can't be confirmed: it was rel"),
        (&["confirm", "early"], 1, "early: is initial and not held yet; confirm it when it is"),
        (&["release", "early"], 1, "early: is initial and not held yet; cancel it"),
        (&["confirm", "plain"], 1, "plain: is initial and was not submitted as a hold"),
        (&["release", "plain"], 1, "plain: is initial and was not submitted as a hold"),
        (&["confirm", "nothing"], 1, "nothing: no such transaction"),
        (&["confirm", "good", "--value", "11"], 2, "captured: has -11 for account \"card\""),
        (&["confirm", "good", "--value", "0"], 2, "value: is 0; it must be above zero"),
        (&["confirm", "good", "--capture", "card=-5"], 2, "does not name account \"shop\""),
        (&["confirm", "good", "--capture", "card"], 2, "must be ACCOUNT=AMOUNT"),
    ] {
        let refused = world.producer(arguments).await;
        assert_eq!(refused.code, Some(code), "{arguments:?}: {refused:?}");
        assert!(refused.stderr.contains(expected), "{arguments:?}: {refused:?}");
    }
    assert_eq!(world.state("late").await, State::Held, "a worker releases it");
    assert_eq!(world.state("good").await, State::Held);
    world.finish().await;
}

#[tokio::test]
async fn what_is_decided_while_the_broker_is_away_counts_all_the_same() {
    let world = world().await;
    held(&world, "confirmed", 10, None).await;
    held(&world, "released", 10, None).await;
    let away = client::Config::new(&world.servers.mongodb_uri, "amqp://127.0.0.1:1")
        .database(&world.name)
        .publish_within(std::time::Duration::ZERO)
        .notes(|_| {});
    let client = client::Client::connect(&away).await.expect("MongoDB is there");
    let confirmed = client.confirm("confirmed", &Capture::All).await.expect("it counts");
    let released = client.release("released").await.expect("it counts");
    for decided in [confirmed, released] {
        assert!(!decided.known);
        let why = decided.unpublished.expect("nobody could be told");
        assert!(matches!(why, Error::Unavailable { server: Server::RabbitMq, .. }), "{why:?}");
    }
    assert_eq!(world.state("confirmed").await, State::Pending);
    assert_eq!(world.state("released").await, State::Canceling);
    world.finish().await;
}

#[tokio::test]
async fn a_confirmation_whose_answer_was_lost_is_known_by_its_document() {
    let world = world().await;
    held(&world, "t", 10, None).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let config = world.client_config().give_up_after(harness::wait::s(60));
    let through = client::Config { mongodb_uri: uri, ..config };
    let client = client::Client::connect(&through).await.expect("the proxy is there");
    let lost = proxy.hold("confirm", 1, harness::proxy::Part::Reply);
    let (capture, id) = (value(7), "t");
    let confirming = client.confirm(id, &capture);
    let losing = async {
        lost.caught(harness::wait::s(30)).await;
        assert_eq!(captured(&world, id).await, Some(7), "the server has it");
        lost.hang_up();
    };
    let (confirmed, ()) = tokio::join!(confirming, losing);
    let confirmed = confirmed.expect("the document says it");
    assert_eq!(confirmed.captured, [leg("card", -7), leg("shop", 7)]);
    assert_eq!(confirmed.standing.state, Some(State::Pending));
    world.finish().await;
}
