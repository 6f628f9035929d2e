//! Reading a stored transaction, whoever wrote it.
//!
//! Works on the document's bytes, without building a tree of them: of a document that breaks a rule
//! nothing is copied but a short error. Promises never to panic and that what it returns is within
//! [`limits`](crate::limits): no repeated field that Tandem reads, only valid text, good names,
//! exact amounts. Unknown fields are ignored, whatever they hold. A document that breaks a rule is
//! a [`BodyError`]; such a transaction is canceled with [`ReasonCode::Invalid`](super::ReasonCode).

use bson::raw::RawElement;
use bson::spec::ElementType;
use bson::{DateTime, Document, RawArray, RawBsonRef, RawDocument, RawDocumentBuf};

use super::{Body, BodyError, DECIDED_KEY, Leg, Terms, check_name, field_error};
use crate::amount::Amount;
use crate::limits::{LEGS_BYTES_MAX, LEGS_MAX, METADATA_BYTES_MAX, METADATA_DEPTH_MAX};

/// The fields of a transaction that make its body, then those that the protocol reads. None may
/// stand twice: which of the two counts would depend on the reader.
const FIELDS: [&str; 22] = [
    "source",
    "destination",
    "value",
    "legs",
    "currency",
    "reverses",
    "metadata",
    "hold",
    "holdExpiresAt",
    "notBefore",
    "submittedNotBefore",
    "expiresAt",
    "exclusiveKey",
    DECIDED_KEY,
    "captured",
    "_id",
    "state",
    "claim",
    "leaseUntil",
    "takeoverAt",
    "attempts",
    "createdAt",
];

const LEG_FIELDS: [&str; 2] = ["account", "amount"];

impl Body {
    /// Reads a stored document from its bytes. `metadata` may have been left out by a projection.
    ///
    /// # Errors
    /// When it breaks a rule.
    pub fn from_raw(document: &RawDocument) -> Result<Body, BodyError> {
        let picked = pick(document, FIELDS)?;
        let [source, destination, value, legs, currency, reverses, metadata, rest @ ..] = picked;
        let [hold, hold_expires_at, not_before, submitted, expires_at, key, used, captured, ..] =
            rest;
        let key = present(key).or(used);
        let terms = [hold, hold_expires_at, not_before, submitted, expires_at, key, captured];
        // Many programs write null for what is not there.
        let [source, destination, value, legs] = [source, destination, value, legs].map(present);
        let body = match legs {
            Some(legs) => {
                for (name, other) in FIELDS.iter().zip([&source, &destination, &value]) {
                    if other.is_some() {
                        return Err(field_error(name, "stands beside legs; give one or the other"));
                    }
                }
                Body::balanced(read_legs("legs", &legs)?)?
            }
            None => Body::transfer(
                name("source", source.as_ref())?,
                name("destination", destination.as_ref())?,
                amount("value", value.as_ref())?,
            )?,
        };
        let body = Body {
            currency: optional_name("currency", currency.as_ref())?,
            reverses: optional_name("reverses", reverses.as_ref())?,
            metadata: metadata.map_or(Ok(None), |metadata| read_metadata(&metadata))?,
            ..body
        };
        match read_terms(terms)? {
            None => Ok(body),
            Some(terms) => body.with_terms(terms),
        }
    }

    /// As [`Body::from_raw`], for a document that was read into a tree.
    ///
    /// # Errors
    /// As [`Body::from_raw`].
    pub fn from_document(document: &Document) -> Result<Body, BodyError> {
        match RawDocumentBuf::try_from(document) {
            Ok(raw) => Body::from_raw(&raw),
            Err(_) => Err(Unreadable::Malformed.into()),
        }
    }
}

/// Why fields can't be picked out of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// This field stands there twice.
    Repeated(&'static str),
    /// The bytes are no BSON, or a field's name is no text.
    Malformed,
}

impl From<Unreadable> for BodyError {
    fn from(unreadable: Unreadable) -> BodyError {
        match unreadable {
            Unreadable::Repeated(name) => field_error(name, "is there twice"),
            Unreadable::Malformed => field_error("fields", "have a name that is not valid text"),
        }
    }
}

