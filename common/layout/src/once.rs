//! Fields that stand twice, where no validator keeps them out.
//!
//! A pipeline update of a document in which a field stands twice ends a MongoDB 6.0 server (an
//! invariant in `document_diff_serialization.cpp`). Any program may insert such a document into a
//! collection without a validator. So each pipeline gets a first stage that fails for such a
//! document: the server refuses the document by itself, as a validator would, and its neighbours
//! are written. Only what an update can change is looked at: the document, and the objects on the
//! way to fields.

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use super::command::each;
use super::update::refusing;
use super::{Raw, cstr};

/// What the server's refusal says.
pub(crate) const TWICE: &str = "a field of the document stands twice";

/// An `update` command whose pipelines fail for documents in which a field stands twice. `parents`
/// are the paths of objects on the way to fields.
///
/// # Errors
/// When the bytes are no BSON.
pub fn with_each_field_once(command: &RawDocument, parents: &[&str]) -> Raw<RawDocumentBuf> {
    let mut guarded = RawDocumentBuf::new();
    for element in command.iter_elements() {
        let element = element?;
        let value: RawBson = match (element.key().as_str(), element.value()?) {
            ("updates", RawBsonRef::Array(updates)) => {
                each(updates, |statement| guarded_statement(statement, parents))?.into()
            }
            (_, other) => other.into(),
        };
        guarded.append(element.key(), value);
    }
    Ok(guarded)
}

fn guarded_statement(statement: &RawDocument, parents: &[&str]) -> Raw<RawDocumentBuf> {
    let mut guarded = RawDocumentBuf::new();
    for element in statement.iter_elements() {
        let element = element?;
        match (element.key().as_str(), element.value()?) {
            ("u", RawBsonRef::Array(stages)) => {
                let mut all: RawArrayBuf = [refusing_twice(parents)].into_iter().collect();
                for stage in stages {
                    all.push(stage?);
                }
                guarded.append(element.key(), all);
            }
            (_, other) => guarded.append(element.key(), other),
        }
    }
    Ok(guarded)
}

/// The stage that fails for a document in which a field stands twice.
fn refusing_twice(parents: &[&str]) -> RawDocumentBuf {
    let said = rawdoc! { "$concat": [TWICE, ", beside its _id of the type ", { "$type": "$_id" }] };
    refusing(each_once(parents), said)
}

/// Whether no field of a document stands twice, nor one of the objects on the way to fields:
/// `$mergeObjects` of one object keeps only the first of each name. It fails for what is no object.
pub fn each_once(parents: &[&str]) -> RawDocumentBuf {
    let once = |object: &str| rawdoc! { "$eq": [object, { "$mergeObjects": [object] }] };
    let mut all: RawArrayBuf = [once("$$ROOT")].into_iter().collect();
    for parent in parents {
        let parent = format!("${parent}");
        let is_object = rawdoc! { "$eq": [{ "$type": parent.as_str() }, "object"] };
        all.push(rawdoc! { "$cond": [is_object, once(&parent), true] });
    }
    match parents {
        [] => once("$$ROOT"),
        _ => RawDocumentBuf::from_iter([(cstr("$and"), RawBson::from(all))]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pipeline_first_refuses_what_stands_twice_and_other_updates_stay() {
        let command = rawdoc! {
            "update": "users",
            "updates": [
                { "q": { "_id": 1 }, "u": [{ "$set": { "a": 1 } }], "multi": true },
                { "q": { "_id": 2 }, "u": { "$inc": { "a": 1 } } },
            ],
            "ordered": false,
        };
        let guarded = with_each_field_once(&command, &["wallet"]).expect("BSON");
        let expected = rawdoc! {
            "update": "users",
            "updates": [
                {
                    "q": { "_id": 1 }, "u": [refusing_twice(&["wallet"]), { "$set": { "a": 1 } }],
                    "multi": true,
                },
                { "q": { "_id": 2 }, "u": { "$inc": { "a": 1 } } },
            ],
            "ordered": false,
        };
        assert_eq!(guarded, expected);
    }
}
