//! The fields of a form that acts, with what was typed and what is wrong with it.
//!
//! Promises that whoever is refused because of a field finds the message under it, and everything
//! else as it was typed. Pure.

use std::collections::HashMap;

use api::Problem;
use maud::{Markup, html};

/// What was typed into a form, and the problem that it was refused with. Nothing, before that.
#[derive(Default)]
pub struct Typed {
    fields: HashMap<String, String>,
    problem: Option<Problem>,
}

impl Typed {
    /// What was typed into a form that was refused.
    pub fn refused(fields: HashMap<String, String>, problem: Problem) -> Typed {
        Typed { fields, problem: Some(problem) }
    }

    /// Whether a field of the form is what is wrong.
    pub fn has_wrong_field(&self) -> bool {
        self.fields.keys().any(|name| self.problem_of(name).is_some())
    }

    /// What is wrong with a field.
    fn problem_of(&self, name: &str) -> Option<&str> {
        let named = self.problem.iter().flat_map(|problem| &problem.errors);
        let mut own = named.filter(|error| error.pointer.trim_start_matches("#/") == name);
        own.next().map(|error| error.detail.as_str())
    }

    /// What is wrong, on top of the form.
    pub fn summary(&self) -> Markup {
        html! {
            @if let Some(problem) = &self.problem {
                section.problem role="alert" {
                    h2 { "Nothing was done" }
                    p { (problem.detail) }
                }
            }
        }
    }

    /// A field that has to be filled in, with its label. `first` is what stands in it at first.
    pub fn field(&self, name: &str, label: &Markup, first: &str, chars_max: u32) -> Markup {
        self.input(name, label, first, chars_max, false)
    }

    /// A field for a moment, which the script shows in the viewer's zone.
    pub fn moment(&self, name: &str, label: &Markup, first: &str) -> Markup {
        self.input(name, label, first, 40, true)
    }

    fn input(
        &self,
        name: &str,
        label: &Markup,
        first: &str,
        chars_max: u32,
        is_moment: bool,
    ) -> Markup {
        let value = self.fields.get(name).map_or(first, String::as_str);
        let (problem, about) = (self.problem_of(name), format!("{name}-problem"));
        html! {
            label for=(name) { (label) }
            input id=(name) name=(name) required maxlength=(chars_max) autocomplete="off" value=(value)
                data-moment[is_moment] aria-invalid=[problem.map(|_| "true")]
                aria-describedby=[problem.map(|_| &about)];
            @if let Some(problem) = problem { p.wrong id=(about) { (problem) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use api::REASON;

    use super::*;

    #[test]
    fn a_refused_field_has_its_message_below_and_the_others_keep_what_was_typed() {
        let fields = [("value", "<7>"), (REASON, "why")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let typed = Typed::refused(fields, Problem::field("value", "is <no> number"));
        assert!(typed.has_wrong_field());
        let shown = typed.field("value", &html! { "Amount" }, "50", 40).into_string();
        let expected =
            "value=\"&lt;7&gt;\" aria-invalid=\"true\" aria-describedby=\"value-problem\"";
        assert!(shown.contains(expected), "{shown}");
        assert!(shown.ends_with("id=\"value-problem\">is &lt;no&gt; number</p>"), "{shown}");
        let other = typed.field(REASON, &html! { "Reason" }, "", 500).into_string();
        assert!(other.contains("value=\"why\"") && !other.contains("aria-"), "{other}");
        assert!(typed.summary().into_string().contains("value: is &lt;no&gt; number"));
        let first = Typed::default().field("value", &html! { "Amount" }, "50", 40).into_string();
        assert!(first.contains("name=\"value\" required") && first.contains("value=\"50\""));
        assert!(Typed::default().summary().into_string().is_empty());
    }

    #[test]
    fn a_problem_of_no_field_of_the_form_is_none_of_the_form() {
        let fields = || HashMap::from([("value".to_owned(), String::new())]);
        let other = Problem::field("captured", "is too much");
        assert!(!Typed::refused(fields(), other).has_wrong_field());
        let no_field = Problem::new(api::Code::WrongState, "value: is gone");
        assert!(!Typed::refused(fields(), no_field).has_wrong_field());
    }
}
