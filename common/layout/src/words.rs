//! Words: what the state of a transaction or the status of an account is called in the database.
//!
//! Promises that no word stands for two of Tandem's, and that each of Tandem's has a word that is
//! written. Several words may be read as the same one; the first is the one that is written.

use std::collections::BTreeMap;

use bson::{RawArrayBuf, RawBson, RawDocumentBuf, rawdoc};

/// What is said of a word that stands for nothing.
pub(crate) const NO_WORD: &str = ", which is no word of the schema";

/// The words of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// Tandem's own words, each with those that stand for it.
    pub(crate) all: Vec<(&'static str, Vec<String>)>,
    /// Tandem's word for a field that is not there.
    pub(crate) absent: Option<&'static str>,
}

impl Words {
    /// The words of a field: for each of `own`, those that are `given`, or itself.
    ///
    /// # Errors
    /// Says which word is wrong.
    pub(crate) fn new(
        own: &[&'static str],
        given: &BTreeMap<String, Vec<String>>,
        absent: Option<&'static str>,
    ) -> Result<Words, String> {
        if let Some(unknown) = given.keys().find(|name| !own.contains(&name.as_str())) {
            return Err(format!("{unknown:?} is none of {}", own.join(", ")));
        }
        let of = |name: &&'static str| {
            let words = given.get(*name).cloned();
            (*name, words.unwrap_or_else(|| vec![(*name).to_owned()]))
        };
        let all: Vec<_> = own.iter().map(of).collect();
        let mut met: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, words) in &all {
            if words.is_empty() {
                return Err(format!("{name} has no word; give the one that is written"));
            }
            for word in words {
                if let Some(other) = met.insert(word, name) {
                    return Err(format!("{word:?} stands for {other} and for {name}"));
                }
            }
        }
        Ok(Words { all, absent })
    }

    /// Whether each word stands for itself only.
    pub(crate) fn are_plain(&self) -> bool {
        self.all.iter().all(|(own, words)| words.len() == 1 && words[0] == *own)
    }

    /// All words that stand for one of Tandem's; none if it is none of them.
    pub(crate) fn read_as(&self, own: &str) -> Option<&[String]> {
        let found = self.all.iter().find(|(name, _)| *name == own);
        found.map(|(_, words)| words.as_slice())
    }

    /// The word that is written.
    pub(crate) fn written(&self, own: &str) -> Option<&str> {
        self.read_as(own).map(|words| words[0].as_str())
    }

    /// Tandem's word for one that was read.
    pub(crate) fn own(&self, word: &str) -> Option<&'static str> {
        let stands = |(_, words): &&(&'static str, Vec<String>)| words.iter().any(|w| w == word);
        self.all.iter().find(stands).map(|(own, _)| *own)
    }

    /// What is read in place of a word that stands for nothing: nothing, or where that would have a
    /// meaning, a text that is none of Tandem's words.
    pub(crate) fn unknown(&self, word: &str) -> RawBson {
        match self.absent {
            Some(_) => format!("{word}{NO_WORD}").into(),
            None => RawBson::Null,
        }
    }

    /// The same as the server computes it.
    fn unknown_of(&self, path: &str) -> RawBson {
        match self.absent {
            Some(_) => {
                let is_text = rawdoc! { "$eq": [{ "$type": path }, "string"] };
                rawdoc! { "$cond": [is_text, { "$concat": [path, NO_WORD] }, path] }.into()
            }
            None => RawBson::Null,
        }
    }

    /// Each of Tandem's words with those that stand for it, for people.
    pub(crate) fn told(&self) -> String {
        let one = |(own, words): &(&str, Vec<String>)| {
            let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
            format!("{} for {own}", words.join(" or "))
        };
        self.all.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Tandem's word as the server computes it from a path. For a word that stands for nothing see
    /// [`Words::unknown`].
    pub(crate) fn own_of(&self, path: &str) -> RawDocumentBuf {
        let branch = |(own, words): &(&'static str, Vec<String>)| {
            let words: RawArrayBuf = words.iter().map(String::as_str).collect();
            rawdoc! { "case": { "$in": [path, { "$literal": words }] }, "then": *own }
        };
        let mut branches: RawArrayBuf = self.all.iter().map(branch).collect();
        if let Some(absent) = self.absent {
            branches.push(rawdoc! { "case": { "$lte": [path, null] }, "then": absent });
        }
        rawdoc! { "$switch": { "branches": branches, "default": self.unknown_of(path) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [&str; 3] = ["open", "frozen", "closed"];

    fn given(words: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        let of = |(own, words): &(&str, &[&str])| {
            ((*own).to_owned(), words.iter().map(ToString::to_string).collect())
        };
        words.iter().map(of).collect()
    }

    #[test]
    fn each_word_stands_for_one_of_tandems() {
        let words = Words::new(&OWN, &given(&[("frozen", &["locked", "held"])]), Some("open"));
        let words = words.expect("they are good");
        assert_eq!(words.written("frozen"), Some("locked"));
        assert_eq!(words.own("held"), Some("frozen"));
        assert_eq!((words.own("frozen"), words.own("open")), (None, Some("open")));
        assert!(!words.are_plain());
        assert!(Words::new(&OWN, &given(&[]), None).expect("they are good").are_plain());
        for bad in [
            given(&[("frozen", &["open"])]),
            given(&[("frozen", &["x"]), ("closed", &["x"])]),
            given(&[("frozen", &[])]),
            given(&[("locked", &["locked"])]),
        ] {
            assert!(Words::new(&OWN, &bad, None).is_err(), "{bad:?}");
        }
    }
}
