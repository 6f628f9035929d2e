//! Objects, lists and leaves, and how to spoil them.
//!
//! Unlike a map, an object here may name a field twice, in any order.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// How deep something is wrapped at most: deeper than every reader allows.
const WRAPS_MAX: usize = 200;

/// How often something is repeated at most: more often than any list may be long.
const REPEATS_MAX: usize = 1_100;

/// A value with leaves of some kind.
#[derive(Clone, Debug)]
pub enum Tree<L> {
    /// No object and no list.
    Leaf(L),
    /// A list.
    List(Vec<Tree<L>>),
    /// An object, field by field.
    Object(Vec<(String, Tree<L>)>),
}

/// One way to spoil a tree. The index says which of its nodes is meant.
#[derive(Clone, Debug)]
pub enum Spoil<L> {
    /// Another value stands there: of another type, or extreme.
    Replace(Index, Tree<L>),
    /// A child of it is gone.
    Remove(Index, Index),
    /// A child of it stands there so many times more.
    Repeat(Index, Index, usize),
    /// A child of it has another name.
    Rename(Index, Index, String),
    /// Two nodes have changed places; where one is in the other, one of them stands twice.
    Splice(Index, Index),
    /// It is in so many lists, or in objects with one field.
    Wrap(Index, usize, Option<String>),
}

/// Ways to spoil a tree, at most so many; often none.
pub fn spoils<L: Clone + std::fmt::Debug + 'static>(
    leaves: impl Strategy<Value = L> + Clone + 'static,
    names: impl Strategy<Value = String> + Clone + 'static,
    most: usize,
) -> impl Strategy<Value = Vec<Spoil<L>>> {
    let at = any::<Index>;
    let values = prop_oneof![
        8 => leaves.clone().prop_map(Tree::Leaf),
        1 => vec(leaves.clone().prop_map(Tree::Leaf), 0..4).prop_map(Tree::List),
        1 => vec((names.clone(), leaves.prop_map(Tree::Leaf)), 0..4).prop_map(Tree::Object),
    ];
    let times = prop_oneof![8 => 1..3_usize, 1 => 990..REPEATS_MAX];
    let levels = prop_oneof![4 => 1..4_usize, 1 => 28..36_usize, 1 => 100..WRAPS_MAX];
    let spoil = prop_oneof![
        6 => (at(), values).prop_map(|(at, value)| Spoil::Replace(at, value)),
        2 => (at(), at()).prop_map(|(at, child)| Spoil::Remove(at, child)),
        2 => (at(), at(), times).prop_map(|(at, child, times)| Spoil::Repeat(at, child, times)),
        2 => (at(), at(), names.clone()).prop_map(|(at, child, name)| Spoil::Rename(at, child, name)),
        2 => (at(), at()).prop_map(|(one, other)| Spoil::Splice(one, other)),
        1 => (at(), levels, proptest::option::of(names))
            .prop_map(|(at, levels, name)| Spoil::Wrap(at, levels, name)),
    ];
    prop_oneof![1 => Just(Vec::new()), 1 => vec(spoil, 1..=most)]
}

impl<L: Clone> Tree<L> {
    /// An object with these fields.
    pub fn object(fields: impl IntoIterator<Item = (&'static str, Tree<L>)>) -> Tree<L> {
        Tree::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// The same, spoiled in these ways, one after the other.
    #[must_use]
    pub fn spoiled(mut self, spoils: Vec<Spoil<L>>) -> Tree<L> {
        for spoil in spoils {
            self.spoil(spoil);
        }
        self
    }

    fn spoil(&mut self, spoil: Spoil<L>) {
        match spoil {
            Spoil::Replace(at, value) => *self.node(at) = value,
            Spoil::Remove(at, child) => match self.node(at) {
                Tree::List(items) if !items.is_empty() => {
                    drop(items.remove(child.index(items.len())))
                }
                Tree::Object(fields) if !fields.is_empty() => {
                    fields.remove(child.index(fields.len()));
                }
                Tree::Leaf(_) | Tree::List(_) | Tree::Object(_) => {}
            },
            Spoil::Repeat(at, child, times) => match self.node(at) {
                Tree::List(items) if !items.is_empty() => repeat(items, child, times),
                Tree::Object(fields) if !fields.is_empty() => repeat(fields, child, times),
                Tree::Leaf(_) | Tree::List(_) | Tree::Object(_) => {}
            },
            Spoil::Rename(at, child, name) => {
                if let Tree::Object(fields) = self.node(at)
                    && !fields.is_empty()
                {
                    let child = child.index(fields.len());
                    fields[child].0 = name;
                }
            }
            Spoil::Splice(one, other) => {
                let (there, here) = (self.node(other).clone(), self.node(one).clone());
                *self.node(one) = there;
                *self.node(other) = here;
            }
            Spoil::Wrap(at, levels, name) => {
                let node = self.node(at);
                let mut inner = node.clone();
                for _ in 0..levels {
                    inner = match &name {
                        Some(name) => Tree::Object(vec![(name.clone(), inner)]),
                        None => Tree::List(vec![inner]),
                    };
                }
                *node = inner;
            }
        }
    }

    fn count(&self) -> usize {
        match self {
            Tree::Leaf(_) => 1,
            Tree::List(items) => 1 + items.iter().map(Tree::count).sum::<usize>(),
            Tree::Object(fields) => 1 + fields.iter().map(|(_, tree)| tree.count()).sum::<usize>(),
        }
    }

    fn node(&mut self, at: Index) -> &mut Tree<L> {
        let mut left = at.index(self.count());
        self.nth(&mut left).expect("it has so many nodes")
    }

    /// The node that comes so many nodes after this one.
    fn nth(&mut self, left: &mut usize) -> Option<&mut Tree<L>> {
        if *left == 0 {
            return Some(self);
        }
        *left -= 1;
        match self {
            Tree::Leaf(_) => None,
            Tree::List(items) => items.iter_mut().find_map(|item| item.nth(left)),
            Tree::Object(fields) => fields.iter_mut().find_map(|(_, item)| item.nth(left)),
        }
    }
}

fn repeat<T: Clone>(items: &mut Vec<T>, child: Index, times: usize) {
    let child = items[child.index(items.len())].clone();
    items.extend(std::iter::repeat_n(child, times));
}
