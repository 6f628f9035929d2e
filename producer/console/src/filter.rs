//! The form above a list.
//!
//! What a list is asked for stands in its address, so a link shows the same list again. Promises that a
//! label stays beside its field, and that a moment without a zone is read in the zone that the form
//! names. Fails with the problem of the operation that is asked, which names the field.

use maud::{Markup, html};

use super::html::ZONE;
use super::moment::EXAMPLE;
use super::visit::Visit;

/// The parameters of addresses that are moments.
pub const MOMENTS: [&str; 6] = ["since", "until", "endedSince", "endedUntil", "from", "to"];

/// The form of a list with moments among its fields. `kept` stays in the address as it is.
pub fn form(action: &str, kept: &[(&str, &str)], fields: &Markup) -> Markup {
    html! {
        form.filter action=(action) {
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            (fields)
            button { "Show" }
            span.note #zone { "Moments are in " (ZONE) "." }
        }
    }
}

/// A field for a text.
pub fn field(visit: &Visit, name: &str, label: &str) -> Markup {
    html! {
        span.field {
            label for=(name) { (label) }
            input id=(name) name=(name) value=[visit.param(name)];
        }
    }
}

/// Fields for moments, which the script shows in the viewer's zone.
pub fn moments(visit: &Visit, fields: &[(&str, &str)]) -> Markup {
    html! {
        @for (name, label) in fields {
            span.field {
                label for=(name) { (label) }
                input id=(name) name=(name) value=[visit.param(name)] maxlength="40"
                    placeholder=(EXAMPLE) aria-describedby="zone" data-moment;
            }
        }
    }
}

/// One of some words, or any.
pub fn choice(visit: &Visit, name: &str, label: &str, words: &[&str]) -> Markup {
    let chosen = visit.param(name);
    html! {
        span.field {
            label for=(name) { (label) }
            select id=(name) name=(name) {
                option value="" { "any" }
                @for word in words { option value=(word) selected[chosen == Some(*word)] { (word) } }
            }
        }
    }
}
