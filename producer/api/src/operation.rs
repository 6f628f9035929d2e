//! What the API offers, as data: router, OpenAPI document and page are made of the same list.
//!
//! Promises that an operation answers only with statuses that its entry names: whatever else its
//! function returns is answered as an internal error, and logged.

use std::pin::Pin;

use axum::http::{Method, StatusCode};
use client::ActSubject;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Schema};
use utoipa::openapi::{Ref, RefOr};

use super::access::Access;
use super::acting::REASON;
use super::answer::Answer;
use super::call::Call;
use super::param::{Param, string};
use super::problem::{Code, Problem};
use super::received::Received;
use super::tokens::{Caller, Scope};

/// What carries an operation out.
pub type Run = fn(Call) -> Pin<Box<dyn Future<Output = Result<Answer, Problem>> + Send>>;

/// The schemas of an operation's types: name and content.
pub type Schemas = Vec<(String, RefOr<Schema>)>;

/// A text that an `_id`, an account or a currency can be.
pub fn name_schema() -> ObjectBuilder {
    let most = ledger::limits::NAME_BYTES_MAX;
    // Bytes count, not characters: `é` has two.
    string().min_length(Some(1)).max_length(Some(most)).pattern(Some(r"^[^\x00-\x1f\x7f-\x9f]+$"))
}

/// A body that an operation takes.
pub struct Takes {
    /// The schema that it has.
    pub schema: RefOr<Schema>,
    /// The schemas that this one names.
    pub schemas: Schemas,
    /// Whether it has to be there.
    pub is_required: bool,
    /// Bodies that it takes, for people and for programs that try them.
    pub examples: Vec<(&'static str, serde_json::Value)>,
}

/// An answer that is no problem.
pub struct Gives {
    /// Its status.
    pub status: StatusCode,
    /// When it comes.
    pub about: &'static str,
    /// Its content type, and its schema if it is JSON.
    pub content: (&'static str, RefOr<Schema>),
    /// The schemas that this one names.
    pub schemas: Schemas,
}

/// What an operation is that a person asks for.
pub struct Act {
    /// Its name, which never changes.
    pub what: &'static str,
    /// What a request says that it is done to.
    pub on: fn(&Received) -> ActSubject,
    /// Whether programs do it in the course of their work. Then it is no act of theirs.
    pub of_people_only: bool,
    /// Whether the body says why, and not a parameter.
    pub is_reason_in_body: bool,
}

/// An operation.
pub struct Operation {
    /// Its method.
    pub method: Method,
    /// Its address; `{id}` stands for a name.
    pub path: &'static str,
    /// Its name for programs.
    pub name: &'static str,
    /// What a token needs for it; none for what everybody may see.
    pub scope: Option<Scope>,
    /// A scope that is enough for what was submitted under the token's own name.
    pub scope_of_own: Option<Scope>,
    /// Whether it can be told of some accounts only, so that it is there for tokens that are bound
    /// to these.
    pub is_for_bound: bool,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// What else there is to know.
    pub about: &'static str,
    /// Its parameters and headers.
    pub params: Vec<Param>,
    /// Its body, if it takes one.
    pub takes: Option<Takes>,
    /// How it answers.
    pub gives: Vec<Gives>,
    /// The problems that it may end with.
    pub problems: Vec<Code>,
    /// What is noted of it, if it is an act.
    pub act: Option<Act>,
    /// Whether it may take longer than the time limit of a request.
    pub is_long: bool,
    /// Whether it is a probe, which strangers may ask however often.
    pub is_probe: bool,
    /// What carries it out.
    pub run: Run,
}

impl Operation {
    /// An operation that needs a scope.
    pub fn new(method: Method, path: &'static str, name: &'static str, run: Run) -> Operation {
        // What every request may meet before its operation begins.
        let mut problems = vec![
            Code::Malformed,
            Code::Forbidden,
            Code::RequestTimeout,
            Code::TooLarge,
            Code::RateLimited,
            Code::Internal,
            Code::Unavailable,
        ];
        // Of what may change something, it can be open whether it did.
        if method == Method::POST {
            problems.push(Code::Unknown);
        }
        Operation {
            method,
            path,
            name,
            scope: None,
            scope_of_own: None,
            is_for_bound: false,
            summary: "",
            about: "",
            params: Vec::new(),
            takes: None,
            gives: Vec::new(),
            problems,
            act: None,
            is_long: false,
            is_probe: false,
            run,
        }
    }

    /// Who may do it.
    pub fn needs(mut self, scope: Scope) -> Operation {
        self.scope = Some(scope);
        self.may(&[Code::Unauthorized])
    }

    /// Who else may do it, with what was submitted under the token's own name. Its function looks at
    /// `Call::access`.
    pub fn or_of_own(mut self, scope: Scope) -> Operation {
        self.scope_of_own = Some(scope);
        self
    }

    /// It is there for tokens that are bound to accounts, too: its function looks at
    /// `Call::access`.
    pub fn of_accounts(mut self) -> Operation {
        self.is_for_bound = true;
        self
    }

