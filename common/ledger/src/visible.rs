//! How a name looks to a person.
//!
//! Owns what may not be in the name of an account that Tandem makes, because nobody sees it: blanks
//! at its ends, characters without a width, blanks of another kind, and letters that are put
//! together of several characters (text that is not in the normal form C of Unicode). Two accounts
//! of such names would look the same, and a file or a form could not reach both. Promises nothing
//! about names that others have made: a reference is exact bytes and is never changed. Never fails.

use unicode_normalization::{UnicodeNormalization, is_nfc};

use crate::limits::echo;

/// The form in which Tandem makes an account of this name, if it is another one. It may be empty.
#[must_use]
pub fn other_form(name: &str) -> Option<String> {
    let is_plain = |c: char| !is_unseen(c) && (c == ' ' || !c.is_whitespace());
    if name.trim() == name && name.chars().all(is_plain) && is_nfc(name) {
        return None;
    }
    let seen = name.chars().filter(|c| !is_unseen(*c));
    let plain: String = seen.map(|c| if c.is_whitespace() { ' ' } else { c }).nfc().collect();
    Some(plain.trim().to_owned())
}

/// Why Tandem makes no account of this name, and what to write.
#[must_use]
pub fn problem(name: &str) -> Option<String> {
    // Written with escapes, since nobody could see what is wrong with it.
    let shown = echo(name);
    Some(match other_form(name)?.as_str() {
        "" => format!("{shown:?} has nothing in it that can be seen"),
        form => format!(
            "{shown:?} has blanks at an end, or characters that nobody sees, or letters that are \
             put together of several characters; write {:?}",
            echo(form)
        ),
    })
}

/// Names that look the same as this one, or nearly: what others may have made where somebody looks
/// for this one in vain. There are at most twelve, and none is the name itself.
#[must_use]
pub fn lookalikes(name: &str) -> Vec<String> {
    let plain = other_form(name).unwrap_or_else(|| name.to_owned());
    if plain.is_empty() {
        return Vec::new();
    }
    let mut first_large = plain.chars();
    let first = first_large.next().map(|first| first.to_uppercase().to_string());
    let mut all = vec![
        plain.clone(),
        plain.nfd().collect(),
        format!("{plain} "),
        format!(" {plain}"),
        format!("{plain}\u{a0}"),
        format!("{plain}\u{200b}"),
        format!("\u{feff}{plain}"),
        plain.replace(' ', "\u{a0}"),
        plain.to_lowercase(),
        plain.to_uppercase(),
        first.unwrap_or_default() + &first_large.as_str().to_lowercase(),
        name.trim().to_owned(),
    ];
    all.sort_unstable();
    all.dedup();
    all.retain(|other| other != name);
    all
}

/// What is said of an account that looks like one that is missing. Whatever nobody could tell apart
/// is written with escapes.
#[must_use]
pub fn alike_told(other: &str) -> String {
    let shown: String = echo(other).chars().flat_map(char::escape_default).collect();
    format!("there is \"{shown}\", which looks like it")
}

/// Whether a character has no width and no effect that a name needs: soft hyphens, joiners, marks of
/// direction, byte-order marks, selectors of a variant, tags.
fn is_unseen(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_looks_like_another_has_the_form_of_that_one() {
        for (name, form) in [
            ("bob ", "bob"),
            (" bob", "bob"),
            ("\u{a0}bob", "bob"),
            ("bo\u{200b}b", "bob"),
            ("\u{feff}bob", "bob"),
            ("bob\u{202e}", "bob"),
            ("main\u{a0}account", "main account"),
            ("main\u{3000}account", "main account"),
            ("Jose\u{301}", "Jos\u{e9}"),
            ("\u{212b}ngstr\u{f6}m", "\u{c5}ngstr\u{f6}m"),
            ("\u{200b} ", ""),
        ] {
            assert_eq!(other_form(name).as_deref(), Some(form), "{name:?}");
            assert_eq!(other_form(form).filter(|it| it != form), None, "{form:?} is taken");
        }
    }

    #[test]
    fn a_name_is_looked_for_in_each_form_in_which_others_may_have_written_it() {
        for (asked, there) in [
            ("bob", "bob "),
            ("bob ", "bob"),
            ("bob", "\u{feff}bob"),
            ("bob", "Bob"),
            ("BOB", "bob"),
            ("Jos\u{e9}", "Jose\u{301}"),
            ("Jose\u{301}", "Jos\u{e9}"),
            ("main account", "main\u{a0}account"),
        ] {
            let forms = lookalikes(asked);
            assert!(forms.iter().any(|form| form == there), "{asked:?}: {forms:?}");
            assert!(forms.len() <= 12 && !forms.iter().any(|form| form == asked), "{forms:?}");
        }
        assert_eq!(lookalikes("\u{200b}"), Vec::<String>::new());
    }

    #[test]
    fn a_name_that_looks_as_it_is_is_taken() {
        for name in [
            "bob",
            "main account",
            "Jos\u{e9}",
            "\u{416}\u{443}\u{43a}",
            "a/b:c-1_2",
            "\u{5d0}\u{5d1}",
        ] {
            assert_eq!(other_form(name), None, "{name:?}");
            assert_eq!(problem(name), None, "{name:?}");
        }
    }

    #[test]
    fn a_problem_shows_what_nobody_sees_and_the_form_that_is_taken() {
        let told = problem("bo\u{200b}b").expect("not taken");
        assert!(
            told.starts_with(r#""bo\u{200b}b" has"#) && told.ends_with(r#"write "bob""#),
            "{told}"
        );
        let told = problem("\u{feff}").expect("not taken");
        assert!(told.ends_with("nothing in it that can be seen"), "{told}");
    }
}
