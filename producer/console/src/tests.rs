use api::{Scope, routes};

use super::act::Act;
use super::html;

#[test]
fn hostile_text_stays_text_in_links_and_states() {
    let hostile = "\"><script>alert(1)</script>&";
    let shown = html::transaction(hostile).into_string() + &html::state(hostile).into_string();
    assert!(!shown.contains("<script"), "{shown}");
    assert!(shown.contains("&lt;script&gt;"), "{shown}");
    assert!(shown.contains("id=%22%3E%3Cscript"), "{shown}");
}

#[test]
fn numbers_are_grouped_and_a_capped_one_says_so() {
    let count = |text: &str| html::count(&serde_json::from_str(text).expect("JSON"));
    assert_eq!(count(r#"{"count":100000,"capped":true}"#), "100,000+");
    assert_eq!(count(r#"{"count":999,"capped":false}"#), "999");
    assert_eq!(count("null"), "not known");
}

#[test]
fn each_act_is_an_operation_that_needs_a_scope_with_a_name_of_its_own() {
    let names: std::collections::BTreeSet<_> = Act::ALL.iter().map(|act| act.name()).collect();
    assert_eq!(names.len(), Act::ALL.len());
    for act in Act::ALL {
        let operation = routes::all().find(|operation| operation.name == act.operation());
        let operation = operation.expect("an act is an operation of the API");
        let scope = operation.scope.expect("nobody acts without a token");
        assert!(!matches!(scope, Scope::Read | Scope::Submit), "{}", act.name());
    }
}
