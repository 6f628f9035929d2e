//! CSV, one record a line.
//!
//! If a quote is never closed, the `csv` crate reads on to the end of the file, in unbounded memory
//! and without an error. Here no field may hold a line feed, so a record is one line, and an open
//! quote is an error of that line alone.

use ledger::limits::echo;

/// Splits a line into cells, without the blanks around them.
///
/// # Errors
/// When a quote is not closed, or something follows a closing quote.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    let mut cells = Vec::new();
    let mut rest = line;
    loop {
        let trimmed = rest.trim_start();
        let (cell, after) = match trimmed.strip_prefix('"') {
            Some(quoted) => quoted_cell(quoted)?,
            None => {
                let end = trimmed.find(',').unwrap_or(trimmed.len());
                (trimmed[..end].trim_end().to_owned(), &trimmed[end..])
            }
        };
        cells.push(cell);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None => return Ok(cells),
        }
    }
}

/// The cell behind an opening quote, and what follows its closing one.
fn quoted_cell(text: &str) -> Result<(String, &str), String> {
    let mut cell = String::new();
    let mut rest = text;
    loop {
        let at = rest.find('"').ok_or("a quote is not closed on this line")?;
        cell.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match rest.strip_prefix('"') {
            Some(next) => {
                cell.push('"');
                rest = next;
            }
            None => break,
        }
    }
    let after = rest.trim_start();
    if !after.is_empty() && !after.starts_with(',') {
        return Err("text follows a closing quote; write a quote inside a field twice".to_owned());
    }
    Ok((cell.trim().to_owned(), after))
}

/// Reads the header: which known columns there are, in which order.
///
/// # Errors
/// Names the column that is unknown, repeated or missing.
pub fn header(line: &str, known: &[&str], required: &[&str]) -> Result<Vec<String>, String> {
    let mut columns: Vec<String> = Vec::new();
    for column in split(line)? {
        // However it is written, it has the name of the field.
        let Some(name) = known.iter().find(|name| name.eq_ignore_ascii_case(&column)) else {
            let known = known.join(", ");
            return Err(format!(
                "{:?} is not a column; the first line names comma-separated columns among \
                 {known}",
                echo(&column)
            ));
        };
        if columns.iter().any(|earlier| earlier == name) {
            return Err(format!("column {name} is named twice"));
        }
        columns.push((*name).to_owned());
    }
    match required.iter().find(|name| !columns.iter().any(|column| column == *name)) {
        Some(missing) => Err(format!("column {missing} is missing in the first line")),
        None => Ok(columns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_split_trimmed_and_unquoted() {
        for (line, expected) in [
            ("a,b", vec!["a", "b"]),
            (" a\t, b ,", vec!["a", "b", ""]),
            (r#""a,b" ,"say ""hi""",c"#, vec!["a,b", r#"say "hi""#, "c"]),
            (r#""",x"#, vec!["", "x"]),
            (r#"a"b,c"#, vec![r#"a"b"#, "c"]),
            ("", vec![""]),
        ] {
            let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
            assert_eq!(split(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn a_quote_that_is_not_closed_is_an_error_of_its_line() {
        assert!(split(r#"a,"b"#).expect_err("open").contains("not closed"));
        assert!(split(r#""a"b,c"#).expect_err("text").contains("closing quote"));
    }

    #[test]
    fn a_header_names_known_columns_once() {
        let read =
            |line| header(line, &["id", "source", "value", "notBefore"], &["source", "value"]);
        let mixed = ["source", "value", "notBefore"].map(str::to_owned).to_vec();
        assert_eq!(read("source,VALUE,notbefore"), Ok(mixed));
        assert_eq!(read("Source, value"), Ok(vec!["source".to_owned(), "value".to_owned()]));
        assert!(read("source;value").expect_err("semicolons").contains("comma-separated"));
        assert!(read("source,value,value").expect_err("twice").contains("twice"));
        assert!(read("id,source").expect_err("missing").contains("value is missing"));
    }
}
