//! Every interleaving of small scopes keeps the rules; every broken protocol breaks one.
//!
//! This is the short form: the program `search` goes further, and prints its bounds.

use model::search::{Articles, Found, KEYS, Keys, Scope, Tandem, search};
use model::sim::Planted;

fn in_short(scope: &Scope, planted: Option<Planted>) -> Found {
    let scope = scope.short();
    search(&Tandem::new(&scope, planted), scope.bounds(), |_| {})
}

fn named(name: &str) -> &'static Scope {
    Scope::find(name).expect("a scope of this name")
}

fn told(found: &Found) -> String {
    match &found.violation {
        None => format!("nothing wrong in {} states", found.states),
        Some(violation) => format!("{}\n{}", violation.what.join("; "), violation.trace.join("\n")),
    }
}

#[test]
fn no_interleaving_breaks_a_rule() {
    let waiting = std::sync::Mutex::new(Scope::all());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(scope) = waiting.lock().expect("no panic").next() else { return };
                    let found = in_short(scope, None);
                    assert!(found.violation.is_none(), "{}: {}", scope.name, told(&found));
                    println!("{}: {} in {:.1} s", scope.name, told(&found), found.seconds);
                }
            });
        }
    });
}

#[test]
fn histories_taken_as_equal_reach_the_same_documents() {
    let scope = Scope { horizon: 4, ..named("cancel").short() };
    let merged = search(&Tandem::new(&scope, None), scope.bounds(), |_| {});
    let apart = Tandem::new(&scope, None).forgetting_nothing();
    let apart = search(&apart, scope.bounds(), |_| {});
    assert!(apart.violation.is_none(), "{}", told(&apart));
    assert!(apart.histories > merged.histories, "there is something to forget");
    assert_eq!(apart.contents, merged.contents);
}

#[test]
fn answers_that_take_their_time_lead_to_no_other_documents() {
    let late = named("late-answers").short();
    let at_once = Scope { late_answers: false, ..late };
    let found = [late, at_once]
        .map(|scope| search(&Tandem::new(&scope, None), scope.bounds(), |_| {}).contents);
    assert_eq!(found[0], found[1]);
}

fn articles(name: &str) -> Found {
    let articles = Articles::find(name).expect("a pattern of this name");
    search(articles, articles.bounds(), |_| {})
}

#[test]
fn the_articles_pattern_makes_money() {
    let found = articles("articles");
    let violation = found.violation.clone().expect("the fence is missing");
    assert!(violation.what.iter().any(|rule| rule.starts_with("rule 1")), "{}", told(&found));
    println!("{}", told(&found));
}

#[test]
fn the_articles_roll_back_loses_money() {
    let found = articles("articles-roll-back");
    assert!(found.violation.is_some(), "{}", told(&found));
    println!("{}", told(&found));
}

#[test]
fn checking_the_owner_before_each_write_does_not_help() {
    for name in ["owner-checked", "owner-checked-roll-back"] {
        let found = articles(name);
        assert!(found.violation.is_some(), "{name}: {}", told(&found));
        println!("{}", told(&found));
    }
}

#[test]
fn no_call_that_was_refused_because_of_a_key_has_an_effect_and_each_fault_is_found() {
    for keys in KEYS.map(|keys| Keys { losses: keys.losses - 1, ..keys }) {
        let found = search(&keys, keys.bounds(), |_| {});
        assert_eq!(
            found.violation.is_some(),
            keys.fault.is_some(),
            "{}: {}",
            keys.name,
            told(&found)
        );
        println!(
            "{}: {} in {} states, {:.1} s",
            keys.name,
            told(&found),
            found.states,
            found.seconds
        );
    }
}

/// One test for each fault, in the scope that finds it soonest.
macro_rules! planted_faults_are_found {
    ($($name:ident: $planted:ident in $scope:literal;)*) => {$(
        #[test]
        fn $name() {
            let found = in_short(named($scope), Some(Planted::$planted));
            assert!(found.violation.is_some(), "{}", told(&found));
            println!("after {} states: {}", found.states, told(&found));
        }
    )*

        #[test]
        fn every_planted_fault_that_can_show_has_its_test() {
            // There is no broker here, and no second copy of the data.
            let elsewhere = [
                Planted::AcknowledgeBeforeFinal,
                Planted::RequeueWithoutConfirm,
                Planted::NotMajority,
                Planted::NeighbourAcknowledgedUnsettled,
                Planted::CountAloneBuries,
                Planted::ReadsBeforeTheirWrites,
                // Keys are a protocol of their own here, with faults of its own.
                Planted::KeyFreedEarly,
                Planted::PlainInsertOfAKey,
                Planted::KeyReadTooEarly,
                // Nothing gets a number here.
                Planted::NoteGoneBeforeItsNumber,
                Planted::PageWrittenOver,
                Planted::LineNumberedTwice,
                Planted::NumbersByLines,
            ];
            let here = Planted::ALL.into_iter().filter(|planted| !elsewhere.contains(planted));
            assert_eq!(here.collect::<Vec<_>>(), [$(Planted::$planted),*]);
        }
    };
}

