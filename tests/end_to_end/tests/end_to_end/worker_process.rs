//! A worker as its operator sees it: signals, exit codes, settings, pages.

use harness::certificates::Authority;
use harness::process::Signal;
use harness::proxy::Part;
use harness::wait::{ms, promised, s, wait_until};
use harness::worker::{GRACE, LEASE};
use harness::world::{World, transfer};
use ledger::transaction::State;
use queue::WORK;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::api::tls;

#[tokio::test]
async fn a_terminated_worker_finishes_what_it_began_and_leaves_nothing_in_flight() {
    let world = World::new().await;
    world.accounts(&[("a", 10_000), ("b", 0)]).await;
    let mut worker = world.worker("one").flag("--batch-size", 10).start().await;
    let transfers: Vec<_> = (0..1_000).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    world.submit(&transfers, 5).await;
    wait_until("it is in the middle of it", s(60), async || world.count(&[State::Done]).await > 50)
        .await;
    worker.signal(Signal::Term);
    let exit = worker.exit(s(20)).await;
    assert_eq!(exit.code(), Some(0));
    assert_eq!(world.count(&State::IN_FLIGHT).await, 0, "something is left in flight");
    assert!(world.count(&[State::Initial]).await > 0, "it was told to stop in the middle");
    // Messages that it has not begun are back in the queue, at once and without a sweeper.
    let second = world.worker("two").flag("--orphan-ms", 600_000).start().await;
    world.wait_final(s(60)).await;
    assert_eq!(world.count(&[State::Done]).await, 1_000);
    world.assert_at_rest().await;
    drop(second);
    world.finish().await;
}

#[tokio::test]
async fn connections_to_a_worker_s_pages_are_few_and_short() {
    let world = World::new().await;
    let worker = world.worker("one").start().await;
    let mut held = Vec::new();
    for _ in 0..2 * observe::pages::CONNECTIONS_MAX {
        let mut stream = TcpStream::connect(worker.address()).await.expect("it listens");
        stream.write_all(b"GET /healthz HTTP/1.1\r\nX-Endless: ").await.expect("it reads");
        held.push(stream);
    }
    let open = || process_descriptors(worker.pid());
    assert!(open() < observe::pages::CONNECTIONS_MAX + 60, "{} descriptors", open());
    wait_until("those that say nothing are cut off", s(60), async || {
        worker.get("/healthz").await.is_some_and(|answer| answer.status == 200)
    })
    .await;
    drop(held);
    world.finish().await;
}

#[tokio::test]
async fn the_pages_of_a_worker_speak_tls_and_a_new_certificate_counts_while_it_runs() {
    let world = World::new().await;
    let authority = Authority::new(&world.directory(), "authority");
    let identity = tls::issue(&authority, "worker");
    let plan = tls::flags(&identity)
        .chunks(2)
        .fold(world.worker("one"), |plan, pair| plan.flag(pair[0], pair[1]));
    let worker = plan.launch();
    let connect = async || tls::connect(worker.address(), &authority).await;
    wait_until("it is ready, by TLS", s(60), async || match connect().await {
        Ok(mut stream) => tls::ask(&mut stream).await == "200",
        Err(_) => false,
    })
    .await;
    assert!(worker.get("/healthz").await.is_none(), "nothing is told without TLS");
    let first = tls::shown(&connect().await.expect("it is trusted"));
    let _ = tls::issue(&authority, "worker");
    wait_until("new connections get the new certificate", s(60), async || {
        tls::shown(&connect().await.expect("it is trusted")) != first
    })
    .await;
    let without_key = world.worker("alone").flag("--tls-cert", identity.certificate.display());
    let mut alone = without_key.launch();
    assert_eq!(alone.exit(s(30)).await.code(), Some(2));
    assert!(alone.log().contains("--tls-key"), "{}", alone.log());
    drop(worker);
    world.finish().await;
}

/// How many files and connections a process has open.
fn process_descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count()
}

#[tokio::test]
async fn an_idle_worker_stops_at_once() {
    let world = World::new().await;
    let mut worker = world.worker("one").start().await;
    worker.drain(s(10)).await;
    world.finish().await;
}

