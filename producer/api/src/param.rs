//! The parameters of an operation, as data.

use utoipa::openapi::schema::{AdditionalProperties, Object, ObjectBuilder, Schema, Type};
use utoipa::openapi::{KnownFormat, SchemaFormat};

/// A parameter after the question mark, or a header.
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// Whether it is a header.
    pub is_header: bool,
    /// Whether it stands for a parameter for each NAME: `word.NAME`, or `word[NAME]`, as generated
    /// clients write it.
    pub is_family: bool,
    /// What it does.
    pub about: &'static str,
    /// What it may be.
    pub schema: Object,
}

impl Param {
    /// A parameter with a text of this form.
    pub fn text(name: &'static str, about: &'static str, schema: Object) -> Param {
        Param { name, is_header: false, is_family: false, about, schema }
    }

    /// Parameters with names of the form `word.NAME` or `word[NAME]`.
    pub fn family(word: &'static str, about: &'static str) -> Param {
        let schema = ObjectBuilder::new().additional_properties(Some(Schema::from(string())));
        Param { is_family: true, ..Param::text(word, about, schema.build()) }
    }

    /// Its name, as people write it.
    pub fn shown(&self) -> String {
        format!("{}{}", self.name, if self.is_family { ".NAME" } else { "" })
    }

    /// Whether a parameter with this name is one of these.
    pub fn is_called(&self, name: &str) -> bool {
        match self.is_family {
            true => named(self.name, name).is_some(),
            false => self.name == name,
        }
    }

    /// A header.
    pub fn header(name: &'static str, about: &'static str, schema: Object) -> Param {
        Param { is_header: true, ..Param::text(name, about, schema) }
    }

    /// A parameter that is true or false.
    pub fn flag(name: &'static str, about: &'static str) -> Param {
        Param::text(name, about, ObjectBuilder::new().schema_type(Type::Boolean).build())
    }

    /// A whole number within limits.
    pub fn number(name: &'static str, about: &'static str, least: u32, most: u32) -> Param {
        let schema = ObjectBuilder::new().schema_type(Type::Integer);
        Param::text(name, about, schema.minimum(Some(least)).maximum(Some(most)).build())
    }

    /// A moment.
    pub fn moment(name: &'static str, about: &'static str) -> Param {
        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        let schema = ObjectBuilder::new().schema_type(Type::String).format(Some(format));
        Param::text(name, about, schema.build())
    }

    /// How many items.
    pub fn limit() -> Param {
        Param::number("limit", "How many items at most; 100 by default", 1, 1_000)
    }

    /// The parameters of a page: how many items, and from where on.
    pub fn paged() -> [Param; 2] {
        [Param::limit(), Param::text("cursor", "The `next` of the page before", string().build())]
    }

    /// The same of a list that goes back, too.
    pub fn paged_both_ways() -> [Param; 2] {
        let about = "The `next` of the page before, or the `prev` of the page behind";
        [Param::limit(), Param::text("cursor", about, string().build())]
    }
}

/// The NAME in `word.NAME` or `word[NAME]`.
pub fn named<'a>(word: &str, parameter: &'a str) -> Option<&'a str> {
    let rest = parameter.strip_prefix(word)?;
    let in_brackets = || rest.strip_prefix('[')?.strip_suffix(']');
    let is_one = |name: &&str| !name.contains(['[', ']']);
    rest.strip_prefix('.').or_else(|| in_brackets().filter(is_one))
}

/// A schema of an object with any fields, to be completed.
pub fn any_object() -> ObjectBuilder {
    ObjectBuilder::new().additional_properties(Some(AdditionalProperties::FreeForm(true)))
}

/// A schema of a text, to be completed.
pub fn string() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_a_name_after_a_point_or_in_brackets() {
        for (parameter, name) in [
            ("metadata.order", Some("order")),
            ("metadata.order.id", Some("order.id")),
            ("metadata[order]", Some("order")),
            ("metadata[order.id]", Some("order.id")),
            ("metadata[a][b]", None),
            ("metadata[order", None),
            ("metadata", None),
            ("metadataorder", None),
            ("order", None),
        ] {
            assert_eq!(named("metadata", parameter), name, "{parameter}");
        }
        let family = Param::family("metadata", "");
        assert_eq!(family.shown(), "metadata.NAME");
        assert!(family.is_called("metadata[x]") && !family.is_called("metadata"));
    }
}
