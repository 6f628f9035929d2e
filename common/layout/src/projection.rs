//! Projections: which fields of a document are read.
//!
//! Promises that whoever asks for a field is sent whatever stands on the way to it, so that he sees
//! why it can't be there. Fields that are computed are as Tandem reads them; a projection has only
//! such ones or none, but for [`EACH_FIELD_ONCE`].

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::collection::Collection;
use super::command::Answer;
use super::{Raw, cstr};

/// The name that a projection gives to something that it computes beside fields that are read as
/// they are: whether no field of the document stands twice.
pub const EACH_FIELD_ONCE: &str = "tandemEachFieldOnce";

impl Collection {
    /// A projection, and how what it yields is read, if not as it is stored. If one field is
    /// computed, all of them are, but for [`EACH_FIELD_ONCE`].
    pub(crate) fn projection(
        &self,
        projection: &RawDocument,
    ) -> Raw<(RawDocumentBuf, Option<Answer>)> {
        let (mut is_computed, mut asked) = (false, vec!["_id".to_owned()]);
        for element in projection.iter_elements() {
            let element = element?;
            let (name, value) = (element.key().as_str(), element.value()?);
            let is_expression = matches!(value, RawBsonRef::Document(_) | RawBsonRef::String(_));
            is_computed |= is_expression && name != EACH_FIELD_ONCE;
            asked.push(name.split('.').next().unwrap_or_default().to_owned());
        }
        if is_computed {
            return Ok((self.computed(projection)?, Some(Answer::Own)));
        }
        let mut stored = RawDocumentBuf::new();
        for element in projection.iter_elements() {
            let element = element?;
            let (name, value) = (element.key().as_str(), element.value()?);
            match is_flag(value) {
                None => stored.append(element.key(), self.reading(value)?),
                // What stands on the way shows why a field can't be there.
                Some(true) => {
                    let path = self.path(name);
                    let top = path.split('.').next().unwrap_or_default();
                    if stored.get(top)?.is_none() {
                        stored.append(cstr(top), value);
                    }
                }
                Some(false) => stored.append(cstr(&self.path(name)), value),
            }
        }
        // The key is read whatever was asked for.
        let key = self.path("_id");
        let hides_id = matches!(stored.get("_id")?, Some(value) if is_flag(value) == Some(false));
        if key != "_id" && !hides_id {
            let top = key.split('.').next().unwrap_or_default();
            if stored.get(top)?.is_none() {
                stored.append(cstr(top), 1);
            }
        }
        let has_once = projection.get(EACH_FIELD_ONCE)?.is_some();
        Ok((stored, has_once.then(|| Answer::Beside(self.clone(), asked))))
    }

    /// A projection whose fields are all computed.
    fn computed(&self, projection: &RawDocument) -> Raw<RawDocumentBuf> {
        let mut stored = RawDocumentBuf::new();
        for element in projection.iter_elements() {
            let element = element?;
            let (name, value) = (element.key().as_str(), element.value()?);
            match is_flag(value) {
                Some(true) => stored.append(element.key(), self.field(name)),
                Some(false) => stored.append(element.key(), value),
                None => stored.append(element.key(), self.reading(value)?),
            }
        }
        if projection.get("_id")?.is_none() {
            stored.append(cstr("_id"), self.field("_id"));
        }
        Ok(stored)
    }
}

/// Whether a field of a projection is wanted; none where it is computed.
fn is_flag(value: RawBsonRef<'_>) -> Option<bool> {
    match value {
        RawBsonRef::Int32(flag) => Some(flag != 0),
        RawBsonRef::Int64(flag) => Some(flag != 0),
        RawBsonRef::Double(flag) => Some(flag != 0.0),
        RawBsonRef::Boolean(flag) => Some(flag),
        _ => None,
    }
}