#[tokio::test]
async fn a_worker_stops_within_its_drain_limit_though_the_database_is_silent() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let mut worker = world
        .worker("one")
        .mongodb(&uri)
        .flag("--drain-ms", 1_000)
        .flag("--op-limit-ms", 8_000)
        .flag("--grace-ms", 9_000)
        .flag("--lease-ms", 16_000)
        .start()
        .await;
    let held = proxy.hold("applied", 1, Part::Request);
    world.submit(&[transfer("t", "a", "b", 1)], 1).await;
    held.caught(s(20)).await;
    worker.signal(Signal::Term);
    let begun = std::time::Instant::now();
    let exit = worker.exit(s(30)).await;
    assert!(
        begun.elapsed() < promised(s(8)),
        "the drain limit is 1 s; it took {:?}",
        begun.elapsed()
    );
    assert_eq!(exit.code(), Some(1), "what is left in flight is no success");
    held.discard();
    let second = world.worker("two").start().await;
    world.wait_final(s(60)).await;
    world.assert_at_rest().await;
    drop(second);
    world.finish().await;
}

#[tokio::test]
async fn what_a_stopping_worker_still_settles_is_not_delivered_again() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let mut worker = world.worker("one").mongodb(&uri).start().await;
    let held = proxy.hold("settle", 1, Part::Reply);
    world.submit(&[transfer("t", "a", "b", 1)], 1).await;
    held.caught(s(20)).await;
    worker.signal(Signal::Term);
    let gone = async || world.queues.consumers().await == Some(0);
    wait_until("it consumes no more", s(20), gone).await;
    held.release();
    assert_eq!(worker.exit(s(30)).await.code(), Some(0), "{}", worker.log());
    world.wait_state("t", State::Done, s(1)).await;
    assert_eq!(world.queues.depth(WORK).await, Some(0), "{}", worker.log());
    world.assert_at_rest().await;
    world.finish().await;
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once_and_another_finishes() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let mut worker = world.worker("one").mongodb(&uri).flag("--drain-ms", 60_000).start().await;
    let held = proxy.hold("settle", 1, Part::Request);
    world.submit(&[transfer("t", "a", "b", 1)], 1).await;
    held.caught(s(20)).await;
    worker.signal(Signal::Term);
    wait_until("it has heard the first", s(10), async || worker.log().contains("stopping")).await;
    assert!(worker.exited().is_none(), "it still waits for its batch");
    worker.signal(Signal::Term);
    let exit = worker.exit(s(2)).await;
    assert_ne!(exit.code(), Some(0), "what is left in flight is no success");
    held.discard();
    let second = world.worker("two").start().await;
    world.wait_final(s(60)).await;
    world.assert_at_rest().await;
    drop(second);
    world.finish().await;
}

#[tokio::test]
async fn settings_that_break_the_fence_are_refused_by_name() {
    let world = World::new().await;
    for (flag, value, variable) in [
        ("--grace-ms", "1199", "TANDEM_GRACE_MS"),
        ("--lease-ms", "1999", "TANDEM_LEASE_MS"),
        ("--batch-size", "0", "TANDEM_BATCH_SIZE"),
        ("--lanes", "0", "TANDEM_LANES"),
    ] {
        let mut worker = world.worker("bad").flag(flag, value).launch();
        let exit = worker.exit(s(20)).await;
        assert_eq!(exit.code(), Some(2), "{flag} {value}");
        let said = worker.log();
        assert!(said.contains(variable), "{flag} {value} should name {variable}: {said}");
    }
    world.finish().await;
}

