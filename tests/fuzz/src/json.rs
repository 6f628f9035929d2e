//! Trees as JSON. A leaf is what stands in the text: it need not be valid.

use proptest::prelude::*;
use proptest::sample::select;

use super::transfers::names;
use super::tree::Tree;

/// A tree whose leaves are pieces of JSON.
pub type Json = Tree<String>;

/// Values that are at the edge of what a reader takes, or beyond it.
const ODD: [&str; 34] = [
    "null",
    "true",
    "0",
    "-0",
    "1",
    "-1",
    "1.5",
    "1e3",
    "1e400",
    "-1e-400",
    "01",
    "+1",
    "NaN",
    "1000000000000000000",
    "1000000000000000001",
    "-1000000000000000001",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "99999999999999999999999999999999999999999",
    "\"12.50\"",
    "\"0.000000001\"",
    "\"0.0000000001\"",
    "\"999999999999999999.999999999\"",
    "\"1e5\"",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"\\ud83d\\ude00\"",
    "\"none\"",
    "\"closed\"",
    "{}",
    "[]",
];

/// A text as it stands in JSON.
#[must_use]
pub fn text(text: &str) -> Json {
    Tree::Leaf(serde_json::Value::from(text).to_string())
}

/// A number, or any other piece of JSON, as it stands there.
#[must_use]
pub fn piece(piece: impl ToString) -> Json {
    Tree::Leaf(piece.to_string())
}

/// Leaves of all kinds.
pub fn leaves() -> impl Strategy<Value = String> + Clone {
    prop_oneof![
        3 => select(ODD.as_slice()).prop_map(str::to_owned),
        1 => names().prop_map(|name| serde_json::Value::from(name).to_string()),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => any::<f64>().prop_map(|number| number.to_string()),
    ]
}

/// A list of very many small values, as it stands in a text: it costs a reader most for its size.
pub fn crowds() -> impl Strategy<Value = String> + Clone {
    let items = select(vec!["0", "\"\"", "\"a\"", "{}", "[]", "null", "{\"a\":0}", "0.5"]);
    (items, 1_000..150_000_usize)
        .prop_map(|(item, count)| format!("[{}]", vec![item; count].join(",")))
}

/// The tree as JSON on one line.
#[must_use]
pub fn write(tree: &Json) -> String {
    let mut text = String::new();
    write_to(&mut text, tree);
    text
}

fn write_to(text: &mut String, tree: &Json) {
    match tree {
        Tree::Leaf(piece) => text.push_str(piece),
        Tree::List(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                write_to(text, item);
            }
            text.push(']');
        }
        Tree::Object(fields) => {
            text.push('{');
            for (at, (name, value)) in fields.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                text.push_str(&serde_json::Value::from(name.as_str()).to_string());
                text.push(':');
                write_to(text, value);
            }
            text.push('}');
        }
    }
}