    /// What a caller may see and touch in it.
    ///
    /// # Errors
    /// When its token lacks the scope, or is bound to accounts and this is about all of them.
    pub fn admit(&self, caller: &Caller) -> Result<Access, Problem> {
        let Some(scope) = self.scope else { return Ok(Access::full()) };
        let has_scope = caller.may(scope);
        if !has_scope && !self.scope_of_own.is_some_and(|own| caller.may(own)) {
            return Err(caller.lacks(scope));
        }
        if caller.is_bound() && !self.is_for_bound {
            let detail = format!(
                "the token {:?} is bound to accounts, and this is about all of them",
                caller.name
            );
            return Err(Problem::new(Code::Forbidden, detail));
        }
        Ok(caller.access(!has_scope))
    }

    /// What a token needs for it, in words; nothing for what everybody may see.
    pub fn needed(&self) -> String {
        let Some(scope) = self.scope else { return String::new() };
        let own = self.scope_of_own.map_or_else(String::new, |own| {
            format!("; `{own}` is enough for what was submitted under the token's own name")
        });
        let bound =
            if self.is_for_bound { "" } else { " Not for tokens that are bound to accounts." };
        format!("Needs the scope `{scope}`{own}.{bound}")
    }

    /// What it does.
    pub fn about(mut self, summary: &'static str, about: &'static str) -> Operation {
        (self.summary, self.about) = (summary, about);
        self
    }

    /// Its parameters. Each may have a value that breaks a rule.
    pub fn params(mut self, params: impl IntoIterator<Item = Param>) -> Operation {
        self.params.extend(params);
        self.may(&[Code::Invalid])
    }

    /// The body that it takes.
    pub fn takes<T: ToSchema>(
        mut self,
        schema: RefOr<Schema>,
        examples: Vec<(&'static str, serde_json::Value)>,
    ) -> Operation {
        let is_required = true;
        self.takes = Some(Takes { schema, schemas: schemas_of::<T>(), is_required, examples });
        self.may(&[Code::UnsupportedMediaType, Code::Invalid])
    }

    /// The body that it takes, if there is one.
    pub fn may_take<T: ToSchema>(
        self,
        examples: Vec<(&'static str, serde_json::Value)>,
    ) -> Operation {
        let mut operation = self.takes::<T>(reference::<T>(), examples);
        if let Some(takes) = &mut operation.takes {
            takes.is_required = false;
        }
        operation
    }

    /// An answer in JSON.
    pub fn gives<T: ToSchema>(self, status: StatusCode, about: &'static str) -> Operation {
        self.gives_any::<T>(status, about, reference::<T>())
    }

    /// An answer in JSON that is one of several.
    pub fn gives_any<T: ToSchema>(
        mut self,
        status: StatusCode,
        about: &'static str,
        schema: RefOr<Schema>,
    ) -> Operation {
        let content = ("application/json", schema);
        self.gives.push(Gives { status, about, content, schemas: schemas_of::<T>() });
        self
    }

    /// An answer of another type.
    pub fn gives_text(mut self, content_type: &'static str, about: &'static str) -> Operation {
        let content = (content_type, RefOr::T(Schema::Object(string().build())));
        self.gives.push(Gives { status: StatusCode::OK, about, content, schemas: Vec::new() });
        self
    }

    /// The problems that it may end with, beside those of every request.
    pub fn may(mut self, problems: &[Code]) -> Operation {
        self.problems.extend(problems);
        self.problems.sort_unstable();
        self.problems.dedup();
        self
    }

    /// An act: it is noted who does it, before and after, and the request may say why.
    pub fn act(mut self, what: &'static str, on: fn(&Received) -> ActSubject) -> Operation {
        self.act = Some(Act { what, on, of_people_only: false, is_reason_in_body: false });
        let schema = string().max_length(Some(ledger::limits::REASON_BYTES_MAX)).build();
        self.params([Param::text(REASON, "Why, for the list of acts; at most 1000 bytes", schema)])
    }

    /// The same for one whose body says why.
    pub fn act_with_body(
        mut self,
        what: &'static str,
        on: fn(&Received) -> ActSubject,
    ) -> Operation {
        self.act = Some(Act { what, on, of_people_only: false, is_reason_in_body: true });
        self
    }

    /// The same for what programs do in the course of their work: it is an act only of somebody in
    /// the console.
    pub fn act_of_people(
        mut self,
        what: &'static str,
        on: fn(&Received) -> ActSubject,
    ) -> Operation {
        self.act = Some(Act { what, on, of_people_only: true, is_reason_in_body: false });
        self
    }

    /// It is a probe, as load balancers send them.
    pub fn probe(mut self) -> Operation {
        self.is_probe = true;
        self
    }

    /// Takes as long as it takes.
    pub fn long(mut self) -> Operation {
        self.is_long = true;
        self
    }

    /// Whether its entry names this answer.
    pub fn names(&self, answer: &Result<Answer, Problem>) -> bool {
        match answer {
            Ok(answer) => self.gives.iter().any(|gives| gives.status == answer.status),
            Err(problem) => self.problems.contains(&problem.code),
        }
    }

    /// Whether its address has a name in it.
    pub fn has_id(&self) -> bool {
        self.path.contains("{id}")
    }
}

/// A reference to a type's schema.
pub fn reference<T: ToSchema>() -> RefOr<Schema> {
    RefOr::Ref(Ref::from_schema_name(T::name()))
}

fn schemas_of<T: ToSchema>() -> Schemas {
    let mut schemas = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut schemas);
    schemas
}
