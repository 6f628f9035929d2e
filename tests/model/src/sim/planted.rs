//! Faults that are planted on purpose, to see that the simulator finds each of them.
//!
//! They live in the model and in wrappers around it: the engine has no switch for any of them.

/// One mistake that somebody could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Planted {
    /// The server does not compare its clock with a post's deadline.
    NoFence,
    /// Others may claim before an operation of the last owner has surely ended.
    GraceShorterThanTheOperation,
    /// The claim's times come from the worker's clock, which may be wrong.
    WorkerClockInsteadOfServerClock,
    /// A post does not check whether its mark is there.
    MarkNotCheckedOnPost,
    /// A post whose reply was lost is sent again, and its success is taken as the end of doubt.
    UnknownPostResentAndSettledAtOnce,
    /// An undo does not check whether its mark is there.
    UndoWithoutTheMark,
    /// A settlement, riding or not, does not check whether its marks are there.
    SettleWithoutTheMark,
    /// A post drops its ride and does not say so.
    RideLeftBehind,
    /// A post whose reply was lost counts as one that did nothing and can't arrive later.
    DoubtForgotten,
    /// A posting counts as complete whatever the server says.
    CommitBeforeAllLegsArePosted,
    /// Marks are settled as soon as they are posted.
    SettleBeforeCommit,
    /// A delivery is acknowledged when its batch begins.
    AcknowledgeBeforeFinal,
    /// A requeue counts as done before the broker has confirmed it.
    RequeueWithoutConfirm,
    /// Credits are added to the balance by the post, as in the articles.
    CreditSpendableAtOnce,
    /// A known id is taken as a new submission.
    ResubmissionPostsTwice,
    /// The floor is compared with the net of a batch's debits and credits.
    CoalescedPostDecidesOnTheSumOnly,
    /// Reads and acknowledgements do not wait for a majority.
    NotMajority,
    /// A native transaction does not check whether the transactions that it settles are still
    /// `initial`.
    NativeWithoutTheState,
    /// A native transaction writes to accounts that have changed since it read them.
    NativeAccountsNotCompared,
    /// A native transaction settles transactions that somebody has claimed or canceled since it
    /// read them.
    NativeClaimsNotCompared,
    /// A native transaction does not note its events with its commit.
    NativeWithoutTheNote,
    /// A document that the server refuses to write fails the whole operation.
    RefusalFailsTheBatch,
    /// Transactions that share a batch with one that did not end count as ended, too.
    NeighbourAcknowledgedUnsettled,
    /// A message of the work queue is given up because its worker died with it, and many others,
    /// three times.
    CountAloneBuries,
    /// Parking a transaction removes its marks without the amounts that they hold.
    ParkingLosesAMark,
    /// After parking, others may claim a transaction as soon as it is brought back.
    ParkingForgetsTheTakeover,
    /// A read does not wait until it shows the writes of its own client.
    ReadsBeforeTheirWrites,
    /// A hold comes to rest whoever owns it, and whatever has become of it meanwhile.
    LateRestRevivesAHold,
    /// After a hold has come to rest, others may claim it although a post for it may still arrive.
    RestForgetsTheDoubt,
    /// A confirmed hold comes to rest once more, if a late copy of a claim has made its first owner
    /// the owner again.
    RestForgetsTheConfirmation,
    /// After a confirmation, others may claim a hold although a post for it may still arrive.
    ConfirmLowersTheTakeover,
    /// What was held and not captured does not go home.
    ConfirmLosesTheRemainder,
    /// A hold expires whether it was confirmed or not.
    HoldExpiryWithoutTheState,
    /// A hold that rests is claimed as if its owner were gone.
    HeldTakenOverAsStuck,
    /// What waits expires whether somebody has claimed it or not.
    ExpiryWithoutTheState,
    /// A commit does not compare the clock with `expiresAt`.
    CommitWithoutTheClock,
    /// A native transaction does not compare the clock with `expiresAt` at its end.
    NativeWithoutTheClock,
    /// An exclusive key is free as soon as a worker has claimed its transaction.
    KeyFreedEarly,
    /// A transaction with an exclusive key is inserted without a native transaction, and may arrive
    /// when its call has been refused.
    PlainInsertOfAKey,
    /// After an insert with a key was refused as a duplicate, reads may be older than what was in
    /// its way.
    KeyReadTooEarly,
    /// An event counts as confirmed before the broker has confirmed it, and its note goes.
    ForgottenBeforeTheConfirm,
    /// Events are sent with the commit, before the credits are spendable.
    EventBeforeTheMoney,
    /// Events are sent when all legs are posted, also of what is rolled back then.
    EventForWhatIsRolledBack,
    /// Nobody is told of what a worker has taken over.
    EventForgottenAfterATakeover,
    /// A line is written without the final states that it tells of.
    LineWithoutItsEffect,
    /// Final states are written without their line.
    EffectWithoutItsLine,
    /// A final document does not name its line.
    LineNameMissing,
    /// A line lacks an entry.
    EntryMissing,
    /// Where some of a batch may not end, the others do, and the line names all of them.
    EntryTooMany,
    /// An entry says `canceled` of what is done, or the other way round.
    EntryWithAnotherEnd,
    /// The nets of a line count what is canceled.
    CanceledCounted,
    /// The line of a hold says what was held, and not what was captured.
    HeldInsteadOfCaptured,
    /// A worker writes all its lines under one name, and a line may be written over.
    LineWrittenOver,
    /// An end does not compare the claim.
    EndWithoutTheClaim,
    /// An end takes what is final already for what is left to end: it does not compare the state,
    /// and what is final has no owner to compare.
    EndWithoutTheState,
    /// An end counts as written though somebody was in the way.
    ConflictTakenForSuccess,
    /// The note that the events of a line are due is written after the line, in a write of its own.
    NoteBesideTheCommit,
    /// The note goes when the line is written, before anybody is told.
    NoteLost,
    /// The note goes though the ends of its line have no numbers.
    NoteGoneBeforeItsNumber,
    /// A page may be written over.
    PageWrittenOver,
    /// A line may be in two pages.
    LineNumberedTwice,
    /// The next number counts lines in place of ends.
    NumbersByLines,
}

