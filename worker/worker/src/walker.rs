//! What a sweeper decides about each transaction that is not final and that it comes across.
//!
//! Pure: a document as it was read, the moments of the round, and the look that found it, give its
//! fate. The walk goes along the index by creation and moves a *mark* on; what is before the mark
//! has to be final, or parked, or found by another index: that of stamps (`sweepAfter`) or that of
//! moments (`dueAt`). So each document that the mark may pass is in one of them already, or its
//! fate puts it there before the mark is written; what may do neither holds the mark. Whoever
//! brings something back stamps it in the same update, and no stamp goes before the end or a rest,
//! so it stays true of what was passed.

use ledger::ServerMs;
use ledger::transaction::State;
use mongo::{Open, Piece, Place, Takeover};

/// How far from now a takeover time or a stamp may be, in milliseconds. The longest lease is an
/// hour, so a time more than a day away was not written by Tandem.
const SENSIBLE_MS: i64 = 24 * 3_600_000;

/// How long past its takeover time a transaction is left to its own message.
const IN_FLIGHT_SLACK_MS: i64 = 1_000;

/// How long the mark waits for a transaction in flight: nearly all are final by then. Each one that
/// it does not wait for is stamped, which costs a write.
const YOUNG_MS: i64 = 10_000;

/// The least distance of the mark from now: a document may become visible that late, or have been
/// dated by a clock that is a little behind.
const LAG_MS: i64 = 10_000;

/// The greatest distance from now at which the walk ends, however old what is forgotten has to be:
/// what is in flight does not wait for that.
const WALK_END_MS: i64 = 30_000;

/// The moments of one round, on the database's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments {
    pub(crate) now: ServerMs,
    /// Created before this moment and still `initial` means forgotten.
    pub(crate) horizon: ServerMs,
    /// Stamped for this moment or before and still `initial` means forgotten again.
    pub(crate) stamped_before: ServerMs,
    /// How old what is forgotten is at least.
    pub(crate) orphan_ms: i64,
}

impl Moments {
    /// So far the walk goes.
    pub(crate) fn walk_end(&self) -> ServerMs {
        self.now - self.orphan_ms.min(WALK_END_MS)
    }

    /// So far the mark goes at most.
    fn mark_end(&self) -> ServerMs {
        self.now - self.orphan_ms.clamp(LAG_MS, WALK_END_MS)
    }
}

/// Which look has found a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The walk from the mark on.
    Walk,
    /// The one at stamps that have come.
    Stamped,
    /// One at what nobody can be expected to have waited for: below the mark, without a date, or
    /// dated in the future.
    Odd,
}

/// What becomes of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Another index shows it in time.
    Pass,
    /// It is too young to tell, and most of what follows waits as well: the mark waits for it.
    Stop,
    /// Its owner is at work, and it is young: the mark waits for it, the walk goes on.
    Hold,
    /// It is stamped and published.
    Publish,
    /// It is stamped for its takeover time.
    Later,
    /// It rests, and no index shows when it is due: that is set right.
    Moment,
    /// Nobody may claim it: it is parked.
    Park(&'static str),
}

/// The fate of a document.
pub(crate) fn fate(open: &Open, look: Look, at: &Moments) -> Fate {
    let is_stamped = open.stamp.is_some_and(|stamp| stamp < at.now.saturating_add(SENSIBLE_MS));
    match open.state {
        State::Done | State::Canceled => Fate::Pass,
        State::Scheduled | State::Held if open.has_moment => Fate::Pass,
        _ if is_stamped && look != Look::Stamped => Fate::Pass,
        State::Scheduled | State::Held => Fate::Moment,
        State::Initial => waiting(open, look, at),
        State::Pending | State::Applied | State::Canceling => in_flight(open, look, at),
    }
}

fn waiting(open: &Open, look: Look, at: &Moments) -> Fate {
    match look {
        Look::Walk if open.created.is_some_and(|created| created >= at.horizon) => Fate::Stop,
        Look::Stamped if open.stamp.is_some_and(|stamp| stamp > at.stamped_before) => Fate::Pass,
        Look::Walk | Look::Stamped | Look::Odd => Fate::Publish,
    }
}

