//! How many streams each caller holds.
//!
//! Owns a count for each name of a token that has a stream open: of events, of the overview, an
//! export, or a list of events that is waited for. Promises that one caller leaves room for others:
//! all together have a limit, too (`hub`, `overview`, `export`), and it could hold all of that. Where
//! there are no tokens, all callers are one, and only that limit counts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::problem::{Code, Problem};

/// The streams that are open.
pub struct Listeners {
    most: usize,
    of: Mutex<HashMap<Arc<str>, usize>>,
}

/// A stream, until it is dropped.
pub struct Listening {
    listeners: Arc<Listeners>,
    caller: Option<Arc<str>>,
}

impl Listeners {
    /// Nobody listens yet; each caller may have so many streams.
    pub fn new(most: usize) -> Listeners {
        Listeners { most, of: Mutex::default() }
    }

    /// Lets a caller open one more.
    ///
    /// # Errors
    /// When it has too many.
    pub fn enter(self: &Arc<Self>, caller: Option<&Arc<str>>) -> Result<Listening, Problem> {
        if let Some(name) = caller {
            let mut of = self.lock();
            let open = of.get(name).copied().unwrap_or_default();
            if open >= self.most {
                let problem = format!("{open} streams of the token {name:?} are open already");
                return Err(Problem::new(Code::RateLimited, problem));
            }
            of.insert(name.clone(), open + 1);
        }
        Ok(Listening { listeners: self.clone(), caller: caller.cloned() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, usize>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let Some(name) = &self.caller else { return };
        let mut of = self.listeners.lock();
        match of.get_mut(name) {
            Some(open) if *open > 1 => *open -= 1,
            Some(_) | None => {
                of.remove(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_so_many_streams_and_leaves_those_of_others() {
        let listeners = Arc::new(Listeners::new(2));
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        let first = listeners.enter(Some(&one)).expect("the first");
        let _second = listeners.enter(Some(&one)).expect("the second");
        let third = listeners.enter(Some(&one)).err().expect("a third");
        assert_eq!(third.code, Code::RateLimited);
        drop(listeners.enter(Some(&other)).expect("another caller's"));
        assert_eq!(listeners.lock().len(), 1, "who has none is forgotten");
        let _all = [(); 3].map(|()| listeners.enter(None).expect("without tokens"));
        drop(first);
        assert!(listeners.enter(Some(&one)).is_ok());
    }
}