impl Planted {
    /// Every fault.
    pub const ALL: [Planted; 62] = [
        Planted::NoFence,
        Planted::GraceShorterThanTheOperation,
        Planted::WorkerClockInsteadOfServerClock,
        Planted::MarkNotCheckedOnPost,
        Planted::UnknownPostResentAndSettledAtOnce,
        Planted::UndoWithoutTheMark,
        Planted::SettleWithoutTheMark,
        Planted::RideLeftBehind,
        Planted::DoubtForgotten,
        Planted::CommitBeforeAllLegsArePosted,
        Planted::SettleBeforeCommit,
        Planted::AcknowledgeBeforeFinal,
        Planted::RequeueWithoutConfirm,
        Planted::CreditSpendableAtOnce,
        Planted::ResubmissionPostsTwice,
        Planted::CoalescedPostDecidesOnTheSumOnly,
        Planted::NotMajority,
        Planted::NativeWithoutTheState,
        Planted::NativeAccountsNotCompared,
        Planted::NativeClaimsNotCompared,
        Planted::NativeWithoutTheNote,
        Planted::RefusalFailsTheBatch,
        Planted::NeighbourAcknowledgedUnsettled,
        Planted::CountAloneBuries,
        Planted::ParkingLosesAMark,
        Planted::ParkingForgetsTheTakeover,
        Planted::ReadsBeforeTheirWrites,
        Planted::LateRestRevivesAHold,
        Planted::RestForgetsTheDoubt,
        Planted::RestForgetsTheConfirmation,
        Planted::ConfirmLowersTheTakeover,
        Planted::ConfirmLosesTheRemainder,
        Planted::HoldExpiryWithoutTheState,
        Planted::HeldTakenOverAsStuck,
        Planted::ExpiryWithoutTheState,
        Planted::CommitWithoutTheClock,
        Planted::NativeWithoutTheClock,
        Planted::KeyFreedEarly,
        Planted::PlainInsertOfAKey,
        Planted::KeyReadTooEarly,
        Planted::ForgottenBeforeTheConfirm,
        Planted::EventBeforeTheMoney,
        Planted::EventForWhatIsRolledBack,
        Planted::EventForgottenAfterATakeover,
        Planted::LineWithoutItsEffect,
        Planted::EffectWithoutItsLine,
        Planted::LineNameMissing,
        Planted::EntryMissing,
        Planted::EntryTooMany,
        Planted::EntryWithAnotherEnd,
        Planted::CanceledCounted,
        Planted::HeldInsteadOfCaptured,
        Planted::LineWrittenOver,
        Planted::EndWithoutTheClaim,
        Planted::EndWithoutTheState,
        Planted::ConflictTakenForSuccess,
        Planted::NoteBesideTheCommit,
        Planted::NoteLost,
        Planted::NoteGoneBeforeItsNumber,
        Planted::PageWrittenOver,
        Planted::LineNumberedTwice,
        Planted::NumbersByLines,
    ];

    /// Whether it shows only where outcomes are announced.
    #[must_use]
    pub fn is_about_events(self) -> bool {
        matches!(
            self,
            Planted::NativeWithoutTheNote
                | Planted::ForgottenBeforeTheConfirm
                | Planted::EventBeforeTheMoney
                | Planted::EventForWhatIsRolledBack
                | Planted::EventForgottenAfterATakeover
                | Planted::ConflictTakenForSuccess
                | Planted::NoteBesideTheCommit
                | Planted::NoteLost
                | Planted::NoteGoneBeforeItsNumber
                | Planted::PageWrittenOver
                | Planted::LineNumberedTwice
                | Planted::NumbersByLines
        )
    }

    /// Whether it shows only where there are holds.
    #[must_use]
    pub fn is_about_holds(self) -> bool {
        matches!(
            self,
            Planted::LateRestRevivesAHold
                | Planted::RestForgetsTheDoubt
                | Planted::RestForgetsTheConfirmation
                | Planted::ConfirmLowersTheTakeover
                | Planted::ConfirmLosesTheRemainder
                | Planted::HoldExpiryWithoutTheState
                | Planted::HeldTakenOverAsStuck
                | Planted::HeldInsteadOfCaptured
        )
    }

    /// Whether it shows only where transactions expire.
    #[must_use]
    pub fn is_about_expiry(self) -> bool {
        matches!(
            self,
            Planted::ExpiryWithoutTheState
                | Planted::CommitWithoutTheClock
                | Planted::NativeWithoutTheClock
        )
    }

    /// Whether it shows only where transactions have exclusive keys.
    #[must_use]
    pub fn is_about_keys(self) -> bool {
        matches!(
            self,
            Planted::KeyFreedEarly | Planted::PlainInsertOfAKey | Planted::KeyReadTooEarly
        )
    }

    /// The name for the command line: `no-fence`.
    #[must_use]
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    /// Reads a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Planted> {
        Planted::ALL.into_iter().find(|planted| planted.name() == name)
    }
}