/// The elements of these names, in their order; none of them may stand twice.
fn pick<'a, const N: usize>(
    document: &'a RawDocument,
    names: [&'static str; N],
) -> Result<[Option<RawElement<'a>>; N], Unreadable> {
    let mut picked = [const { None }; N];
    for element in document.iter_elements() {
        let element = element.map_err(|_| Unreadable::Malformed)?;
        let key = element.key().as_str();
        if let Some(at) = names.iter().position(|name| *name == key) {
            if picked[at].is_some() {
                return Err(Unreadable::Repeated(names[at]));
            }
            picked[at] = Some(element);
        }
    }
    Ok(picked)
}

/// The first element of each of these names, in their order: where a name stands twice, the server
/// takes the first, too.
pub(crate) fn pick_first<'a, const N: usize>(
    document: &'a RawDocument,
    names: [&str; N],
) -> Result<[Option<RawElement<'a>>; N], Unreadable> {
    let mut picked = [const { None }; N];
    for element in document.iter_elements() {
        let element = element.map_err(|_| Unreadable::Malformed)?;
        let key = element.key().as_str();
        if let Some(at) = names.iter().position(|name| *name == key) {
            picked[at].get_or_insert(element);
        }
    }
    Ok(picked)
}

fn present(element: Option<RawElement<'_>>) -> Option<RawElement<'_>> {
    element.filter(|element| element.element_type() != ElementType::Null)
}

/// The terms, if there are any; most transactions have none of these fields.
fn read_terms(elements: [Option<RawElement<'_>>; 7]) -> Result<Option<Terms>, BodyError> {
    let elements = elements.map(present);
    if elements.iter().all(Option::is_none) {
        return Ok(None);
    }
    let [hold, hold_expires_at, not_before, submitted, expires_at, key, captured] = &elements;
    Ok(Some(Terms {
        hold: match hold.as_ref().map(RawElement::value) {
            None => false,
            Some(Ok(RawBsonRef::Boolean(hold))) => hold,
            Some(Ok(_) | Err(_)) => return Err(field_error("hold", "is not true or false")),
        },
        hold_expires_at: moment("holdExpiresAt", hold_expires_at.as_ref())?,
        not_before: moment("notBefore", not_before.as_ref())?,
        submitted_not_before: moment("submittedNotBefore", submitted.as_ref())?,
        expires_at: moment("expiresAt", expires_at.as_ref())?,
        exclusive_key: match key {
            Some(key) => Some(name(key.key().as_str(), Some(key))?.to_owned()),
            None => None,
        },
        captured: match captured {
            Some(captured) => Some(read_legs("captured", captured)?),
            None => None,
        },
    }))
}

fn moment(field: &str, element: Option<&RawElement<'_>>) -> Result<Option<DateTime>, BodyError> {
    match element.map(RawElement::value) {
        None => Ok(None),
        Some(Ok(RawBsonRef::DateTime(moment))) => Ok(Some(moment)),
        Some(Ok(_) | Err(_)) => Err(field_error(field, "is not a date")),
    }
}

/// A list of legs in the field `of`.
fn read_legs(of: &'static str, legs: &RawElement<'_>) -> Result<Vec<Leg>, BodyError> {
    if legs.element_type() != ElementType::Array {
        return Err(field_error(of, "is not a list of {account, amount}"));
    }
    if legs.size() > LEGS_BYTES_MAX {
        return Err(field_error(of, format!("is larger than {LEGS_BYTES_MAX} bytes")));
    }
    let list: &RawArray = match legs.value() {
        Ok(RawBsonRef::Array(list)) => list,
        Ok(_) | Err(_) => return Err(field_error(of, "is not valid")),
    };
    let count = list.iter_elements().count();
    if count > LEGS_MAX {
        return Err(BodyError::LegCount(count));
    }
    list.iter_elements()
        .enumerate()
        .map(|(at, leg)| match leg.map(|leg| leg.value()) {
            Ok(Ok(RawBsonRef::Document(leg))) => {
                read_leg(leg).map_err(|error| located(of, at, error))
            }
            Ok(_) | Err(_) => Err(field_error(of, "holds something else than {account, amount}")),
        })
        .collect()
}

fn read_leg(leg: &RawDocument) -> Result<Leg, BodyError> {
    let picked = pick(leg, LEG_FIELDS)?;
    let [account, sum] = picked;
    Ok(Leg {
        account: name("account", account.as_ref())?.into(),
        amount: amount("amount", sum.as_ref())?,
    })
}

/// Says which leg it is.
fn located(list: &str, at: usize, error: BodyError) -> BodyError {
    let located = |field: &str| format!("{list}[{at}].{field}");
    match error {
        BodyError::Field { field, problem } => BodyError::Field { field: located(&field), problem },
        BodyError::Amount { field, source } => BodyError::Amount { field: located(&field), source },
        other @ (BodyError::SameAccount(_)
        | BodyError::NotZero(_)
        | BodyError::Mixed
        | BodyError::LegCount(_)) => other,
    }
}

fn name<'a>(field: &str, element: Option<&RawElement<'a>>) -> Result<&'a str, BodyError> {
    let element = element.ok_or_else(|| field_error(field, "is missing or not a string"))?;
    if element.element_type() != ElementType::String {
        return Err(field_error(field, "is missing or not a string"));
    }
    match element.value() {
        Ok(RawBsonRef::String(name)) => check_name(field, name).map(|()| name),
        Ok(_) | Err(_) => Err(field_error(field, "is not valid text")),
    }
}

