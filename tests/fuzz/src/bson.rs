//! Trees as BSON.

use mongodb::bson::raw::CString;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{
    Binary, DateTime, Decimal128, RawArrayBuf, RawBson, RawDocumentBuf, Timestamp, oid::ObjectId,
};
use proptest::prelude::*;
use proptest::sample::select;

use super::transfers::names;
use super::tree::Tree;

/// A tree whose leaves are values of BSON.
pub type Bson = Tree<RawBson>;

/// Decimals at the edge of what is an amount, and beyond it.
const DECIMALS: [&str; 16] = [
    "NaN",
    "-Infinity",
    "Infinity",
    "0",
    "-0",
    "0E+6111",
    "0E-6176",
    "1E+6111",
    "1E-6176",
    "1E+18",
    "1000000000000000000.000000001",
    "1E-9",
    "1E-10",
    "12.50",
    "-7.00000000000000000000000",
    "9999999999999999999999999999999999",
];

/// A leaf.
pub fn leaf(value: impl Into<RawBson>) -> Bson {
    Tree::Leaf(value.into())
}

/// Leaves of all types.
pub fn leaves() -> impl Strategy<Value = RawBson> + Clone {
    let edges = [0, 1, -1, i64::MIN, i64::MAX, 10_i64.pow(18), 10_i64.pow(18) + 1, -10_i64.pow(18)];
    let texts = select(vec!["open", "closed", "initial", "", "12", "\u{0}", "x\ny", "none"]);
    let binary = Binary { subtype: BinarySubtype::Generic, bytes: vec![1, 2, 3] };
    let others = vec![
        RawBson::Null,
        RawBson::Undefined,
        RawBson::Boolean(true),
        RawBson::MinKey,
        RawBson::MaxKey,
        RawBson::DateTime(DateTime::MAX),
        RawBson::DateTime(DateTime::MIN),
        RawBson::Timestamp(Timestamp { time: u32::MAX, increment: 0 }),
        RawBson::ObjectId(ObjectId::from_bytes([7; 12])),
        RawBson::JavaScriptCode("x".to_owned()),
        RawBson::Symbol("open".to_owned()),
        RawBson::Binary(binary),
        RawBson::Double(f64::NAN),
        RawBson::Double(f64::INFINITY),
        RawBson::Double(1.5),
        RawBson::Double(7.0),
        RawBson::Double(-0.0),
        RawBson::Double(9_007_199_254_740_992.0),
        RawBson::Double(1e300),
        RawBson::Int32(i32::MIN),
        RawBson::Int32(5),
    ];
    prop_oneof![
        3 => select(others),
        2 => select(edges.to_vec()).prop_map(RawBson::Int64),
        1 => any::<i64>().prop_map(RawBson::Int64),
        2 => select(DECIMALS.as_slice())
            .prop_map(|text| RawBson::Decimal128(text.parse().expect("a decimal"))),
        2 => any::<[u8; 16]>()
            .prop_map(|bytes| RawBson::Decimal128(Decimal128::from_bytes(bytes))),
        2 => texts.prop_map(RawBson::from),
        2 => names().prop_map(RawBson::from),
    ]
}

/// The tree as a document; a tree that is no object is its field `value`.
#[must_use]
pub fn write(tree: &Bson) -> Vec<u8> {
    let document = match tree {
        Tree::Object(fields) => document(fields),
        Tree::Leaf(_) | Tree::List(_) => document(&[("value".to_owned(), tree.clone())]),
    };
    document.into_bytes()
}

fn document(fields: &[(String, Bson)]) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    for (name, tree) in fields {
        // A name ends at its first zero byte.
        let name = CString::try_from(name.replace('\0', "")).expect("it has no zero byte");
        document.append(name, value(tree));
    }
    document
}

fn value(tree: &Bson) -> RawBson {
    match tree {
        Tree::Leaf(leaf) => leaf.clone(),
        Tree::Object(fields) => RawBson::Document(document(fields)),
        Tree::List(items) => {
            let mut list = RawArrayBuf::new();
            items.iter().for_each(|item| list.push(value(item)));
            RawBson::Array(list)
        }
    }
}

/// Bytes with the length and the last byte of a document, so that what is wrong within is met.
#[must_use]
pub fn framed(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = bytes.len().max(5);
    bytes.resize(length, 0);
    bytes[..4].copy_from_slice(&u32::try_from(length).expect("it is small").to_le_bytes());
    bytes[length - 1] = 0;
    bytes
}
