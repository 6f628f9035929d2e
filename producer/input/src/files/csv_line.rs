//! CSV, one record a line.
//!
//! If a quote is never closed, the `csv` crate reads on to the end of the file, in unbounded memory
//! and without an error. Here no field may hold a line feed, so a record is one line, and an open
//! quote is an error of that line alone.

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
}
