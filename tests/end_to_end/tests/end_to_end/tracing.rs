//! Traces: one transaction is followed from its request to its event, and a collector is in
//! nobody's way.

use std::collections::BTreeSet;

use client::{Client, Submission};
use harness::collector::{Collector, Mood, Span};
use harness::subscriber::Subscriber;
use harness::wait::s;
use harness::world::{World, transfer};
use lapin::types::{AMQPValue, FieldArray, FieldTable};
use observe::Tracing;
use serde_json::json;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const ABOVE: &str = "b7ad6b7169203331";

fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{ABOVE}-{flags}")
}

async fn world() -> World {
    let world = World::new().await;
    world.accounts(&[("a", 1_000_000), ("b", 0)]).await;
    world
}

fn body(id: &str) -> serde_json::Value {
    json!({ "id": id, "source": "a", "destination": "b", "value": 1 })
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no span is named {name}: {spans:?}"));
    assert_eq!(found.next(), None, "two spans are named {name}");
    span
}

async fn one_request_is_one_trace(engine: &str, phases: &[&str]) {
    let (world, collector) = (world().await, Collector::start(Mood::Takes).await);
    let subscriber = Subscriber::new(&world).await;
    let to = ["--otlp-endpoint", collector.endpoint.as_str()];
    // Whatever is not sampled by its sender is not sampled here.
    let api = world.api(&[&to[..], &["--trace-sample", "0"]].concat()).await;
    let worker = world.worker("one").flag("--engine", engine).flag(to[0], to[1]).start().await;

    let sampled = traceparent("01");
    let headers = [("traceparent", sampled.as_str())];
    api.post_with("/v1/transactions?wait=60", &headers, &body("t")).await.expect(200);
    let event = subscriber.of(1, s(60)).await.remove(0);
    let all = ["POST /v1/transactions", "submit", "settle transaction", "process batch"];
    let spans = collector.wait("the spans come", |spans| {
        let is_there = |name: &&str| spans.iter().any(|span| span.name == *name);
        all.iter().all(is_there) && phases.iter().all(is_there)
    });
    let spans = spans.await;

    // The trace of the request: API, client, worker.
    let request = named(&spans, "POST /v1/transactions");
    assert_eq!((request.trace.as_str(), request.parent.as_str()), (TRACE, ABOVE));
    assert_eq!(request.service, "tandem-producer");
    assert_eq!(request.attributes["http.response.status_code"], "200");
    let submit = named(&spans, "submit");
    assert_eq!((submit.trace.as_str(), &submit.parent), (TRACE, &request.id));
    assert_eq!(submit.attributes["tandem.transaction.id"], "t");
    let settle = named(&spans, "settle transaction");
    assert_eq!((settle.trace.as_str(), &settle.parent), (TRACE, &submit.id));
    assert_eq!((settle.service.as_str(), settle.is_failed), ("tandem-worker", false));
    assert_eq!(settle.attributes["tandem.outcome"], "final");
    assert!(submit.time.0 >= request.time.0 && settle.time.0 >= submit.time.0);
    assert!(settle.time.1 > settle.time.0);

    // The trace of the batch, with links both ways.
    let batch = named(&spans, "process batch");
    assert_eq!((batch.parent.as_str(), batch.trace == TRACE), ("", false));
    assert_eq!(batch.links, [(TRACE.to_owned(), submit.id.clone())]);
    assert_eq!(settle.links, [(batch.trace.clone(), batch.id.clone())]);
    assert_eq!(batch.attributes["tandem.batch.transactions"], "1");
    for phase in phases {
        let phase = named(&spans, phase);
        assert_eq!((&phase.trace, &phase.parent), (&batch.trace, &batch.id), "{}", phase.name);
    }

    // Whoever hears of it goes on with the trace.
    assert_eq!(event.headers["traceparent"], format!("00-{TRACE}-{}-01", settle.id));
    assert!(!worker.log().contains("spans can't be sent"));
}

#[tokio::test]
async fn a_request_is_one_trace_from_the_api_through_each_phase_to_the_event() {
    let phases = ["claim", "post", "applied", "settle", "announce", "done"];
    one_request_is_one_trace("two-phase", &phases).await;
}

