//! How long reads take, beside what they may take.

use std::fmt::{Result, Write};

use super::{heading, thousands_of};
use crate::reads::{LIMIT_MS, Reads};

/// A table for each ledger; what takes longer than it may is marked.
pub(super) fn reads(all: &[Reads], text: &mut String) -> Result {
    let limit = format!("of {LIMIT_MS:.0}");
    for one in all.iter().filter(|one| one.problems.is_empty()) {
        let (transactions, accounts) = (thousands_of(one.transactions), thousands_of(one.accounts));
        let first = format!("reads, {transactions} transactions, {accounts} accounts");
        heading(text, &first, &["what", "p50 ms", "p99 ms", "max ms", &limit])?;
        for read in &one.each {
            let is_within = if read.is_late() { "**above**" } else { "within" };
            writeln!(
                text,
                "| `{}` | {} | {:.1} | {:.1} | {:.1} | {is_within} |",
                read.operation, read.what, read.p50_ms, read.p99_ms, read.max_ms
            )?;
        }
        let late = one.each.iter().filter(|read| read.is_late()).count();
        writeln!(
            text,
            "\n{late} of {} above {LIMIT_MS:.0} ms at p99; filled in {:.0} s, audited in {:.0} s.",
            one.each.len(),
            one.filled_s,
            one.audited_s
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reads::tests::took;

    #[test]
    fn what_is_above_the_limit_is_marked_and_counted() {
        let each = vec![took("stats", 199.9), took("listTransactions", 200.1)];
        let (transactions, accounts) = (10_000_000, 10_000);
        let mut all = [Reads {
            transactions,
            accounts,
            filled_s: 412.3,
            audited_s: 90.0,
            each,
            problems: Vec::new(),
        }];
        let mut text = String::new();
        reads(&all, &mut text).expect("a string");
        assert!(text.contains("| `stats` | any | 1.5 | 199.9 | 200.9 | within |"), "{text}");
        assert!(text.contains("| 200.1 | 201.1 | **above** |"), "{text}");
        assert!(text.contains("1 of 2 above 200 ms at p99; filled in 412 s"), "{text}");
        let bars = |line: &str| line.matches('|').count();
        let cells: Vec<_> = text.lines().filter(|l| l.starts_with('|')).map(bars).collect();
        assert!(cells.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
        all[0].problems.push("x".to_owned());
        text.clear();
        reads(&all, &mut text).expect("a string");
        assert_eq!(text, "");
    }
}
