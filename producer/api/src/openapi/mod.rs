//! The OpenAPI document, made of the list of operations.
//!
//! - This file: paths, parameters, bodies. `responses`: what an operation answers. `examples`: an
//!   answer of each. `tags`: the groups.
//!
//! Promises to be fit to generate a client from: an operation takes one thing and answers one
//! thing, a schema's name stands for one schema, and states and codes of transactions, accounts and
//! problems are enums.

mod examples;
mod responses;
mod tags;

use std::sync::LazyLock;

use axum::body::Bytes;
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, ParameterStyle,
};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, InfoBuilder, OpenApi, OpenApiBuilder, PathItem, Paths,
    Required, ServerBuilder,
};

use super::answer::Answer;
use super::operation::{Operation, Takes, name_schema};
use super::problem::ProblemDetails;
use super::routes;

const TOKEN: &str = "token";

static TEXT: LazyLock<String> = LazyLock::new(|| {
    let text = serde_json::to_string_pretty(&document()).expect("a document is valid JSON");
    format!("{text}\n")
});

/// The document, as text.
#[must_use]
pub fn text() -> &'static str {
    &TEXT
}

/// The answer with the document.
pub(super) fn answer() -> Answer {
    Answer::text("application/json", Bytes::from_static(text().as_bytes()))
}

/// The document.
fn document() -> OpenApi {
    let mut paths = Paths::new();
    let mut components = ComponentsBuilder::new().schema_from::<ProblemDetails>().security_scheme(
        TOKEN,
        SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build()),
    );
    for operation in routes::all() {
        let takes = operation.takes.iter().flat_map(|takes| &takes.schemas);
        let gives = operation.gives.iter().flat_map(|gives| &gives.schemas);
        for (name, schema) in takes.chain(gives) {
            components = components.schema(name, schema.clone());
        }
        for (name, problem) in responses::problems(operation) {
            components = components.response(name, problem);
        }
        add(&mut paths, operation.path, PathItem::new(method(operation), described(operation)));
    }
    let about = "Money between accounts in MongoDB, settled by workers. Every id is an idempotency \
                 key that lives for ever. Amounts in answers are texts. A server that was started \
                 without a file of tokens needs none.";
    let info = InfoBuilder::new().title("Tandem").version(env!("CARGO_PKG_VERSION"));
    let info = info.description(Some(about)).build();
    let here = ServerBuilder::new().url("/").description(Some("Where this document comes from"));
    let local = ServerBuilder::new().url("http://127.0.0.1:8080");
    let local = local.description(Some("A server on this machine, if nothing else is set"));
    OpenApiBuilder::new()
        .info(info)
        .servers(Some([here.build(), local.build()]))
        .tags(Some(tags::all()))
        .paths(paths)
        .components(Some(components.build()))
        .build()
}

fn method(operation: &Operation) -> HttpMethod {
    match operation.method.as_str() {
        "GET" => HttpMethod::Get,
        _ => HttpMethod::Post,
    }
}

fn add(paths: &mut Paths, path: &str, item: PathItem) {
    match paths.paths.get_mut(path) {
        Some(there) => there.merge_operations(item),
        None => drop(paths.paths.insert(path.to_owned(), item)),
    }
}

fn described(operation: &Operation) -> utoipa::openapi::path::Operation {
    let mut described = OperationBuilder::new()
        .operation_id(Some(operation.name))
        .tag(tags::of(operation.path))
        .summary(Some(operation.summary))
        .description(Some(format!("{} {}", operation.about, operation.needed()).trim()))
        .request_body(operation.takes.as_ref().map(body));
    if operation.has_id() {
        let id = ParameterBuilder::new().name("id").parameter_in(ParameterIn::Path);
        let id = id.required(Required::True).schema(Some(Schema::from(name_schema())));
        // Of the examples of the bodies, so that whoever tries them finds them.
        let example = match operation.path {
            path if path.starts_with("/v1/accounts/") => Some("alice".into()),
            path if path.starts_with("/v1/transactions/") => Some("rent-2026-11".into()),
            _ => None,
        };
        let id = id.example(example);
        described = described.parameter(id);
    }
    for param in &operation.params {
        described = described.parameter(parameter(param));
    }
    // One of them is enough.
    for scope in operation.scope.into_iter().chain(operation.scope_of_own) {
        let scopes = [scope.as_str()];
        described = described.security(SecurityRequirement::new(TOKEN, scopes));
    }
    for gives in &operation.gives {
        described = described.response(gives.status.as_str(), responses::given(operation, gives));
    }
    for (status, problem) in responses::refusals(operation) {
        described = described.response(status, problem);
    }
    described.build()
}

fn parameter(param: &super::param::Param) -> Parameter {
    let place = if param.is_header { ParameterIn::Header } else { ParameterIn::Query };
    ParameterBuilder::new()
        .name(param.name)
        .parameter_in(place)
        .required(Required::False)
        .description(Some(param.about))
        .style(param.is_family.then_some(ParameterStyle::DeepObject))
        .explode(param.is_family.then_some(true))
        .schema(Some(Schema::Object(param.schema.clone())))
        .build()
}