#[tokio::test]
async fn a_request_is_one_trace_also_through_a_native_transaction() {
    one_request_is_one_trace("transaction", &["transaction", "announce"]).await;
}

#[tokio::test]
async fn transactions_of_one_message_keep_a_trace_of_their_own_each() {
    let (world, collector) = (world().await, Collector::start(Mood::Takes).await);
    let sample_all = |share| Tracing::start(Some(&collector.endpoint), share, ("shop", "one"));
    let tracing = sample_all(1.0).expect("an endpoint");
    let config = world.client_config().tracing(tracing.clone());
    let client = Client::connect(&config).await.expect("the servers are there");
    let one = |n: usize| Submission::transfer("a", "b", 1).with_id(format!("t{n}"));
    let unsampled = one(30).with_traceparent(&traceparent("00"));
    let submissions = (0..30).map(one).chain([unsampled, one(31).with_traceparent("nonsense")]);
    for receipt in client.submit_all(submissions).await {
        receipt.expect("it is submitted");
    }
    client.close().await;
    tracing.stop().await;
    let worker = world.worker("one").flag("--otlp-endpoint", &collector.endpoint).start().await;
    world.wait_final(s(60)).await;

    let settled =
        |spans: &[Span]| spans.iter().filter(|span| span.name == "settle transaction").count();
    let spans = collector.wait("31 are traced", |spans| settled(spans) == 31).await;
    let of = |name: &str| -> BTreeSet<(String, String)> {
        let spans = spans.iter().filter(|span| span.name == name);
        let about = |span: &Span| span.attributes["tandem.transaction.id"].clone();
        spans.map(|span| (span.trace.clone(), about(span))).collect()
    };
    assert_eq!(of("submit"), of("settle transaction"), "a trace goes on with another transaction");
    let traces: BTreeSet<_> =
        of("settle transaction").into_iter().map(|(trace, _)| trace).collect();
    assert_eq!((traces.len(), traces.contains(TRACE)), (31, false));
    let batches = spans.iter().filter(|span| span.name == "process batch");
    let links: BTreeSet<_> = batches.flat_map(|batch| batch.links.clone()).collect();
    assert_eq!(links.len(), 31);
    drop(worker);
}

#[tokio::test]
async fn what_is_not_sampled_makes_no_span_and_adds_no_header() {
    let (world, collector) = (world().await, Collector::start(Mood::Takes).await);
    let subscriber = Subscriber::new(&world).await;
    let to = ["--otlp-endpoint", collector.endpoint.as_str()];
    let api = world.api(&[&to[..], &["--trace-sample", "1"]].concat()).await;
    let worker = world.worker("one").flag(to[0], to[1]).start().await;
    let unsampled = traceparent("00");
    let headers = [("traceparent", unsampled.as_str())];
    api.post_with("/v1/transactions?wait=60", &headers, &body("unsampled")).await.expect(200);
    // This one is: it shows that spans would have come.
    api.post("/v1/transactions?wait=60", &body("sampled")).await.expect(200);
    let events = subscriber.of(2, s(60)).await;
    for event in events {
        let is_sampled = event.body["id"] == "sampled";
        assert_eq!(event.headers.contains_key("traceparent"), is_sampled, "{event:?}");
    }
    let last = |spans: &[Span]| spans.iter().any(|span| span.name == "settle transaction");
    let spans = collector.wait("the sampled one comes", last).await;
    for span in &spans {
        assert_ne!(span.trace, TRACE, "{span:?}");
        assert_ne!(span.attributes.get("tandem.transaction.id"), Some(&"unsampled".to_owned()));
    }
    drop(worker);
}

#[tokio::test]
async fn without_a_collector_s_address_nothing_is_traced() {
    let world = world().await;
    let subscriber = Subscriber::new(&world).await;
    let (api, _worker) = (world.api(&[]).await, world.worker("one").start().await);
    let sampled = traceparent("01");
    let headers = [("traceparent", sampled.as_str())];
    api.post_with("/v1/transactions?wait=60", &headers, &body("t")).await.expect(200);
    let event = subscriber.of(1, s(60)).await.remove(0);
    assert!(!event.headers.contains_key("traceparent"), "{event:?}");
}

