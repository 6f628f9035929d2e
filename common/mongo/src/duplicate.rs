//! Which unique index has refused an insert.
//!
//! Owns telling a known `_id` from a value that an index of somebody's own takes only once. The
//! first is looked up and may be the caller's own document; the second is a refusal. Pure.

use ledger::limits::echo;
use mongodb::bson::Document;

/// The name of the index that has refused a document, as the server's error says it; none if it is
/// that of `_id`, or the error does not say.
pub(super) fn index_in(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once(" index: ")?;
    let (index, _) = rest.split_once(" dup key:")?;
    // An index that compares by the rules of a language says so before the values.
    let index = index.split_once(" collation: ").map_or(index, |(index, _)| index);
    Some(index).filter(|index| !index.starts_with("_id_"))
}

/// The same for a document of an insert, by the position that the error names. `id` is the path of
/// the field by which the documents are known.
pub(super) fn index_of<'a>(reply: &'a Document, item: usize, id: &str) -> Option<&'a str> {
    let errors = reply.get_array("writeErrors").ok()?;
    let of_item = |error: &&Document| {
        error.get_i32("index").is_ok_and(|index| usize::try_from(index) == Ok(item))
    };
    let error = errors.iter().filter_map(|error| error.as_document()).find(of_item)?;
    let is_id = |key: &Document| key.len() == 1 && key.contains_key(id);
    match error.get_document("keyPattern") {
        Ok(key) if is_id(key) => None,
        Ok(_) | Err(_) => index_in(error.get_str("errmsg").ok()?),
    }
}

/// The refusal in words.
pub(super) fn taken(index: &str) -> String {
    format!("the unique index `{}` refuses it: another document has the same value", echo(index))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn only_another_index_than_that_of_the_id_refuses() {
        let message = |index: &str| {
            format!(
                "E11000 duplicate key error collection: d.t index: {index} dup key: {{ x: \"y\" }}"
            )
        };
        assert_eq!(index_in(&message("_id_")), None);
        assert_eq!(index_in(&message("reference_1")), Some("reference_1"));
        assert_eq!(index_in(&message("name collation: { locale: \"en\" }")), Some("name"));
        assert_eq!(index_in("E11000 something else"), None);
        let error = |at: i32, key: Document, index: &str| {
            doc! { "index": at, "code": 11_000, "keyPattern": key, "errmsg": message(index) }
        };
        let errors = [error(3, doc! { "_id": 1 }, "mine"), error(5, doc! { "x": 1 }, "x_1")];
        let reply = doc! { "writeErrors": errors.to_vec() };
        assert_eq!(
            (index_of(&reply, 3, "_id"), index_of(&reply, 5, "_id"), index_of(&reply, 4, "_id")),
            (None, Some("x_1"), None)
        );
        assert_eq!(index_of(&reply, 5, "x"), None, "documents that are known by x");
    }
}