fn in_flight(open: &Open, look: Look, at: &Moments) -> Fate {
    let takeover = match open.takeover {
        Takeover::Nothing => return Fate::Publish,
        Takeover::OtherType => return Fate::Park("is not a date"),
        Takeover::At(takeover) => takeover,
    };
    let is_young = open.created.is_some_and(|created| created > at.now - YOUNG_MS);
    if takeover > at.now.saturating_add(SENSIBLE_MS) {
        Fate::Park("is more than a day ahead, which no worker writes")
    } else if takeover < at.now - IN_FLIGHT_SLACK_MS {
        Fate::Publish
    } else if look == Look::Walk && is_young {
        Fate::Hold
    } else if look == Look::Stamped && takeover <= at.now {
        // It is stamped for then, and its own message comes first.
        Fate::Pass
    } else {
        Fate::Later
    }
}

/// What is to be done about a piece of the index, and how far the mark may go once that is done.
#[derive(Debug, PartialEq)]
pub(crate) struct Walked {
    pub(crate) fates: Vec<(Open, Fate)>,
    /// The mark may not pass this place.
    pub(crate) held_at: Option<Place>,
    /// Whether something merely waits, so that most of what follows does.
    pub(crate) stops: bool,
}

/// Judges a piece of the walk.
pub(crate) fn walked(open: Vec<Open>, at: &Moments) -> Walked {
    let mut walked = Walked { fates: Vec::new(), held_at: None, stops: false };
    for open in open {
        let fate = fate(&open, Look::Walk, at);
        if matches!(fate, Fate::Stop | Fate::Hold) && walked.held_at.is_none() {
            walked.held_at = open.place();
        }
        walked.stops |= fate == Fate::Stop;
        walked.fates.push((open, fate));
    }
    walked
}

/// Where the mark goes after a walk that has come to `next`, or to its end.
pub(crate) fn mark(held_at: Option<Place>, next: Option<Place>, at: &Moments) -> Place {
    let end = Place::before(at.mark_end());
    let reached = held_at.or(next).unwrap_or_else(|| Place::before(at.walk_end()));
    match reached.date() {
        Some(date) if date < at.mark_end() => reached,
        Some(_) => end,
        // Nothing in the walk lies there; and before everything no mark moves on.
        None => Place::first(),
    }
}

/// At most so many of a piece that are to be published, and where the look goes on: at the same
/// place, where it has left some out.
pub(crate) fn at_most(piece: Piece, from: &Place, most: usize, at: &Moments) -> Piece {
    let costs = |open: &Open| fate(open, Look::Odd, at) != Fate::Pass;
    let Piece { open, next } = piece;
    let count = open.iter().filter(|open| costs(open)).count();
    let open = open.into_iter().filter(costs).take(most).collect();
    Piece { open, next: if count > most { Some(from.clone()) } else { next } }
}

#[cfg(test)]
mod tests {
    use mongo::raw_id;

    use super::*;

    const NOW: ServerMs = 1_000_000_000;

    const AT: Moments =
        Moments { now: NOW, horizon: NOW - 30_000, stamped_before: NOW, orphan_ms: 30_000 };

    fn open(state: State, age_ms: i64) -> Open {
        Open {
            id: raw_id("t"),
            state,
            created: Some(NOW - age_ms),
            takeover: Takeover::Nothing,
            has_moment: false,
            stamp: None,
        }
    }

    fn taken(age_ms: i64, takeover_in_ms: i64) -> Open {
        let takeover = Takeover::At(NOW + takeover_in_ms);
        Open { takeover, ..open(State::Pending, age_ms) }
    }

    fn walk(open: &Open) -> Fate {
        fate(open, Look::Walk, &AT)
    }

