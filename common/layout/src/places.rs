//! Where fields stand in a stored document, as objects within objects, to be found in one pass.

use std::collections::BTreeMap;

use super::path::Path;

/// The names of an object that lead to fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Places(Vec<(String, Place)>);

/// What stands under a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    /// A field.
    Field(&'static str),
    /// An object with some fields in it, and its path.
    Object(String, Places),
    /// The object with all fields of Tandem's that have no path of their own, and its path.
    Own(String),
}

impl Places {
    /// Those of these fields, and of the object of all others.
    pub fn new(fields: &BTreeMap<&'static str, Path>, own: &Path) -> Places {
        let mut places = Places::default();
        places.put("", own.as_str(), Place::Own(own.as_str().to_owned()));
        // What its owner has put under Tandem's own path has its own name there.
        for (name, path) in fields.iter().filter(|(_, path)| !own.begins(path)) {
            places.put("", path.as_str(), Place::Field(name));
        }
        places
    }

    /// What stands under a name; none if it leads to no field.
    pub fn get(&self, name: &str) -> Option<&Place> {
        self.0.iter().find_map(|(own, place)| (own == name).then_some(place))
    }

    fn put(&mut self, prefix: &str, path: &str, place: Place) {
        let Some((name, rest)) = path.split_once('.') else {
            self.0.push((path.to_owned(), place));
            return;
        };
        let within = format!("{prefix}{name}");
        if self.get(name).is_none() {
            let inner = Place::Object(within.clone(), Places::default());
            self.0.push((name.to_owned(), inner));
        }
        let inner = self.0.iter_mut().find_map(|(own, place)| match place {
            Place::Object(_, inner) if own == name => Some(inner),
            Place::Object(..) | Place::Field(_) | Place::Own(_) => None,
        });
        // No path leads through another one.
        if let Some(inner) = inner {
            inner.put(&format!("{within}."), rest, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_the_names_on_their_way() {
        let path = |text| Path::parse(text).expect("a path");
        let fields = [("a", path("w.x.a")), ("b", path("w.b")), ("c", path("tandem.c"))];
        let places = Places::new(&fields.into(), &path("tandem"));
        assert_eq!(places.get("tandem"), Some(&Place::Own("tandem".to_owned())));
        let Some(Place::Object(w, inner)) = places.get("w") else { panic!("{places:?}") };
        assert_eq!((w.as_str(), inner.get("b")), ("w", Some(&Place::Field("b"))));
        let Some(Place::Object(x, inner)) = inner.get("x") else { panic!("{places:?}") };
        assert_eq!((x.as_str(), inner.get("a")), ("w.x", Some(&Place::Field("a"))));
        assert_eq!((places.get("a"), places.get("c")), (None, None));
    }
}
