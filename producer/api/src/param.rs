//! The parameters of an operation, as data.

use utoipa::openapi::schema::{Object, ObjectBuilder, Type};
use utoipa::openapi::{KnownFormat, SchemaFormat};

/// A parameter after the question mark, or a header.
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// Whether it is a header.
    pub is_header: bool,
    /// Whether its name stands for all names that begin as it does.
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

    /// Parameters with names of the form `word.NAME`.
    pub fn family(name: &'static str, about: &'static str) -> Param {
        Param { is_family: true, ..Param::text(name, about, string().build()) }
    }

    /// Whether a parameter with this name is one of these.
    pub fn is_called(&self, name: &str) -> bool {
        let word = self.name.split_inclusive('.').next().unwrap_or_default();
        self.name == name || self.is_family && name.starts_with(word)
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
}

/// A schema of a text, to be completed.
pub fn string() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}
