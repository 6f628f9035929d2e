//! The OpenAPI document, made of the list of operations.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::HeaderName;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, HttpMethod, InfoBuilder, OpenApi, OpenApiBuilder, PathItem,
    Paths, Required, Response, ResponseBuilder,
};

use super::answer::Answer;
use super::operation::{Gives, Operation, Takes, name_schema, reference};
use super::param::string;
use super::problem::{self, Code, ProblemDetails};
use super::routes;
use super::submissions::{APPLIED, REPLAYED};

const TOKEN: &str = "token";

static TEXT: LazyLock<Bytes> = LazyLock::new(|| {
    serde_json::to_vec_pretty(&document()).expect("a document is valid JSON").into()
});

/// The answer with the document.
pub fn answer() -> Answer {
    Answer::text("application/json", TEXT.clone())
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
        add(&mut paths, operation.path, PathItem::new(method(operation), described(operation)));
        for (of_name, name) in routes::hidden_by(operation) {
            let item = PathItem::new(method(of_name), described_for(of_name, name));
            add(&mut paths, operation.path, item);
        }
    }
    let about = "Money between accounts in MongoDB, settled by workers. Every id is an idempotency \
                 key that lives for ever. Amounts in answers are texts. A server that was started \
                 without a file of tokens needs none.";
    let info = InfoBuilder::new().title("Tandem").version(env!("CARGO_PKG_VERSION"));
    let info = info.description(Some(about)).build();
    OpenApiBuilder::new().info(info).paths(paths).components(Some(components.build())).build()
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

/// An operation on something of this name only, at the address of another operation.
fn described_for(operation: &Operation, name: &str) -> utoipa::openapi::path::Operation {
    let mut described = described(operation);
    described.operation_id = Some(format!("{}.{name}", operation.name));
    described.description = Some(format!("Of that which is called `{name}`."));
    if let Some(parameters) = &mut described.parameters {
        parameters.retain(|parameter| parameter.name != "id");
    }
    described
}

fn described(operation: &Operation) -> utoipa::openapi::path::Operation {
    let mut described = OperationBuilder::new()
        .operation_id(Some(operation.name))
        .summary(Some(operation.summary))
        .description(Some(operation.about))
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
    if let Some(scope) = operation.scope {
        let scopes = [scope.as_str()];
        described = described.security(SecurityRequirement::new(TOKEN, scopes));
    }
    for gives in &operation.gives {
        described = described.response(gives.status.as_str(), good(operation, gives));
    }
    for (status, codes) in by_status(&operation.problems) {
        described = described.response(status, bad(&codes));
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

fn good(operation: &Operation, gives: &Gives) -> Response {
    let (content_type, schema) = &gives.content;
    let content = ContentBuilder::new().schema(Some(schema.clone())).build();
    let mut response =
        ResponseBuilder::new().description(gives.about).content(*content_type, content);
    if operation.takes.is_some() || operation.params.iter().any(|param| param.name == "Prefer") {
        response = header(response, &REPLAYED, "`true` when it was there already");
        response = header(response, &APPLIED, "That the wish to wait was heard");
    }
    response.build()
}

fn header(response: ResponseBuilder, name: &HeaderName, about: &str) -> ResponseBuilder {
    let schema = Schema::from(string());
    let header = HeaderBuilder::new().schema(schema).description(Some(about)).build();
    response.header(name.as_str(), header)
}

/// Several kinds of problems may have the same status.
fn by_status(codes: &[Code]) -> BTreeMap<String, Vec<Code>> {
    let mut by_status = BTreeMap::<String, Vec<Code>>::new();
    for code in codes {
        by_status.entry(code.status().as_str().to_owned()).or_default().push(*code);
    }
    by_status
}

fn bad(codes: &[Code]) -> Response {
    let about: Vec<String> =
        codes.iter().map(|code| format!("`{}`: {}", code.word(), code.title())).collect();
    let content = ContentBuilder::new().schema(Some(reference::<ProblemDetails>())).build();
    let mut response = ResponseBuilder::new()
        .description(about.join(". "))
        .content("application/problem+json", content);
    for name in codes.iter().flat_map(|code| problem::headers(*code)) {
        response = header(response, name, "See RFC 9110");
    }
    response.build()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    fn text() -> Value {
        serde_json::to_value(document()).expect("JSON")
    }

    #[test]
    fn every_schema_that_is_referred_to_is_there() {
        let document = text();
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        let whole = document.to_string();
        let named: BTreeSet<&str> = whole
            .split("#/components/schemas/")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap_or_default())
            .collect();
        assert!(named.len() > 10);
        for name in named {
            assert!(schemas.contains_key(name), "{name}");
        }
    }

    #[test]
    fn each_operation_documents_the_statuses_of_its_problems_and_says_what_it_does() {
        let document = text();
        for operation in routes::all() {
            let method = operation.method.as_str().to_ascii_lowercase();
            let described = &document["paths"][operation.path][&method];
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
}
