//! The roles that `producer roles` makes: each program does its work with its own, and can't do
//! anything beyond.

use harness::servers::{GuardedMongo, OwnBroker, Servers};
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use lapin::options::{BasicConsumeOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use ledger::remedy::Remedy;
use ledger::transaction::State;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::error::{Error, ErrorKind};
use mongodb::{Client, Database};
use queue::{DEAD, WORK};
use serde_json::{Value, json};

use super::followed::follow;

const UNAUTHORIZED: i32 = 13;

/// A ledger on guarded servers, with a user of each role on both of them.
struct Guarded {
    world: World,
    mongo: GuardedMongo,
    broker: OwnBroker,
}

impl Guarded {
    async fn start() -> Guarded {
        let name = format!("roles-{}", uuid::Uuid::new_v4().simple());
        let root = [doc! { "createUser": "root", "pwd": "secret", "roles": ["root"] }];
        let (mongo, broker) =
            tokio::join!(GuardedMongo::start(&name, &root), OwnBroker::start(&name));
        let mongodb_uri = mongo.uri("root", "t");
        let world = World::on(Servers { mongodb_uri, ..broker.servers() }).await;
        world.accounts(&[("a", 100), ("b", 0)]).await;
        let guarded = Guarded { world, mongo, broker };
        guarded.make_users().await;
        guarded
    }

    /// As an operator does it with what the command prints.
    async fn make_users(&self) {
        let world = &self.world;
        let told = world.producer(&["roles", "--apply", "--json"]).await.expect_success().json();
        for role in told["roles"].as_array().expect("roles") {
            assert_eq!(role["created"], true, "{role}");
            let name = role["name"].as_str().expect("a name");
            let user = doc! { "createUser": name, "pwd": "secret", "roles": [name] };
            world.store.database().run_command(user).await.expect("root may");
        }
        for user in told["permissions"].as_array().expect("users") {
            let text = |field: &str| user[field].as_str().expect("a text");
            let patterns = [text("configure"), text("write"), text("read")];
            drop(self.broker.user(text("name"), patterns).await);
        }
    }

    fn mongodb(&self, role: &str) -> String {
        let uri = self.mongo.uri(role, &self.world.name);
        uri.replace("authSource=admin", &format!("authSource={}", self.world.name))
    }

    fn amqp(&self, role: &str) -> String {
        self.world.servers.amqp_url.replace("guest:guest@", &format!("{role}:secret@"))
    }

    /// A command with the role of a program.
    async fn producer(&self, role: &str, arguments: &[&str]) -> harness::producer::Answer {
        let (mongodb, amqp) = (self.mongodb(role), self.amqp(role));
        let servers = ["--mongodb-uri", &mongodb, "--amqp-url", &amqp];
        self.world.producer(&[arguments, &servers].concat()).await
    }

    async fn database(&self, role: &str) -> Database {
        let client = Client::with_uri_str(self.mongodb(role)).await.expect("the uri is good");
        client.database(&self.world.name)
    }

    /// Nothing of this is the work of any program that runs.
    async fn assert_bounds(&self, role: &str) {
        let database = self.database(role).await;
        let all = |update: Document| doc! { "q": {}, "u": update, "multi": true };
        let mut forbidden = vec![
            doc! { "drop": "accounts" },
            doc! { "collMod": "accounts", "validator": {} },
            doc! { "create": "more" },
            doc! { "dropIndexes": "transactions", "index": "by_creation" },
            doc! { "createIndexes": "accounts", "indexes": [{ "key": { "x": 1 }, "name": "x" }] },
            doc! { "delete": "accounts", "deletes": [{ "q": {}, "limit": 0 }] },
            doc! { "delete": "transactions", "deletes": [{ "q": {}, "limit": 0 }] },
            doc! { "delete": "tandem.journal", "deletes": [{ "q": {}, "limit": 0 }] },
            doc! { "delete": "tandem.order", "deletes": [{ "q": {}, "limit": 0 }] },
            doc! { "delete": "tandem.acts", "deletes": [{ "q": {}, "limit": 0 }] },
            doc! { "update": "tandem.acts", "updates": [all(doc! { "$set": { "x": 1 } })] },
            doc! { "createUser": "more", "pwd": "x", "roles": [] },
            doc! { "grantRolesToUser": role, "roles": ["tandem-api"] },
        ];
        if role != "tandem-api" {
            forbidden.push(doc! { "insert": "tandem.acts", "documents": [{ "_id": "x" }] });
        }
        let (update, insert) = match role {
            "tandem-worker" => (
                vec!["tandem.settings", "tandem.settlement"],
                vec!["accounts", "transactions", "tandem.settlement"],
            ),
            "tandem-producer" => {
                let update = vec![
                    "accounts",
                    "transactions",
                    "tandem.journal",
                    "tandem.parked",
                    "tandem.settings",
                    "tandem.settlement",
                ];
                (update, vec!["accounts", "tandem.journal", "tandem.order", "tandem.settlement"])
            }
            "tandem-auditor" => (
                vec![
                    "accounts",
                    "transactions",
                    "tandem.journal",
                    "tandem.parked",
                    "tandem.events",
                    "tandem.workers",
                    "tandem.settings",
                    "tandem.settlement",
                ],
                vec!["transactions", "tandem.journal", "tandem.order", "tandem.settlement"],
            ),
            _ => {
                // It pauses settlement, and can't change another setting by that.
                let others = vec![
                    "tandem.journal",
                    "tandem.order",
                    "tandem.events",
                    "tandem.workers",
                    "tandem.settings",
                ];
                (others.clone(), others)
            }
        };
        let change = || all(doc! { "$set": { "x": 1 } });
        forbidden.extend(update.iter().map(|on| doc! { "update": *on, "updates": [change()] }));
        let inserted = doc! { "_id": "x" };
        forbidden.extend(insert.iter().map(|on| doc! { "insert": *on, "documents": [&inserted] }));
        for command in forbidden {
            let answer = database.run_command(command.clone()).await;
            assert!(answer.is_err_and(|error| is_denied(&error)), "{role} may {command}");
        }
    }

    /// The broker refuses this user a new queue, and to consume a queue that is not its own.
    async fn assert_deaf(&self, role: &str, foreign: &str) {
        let properties = ConnectionProperties::default;
        let connection = Connection::connect(&self.amqp(role), properties()).await;
        let connection = connection.expect("the broker knows the user");
        let channel = connection.create_channel().await.expect("a channel");
        let queue = format!("{}.mine", self.world.name);
        let (options, none) = (QueueDeclareOptions::durable(), FieldTable::default);
        let declared = channel.queue_declare(queue.as_str().into(), options, none()).await;
        assert!(declared.is_err_and(|e| e.to_string().contains("ACCESS_REFUSED")), "{role}");
        let channel = connection.create_channel().await.expect("a channel");
        let (queue, options) =
            (format!("{}.{foreign}.v1", self.world.name), BasicConsumeOptions::default());
        let consumed = channel.basic_consume(queue.as_str().into(), "x".into(), options, none());
        let refused = consumed.await.is_err_and(|e| e.to_string().contains("ACCESS_REFUSED"));
        assert!(refused, "{role} consumes {foreign}");
    }
}

fn is_denied(error: &Error) -> bool {
    matches!(error.kind.as_ref(), ErrorKind::Command(command) if command.code == UNAUTHORIZED)
}

#[tokio::test]
async fn each_program_works_with_the_rights_of_its_role() {
    let guarded = Guarded::start().await;
    let world = &guarded.world;
    let roles = |role| (guarded.mongodb(role), guarded.amqp(role));
    let (mongodb, amqp) = roles("tandem-worker");
    for engine in ["two-phase", "auto"] {
        let plan = world.worker(engine).mongodb(&mongodb).amqp(&amqp).flag("--engine", engine);
        let worker = plan.start().await;
        let paid = ["transfer", "a", "b", "5", "--wait"];
        guarded.producer("tandem-producer", &paid).await.expect_success();
        let refused = guarded.producer("tandem-producer", &["transfer", "b", "a", "999", "--wait"]);
        assert_eq!(refused.await.code, Some(4), "it hears of the refusal");
        let keyed = ["transfer", "a", "b", "1", "--exclusive-key", "a-for-b", "--wait"];
        guarded.producer("tandem-producer", &keyed).await.expect_success();
        drop(worker);
    }
    for role in ["tandem-producer", "tandem-auditor", "tandem-api"] {
        for told in [
            &["accounts", "statement", "a"][..],
            &["list", "--account", "a"],
            &["events", "--after", "0"],
        ] {
            let told = guarded.producer(role, told).await.expect_success().stdout;
            assert!(told.lines().count() > 4, "{role}: {told}");
        }
    }

    let (mongodb, amqp) = roles("tandem-api");
    let env = [("TANDEM_MONGODB_URI", mongodb.as_str()), ("TANDEM_AMQP_URL", amqp.as_str())];
    let api = world.api_with(&[], &env).await;
    api.post("/v1/accounts", &json!({ "account": "c", "balance": "7" })).await.expect(201);
    api.act("/v1/accounts/c/freeze").await.expect(200);
    api.post("/v1/settlement/pause", &json!({ "reason": "a drill" })).await.expect(200);
    api.act("/v1/settlement/resume").await.expect(200);
    api.post("/v1/accounts/c/floor", &json!({ "floor": 7 })).await.expect(200);
    let submitted = json!({ "id": "t", "source": "a", "destination": "b", "value": "1" });
    api.post("/v1/transactions", &submitted).await.expect(202);
    let key = [("Idempotency-Key", "run")];
    let array = json!([{ "source": "a", "destination": "b", "value": 1, "notBefore": "2099-01-01T00:00:00Z" }]);
    let taken = api.post_with("/v1/batch", &key, &array).await.expect(200).json();
    assert_eq!(taken["summary"]["submitted"], 1, "{taken}");
    api.act("/v1/transactions/t/cancel").await.expect(202);
    let canceled = api.post("/v1/batch/cancel", &json!([{ "id": "t" }])).await.expect(200).json();
    assert_eq!(canceled["summary"]["decided"], 1, "{canceled}");
    park(world, "p").await;
    api.act("/v1/parked/p/replay").await.expect(202);
    world.queues.publish_raw(DEAD, br#"{"ids":["p"]}"#).await;
    let mut letters = Value::Null;
    wait_until("the letter is there", s(30), async || {
        letters = api.get("/v1/dead-letters").await.expect(200).json();
        letters["count"] == 1
    })
    .await;
    let letter = letters["items"][0]["id"].as_str().expect("an id");
    api.act(&format!("/v1/dead-letters/{letter}/replay")).await.expect(200);

    let (mongodb, amqp) = roles("tandem-worker");
    let worker = world.worker("last").mongodb(&mongodb).amqp(&amqp).start().await;
    world.wait_state("p", State::Done, s(60)).await;
    world.wait_final(s(60)).await;
    api.act("/v1/transactions/p/reverse?wait=30").await.expect(200);
    wait_until("the API sees the worker", s(30), async || {
        let seen = api.get("/v1/overview").await.expect(200).json();
        assert!(!seen["problems"].to_string().contains("not_permitted"), "{seen}");
        seen["workers"].to_string().contains("\"last\"") && seen["queues"].is_array()
    })
    .await;
    drop(worker);

    // Without a user of the broker.
    let audit = guarded.producer("tandem-auditor", &["audit", "--at-rest"]).await.expect_success();
    assert!(!audit.stdout.is_empty());
    // The right is asked for at once, also where nothing has ended lately.
    let long_ago = doc! { "$set": { "lastModified": DateTime::from_millis(1_600_000_000_000) } };
    world.store.transactions().update_many(doc! {}, long_ago).await.expect("root may");
    let audit = guarded.producer("tandem-producer", &["audit"]).await;
    assert!(audit.stderr.contains("`changeStream`"), "{audit:?}");
    world.assert_at_rest().await;
}

/// Inserts a transaction that waits for somebody to bring it back.
async fn park(world: &World, id: &str) {
    let (id, body) = transfer(id, "a", "b", 1);
    let mut document = body.to_document(&id, DateTime::now());
    let parked = doc! { "code": "kills_worker", "message": "tried", "at": DateTime::now() };
    document.insert("parked", parked);
    world.store.transactions().insert_one(document).await.expect("root may");
}

#[tokio::test]
async fn no_role_can_do_what_is_not_its_work() {
    let guarded = Guarded::start().await;
    for role in ["tandem-worker", "tandem-producer", "tandem-api", "tandem-auditor"] {
        guarded.assert_bounds(role).await;
    }
    guarded.assert_deaf("tandem-worker", DEAD).await;
    guarded.assert_deaf("tandem-producer", WORK).await;
    guarded.assert_deaf("tandem-api", WORK).await;
    for (role, arguments) in [
        ("tandem-worker", &["transfer", "a", "b", "1"][..]),
        ("tandem-auditor", &["transfer", "a", "b", "1"]),
        ("tandem-producer", &["accounts", "freeze", "a"]),
        ("tandem-producer", &["pause", "--reason", "a drill"]),
        ("tandem-producer", &["workers", "drain", "one", "--reason", "a drill"]),
        ("tandem-producer", &["accounts", "set-floor", "a", "1"]),
        ("tandem-api", &["roles", "--apply"]),
    ] {
        let refused = guarded.producer(role, arguments).await;
        assert_eq!(refused.code, Some(1), "{role} {arguments:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("not authorized"), "{role}: {}", refused.stderr);
    }
    assert_eq!(guarded.world.balance("a").await, 100.into());
}

#[tokio::test]
async fn roles_are_applied_again_and_printed_without_being_applied() {
    let guarded = Guarded::start().await;
    let world = &guarded.world;
    // Somebody has given a role more than its work needs.
    let more = doc! {
        "grantPrivilegesToRole": "tandem-auditor",
        "privileges": [{
            "resource": { "db": &world.name, "collection": "accounts" }, "actions": ["update"],
        }],
    };
    world.store.database().run_command(more).await.expect("root may");
    let less = doc! {
        "revokePrivilegesFromRole": "tandem-auditor",
        "privileges": [{
            "resource": { "db": &world.name, "collection": "transactions" },
            "actions": ["changeStream"],
        }],
    };
    world.store.database().run_command(less).await.expect("root may");
    let refused = guarded.producer("tandem-auditor", &["audit"]).await;
    assert_ne!(refused.code, Some(0), "{refused:?}");
    let again = follow(world, &refused.stderr, Remedy::Roles).await.expect_success().stdout;
    guarded.producer("tandem-auditor", &["audit"]).await.expect_success();
    assert!(again.contains("is as it should be: tandem-auditor"), "{again}");
    guarded.assert_bounds("tandem-auditor").await;
    let printed = world.producer(&["roles"]).await.expect_success().stdout;
    for line in ["\"createRole\": \"tandem-worker\"", "passwordPrompt()", "set_permissions -p '/'"]
    {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    assert!(!printed.contains("secret"), "{printed}");
}