#[tokio::test]
async fn a_collector_that_is_away_or_stalls_costs_spans_and_nothing_else() {
    for mood in [None, Some(Mood::Refuses), Some(Mood::Stalls)] {
        let world = world().await;
        let collector = match mood {
            Some(mood) => Some(Collector::start(mood).await),
            None => None,
        };
        let away = || "http://127.0.0.1:9".to_owned();
        let endpoint = collector.as_ref().map_or_else(away, |it| it.endpoint.clone());
        let mut worker = world.worker("one").flag("--otlp-endpoint", &endpoint).start().await;
        let transfers: Vec<_> = (0..500).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
        world.insert(&transfers).await;
        let ids: Vec<&str> = transfers.iter().map(|(id, _)| &**id).collect();
        let mut table = FieldTable::default();
        table.insert("traceparent".into(), AMQPValue::LongString(traceparent("01").into()));
        let message = json!({ "ids": ids }).to_string();
        world.queues.publish_with(table, message.as_bytes()).await;
        world.wait_final(s(60)).await;
        let told = "spans can't be sent";
        harness::wait::wait_until("it says so", s(60), async || worker.log().contains(told)).await;
        worker.signal(harness::process::Signal::Term);
        let ends = async || worker.exited().is_some_and(|status| status.success());
        harness::wait::wait_until("it ends as it should", s(60), ends).await;
        let log = worker.log();
        assert_eq!(log.matches(told).count(), 1, "{mood:?}: {log}");
        assert!(collector.is_none_or(|it| it.requests() > 0));
        world.assert_at_rest().await;
    }
}

#[tokio::test]
async fn a_transaction_that_comes_late_keeps_its_trace() {
    let (world, collector) = (world().await, Collector::start(Mood::Takes).await);
    let subscriber = Subscriber::new(&world).await;
    let _worker = world.worker("one").flag("--otlp-endpoint", &collector.endpoint).start().await;
    let mut table = FieldTable::default();
    table.insert("traceparent".into(), AMQPValue::LongString(traceparent("01").into()));
    world.queues.publish_with(table, br#"{"ids":["late"]}"#).await;
    // The first look finds nothing, so its message goes through a retry queue.
    let missed = |spans: &[Span]| {
        spans.iter().any(|span| span.attributes.get("tandem.outcome") == Some(&"missing".into()))
    };
    collector.wait("the first look", missed).await;
    world.insert(&[transfer("late", "a", "b", 1)]).await;
    let event = subscriber.of(1, s(60)).await.remove(0);
    assert!(event.headers["traceparent"].contains(TRACE), "{event:?}");
}

#[tokio::test]
async fn odd_headers_of_a_message_are_ignored() {
    let (world, collector) = (world().await, Collector::start(Mood::Takes).await);
    let _worker = world.worker("one").flag("--otlp-endpoint", &collector.endpoint).start().await;
    let text = |text: &str| AMQPValue::LongString(text.into());
    let mut many = FieldArray::default();
    (0..1_500).for_each(|n| many.push(text(&format!("{} x{n}", traceparent("01")))));
    let odd = [
        ("traceparent", text("hello")),
        ("traceparent", text(&"0".repeat(100_000))),
        ("traceparent", AMQPValue::LongString(vec![0xff, 0x00, 0xfe].into())),
        ("traceparent", AMQPValue::Boolean(true)),
        ("traceparent", AMQPValue::FieldTable(FieldTable::default())),
        ("tandem-traceparents", text("hello")),
        ("tandem-traceparents", AMQPValue::FieldArray(many)),
        ("tandem-traceparents", AMQPValue::Void),
    ];
    for (n, (name, value)) in odd.into_iter().enumerate() {
        let id = format!("t{n}");
        world.insert(&[transfer(&id, "a", "b", 1)]).await;
        let mut table = FieldTable::default();
        table.insert(name.into(), value);
        let message = json!({ "ids": [id] }).to_string();
        world.queues.publish_with(table, message.as_bytes()).await;
    }
    world.wait_final(s(60)).await;
    world.assert_at_rest().await;
    assert_eq!(collector.spans(), []);
}
