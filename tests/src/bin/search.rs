//! Searches.
use tests::search::*;
use tests::sim::Planted;
fn main() {
    let only = std::env::args().nth(1);
    let planted = std::env::args().nth(2).and_then(|name| Planted::parse(&name));
    let is = |name: &str| {
        only.as_deref().is_none_or(|only| only == name || only == "all" && planted.is_some())
    };
    for articles in ARTICLES.iter().filter(|a| is(a.name) && planted.is_none()) {
        print(articles.name, search(articles, articles.bounds(), |_| {}));
    }
    for scope in SCOPES.iter().filter(|scope| is(scope.name)) {
        let env =
            |name: &str, default: i64| std::env::var(name).map_or(default, |v| v.parse().unwrap());
        let scope = &Scope {
            losses: env("LOSSES", scope.losses.into()) as u8,
            horizon: env("HORIZON", scope.horizon.into()) as u8,
            lease: env("LEASE", scope.lease),
            late_answers: env("LATE", scope.late_answers.into()) > 0,
            skew: env("SKEW", scope.skew),
            ..*scope
        };
        let found = search(&Tandem::new(scope, planted), scope.bounds(), |found| {
            eprintln!("  {} states depth {} secs {}", found.states, found.depth, found.seconds);
        });
        print(scope.name, found);
    }
}
fn print(name: &str, found: Found) {
    println!(
        "{} states {} transitions {} depth {} contents {} histories {} seconds {:.1}",
        name,
        found.states,
        found.transitions,
        found.depth,
        found.contents,
        found.histories,
        found.seconds
    );
    if let Some(violation) = found.violation {
        println!("{:?}", violation.what);
        violation.trace.iter().for_each(|line| println!("{line}"));
    }
}
