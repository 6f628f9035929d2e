//! What must hold of whatever was accepted, and how much memory reading it may take.

use std::collections::BTreeSet;

use ledger::account::Account;
use ledger::amount::Amount;
use ledger::limits::{
    ECHO_BYTES_MAX, LEGS_MAX, METADATA_BYTES_MAX, METADATA_DEPTH_MAX, NAME_BYTES_MAX,
};
use ledger::transaction::Body;
use mongodb::bson::{Bson, DateTime, Document};

/// The longest text that tells why something is refused: foreign text in it is cut, and may then
/// become three times as long where every character of it has to be escaped.
const TOLD_BYTES_MAX: usize = 4 * ECHO_BYTES_MAX;

/// How much memory reading may take, beside its input: so many bytes, and so many for each byte of
/// it.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// What it may take in any case.
    pub base: usize,
    /// What it may take for each byte of the input.
    pub per_byte: usize,
}

/// Runs a reader, and fails if at any moment it holds more memory than it may.
///
/// # Errors
/// Says how much it held.
pub fn within<T>(memory: Memory, input: &[u8], read: impl FnOnce() -> T) -> Result<T, String> {
    let mut result = None;
    let taken = allocation_counter::measure(|| result = Some(read()));
    let most = memory.base + memory.per_byte * input.len();
    match result {
        Some(result) if taken.bytes_max <= most as u64 => Ok(result),
        Some(_) | None => Err(format!(
            "{} bytes of memory for an input of {} bytes; the limit is {most}",
            taken.bytes_max,
            input.len()
        )),
    }
}

/// A refusal has to say something, with foreign text cut, and has to begin with one of these.
///
/// # Errors
/// Shows it.
pub fn told(problem: &str, beginnings: &[&str]) -> Result<(), String> {
    if problem.len() > TOLD_BYTES_MAX {
        return Err(format!("a refusal of {} bytes: {problem}", problem.len()));
    }
    match beginnings.iter().any(|beginning| problem.starts_with(beginning)) {
        true => Ok(()),
        false => Err(format!("a refusal that does not name what is wrong: {problem:?}")),
    }
}

fn require(holds: bool, rule: &str, what: &dyn std::fmt::Debug) -> Result<(), String> {
    if holds {
        return Ok(());
    }
    let what: String = format!("{what:?}").chars().take(2_000).collect();
    Err(format!("{rule}: {what}"))
}

/// Whether an `_id`, an account or a currency can be this.
///
/// # Errors
/// Shows it.
pub fn name(name: &str) -> Result<(), String> {
    let good = (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
    require(good, "no name", &name)
}

/// The limits of an amount.
///
/// # Errors
/// Names the rule.
pub fn amount(amount: Amount) -> Result<(), String> {
    let nanos = amount.nanos().unsigned_abs();
    let most = Amount::Int(Amount::MAX).nanos().unsigned_abs();
    require(nanos <= most, "an amount beyond its limit", &amount)?;
    let again = Amount::from_bson(&Bson::from(amount));
    require(again == Ok(amount), "an amount that reads back as another", &(amount, again))?;
    let text = match amount {
        Amount::Int(_) => Amount::parse(&amount.to_string()),
        Amount::Decimal(_) => Amount::parse_decimal(&amount.to_string()),
    };
    require(text == Ok(amount), "an amount whose text reads back as another", &(amount, text))
}

/// The rules of a transaction, and that it reads back from its document as it is.
///
/// # Errors
/// Names the rule.
pub fn body(body: &Body) -> Result<(), String> {
    let legs = body.legs();
    require((2..=LEGS_MAX).contains(&legs.len()), "a wrong number of legs", &legs.len())?;
    let mut sum = 0_i128;
    for leg in legs {
        name(&leg.account)?;
        amount(leg.amount)?;
        require(!leg.amount.is_zero(), "a leg of zero", leg)?;
        require(leg.amount.is_int() == legs[0].amount.is_int(), "two kinds of amounts", body)?;
        sum += leg.amount.nanos();
    }
    require(sum == 0, "money made or lost", body)?;
    let accounts: BTreeSet<_> = legs.iter().map(|leg| &leg.account).collect();
    require(accounts.len() == legs.len(), "an account has two legs", body)?;
    for optional in [&body.currency, &body.reverses] {
        optional.as_deref().map_or(Ok(()), name)?;
    }
    if let Some(metadata) = &body.metadata {
        let size = metadata.as_bytes().len();
        require(size <= METADATA_BYTES_MAX, "metadata that is too large", &size)?;
        let metadata = Document::try_from(metadata).map_err(|error| error.to_string())?;
        let depth = depth(&Bson::Document(metadata));
        require(depth <= METADATA_DEPTH_MAX, "metadata that is too deep", &depth)?;
    }
    let written = body.to_raw("id", DateTime::from_millis(0));
    let again = Body::from_raw(&written).map_err(|error| format!("not read back: {error}"))?;
    let same = again.to_raw("id", DateTime::from_millis(0)) == written;
    require(same, "reads back as another", &(body, again))
}

/// The rules of an account, and that it reads back from its document as it is.
///
/// # Errors
/// Names the rule.
pub fn account(account: &Account) -> Result<(), String> {
    let numbers =
        [account.balance, account.pending_debits, account.pending_credits, account.opening_balance];
    for number in numbers.into_iter().chain(account.floor) {
        amount(number)?;
        let alike = number.is_int() || !account.balance.is_int();
        require(alike, "a decimal on an account of whole numbers", account)?;
    }
    let short = |mark: &&std::sync::Arc<str>| mark.len() <= NAME_BYTES_MAX;
    let marks = &account.pending_transactions;
    require(marks.iter().all(|mark| short(&mark)), "a mark that is no id", marks)?;
    let document = account.to_document(DateTime::from_millis(0));
    let again = Account::from_document(&document);
    require(again.as_ref() == Ok(account), "reads back as another", &(account, &again))
}

fn depth(value: &Bson) -> usize {
    match value {
        Bson::Document(document) => 1 + document.values().map(depth).max().unwrap_or(0),
        Bson::Array(values) => 1 + values.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
