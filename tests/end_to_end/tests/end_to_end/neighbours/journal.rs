//! A journal that can't be written speaks against no transaction.

use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongo::JOURNAL;
use mongodb::bson::doc;

use super::{is_parked, set_validator};

#[tokio::test]
async fn while_the_journal_refuses_lines_nothing_is_parked_and_later_everything_ends() {
    for engine in ["two-phase", "transaction", "auto"] {
        let world = World::new().await;
        world.accounts(&[("a", 1_000), ("b", 0)]).await;
        let worker = world.worker("one").flag("--engine", engine).start().await;
        set_validator(&world, JOURNAL, doc! { "nobody": "writes this" }).await;
        let ids: Vec<String> = (0..3).map(|n| format!("t{n}")).collect();
        let transfers: Vec<_> = ids.iter().map(|id| transfer(id, "a", "b", 1)).collect();
        world.submit(&transfers, 1).await;
        wait_until("it has said so several times", s(60), async || {
            worker.log().matches("the journal can't be written").count() >= 3
        })
        .await;
        for id in &ids {
            let state = world.state(id).await;
            assert!(!state.is_final(), "{engine}: {id} is {state} and has no line");
            assert!(!is_parked(&world, id).await, "{engine}: {id} is parked");
        }
        set_validator(&world, JOURNAL, doc! {}).await;
        for id in &ids {
            world.wait_state(id, State::Done, s(60)).await;
        }
        world.assert_at_rest().await;
        drop(worker);
        world.finish().await;
    }
}
