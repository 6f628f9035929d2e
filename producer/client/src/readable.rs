//! Stored documents as far as they can be read. Every stored document can be shown.

use ledger::transaction::State;
use mongodb::bson::raw::RawElement;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, Utf8Lossy};

use crate::error::Error;

/// A stored document as far as it can be read. Invalid text is shown with `�`, the first of two
/// fields with the same name counts, and everything after an invalid field name is left out.
#[must_use]
pub fn readable(stored: &RawDocument) -> Document {
    let mut document = Document::new();
    for element in stored.iter_elements().flatten() {
        let name = element.key().as_str();
        if !document.contains_key(name) {
            let value = readable_value(&element);
            document.insert(name, value.unwrap_or_else(|| "can't be read".into()));
        }
    }
    document
}

fn readable_value(element: &RawElement<'_>) -> Option<Bson> {
    let mut alone = RawDocumentBuf::new();
    alone.append(element.key(), element.value_utf8_lossy().ok()?);
    let Utf8Lossy(mut document) = Utf8Lossy::<Document>::try_from(alone).ok()?;
    document.remove(element.key().as_str())
}

/// The state of a transaction's document.
pub(crate) fn state_of(document: &Document) -> Result<State, Error> {
    document.get_str("state").ok().and_then(State::parse).ok_or_else(|| {
        let id = document.get_str("_id").unwrap_or_default();
        Error::refused(&format!("transactions/{id}"), "its state is not one of ours; see audit")
    })
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{doc, rawdoc};

    use super::*;

    #[test]
    fn what_is_not_valid_text_is_shown_all_the_same() {
        let stored =
            rawdoc! { "_id": "t", "note": "?", "list": ["?", { "a": "?" }], "?": 1, "z": 1 };
        let spoiled =
            stored.as_bytes().iter().map(|byte| if *byte == b'?' { 0xff } else { *byte }).collect();
        let spoiled = RawDocumentBuf::from_bytes(spoiled).expect("the lengths are right");
        let mark = "\u{fffd}";
        let expected = doc! { "_id": "t", "note": mark, "list": [mark, { "a": mark }] };
        assert_eq!(readable(&spoiled), expected);
        assert_eq!(readable(&rawdoc! { "a": 1, "a": 2 }), doc! { "a": 1 });
    }
}
