//! An error of the driver in words.
//!
//! Promises that what people read is the server's message and its code, or what the driver says in
//! a sentence, and never the driver's internal form: its own text appends labels, sources and the
//! whole answer of the server, byte by byte.

use mongodb::error::{Error, ErrorKind, WriteFailure};

/// What an error says.
#[must_use]
pub fn of_error(error: &Error) -> String {
    match error.kind.as_ref() {
        ErrorKind::Command(command) => coded(&command.message, command.code, &command.code_name),
        ErrorKind::Write(WriteFailure::WriteConcernError(concern)) => {
            coded(&concern.message, concern.code, &concern.code_name)
        }
        ErrorKind::Write(WriteFailure::WriteError(write)) => {
            coded(&write.message, write.code, write.code_name.as_deref().unwrap_or_default())
        }
        // The driver has no words for these. Nothing here sends such requests.
        ErrorKind::InsertMany(_) | ErrorKind::BulkWrite(_) | ErrorKind::GridFs(_) => {
            "a request of several writes failed".to_owned()
        }
        // The text of the other kinds is a sentence, which may repeat another error: why a
        // connection was closed, or why no server can be reached.
        kind => plain(kind.to_string()),
    }
}

/// The text without the internal forms of the errors in it, of which the kind is left.
fn plain(mut text: String) -> String {
    const BEGIN: &str = "Kind: ";
    // The last one has no other in it.
    while let Some(begin) = text.rfind(BEGIN) {
        let (before, form) = (&text[..begin], &text[begin + BEGIN.len()..]);
        let (kind, rest) = form.split_once(", labels: {").unwrap_or((form, ""));
        text = format!("{before}{kind}{}", after_form(rest));
    }
    text
}

/// What follows an internal form, whose last part is the server's answer.
fn after_form(form: &str) -> &str {
    let answer = form.split_once(", server response: ").map_or("", |(_, answer)| answer);
    match answer.strip_prefix("None") {
        Some(rest) => rest,
        None => answer.split_once("\" })").map_or("", |(_, rest)| rest),
    }
}

fn coded(message: &str, code: i32, name: &str) -> String {
    let message = if message.is_empty() { "the server gives no reason" } else { message };
    match name {
        "" => format!("{message} (code {code})"),
        name => format!("{message} (code {code}, {name})"),
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{deserialize_from_document, doc};

    use super::*;

    #[test]
    fn an_error_of_the_driver_is_told_without_its_internal_form() {
        let command = doc! { "code": 11601, "codeName": "Interrupted", "errmsg": "was ended" };
        let command = deserialize_from_document(command).expect("a command's error");
        let command = Error::from(ErrorKind::Command(command));
        assert_eq!(of_error(&command), "was ended (code 11601, Interrupted)");
        let away = Error::from(ErrorKind::Io(std::sync::Arc::new(std::io::Error::other("cut"))));
        assert_eq!(of_error(&away), "I/O error: cut");
        assert_eq!(coded("no", 13, "Unauthorized"), "no (code 13, Unauthorized)");
        assert_eq!(coded("no", 121, ""), "no (code 121)");
        assert_eq!(coded("", 8, ""), "the server gives no reason (code 8)");
    }

    #[test]
    fn an_error_that_repeats_another_repeats_its_kind_only() {
        let inner = Error::from(ErrorKind::Io(std::sync::Arc::new(std::io::Error::other("cut"))));
        let form = "Kind: b, labels: {\"x\"}, source: Some(Error { server_response: None }), \
                    server response: Some(RawDocumentBuf { data: \"4f00\" })";
        for (text, expected) in [
            (format!("cleared because: {inner}"), "cleared because: I/O error: cut".to_owned()),
            (
                format!("[{{ Error: {inner} }}, {{ Error: {form} }}]"),
                "[{ Error: I/O error: cut }, { Error: b }]".to_owned(),
            ),
            (form.replace("b,", &format!("b for {inner},")), "b for I/O error: cut".to_owned()),
            ("Kind: what".to_owned(), "what".to_owned()),
            ("no form".to_owned(), "no form".to_owned()),
        ] {
            assert_eq!(plain(text), expected);
        }
    }
}
