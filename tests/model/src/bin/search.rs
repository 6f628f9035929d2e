//! Runs the exhaustive search: every scope, or one with its counterexample.

use std::process::ExitCode;
use std::sync::Mutex;

use clap::Parser;
use model::search::{ARTICLES, Articles, Found, KEYS, Keys, Scope, Tandem, search};
use model::sim::Planted;
use serde_json::{Value, json};

/// Visits every interleaving of the engine's steps in small scopes, and puts the articles' pattern
/// through the same search.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  search                               every scope, then the articles' pattern, which must fail
  search --list                        the scopes and their bounds
  search --scope cancel                one scope
  search --scope articles              the articles' pattern, with a shortest counterexample
  search --scope takeovers --plant no-fence   see the search find a planted fault
  search --json                        the figures for a program

Exit codes: 0 the engine broke no rule (and the articles' pattern did), 1 otherwise, 2 bad usage.")]
struct Args {
    /// Search this scope only; may be repeated
    #[arg(long)]
    scope: Vec<String>,
    /// Plant a fault in the model, by name; `list` names them
    #[arg(long)]
    plant: Option<String>,
    /// Smaller bounds, as in the tests
    #[arg(long)]
    short: bool,
    /// Print the scopes and stop
    #[arg(long)]
    list: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Scopes searched at the same time
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

/// A protocol that is searched.
#[derive(Clone, Copy)]
enum Subject {
    Engine(Scope),
    Articles(&'static Articles),
    Keys(&'static Keys),
}

impl Subject {
    fn name(&self) -> &'static str {
        match self {
            Subject::Engine(scope) => scope.name,
            Subject::Articles(articles) => articles.name,
            Subject::Keys(keys) => keys.name,
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Subject::Engine(scope) => scope.about,
            Subject::Articles(articles) => articles.about,
            Subject::Keys(keys) => keys.about,
        }
    }

    fn bounds(&self) -> String {
        match self {
            Subject::Engine(scope) => scope.told(),
            Subject::Articles(_) => "2 runs, no lost answers".to_owned(),
            Subject::Keys(keys) => {
                format!("{} calls, lost answers at most {}", keys.calls.len(), keys.losses)
            }
        }
    }

    fn search(&self, planted: Option<Planted>) -> Found {
        let progress = |found: &Found| {
            let Found { states, depth, seconds, .. } = found;
            eprintln!("{}: {states} states, depth {depth}, {seconds:.0} s", self.name());
        };
        match self {
            Subject::Engine(scope) => {
                search(&Tandem::new(scope, planted), scope.bounds(), progress)
            }
            Subject::Articles(articles) => search(*articles, articles.bounds(), progress),
            Subject::Keys(keys) => search(*keys, keys.bounds(), progress),
        }
    }

    /// Whether the search should find a violation.
    fn must_fail(&self) -> bool {
        match self {
            Subject::Engine(_) => false,
            Subject::Articles(_) => true,
            Subject::Keys(keys) => keys.fault.is_some(),
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let (planted, subjects) = match parsed(&args) {
        Ok(parsed) => parsed,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    if args.list {
        for subject in &subjects {
            println!("{:<24} {}\n{:<24} {}", subject.name(), subject.about(), "", subject.bounds());
        }
        return ExitCode::SUCCESS;
    }
    let results = search_all(&subjects, planted, args.threads);
    let violations = results
        .iter()
        .filter(|(subject, found)| !subject.must_fail() && found.violation.is_some())
        .count();
    if args.json {
        println!("{}", as_json(&results, violations));
    } else {
        let traces = !args.scope.is_empty() || violations > 0;
        print(&results, violations, traces);
    }
    let as_it_should =
        |(subject, found): &(Subject, Found)| subject.must_fail() == found.violation.is_some();
    if results.iter().all(as_it_should) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parsed(args: &Args) -> Result<(Option<Planted>, Vec<Subject>), String> {
    let planted = match args.plant.as_deref() {
        None => None,
        Some(name) => Some(Planted::parse(name).ok_or_else(|| {
            let names: Vec<_> = Planted::ALL.iter().map(|planted| planted.name()).collect();
            format!("--plant: {name:?} is none of: {}", names.join(", "))
        })?),
    };
    let engine = |scope: &Scope| Subject::Engine(if args.short { scope.short() } else { *scope });
    let engines = Scope::all().map(engine);
    // The planted faults are in the model, and the articles' pattern does not run on the model.
    let articles = ARTICLES.iter().filter(|_| planted.is_none()).map(Subject::Articles);
    let keys = KEYS.iter().filter(|_| planted.is_none()).map(Subject::Keys);
    let all: Vec<_> = engines.chain(articles).chain(keys).collect();
    if args.scope.is_empty() {
        return Ok((planted, all));
    }
    let find = |name: &String| {
        let found = all.iter().find(|subject| subject.name() == name).copied();
        found.ok_or_else(|| {
            let names: Vec<_> = all.iter().map(Subject::name).collect();
            format!("--scope: {name:?} is none of: {}", names.join(", "))
        })
    };
    Ok((planted, args.scope.iter().map(find).collect::<Result<_, _>>()?))
}

fn search_all(
    subjects: &[Subject],
    planted: Option<Planted>,
    threads: usize,
) -> Vec<(Subject, Found)> {
    let waiting = Mutex::new(subjects.iter().enumerate());
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, subjects.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().expect("no search panicked").next();
                    let Some((index, subject)) = next else { return };
                    let found = subject.search(planted);
                    results.lock().expect("no search panicked").push((index, *subject, found));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no search panicked");
    results.sort_by_key(|(index, ..)| *index);
    results.into_iter().map(|(_, subject, found)| (subject, found)).collect()
}

fn print(results: &[(Subject, Found)], violations: usize, traces: bool) {
    println!(
        "{:<24}{:>10}{:>12}{:>7}{:>11}{:>11}{:>9}  result",
        "scope", "states", "transitions", "depth", "documents", "histories", "seconds"
    );
    for (subject, found) in results {
        println!(
            "{:<24}{:>10}{:>12}{:>7}{:>11}{:>11}{:>9.1}  {}",
            subject.name(),
            found.states,
            found.transitions,
            found.depth,
            found.contents,
            found.histories,
            found.seconds,
            match (&found.violation, subject.must_fail()) {
                (None, false) => "no violation",
                (None, true) => "NOT FOUND, though it is wrong",
                (Some(_), false) => "VIOLATION",
                (Some(_), true) => "found wrong, as it is",
            }
        );
    }
    println!("bounds: no scope's search went further than this");
    for (subject, _) in results {
        println!("  {:<24}{}", subject.name(), subject.bounds());
    }
    for (subject, found) in results.iter().filter(|_| traces) {
        if let Some(violation) = &found.violation {
            println!("{}: {}", subject.name(), violation.what.join("; "));
            violation.trace.iter().for_each(|line| println!("{line}"));
        }
    }
    let searched = |subject: &Subject| !subject.must_fail();
    let engine: Vec<_> = results.iter().filter(|(subject, _)| searched(subject)).collect();
    println!(
        "states: {}, transitions: {}",
        engine.iter().map(|(_, found)| found.states).sum::<u64>(),
        engine.iter().map(|(_, found)| found.transitions).sum::<u64>()
    );
    println!("violations: {violations}");
}

fn as_json(results: &[(Subject, Found)], violations: usize) -> Value {
    let one = |(subject, found): &(Subject, Found)| {
        json!({
            "scope": subject.name(),
            "about": subject.about(),
            "bounds": subject.bounds(),
            "must_fail": subject.must_fail(),
            "states": found.states,
            "transitions": found.transitions,
            "depth": found.depth,
            "documents": found.contents,
            "histories": found.histories,
            "seconds": found.seconds,
            "violation": found.violation.as_ref().map(|violation| {
                json!({ "rules": violation.what, "trace": violation.trace })
            }),
        })
    };
    json!({ "violations": violations, "scopes": results.iter().map(one).collect::<Vec<_>>() })
}