fn body(takes: &Takes) -> RequestBody {
    use utoipa::openapi::example::ExampleBuilder;

    let examples = takes
        .examples
        .iter()
        .map(|(name, value)| (*name, ExampleBuilder::new().value(Some(value.clone())).build()));
    let content = ContentBuilder::new()
        .schema(Some(takes.schema.clone()))
        .examples_from_iter(examples)
        .build();
    let required = if takes.is_required { Required::True } else { Required::False };
    RequestBodyBuilder::new().content("application/json", content).required(Some(required)).build()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::{Value, json};

    use super::*;

    fn document() -> Value {
        serde_json::from_str(text()).expect("JSON")
    }

    /// An operation as the document has it.
    fn of<'a>(document: &'a Value, operation: &Operation) -> &'a Value {
        let method = operation.method.as_str().to_ascii_lowercase();
        &document["paths"][operation.path][&method]
    }

    #[test]
    fn everything_that_is_referred_to_is_there() {
        let document = document();
        let whole = document.to_string();
        let named: BTreeSet<&str> = whole
            .split("\"#/components/")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap_or_default())
            .collect();
        assert!(named.len() > 10);
        for name in named {
            assert!(document["components"].pointer(&format!("/{name}")).is_some(), "{name}");
        }
    }

    #[test]
    fn the_name_of_a_schema_stands_for_one_schema() {
        let mut known: BTreeMap<String, Value> = BTreeMap::new();
        for operation in routes::all() {
            let takes = operation.takes.iter().flat_map(|takes| &takes.schemas);
            for (name, schema) in takes.chain(operation.gives.iter().flat_map(|g| &g.schemas)) {
                let schema = serde_json::to_value(schema).expect("JSON");
                let other = known.insert(name.clone(), schema.clone());
                assert!(other.is_none_or(|other| other == schema), "{name}");
            }
        }
    }

    #[test]
    fn each_operation_documents_the_statuses_of_its_problems_and_says_what_it_does() {
        let document = document();
        for operation in routes::all() {
            let described = of(&document, operation);
            assert_eq!(described["operationId"], operation.name);
            assert!(!operation.summary.is_empty(), "{}", operation.name);
            let gives = operation.gives.iter().map(|gives| gives.status);
            let problems = operation.problems.iter().map(|code| code.status());
            for status in gives.chain(problems) {
                assert!(
                    described["responses"].get(status.as_str()).is_some(),
                    "{} {status}",
                    operation.name
                );
            }
        }
    }

    #[test]
    fn each_answer_in_json_is_shown_as_it_may_be_and_is_always_the_same_thing() {
        let document = document();
        for operation in routes::all() {
            let mut schemas = BTreeSet::new();
            for gives in operation.gives.iter().filter(|g| g.content.0 == "application/json") {
                let (name, status) = (operation.name, gives.status);
                let answer = &of(&document, operation)["responses"][status.as_str()];
                let answer = &answer["content"]["application/json"];
                schemas.insert(answer["schema"].to_string());
                let mut schema = answer["schema"].clone();
                schema["components"] = document["components"].clone();
                let validator = jsonschema::draft202012::new(&schema).expect("a schema");
                let example = answer.get("example").unwrap_or_else(|| panic!("{name} {status}"));
                let wrong: Vec<String> =
                    validator.iter_errors(example).map(|error| error.to_string()).collect();
                assert!(wrong.is_empty(), "{name} {status}: {wrong:?}");
            }
            assert!(schemas.len() <= 1, "{}: {schemas:?}", operation.name);
        }
    }

    #[test]
    fn an_outcome_has_the_fields_and_codes_of_the_messages() {
        let message = include_str!("../../../../common/schemas/outcome.json");
        let message: Value = serde_json::from_str(message).expect("JSON");
        let schemas = &document()["components"]["schemas"];
        let names = |schema: &Value| -> BTreeSet<String> {
            schema["properties"].as_object().expect("an object").keys().cloned().collect()
        };
        assert_eq!(names(&schemas["Outcome"]), names(&message));
        let codes = &message["properties"]["reason"]["properties"]["code"]["enum"];
        assert_eq!(&schemas["CancelCode"]["enum"], codes);
        assert_eq!(schemas["EndState"]["enum"], message["properties"]["state"]["enum"]);
    }

    #[test]
    fn what_is_a_closed_set_is_an_enum_of_all_of_it() {
        let schemas = &document()["components"]["schemas"];
        for (schema, property, word, others) in [
            ("TransactionState", "state", "canceling", 9),
            ("Transaction", "state", "unknown", 9),
            ("Outcome", "state", "done", 2),
            ("Reason", "code", "insufficient_funds", 16),
            ("Account", "status", "frozen", 4),
            ("Parked", "code", "transaction_unwritable", 6),
            ("Problem", "type", "urn:tandem:problem:key-in-use", 20),
        ] {
            let property = &schemas[schema]["properties"][property];
            let reference =
                property["$ref"].as_str().or_else(|| property["allOf"][0]["$ref"].as_str());
            let name = reference.and_then(|name| name.rsplit('/').next()).expect(schema);
            let words = schemas[name]["enum"].as_array().expect(name);
            assert!(words.contains(&json!(word)), "{name}: {words:?}");
            assert_eq!(words.len(), others, "{name}: {words:?}");
        }
    }
}