#[tokio::test]
async fn no_password_shows_in_the_log_or_in_an_error() {
    let world = World::new().await;
    let mongodb = "mongodb://user:geheim@127.0.0.1:1/?serverSelectionTimeoutMS=200";
    let amqp = "amqp://user:geheim@127.0.0.1:1/%2f";
    let worker = world.worker("one").mongodb(mongodb).amqp(amqp).flag("--log", "debug").launch();
    wait_until("it has tried to connect", s(30), async || {
        worker.log().contains("waiting for the database")
    })
    .await;
    assert!(!worker.log().contains("geheim"), "{}", worker.log());
    let mut bad = world.worker("bad").mongodb("mongodb://user:geheim@:bad:/").launch();
    assert_eq!(bad.exit(s(20)).await.code(), Some(2));
    let said = bad.log();
    assert!(said.contains("TANDEM_MONGODB_URI") && !said.contains("geheim"), "{said}");
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn metrics_count_what_happened() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    let mut transfers: Vec<_> = (0..30).map(|n| transfer(&format!("t{n}"), "a", "b", 1)).collect();
    transfers.push(transfer("too-much", "a", "b", 1_000));
    transfers.push(transfer("to-nobody", "a", "nobody", 1));
    world.submit(&transfers, 4).await;
    world.wait_final(s(60)).await;
    wait_until("everything is acknowledged", s(20), async || {
        worker.metrics().await.sum("tandem_messages_in_flight", &[]) < 0.5
    })
    .await;
    let metrics = worker.metrics().await;
    for (name, label, value, expected) in [
        ("tandem_transitions_total", "state", "pending", 32.0),
        ("tandem_transitions_total", "state", "applied", 30.0),
        ("tandem_transitions_total", "state", "done", 30.0),
        ("tandem_transitions_total", "state", "canceling", 2.0),
        ("tandem_transitions_total", "state", "canceled", 2.0),
        ("tandem_refusals_total", "reason", "insufficient_funds", 1.0),
        ("tandem_refusals_total", "reason", "account_not_found", 1.0),
        ("tandem_refusals_total", "reason", "account_frozen", 0.0),
    ] {
        let counted = metrics.sum(name, &[(label, value)]);
        assert!((counted - expected).abs() < f64::EPSILON, "{name} {value}: {counted}");
    }
    assert!((metrics.sum("tandem_batch_size_sum", &[]) - 32.0).abs() < f64::EPSILON);
    for name in [
        "tandem_phase_seconds",
        "tandem_batch_size",
        "tandem_takeovers_total",
        "tandem_overdue_total",
        "tandem_reconnects_total",
        "tandem_oldest_unfinished_age_seconds",
        "process_resident_memory_bytes",
    ] {
        assert!(metrics.describes(name), "{name} is missing");
    }
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn takeovers_and_the_age_of_the_oldest_show_in_the_metrics() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (proxy, uri) = world.mongodb_proxy().await;
    let mut first = world.worker("first").mongodb(&uri).start().await;
    let held = proxy.hold("applied", 1, Part::Request);
    world.submit(&[transfer("t", "a", "b", 1)], 1).await;
    held.caught(s(20)).await;
    first.kill();
    held.discard();
    let second = world.worker("second").start().await;
    wait_until("the age of the oldest is seen", s(20), async || {
        let age = second.metrics().await.sum("tandem_oldest_unfinished_age_seconds", &[]);
        age > 0.0 || world.count(&State::UNFINISHED).await == 0
    })
    .await;
    world.wait_final(s(60)).await;
    // A transaction is final before its worker has counted that.
    wait_until("its end is counted", s(20), async || {
        let ended = "tandem_submission_to_final_seconds_count";
        second.metrics().await.sum(ended, &[("state", "done")]) > 0.5
    })
    .await;
    let metrics = second.metrics().await;
    assert!(metrics.sum("tandem_takeovers_total", &[]) >= 1.0);
    let took = metrics.sum("tandem_submission_to_final_seconds_sum", &[("state", "done")]);
    let lease_s = (LEASE + GRACE).as_secs_f64();
    assert!(took >= lease_s, "its end waited for lease and grace, and {took} s were counted");
    wait_until("the age goes back to zero", s(20), async || {
        second.metrics().await.sum("tandem_oldest_unfinished_age_seconds", &[]) < 0.001
    })
    .await;
    drop(second);
    world.finish().await;
}

#[tokio::test]
async fn the_log_is_one_json_object_a_line() {
    let world = World::new().await;
    let mut worker = world.worker("one").start().await;
    worker.signal(Signal::Term);
    worker.exit(s(10) + ms(500)).await;
    let log = worker.log();
    assert!(log.lines().count() > 1, "{log}");
    for line in log.lines() {
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(line);
        assert!(parsed.is_ok_and(|value| value.is_object()), "{line}");
    }
    world.finish().await;
}
