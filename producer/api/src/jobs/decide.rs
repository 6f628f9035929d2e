//! What a server does next with a job that it has. Pure.

use mongo::{JobKind, JobProgress, JobWish, SeenJob};

use crate::problem::{Code, Problem};

/// How many failures are told one by one.
pub const FAILURES_MAX: usize = 100;

/// With so many servers lost, a job is not taken up by one more before a person has looked.
const LOSSES_MAX: u64 = 3;

/// What a server begins with when it has taken a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// It goes on where the job is.
    GoOn,
    /// It lets the job pause, for this reason.
    Pause(String),
    /// It ends the job as broken, for this reason.
    Break(String),
}

/// What follows, before each few items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next items.
    Work,
    /// The job pauses, as somebody wants.
    Pause,
    /// The job is stopped, as somebody wants.
    Stop,
    /// All is done.
    End,
    /// This server stops: another one goes on.
    Leave,
}

/// What became of one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It is done.
    Done,
    /// It was not there any more.
    Gone,
    /// It failed, for this reason.
    Failed(String),
    /// It failed for a reason that the next one would fail for, too; it is tried again.
    LikeAll(String),
    /// It was not begun.
    Not,
}

/// What to begin with. A job that takes its servers down must not take down all of them.
pub fn first(job: &SeenJob) -> First {
    let why = || format!("{} servers were lost while they went on with it", job.losses);
    match (job.wish, job.kind) {
        (JobWish::Stop, _) => First::GoOn,
        (JobWish::GoOn | JobWish::Pause, _) if job.losses < LOSSES_MAX => First::GoOn,
        (JobWish::GoOn | JobWish::Pause, JobKind::Bulk) => {
            First::Pause(why() + ": look into their logs before you let it go on")
        }
        (JobWish::GoOn | JobWish::Pause, JobKind::Audit) => {
            First::Break(why() + ": look into their logs before you start another one")
        }
    }
}

/// What follows, if `is_over` says that no items are left.
pub fn next(wish: JobWish, is_over: bool, server_stops: bool) -> Next {
    match wish {
        JobWish::Stop => Next::Stop,
        JobWish::Pause => Next::Pause,
        JobWish::GoOn if is_over => Next::End,
        JobWish::GoOn if server_stops => Next::Leave,
        JobWish::GoOn => Next::Work,
    }
}

/// What became of an item, by the answer of its operation.
pub fn judged(answer: Result<(), Problem>) -> Tried {
    match answer {
        Ok(()) => Tried::Done,
        Err(problem) => match problem.code {
            Code::NotFound => Tried::Gone,
            Code::Unavailable | Code::Unknown | Code::Forbidden | Code::Unauthorized => {
                Tried::LikeAll(problem.detail)
            }
            Code::Malformed
            | Code::MethodNotAllowed
            | Code::RequestTimeout
            | Code::Conflict
            | Code::KeyInUse
            | Code::WrongState
            | Code::AlreadyConfirmed
            | Code::Refused
            | Code::Lacking
            | Code::TooLarge
            | Code::UnsupportedMediaType
            | Code::Invalid
            | Code::KeyReused
            | Code::RateLimited
            | Code::Internal => Tried::Failed(problem.detail),
        },
    }
}

/// Counts what became of some items, of which so many are `fresh`: tried for the first time.
/// Returns why the job can't go on, if so.
pub fn count(
    progress: &mut JobProgress,
    fresh: usize,
    tried: Vec<(String, Tried)>,
) -> Option<String> {
    let mut for_all = None;
    progress.position += u64::try_from(fresh).unwrap_or(u64::MAX);
    progress.again.clear();
    for (id, tried) in tried {
        match tried {
            Tried::Done => progress.done += 1,
            Tried::Gone => progress.gone += 1,
            Tried::Failed(why) => {
                progress.failed += 1;
                if progress.failures.len() < FAILURES_MAX {
                    progress.failures.push((id, why));
                }
            }
            Tried::LikeAll(why) => {
                for_all = Some(why);
                progress.again.push(id);
            }
            Tried::Not => progress.again.push(id),
        }
    }
    for_all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_comes_first_then_the_end_then_the_stop_of_the_server() {
        for (wish, is_over, server_stops, expected) in [
            (JobWish::Stop, true, true, Next::Stop),
            (JobWish::Stop, false, false, Next::Stop),
            (JobWish::Pause, true, true, Next::Pause),
            (JobWish::GoOn, true, true, Next::End),
            (JobWish::GoOn, false, true, Next::Leave),
            (JobWish::GoOn, false, false, Next::Work),
        ] {
            let told = format!("{wish:?} {is_over} {server_stops}");
            assert_eq!(next(wish, is_over, server_stops), expected, "{told}");
        }
    }

    #[test]
    fn what_was_not_done_for_a_reason_of_all_is_tried_again_and_each_item_counts_once() {
        let mut progress = JobProgress::default();
        let id = |n: u32| format!("t{n}");
        let tried = vec![
            (id(0), Tried::Done),
            (id(1), Tried::Gone),
            (id(2), Tried::Failed("no".to_owned())),
            (id(3), Tried::LikeAll("away".to_owned())),
            (id(4), Tried::Not),
        ];
        assert_eq!(count(&mut progress, 5, tried), Some("away".to_owned()));
        assert_eq!(progress.again, [id(3), id(4)]);
        let tried = vec![(id(3), Tried::Done), (id(4), Tried::Done)];
        assert_eq!(count(&mut progress, 0, tried), None);
        let expected = JobProgress {
            position: 5,
            done: 3,
            gone: 1,
            failed: 1,
            failures: vec![(id(2), "no".to_owned())],
            ..JobProgress::default()
        };
        assert_eq!(progress, expected);
    }

    #[test]
    fn a_hundred_failures_are_told_and_all_are_counted() {
        let mut progress = JobProgress::default();
        let failed = |n: usize| (n.to_string(), Tried::Failed("no".to_owned()));
        count(&mut progress, 150, (0..150).map(failed).collect());
        assert_eq!((progress.failed, progress.failures.len()), (150, FAILURES_MAX));
    }

    #[test]
    fn a_server_that_is_away_and_a_lost_right_hold_the_job_up_and_other_problems_only_their_item() {
        for code in Code::ALL {
            let expected = match code {
                Code::NotFound => Tried::Gone,
                Code::Unavailable | Code::Unknown | Code::Forbidden | Code::Unauthorized => {
                    Tried::LikeAll("why".to_owned())
                }
                _ => Tried::Failed("why".to_owned()),
            };
            assert_eq!(judged(Err(Problem::new(code, "why"))), expected, "{code:?}");
        }
        assert_eq!(judged(Ok(())), Tried::Done);
    }
}
