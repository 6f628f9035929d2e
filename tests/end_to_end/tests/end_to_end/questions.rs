//! What cannot be taken back is asked for at a terminal, and happens to nobody who declines.

use harness::world::World;
use mongodb::bson::doc;

use crate::adopt::{adopt, fill, openings, user};
use crate::layouts::{SCHEMA, collection, world_of};
use crate::terminal::Tmux;

/// Answers the question of a command at a terminal, and waits for its end.
async fn answered(world: &World, command: &str, answer: &str, code: u8) {
    let terminal = Tmux::run(world, (120, 40), command, &[]);
    terminal.shows("Type yes to go on").await;
    answer.chars().for_each(|letter| terminal.press(&letter.to_string()));
    terminal.press("Enter");
    terminal.shows(&format!("ended with {code}")).await;
}

#[tokio::test]
async fn only_who_says_yes_absorbs_what_others_have_moved() {
    let world = world_of(SCHEMA).await;
    fill(&world, "user", vec![user(1, 5_i64)]).await;
    adopt(&world, &[]).await.expect_success();
    let moved = doc! { "$inc": { "wallet.score": 7 } };
    collection(&world, "user").update_one(doc! {}, moved).await.expect("MongoDB is there");
    let lines = async || {
        let lines = collection(&world, "tandem.journal").count_documents(doc! {}).await;
        lines.expect("MongoDB is there")
    };
    let command = "accounts absorb --reason refund --by ada";
    for declined in ["no", "y", ""] {
        answered(&world, command, declined, 2).await;
        assert_eq!(lines().await, 0, "{declined:?}");
    }
    answered(&world, command, "yes", 0).await;
    assert_eq!(lines().await, 1);
    world.finish().await;
}

#[tokio::test]
async fn only_who_says_yes_takes_away_what_was_adopted() {
    let world = world_of(SCHEMA).await;
    fill(&world, "user", vec![user(1, 5_i64)]).await;
    adopt(&world, &[]).await.expect_success();
    answered(&world, "adopt --undo", "no", 2).await;
    assert_eq!(openings(&world).await, 1);
    answered(&world, "adopt --undo", "yes", 0).await;
    assert_eq!(openings(&world).await, 0);
    world.finish().await;
}
