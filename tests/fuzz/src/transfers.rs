//! Transfers and accounts as a careful program writes them, before they are spoiled.

use ledger::limits::NAME_BYTES_MAX;
use ledger::notation::{Form, Notation};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// A transfer, or a transaction of several legs.
#[derive(Clone, Debug)]
pub struct Given {
    /// Its id.
    pub id: Option<String>,
    /// Its accounts and what each of them gets, as text. Two of them are a simple transfer.
    pub legs: Vec<(String, String)>,
    /// Its currency.
    pub currency: Option<String>,
}

/// Names: mostly good ones, some at the edge of what is allowed or beyond it.
pub fn names() -> impl Strategy<Value = String> + Clone {
    let letters = select(vec!["x", "é", "€", "😀", "\"", "\\", ","]);
    let odd =
        ["", " ", "\u{0}", "\n", "\u{85}", "none", "null", "\"", ",", "\\", "é", "😀", "=1+1"];
    prop_oneof![
        30 => select(vec!["a", "b", "c", "alice", "bob", "id", "value", "legs", "$x", "a.b"])
            .prop_map(str::to_owned),
        20 => "[a-zA-Z0-9 _./:@+-]{0,29}[a-z0-9]",
        1 => (letters, NAME_BYTES_MAX - 4..NAME_BYTES_MAX + 5)
            .prop_map(|(letter, bytes)| letter.repeat(bytes / letter.len())),
        1 => select(odd.to_vec()).prop_map(str::to_owned),
    ]
}

/// A good name that no other number has.
fn account(at: usize) -> String {
    format!("account-{at}")
}

/// How a ledger takes amounts to which an input belongs: as decimals, if the input has amounts
/// that [`transactions`] writes as decimals.
pub fn notation(input: &[u8]) -> Notation {
    let form = match input.windows(DECIMALS.len()).any(|part| part == DECIMALS.as_bytes()) {
        true => Form::Decimals,
        false => Form::MinorUnits,
    };
    Notation { form, ..Notation::default() }
}

/// How an amount of [`transactions`] ends that is a decimal.
const DECIMALS: &str = ".50";

/// Transactions whose legs sum to zero: of minor units, or of decimals.
pub fn transactions() -> impl Strategy<Value = Given> + Clone {
    let amounts = prop_oneof![
        8 => vec(1..1_000_i64, 1..4),
        1 => vec(1..10_i64, 997..1_002),
        1 => select(vec![vec![10_i64.pow(18)], vec![10_i64.pow(18), 1], vec![i64::MAX], vec![0]]),
    ];
    let currency = proptest::option::of(prop_oneof![6 => Just("EUR".to_owned()), 1 => names()]);
    let id = proptest::option::weighted(0.7, names());
    (id, amounts, any::<bool>(), currency).prop_map(|(id, amounts, is_decimal, currency)| {
        let write = |amount: i128| match is_decimal {
            true => format!("{amount}{DECIMALS}"),
            false => amount.to_string(),
        };
        // With half a unit more on each leg, only two of them still sum to zero.
        let is_pair = amounts.len() == 1;
        let write = |amount: i128| if is_pair { write(amount) } else { amount.to_string() };
        let sum: i128 = amounts.iter().map(|amount| i128::from(*amount)).sum();
        let credits = amounts.iter().enumerate();
        let credits = credits.map(|(at, amount)| (account(at + 1), write(i128::from(*amount))));
        let legs = std::iter::once((account(0), write(-sum))).chain(credits).collect();
        Given { id, legs, currency }
    })
}
