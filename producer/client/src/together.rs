//! Many transactions in one call: how many go together, and what is told of the rest when a server
//! stays away.
//!
//! Promises a result for each item. Those of a part that has failed as a whole may have had their
//! effect, if its error says so; those behind it were not sent, and surely had none.

use crate::error::Error;

/// The most transactions that are read, changed and published together.
const TOGETHER_MAX: usize = 500;

/// The results of all items, some hundred at a time. While a server is away those behind are not
/// tried.
pub(crate) async fn in_parts<'a, I, T, F>(
    items: &'a [I],
    results_of: impl Fn(&'a [I]) -> F,
) -> Vec<Result<T, Error>>
where
    F: Future<Output = Result<Vec<Result<T, Error>>, Error>>,
{
    let mut results = Vec::with_capacity(items.len());
    for some in items.chunks(TOGETHER_MAX) {
        match results_of(some).await {
            Ok(more) => results.extend(more),
            Err(error) => return given_up(results, some.len(), items.len(), error),
        }
    }
    results
}

/// The results of all of so many items, of which a part of this size, behind those that have a
/// result, has failed as a whole. The rest would only wait for the server as long again.
fn given_up<T>(
    mut results: Vec<Result<T, Error>>,
    part: usize,
    all: usize,
    error: Error,
) -> Vec<Result<T, Error>> {
    let failed = results.len() + part;
    let rest = error.not_tried();
    results.resize_with(failed, || Err(error.clone()));
    results.resize_with(all, || Err(rest.clone()));
    results
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::{Effect, Server};

    #[test]
    fn what_was_not_sent_is_told_as_surely_without_effect() {
        let after = Duration::from_secs(1);
        let (server, problem) = (Server::MongoDb, "MongoDB: away".to_owned());
        let away = Error::Unavailable { server, problem, after, effect: Effect::Unknown };
        let results = given_up(vec![Ok(1)], 2, 5, away.clone());
        assert_eq!(results[..3], [Ok(1), Err(away.clone()), Err(away)]);
        assert_eq!(results.len(), 5);
        for rest in &results[3..] {
            let Err(Error::Unavailable { problem, effect: Effect::None, .. }) = rest else {
                panic!("{rest:?}")
            };
            assert_eq!(problem, "not tried: MongoDB: away");
        }
    }
}
