//! Replays the corpus of a target, then makes inputs and judges them.
//!
//! Promises that a run without variables is always the same, and that both accepted and refused
//! inputs are a good share of what it makes: otherwise its inputs would prove little.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use super::corpus;

/// How many inputs of each target are made when nobody says otherwise.
const CASES: u64 = 600;

/// With so many inputs their shares are looked at.
const CASES_TELLING: u64 = 500;

/// The least share of what is accepted, and of what is refused.
const SHARE_LEAST: f64 = 0.15;

/// How many steps an input that fails is made smaller in.
const SHRINKS_MAX: u32 = 4_000;

/// How many things in an input were accepted, and how many refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What was taken as it stands.
    pub accepted: u64,
    /// What was refused with a reason.
    pub refused: u64,
}

impl Verdict {
    /// One thing, accepted.
    pub const ACCEPTED: Verdict = Verdict { accepted: 1, refused: 0 };
    /// One thing, refused.
    pub const REFUSED: Verdict = Verdict { accepted: 0, refused: 1 };
}

/// Reads an input and judges what became of it. Fails with what is wrong.
pub type Check = fn(&[u8]) -> Result<Verdict, String>;

/// Replays what is kept of a target, then makes inputs.
///
/// `TANDEM_FUZZ_CASES` says how many, `TANDEM_FUZZ_FIRST` the number of the first one.
///
/// # Panics
/// With what is wrong and where the input was kept; also if too little was accepted or refused.
pub fn run(target: &str, inputs: &impl Strategy<Value = Vec<u8>>, check: Check) {
    let begun = Instant::now();
    let replayed = corpus::replay(target, check);
    let (first, cases) = (number("TANDEM_FUZZ_FIRST", 0), number("TANDEM_FUZZ_CASES", CASES));
    let mut total = Verdict::default();
    for case in first..first.saturating_add(cases) {
        let Verdict { accepted, refused } = one(target, case, inputs, check);
        total.accepted += accepted;
        total.refused += refused;
    }
    let Verdict { accepted, refused } = total;
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{target}: {replayed} kept inputs, {cases} new ones; {accepted} accepted, {refused} refused; \
         {seconds:.1} s"
    );
    if cases >= CASES_TELLING {
        let all = (accepted + refused) as f64;
        let least = (all * SHARE_LEAST) as u64;
        assert!(accepted >= least, "{target}: only {accepted} of {all} are accepted");
        assert!(refused >= least, "{target}: only {refused} of {all} are refused");
    }
}

fn number(variable: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(variable) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}; it must be a whole number"))
}

/// Makes the input of this number and judges it.
fn one(target: &str, case: u64, inputs: &impl Strategy<Value = Vec<u8>>, check: Check) -> Verdict {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&case.to_le_bytes());
    let config =
        Config { max_shrink_iters: SHRINKS_MAX, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let tree = inputs.new_tree(&mut runner).expect("the strategy refuses nothing");
    let as_made = tree.current();
    let verdict = Cell::new(Verdict::default());
    let ran = runner.run_one(tree, |input| {
        verdict.set(judged(check, &input).map_err(TestCaseError::fail)?);
        Ok(())
    });
    match ran {
        Ok(_) => verdict.get(),
        Err(TestError::Fail(reason, smallest)) => {
            let kept = corpus::keep(target, &smallest);
            panic!(
                "{target}, input {case} of {} bytes: {}\nthe smallest that fails, {} bytes, is kept \
                 as {}: it is replayed first from now on",
                as_made.len(),
                reason.message(),
                smallest.len(),
                kept.display(),
            );
        }
        Err(TestError::Abort(reason)) => panic!("{target}, input {case}: {}", reason.message()),
    }
}

/// The verdict; a panic is a failure like any other.
pub fn judged(check: Check, input: &[u8]) -> Result<Verdict, String> {
    catch_unwind(AssertUnwindSafe(|| check(input))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
        Err(format!("a panic: {text}"))
    })
}