fn optional_name(
    field: &str,
    element: Option<&RawElement<'_>>,
) -> Result<Option<String>, BodyError> {
    match element {
        None => Ok(None),
        Some(element) if element.element_type() == ElementType::Null => Ok(None),
        Some(_) => name(field, element).map(|name| Some(name.to_owned())),
    }
}

fn amount(field: &str, element: Option<&RawElement<'_>>) -> Result<Amount, BodyError> {
    let element = element.ok_or_else(|| field_error(field, "is missing"))?;
    let value = element.value().map_err(|_| field_error(field, "is not valid"))?;
    Amount::from_raw(value).map_err(|source| BodyError::Amount { field: field.to_owned(), source })
}

fn read_metadata(element: &RawElement<'_>) -> Result<Option<RawDocumentBuf>, BodyError> {
    let metadata = match (element.element_type(), element.value()) {
        (ElementType::Null, _) => return Ok(None),
        (ElementType::EmbeddedDocument, Ok(RawBsonRef::Document(metadata))) => metadata,
        (_, _) => return Err(field_error("metadata", "is not an object")),
    };
    check_metadata(metadata)?;
    Ok(Some(metadata.to_owned()))
}

/// Checks how large and how deep metadata is, and that it can be read.
///
/// # Errors
/// Names the limit, or says what can't be read.
pub fn check_metadata(metadata: &RawDocument) -> Result<(), BodyError> {
    let size = metadata.as_bytes().len();
    if size > METADATA_BYTES_MAX {
        let problem = format!("has {size} bytes; the limit is {METADATA_BYTES_MAX}");
        return Err(field_error("metadata", problem));
    }
    match walk(METADATA_DEPTH_MAX, metadata) {
        Ok(()) => Ok(()),
        Err(Flaw::TooDeep) => {
            let problem = format!("is nested deeper than {METADATA_DEPTH_MAX} levels");
            Err(field_error("metadata", problem))
        }
        Err(Flaw::Unreadable) => Err(field_error("metadata", "has text in it that is not valid")),
    }
}

/// What is wrong with metadata beside its size.
enum Flaw {
    TooDeep,
    Unreadable,
}

/// Goes through a document, without a tree of it: it has at most so many levels, itself included,
/// and each of its values can be read.
fn walk(levels: usize, document: &RawDocument) -> Result<(), Flaw> {
    let inner_levels = levels.checked_sub(1).ok_or(Flaw::TooDeep)?;
    for element in document.iter_elements() {
        let value = element.and_then(|element| element.value());
        let inner = match value.map_err(|_| Flaw::Unreadable)? {
            RawBsonRef::Document(inner) => inner,
            RawBsonRef::Array(inner) => {
                RawDocument::from_bytes(inner.as_bytes()).map_err(|_| Flaw::Unreadable)?
            }
            RawBsonRef::JavaScriptCodeWithScope(code) => code.scope,
            _ => continue,
        };
        walk(inner_levels, inner)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