planted_faults_are_found! {
    no_fence_is_found: NoFence in "takeovers";
    a_grace_shorter_than_the_operation_is_found: GraceShorterThanTheOperation in "takeovers";
    a_workers_clock_instead_of_the_servers_is_found: WorkerClockInsteadOfServerClock in "takeovers";
    a_mark_not_checked_on_post_is_found: MarkNotCheckedOnPost in "one-worker";
    an_unknown_post_resent_and_settled_at_once_is_found:
        UnknownPostResentAndSettledAtOnce in "one-worker";
    an_undo_without_the_mark_is_found: UndoWithoutTheMark in "cancel";
    a_settlement_without_the_mark_is_found: SettleWithoutTheMark in "takeovers";
    a_ride_left_behind_is_found: RideLeftBehind in "riding";
    a_forgotten_doubt_is_found: DoubtForgotten in "one-worker";
    a_commit_before_all_legs_are_posted_is_found: CommitBeforeAllLegsArePosted in "refused";
    a_settle_before_commit_is_found: SettleBeforeCommit in "cancel";
    a_credit_spendable_at_once_is_found: CreditSpendableAtOnce in "shared-account";
    a_resubmission_that_posts_twice_is_found: ResubmissionPostsTwice in "resubmission";
    a_coalesced_post_that_decides_on_the_sum_only_is_found:
        CoalescedPostDecidesOnTheSumOnly in "chained";
    a_native_transaction_without_the_state_is_found: NativeWithoutTheState in "choosing";
    accounts_of_a_native_transaction_not_compared_are_found:
        NativeAccountsNotCompared in "choosing-in-competition";
    a_native_transaction_beside_a_claim_is_found: NativeClaimsNotCompared in "choosing";
    a_native_transaction_without_its_note_is_found: NativeWithoutTheNote in "choosing-announced";
    a_refusal_that_fails_the_batch_is_found: RefusalFailsTheBatch in "account-refuses";
    parking_that_loses_a_mark_is_found: ParkingLosesAMark in "transaction-refuses";
    parking_that_forgets_the_takeover_is_found: ParkingForgetsTheTakeover in "brought-back";
    a_late_rest_that_revives_a_hold_is_found: LateRestRevivesAHold in "hold-released";
    a_rest_that_forgets_the_doubt_is_found: RestForgetsTheDoubt in "hold-released";
    a_rest_that_forgets_the_confirmation_is_found: RestForgetsTheConfirmation in "hold-confirmed";
    a_confirmation_that_lowers_the_takeover_is_found: ConfirmLowersTheTakeover in "hold-released";
    a_confirmation_that_loses_the_remainder_is_found: ConfirmLosesTheRemainder in "hold-confirmed";
    a_hold_that_expires_in_any_state_is_found: HoldExpiryWithoutTheState in "hold-expires";
    a_hold_that_is_taken_over_as_stuck_is_found: HeldTakenOverAsStuck in "hold-takeovers";
    an_expiry_without_the_state_is_found: ExpiryWithoutTheState in "expiring";
    a_commit_without_the_clock_is_found: CommitWithoutTheClock in "expiring";
    a_native_transaction_without_the_clock_is_found: NativeWithoutTheClock in "expiring-natively";
    a_note_forgotten_before_the_confirm_is_found: ForgottenBeforeTheConfirm in "announced";
    an_event_before_the_money_is_found: EventBeforeTheMoney in "announced";
    an_event_for_what_is_rolled_back_is_found: EventForWhatIsRolledBack in "announced-canceled";
    an_event_forgotten_after_a_takeover_is_found: EventForgottenAfterATakeover in "announced";
    a_line_without_its_effect_is_found: LineWithoutItsEffect in "one-worker";
    an_effect_without_its_line_is_found: EffectWithoutItsLine in "one-worker";
    a_final_document_that_does_not_name_its_line_is_found: LineNameMissing in "one-worker";
    a_line_that_lacks_an_entry_is_found: EntryMissing in "one-worker";
    a_line_with_an_entry_too_many_is_found: EntryTooMany in "ending-together";
    an_entry_with_another_end_is_found: EntryWithAnotherEnd in "one-worker";
    what_is_canceled_and_counted_is_found: CanceledCounted in "cancel";
    what_was_held_in_place_of_what_was_captured_is_found: HeldInsteadOfCaptured in "hold-confirmed";
    a_line_that_is_written_over_is_found: LineWrittenOver in "refused";
    an_end_without_the_claim_is_found: EndWithoutTheClaim in "takeovers";
    an_end_without_the_state_is_found: EndWithoutTheState in "takeovers";
    a_conflict_taken_for_success_is_found: ConflictTakenForSuccess in "announced";
    a_note_beside_the_commit_is_found: NoteBesideTheCommit in "announced";
    a_lost_note_is_found: NoteLost in "announced";
}
