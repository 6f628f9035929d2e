//! Fields that stand twice, where no validator keeps them out.
//!
//! A pipeline update of a document in which a field stands twice ends a MongoDB 6.0 server (an
//! invariant in `document_diff_serialization.cpp`). Any program may insert such a document into a
//! collection without a validator. So each pipeline gets a first stage that fails for such a
//! document: the server refuses the document by itself, as a validator would, and its neighbours
//! are written. Only what an update can change is looked at: the document, and the objects on the
//! way to fields. Where a schema is spoken, [`super::update`] puts the stage in.

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use super::command::each;
use super::update::refusing;
use super::{Raw, with_room};

/// What the server's refusal says.
pub(crate) const TWICE: &str = "a field of the document stands twice";

/// What keeps documents away in which a field stands twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptOnce {
    /// A validator of the collection, so an update need not look.
    ByValidator,
    /// The first stage of each pipeline.
    ByPipeline,
}

/// An `update` command of documents as Tandem makes them, whose pipelines fail for those in which a
/// field stands twice.
///
/// # Errors
/// When the bytes are no BSON.
pub fn with_each_field_once(command: &RawDocument) -> Raw<RawDocumentBuf> {
    let mut guarded = with_room(command.as_bytes().len());
    for element in command.iter_elements() {
        let element = element?;
        match (element.key().as_str(), element.value()?) {
            ("updates", RawBsonRef::Array(updates)) => {
                guarded.append(element.key(), each(updates, guarded_statement)?);
            }
            (_, other) => guarded.append(element.key(), other),
        }
    }
    Ok(guarded)
}

fn guarded_statement(statement: &RawDocument) -> Raw<RawDocumentBuf> {
    let mut guarded = with_room(statement.as_bytes().len());
    for element in statement.iter_elements() {
        let element = element?;
        match (element.key().as_str(), element.value()?) {
            ("u", RawBsonRef::Array(stages)) => {
                let mut all: RawArrayBuf = [refusing_twice(&[])].into_iter().collect();
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
pub(crate) fn refusing_twice(parents: &[&str]) -> RawDocumentBuf {
    refusing(each_once(parents), twice())
}

/// What is said of such a document. It is computed from the document: see [`refusing`].
pub(crate) fn twice() -> RawDocumentBuf {
    rawdoc! { "$concat": [TWICE, ", beside its _id of the type ", { "$type": "$_id" }] }
}

/// Whether no field of a document stands twice, and there are objects, in which none does, or
/// nothing on the way to fields.
pub(crate) fn objects_once(parents: &[&str]) -> RawDocumentBuf {
    let mut all: RawArrayBuf = [once("$$ROOT")].into_iter().collect();
    for parent in parents {
        all.push(if_object(parent, |type_of| rawdoc! { "$eq": [type_of, "missing"] }.into()));
    }
    rawdoc! { "$and": all }
}

/// Whether no field of a document stands twice, nor one of the objects on the way to fields:
/// `$mergeObjects` of one object keeps only the first of each name. It fails for what is no object.
pub fn each_once(parents: &[&str]) -> RawDocumentBuf {
    let mut all: RawArrayBuf = [once("$$ROOT")].into_iter().collect();
    for parent in parents {
        all.push(if_object(parent, |_| true.into()));
    }
    match parents {
        [] => once("$$ROOT"),
        _ => rawdoc! { "$and": all },
    }
}

fn once(object: &str) -> RawDocumentBuf {
    rawdoc! { "$eq": [object, { "$mergeObjects": [object] }] }
}

/// Whether no field of an object stands twice; for what is no object, `otherwise` of its type.
fn if_object(path: &str, otherwise: impl Fn(RawDocumentBuf) -> RawBson) -> RawDocumentBuf {
    let path = format!("${path}");
    let type_of = rawdoc! { "$type": path.as_str() };
    let is_object = rawdoc! { "$eq": [type_of.clone(), "object"] };
    rawdoc! { "$cond": [is_object, once(&path), otherwise(type_of)] }
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
        let guarded = with_each_field_once(&command).expect("BSON");
        let expected = rawdoc! {
            "update": "users",
            "updates": [
                {
                    "q": { "_id": 1 }, "u": [refusing_twice(&[]), { "$set": { "a": 1 } }],
                    "multi": true,
                },
                { "q": { "_id": 2 }, "u": { "$inc": { "a": 1 } } },
            ],
            "ordered": false,
        };
        assert_eq!(guarded, expected);
    }
}