    #[test]
    fn what_waits_is_forgotten_before_the_horizon_and_holds_the_mark_after_it() {
        assert_eq!(walk(&open(State::Initial, 30_001)), Fate::Publish);
        assert_eq!(walk(&open(State::Initial, 30_000)), Fate::Stop);
        let undated = Open { created: None, ..open(State::Initial, 0) };
        assert_eq!(walk(&undated), Fate::Publish, "a list of dates, and a stamp dates it");
    }

    #[test]
    fn what_is_stamped_is_passed_unless_no_look_would_come_to_the_stamp() {
        let stamped = |open: Open, in_ms| Open { stamp: Some(NOW + in_ms), ..open };
        for stamp in [-90_000, 0, 30_000, SENSIBLE_MS - 1] {
            assert_eq!(walk(&stamped(open(State::Initial, 40_000), stamp)), Fate::Pass);
            assert_eq!(walk(&stamped(taken(40_000, -5_000), stamp)), Fate::Pass);
        }
        let for_ever = stamped(open(State::Initial, 40_000), SENSIBLE_MS);
        assert_eq!(walk(&for_ever), Fate::Publish);
    }

    #[test]
    fn what_rests_is_passed_where_the_index_of_moments_has_it() {
        for state in State::RESTING {
            let rests = Open { has_moment: true, ..open(state, 90_000) };
            assert_eq!(walk(&rests), Fate::Pass);
            assert_eq!(walk(&Open { has_moment: false, ..rests }), Fate::Moment);
        }
        let expires = Open { has_moment: true, ..open(State::Initial, 40_000) };
        assert_eq!(walk(&expires), Fate::Publish, "its end is no reason to wait for it");
    }

    #[test]
    fn what_is_in_flight_is_published_when_its_owner_is_gone_and_else_stamped_or_waited_for() {
        assert_eq!(walk(&taken(40_000, -1_001)), Fate::Publish);
        assert_eq!(walk(&taken(9_999, 5_000)), Fate::Hold, "young");
        assert_eq!(walk(&taken(10_000, 5_000)), Fate::Later);
        assert_eq!(walk(&taken(10_000, -1_000)), Fate::Later, "its message comes first");
        assert_eq!(walk(&taken(90_000, SENSIBLE_MS)), Fate::Later);
        assert!(matches!(walk(&taken(0, SENSIBLE_MS + 1)), Fate::Park(_)));
        assert_eq!(walk(&open(State::Applied, 0)), Fate::Publish, "no takeover time");
        let odd = Open { takeover: Takeover::OtherType, ..open(State::Canceling, 0) };
        assert!(matches!(walk(&odd), Fate::Park(_)));
    }

    #[test]
    fn a_stamp_that_has_come_is_looked_at_anew() {
        let stamped = |open: Open| Open { stamp: Some(NOW - 10), ..open };
        let look = |open: Open| fate(&stamped(open), Look::Stamped, &AT);
        assert_eq!(look(open(State::Initial, 0)), Fate::Publish);
        assert_eq!(look(taken(0, -1_001)), Fate::Publish, "its worker has died");
        assert_eq!(look(taken(0, 1)), Fate::Later, "its worker is at work");
        assert_eq!(look(taken(0, -1_000)), Fate::Pass, "it is found again in the next round");
        let waits = Moments { stamped_before: NOW - 11, ..AT };
        let backlog = stamped(open(State::Initial, 0));
        assert_eq!(fate(&backlog, Look::Stamped, &waits), Fate::Pass, "it waits in the queue");
    }

    #[test]
    fn below_the_mark_nothing_is_waited_for() {
        let look = |open: &Open| fate(open, Look::Odd, &AT);
        assert_eq!(look(&open(State::Initial, 0)), Fate::Publish);
        assert_eq!(look(&taken(0, 5_000)), Fate::Later);
        assert_eq!(look(&Open { has_moment: true, ..open(State::Held, 0) }), Fate::Pass);
        assert_eq!(look(&Open { stamp: Some(NOW), ..open(State::Initial, 0) }), Fate::Pass);
    }

