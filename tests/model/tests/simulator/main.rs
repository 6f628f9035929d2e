//! The simulator finds nothing wrong with the engine, and everything wrong with a broken one.
//!
//! A short form: `simulate --seeds N` runs as many schedules as there is time for.

use std::sync::Arc;

use model::sim::{self, Planted};
use worker::metrics::Metrics;

/// A fault that is not found in so many schedules counts as not found.
const SEEDS_MAX: u64 = 60_000;

fn first_violation(seeds: std::ops::Range<u64>, planted: Option<Planted>) -> Option<(u64, String)> {
    let metrics = Arc::new(Metrics::new());
    seeds.into_iter().find_map(|seed| {
        let violations = sim::run(seed, planted, false, &metrics).violations;
        (!violations.is_empty()).then(|| (seed, violations.join("; ")))
    })
}

#[test]
fn no_schedule_breaks_a_rule() {
    let threads = 2;
    let share = 5_000;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let seeds = thread * share..(thread + 1) * share;
                if let Some((seed, what)) = first_violation(seeds, None) {
                    panic!("seed {seed}: {what}; replay: simulate --seed {seed} --trace");
                }
            });
        }
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let metrics = Arc::new(Metrics::new());
    for seed in 0..50 {
        let (first, second) =
            (sim::run(seed, None, true, &metrics), sim::run(seed, None, true, &metrics));
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}

/// Where a fault shows in one of many schedules, `from` names one near the first: `simulate --plant
/// FAULT --seeds 400000` finds another when the engine or the model takes other steps.
///
/// One test for each fault, so that they run at the same time and each has its name.
macro_rules! planted_faults_are_found {
    ($($name:ident: $planted:ident $(from $first:literal)?;)*) => {$(
        #[test]
        fn $name() {
            let first = 0 $(+ $first)?;
            let found = first_violation(first..first + SEEDS_MAX, Some(Planted::$planted));
            let (seed, what) = found.expect("the simulator finds it");
            println!("{}: found by seed {seed}: {what}", Planted::$planted.name());
        }
    )*

        #[test]
        fn every_planted_fault_that_luck_can_find_has_its_test() {
            // They take a lost answer, and three others (a refusal, a repair and an operator; a
            // rest, a confirmation and a cancelation) at certain moments. The search goes through
            // all moments, and finds them.
            let by_search = [
                Planted::ParkingForgetsTheTakeover,
                Planted::RestForgetsTheDoubt,
                Planted::RestForgetsTheConfirmation,
                Planted::ConfirmLowersTheTakeover,
            ];
            let here = Planted::ALL.into_iter().filter(|planted| !by_search.contains(planted));
            assert_eq!(here.collect::<Vec<_>>(), [$(Planted::$planted),*]);
        }
    };
}

planted_faults_are_found! {
    no_fence_is_found: NoFence;
    a_grace_shorter_than_the_operation_is_found: GraceShorterThanTheOperation;
    a_workers_clock_instead_of_the_servers_is_found: WorkerClockInsteadOfServerClock;
    a_mark_not_checked_on_post_is_found: MarkNotCheckedOnPost;
    an_unknown_post_resent_and_settled_at_once_is_found: UnknownPostResentAndSettledAtOnce;
    an_undo_without_the_mark_is_found: UndoWithoutTheMark;
    a_settlement_without_the_mark_is_found: SettleWithoutTheMark;
    a_ride_left_behind_is_found: RideLeftBehind;
    a_forgotten_doubt_is_found: DoubtForgotten;
    a_commit_before_all_legs_are_posted_is_found: CommitBeforeAllLegsArePosted;
    a_settle_before_commit_is_found: SettleBeforeCommit;
    an_acknowledgement_before_the_end_is_found: AcknowledgeBeforeFinal;
    a_requeue_without_confirm_is_found: RequeueWithoutConfirm;
    a_credit_spendable_at_once_is_found: CreditSpendableAtOnce;
    a_resubmission_that_posts_twice_is_found: ResubmissionPostsTwice;
    a_coalesced_post_that_decides_on_the_sum_only_is_found: CoalescedPostDecidesOnTheSumOnly;
    reads_and_acks_without_a_majority_are_found: NotMajority;
    a_native_transaction_without_the_state_is_found: NativeWithoutTheState;
    accounts_of_a_native_transaction_not_compared_are_found: NativeAccountsNotCompared;
    a_native_transaction_beside_a_claim_is_found: NativeClaimsNotCompared;
    a_native_transaction_without_its_note_is_found: NativeWithoutTheNote;
    a_refusal_that_fails_the_batch_is_found: RefusalFailsTheBatch;
    a_neighbour_acknowledged_unsettled_is_found: NeighbourAcknowledgedUnsettled;
    a_message_buried_by_a_count_alone_is_found: CountAloneBuries;
    parking_that_loses_a_mark_is_found: ParkingLosesAMark;
    reads_before_their_writes_are_found: ReadsBeforeTheirWrites from 28_000;
    a_late_rest_that_revives_a_hold_is_found: LateRestRevivesAHold;
    a_confirmation_that_loses_the_remainder_is_found: ConfirmLosesTheRemainder;
    a_hold_that_expires_in_any_state_is_found: HoldExpiryWithoutTheState;
    a_hold_that_is_taken_over_as_stuck_is_found: HeldTakenOverAsStuck;
    an_expiry_without_the_state_is_found: ExpiryWithoutTheState;
    a_commit_without_the_clock_is_found: CommitWithoutTheClock;
    a_native_transaction_without_the_clock_is_found: NativeWithoutTheClock;
    a_key_freed_early_is_found: KeyFreedEarly;
    a_plain_insert_of_a_key_is_found: PlainInsertOfAKey;
    a_key_that_is_read_too_early_is_found: KeyReadTooEarly;
    a_note_forgotten_before_the_confirm_is_found: ForgottenBeforeTheConfirm;
    an_event_before_the_money_is_found: EventBeforeTheMoney;
    an_event_for_what_is_rolled_back_is_found: EventForWhatIsRolledBack;
    an_event_forgotten_after_a_takeover_is_found: EventForgottenAfterATakeover;
    a_line_without_its_effect_is_found: LineWithoutItsEffect;
    an_effect_without_its_line_is_found: EffectWithoutItsLine;
    a_final_document_that_does_not_name_its_line_is_found: LineNameMissing;
    a_line_that_lacks_an_entry_is_found: EntryMissing;
    a_line_with_an_entry_too_many_is_found: EntryTooMany;
    an_entry_with_another_end_is_found: EntryWithAnotherEnd;
    what_is_canceled_and_counted_is_found: CanceledCounted;
    what_was_held_in_place_of_what_was_captured_is_found: HeldInsteadOfCaptured;
    a_line_that_is_written_over_is_found: LineWrittenOver;
    an_end_without_the_claim_is_found: EndWithoutTheClaim;
    an_end_without_the_state_is_found: EndWithoutTheState;
    a_conflict_taken_for_success_is_found: ConflictTakenForSuccess;
    a_note_beside_the_commit_is_found: NoteBesideTheCommit;
    a_lost_note_is_found: NoteLost;
    a_note_gone_before_its_number_is_found: NoteGoneBeforeItsNumber;
    a_page_written_over_is_found: PageWrittenOver;
    a_line_numbered_twice_is_found: LineNumberedTwice;
    numbers_by_lines_are_found: NumbersByLines;
}
