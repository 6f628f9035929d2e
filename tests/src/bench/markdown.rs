//! The tables as people read them.

use std::fmt::Write;

use super::report::Report;
use super::table::Row;

/// The tables for the README.
#[must_use]
pub fn tables(report: &Report) -> String {
    let mut text = String::new();
    throughput(&report.table, &mut text).expect("writing to a string never fails");
    text
}

fn throughput(rows: &[Row], text: &mut String) -> std::fmt::Result {
    let mut last = None;
    for row in rows {
        if last != Some(row.workload) {
            last = Some(row.workload);
            writeln!(
                text,
                "\n| {} | transfers/s | × native | documents | commands | CPU s / 1,000 |\n\
                 | --- | --: | --: | --: | --: | --: |",
                row.workload.title()
            )?;
        }
        let versus = row.vs_native.map_or("–".to_owned(), |ratio| format!("{ratio:.1}"));
        writeln!(
            text,
            "| {} | {} ({}–{}) | {versus} | {:.2} | {:.3} | {:.3} |",
            row.contender.title(),
            thousands(row.per_s),
            thousands(row.per_s_min),
            thousands(row.per_s_max),
            row.documents_per_transfer,
            row.commands_per_transfer,
            row.cpu_per_1000.total(),
        )?;
    }
    Ok(())
}

/// A rounded number with commas.
#[must_use]
pub fn thousands(number: f64) -> String {
    let digits = format!("{:.0}", number.round());
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 && digit.is_ascii_digit() {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_commas() {
        for (number, text) in
            [(0.4, "0"), (999.0, "999"), (1_000.0, "1,000"), (1_234_567.0, "1,234,567")]
        {
            assert_eq!(thousands(number), text);
        }
    }
}