    /// Each way in which something could be lost below the mark.
    #[test]
    fn the_mark_passes_nothing_that_no_other_index_shows() {
        let all = State::ALL.into_iter().flat_map(|state| {
            let stamps = [None, Some(NOW - 5_000), Some(NOW + 5_000), Some(NOW + 2 * SENSIBLE_MS)];
            let takeovers = [-90_000, -500, 500, 90_000, 2 * SENSIBLE_MS];
            let takeovers = takeovers.map(|in_ms| Takeover::At(NOW + in_ms)).into_iter();
            let takeovers = takeovers.chain([Takeover::Nothing, Takeover::OtherType]);
            takeovers.flat_map(move |takeover| {
                stamps.into_iter().flat_map(move |stamp| {
                    [0, 9_000, 20_000, 40_000].into_iter().flat_map(move |age_ms| {
                        [false, true].map(|has_moment| Open {
                            takeover,
                            stamp,
                            has_moment,
                            ..open(state, age_ms)
                        })
                    })
                })
            })
        });
        let mut held = 0;
        for open in all {
            let is_shown = open.state.is_final()
                || (State::RESTING.contains(&open.state) && open.has_moment)
                || open.stamp.is_some_and(|stamp| stamp <= NOW + SENSIBLE_MS);
            // Each of these writes before the mark moves on.
            let is_seen_to = match walk(&open) {
                Fate::Publish | Fate::Later | Fate::Moment | Fate::Park(_) => true,
                Fate::Pass | Fate::Hold | Fate::Stop => false,
            };
            let walked = walked(vec![open.clone()], &AT);
            let passes = walked.held_at.is_none();
            assert!(!passes || is_shown || is_seen_to, "{open:?} is lost");
            held += u32::from(!passes);
        }
        assert!(held > 0, "nothing has held the mark");
    }

    #[test]
    fn the_mark_stops_at_the_first_that_holds_it_and_what_follows_is_judged_all_the_same() {
        let named = |id: &str, open: Open| Open { id: raw_id(id), ..open };
        let done = named("a", Open { stamp: Some(NOW), ..taken(45_000, 9) });
        let young = named("b", taken(9_000, 5_000));
        let dead = named("c", taken(8_000, -5_000));
        let waits = named("d", open(State::Initial, 7_000));
        let behind = named("e", taken(6_000, -5_000));
        let piece = vec![done, young.clone(), dead.clone(), waits, behind.clone()];
        let walked = walked(piece, &AT);
        assert_eq!(walked.held_at, young.place());
        assert!(walked.stops);
        let is_published = |open| walked.fates.contains(&(open, Fate::Publish));
        assert!(is_published(dead) && is_published(behind));
    }

    #[test]
    fn the_mark_keeps_its_distance_from_now() {
        let at = |ms| Place::before(ms);
        assert_eq!(mark(None, None, &AT), at(NOW - 30_000), "all was walked");
        assert_eq!(mark(None, Some(at(NOW - 40_000)), &AT), at(NOW - 40_000));
        assert_eq!(mark(Some(at(NOW - 50_000)), Some(at(NOW - 40_000)), &AT), at(NOW - 50_000));
        let eager = Moments { orphan_ms: 500, ..AT };
        assert_eq!(mark(None, None, &eager), at(NOW - 10_000));
        assert_eq!(mark(None, Some(at(NOW - 5_000)), &eager), at(NOW - 10_000));
        let patient = Moments { orphan_ms: 86_400_000, ..AT };
        assert_eq!(mark(None, None, &patient), at(NOW - 30_000), "nothing waits");
    }

    #[test]
    fn what_a_look_leaves_out_is_found_again_at_the_same_place() {
        let from = Place::first();
        let piece = |count: i64| Piece {
            open: (0..count).map(|_| open(State::Initial, 0)).collect(),
            next: Some(Place::last()),
        };
        let most = |count| at_most(piece(count), &from, 2, &AT);
        assert_eq!((most(3).open.len(), most(3).next), (2, Some(from.clone())));
        assert_eq!((most(2).open.len(), most(2).next), (2, Some(Place::last())));
    }
}
