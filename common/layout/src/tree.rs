//! Fields by their paths, as a tree of objects.

use bson::RawBson;

/// The fields of an object.
#[derive(Default)]
pub(crate) struct Tree(Vec<Branch>);

/// A field with its value, or an object with some in it.
pub(crate) enum Branch {
    Value(String, RawBson),
    Object(String, Tree),
}

impl Tree {
    pub fn branches(&self) -> &[Branch] {
        &self.0
    }

    /// Puts a value at a path.
    pub fn grow(&mut self, path: &str, value: RawBson) {
        let Some((name, rest)) = path.split_once('.') else {
            self.0.push(Branch::Value(path.to_owned(), value));
            return;
        };
        let there = self.0.iter_mut().find_map(|branch| match branch {
            Branch::Object(own, inner) if own == name => Some(inner),
            Branch::Object(..) | Branch::Value(..) => None,
        });
        if let Some(inner) = there {
            return inner.grow(rest, value);
        }
        let mut inner = Tree::default();
        inner.grow(rest, value);
        self.0.push(Branch::Object(name.to_owned(), inner));
    }
}
