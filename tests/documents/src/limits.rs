//! The page of all limits, made from constants and from the defaults of the command lines.
//!
//! Owns how the page looks, and what happens at each limit. Promises that no number on it is
//! written by hand, so the page can't differ from the programs. Writes nothing: the program of this
//! crate does.

use std::fmt::{Display, Write};

use api::limits as p;
use input::crowd::VALUES_MAX;
use input::files::SHOWN_MAX;
use ledger::amount::Amount;
use ledger::limits as l;
use observe::pages;
use worker::decide;

use super::settings;

const INTRODUCTION: &str = "\
# Limits

This page is made from the constants and the flags of the programs. To write it anew:
`cargo run -p documents`.

Everything that is read from outside is checked against these numbers where it enters. Where a limit
has a variable, the number is its default ([configuration.md](configuration.md)); any other limit is
a constant. The last column names a test that shows what happens.
";

/// A limit: what is limited, how much, where that is set, what happens there, and which test shows
/// it.
struct Limit {
    what: &'static str,
    most: String,
    set: &'static str,
    happens: &'static str,
    test: &'static str,
}

/// The page as it should be.
#[must_use]
pub fn limits() -> String {
    let mut page = INTRODUCTION.to_owned();
    let parts = [
        ("Transactions and accounts", documents()),
        ("Files", files()),
        ("Messages and queues", messages()),
        ("The HTTP API", api()),
        ("Workers", workers()),
        ("Servers and time", time()),
    ];
    for (title, limits) in parts {
        write!(page, "\n## {title}\n\n| what | limit | set by | at the limit | shown by |\n")
            .expect("memory");
        page.push_str("| --- | --- | --- | --- | --- |\n");
        for Limit { what, most, set, happens, test } in limits {
            let test = if test.is_empty() { String::new() } else { format!("`{test}`") };
            writeln!(page, "| {what} | {most} | `{set}` | {happens} | {test} |").expect("memory");
        }
    }
    page
}

/// The tests that the page names.
#[must_use]
pub fn tests() -> Vec<&'static str> {
    let all = [documents(), files(), messages(), api(), workers(), time()];
    all.into_iter().flatten().map(|limit| limit.test).filter(|test| !test.is_empty()).collect()
}

fn limit(
    what: &'static str,
    most: impl Display,
    set: &'static str,
    happens: &'static str,
    test: &'static str,
) -> Limit {
    Limit { what, most: most.to_string(), set, happens, test }
}

/// A limit with a variable; the number is its default.
fn flag(
    command: &'static str,
    variable: &'static str,
    what: &'static str,
    unit: &'static str,
    happens: &'static str,
    test: &'static str,
) -> Limit {
    let settings = settings();
    let default = settings[command]["variables"][variable].as_str();
    let default = default.unwrap_or_else(|| panic!("{command} has no {variable}"));
    let most = format!("{default} {unit}");
    Limit { what, most: most.trim_end().to_owned(), set: variable, happens, test }
}

/// A number of bytes as people write it.
fn bytes(count: usize) -> String {
    match count {
        _ if count.is_multiple_of(1 << 20) => format!("{} MiB", count >> 20),
        _ if count.is_multiple_of(1 << 10) => format!("{} KiB", count >> 10),
        _ => format!("{count} bytes"),
    }
}

fn documents() -> Vec<Limit> {
    const REFUSED: &str = "an input is refused by field (row, 422, `Error::Invalid`); a stored transaction is canceled \
                           as `invalid`";
    let odd = "a_transaction_that_others_wrote_is_read_or_refused_by_field";
    let broken = "legs_that_break_a_rule_are_named";
    vec![
        limit("`_id`, account, currency", bytes(l::NAME_BYTES_MAX), "NAME_BYTES_MAX", REFUSED, odd),
        limit("legs", l::LEGS_MAX, "LEGS_MAX", REFUSED, broken),
        limit("`legs`, as BSON", bytes(l::LEGS_BYTES_MAX), "LEGS_BYTES_MAX", REFUSED, broken),
        limit(
            "`metadata`, as BSON",
            bytes(l::METADATA_BYTES_MAX),
            "METADATA_BYTES_MAX",
            REFUSED,
            "every_mistake_is_named_by_its_field",
        ),
        limit(
            "levels of `metadata`",
            l::METADATA_DEPTH_MAX,
            "METADATA_DEPTH_MAX",
            REFUSED,
            "every_mistake_is_named_by_its_field",
        ),
        limit(
            "an amount, in magnitude",
            Amount::MAX,
            "Amount::MAX",
            REFUSED,
            "what_is_not_an_amount_is_refused_with_its_reason",
        ),
        limit(
            "what an account holds, with all that is in flight",
            Amount::MAX,
            "Amount::MAX",
            "the transaction is canceled as `balance_limit`",
            "every_refusal_has_its_code",
        ),
        limit(
            "decimal places",
            Amount::PLACES_MAX,
            "Amount::PLACES_MAX",
            REFUSED,
            "what_is_not_an_amount_is_refused_with_its_reason",
        ),
        limit(
            "a whole number that is stored as a double, less than",
            Amount::DOUBLE_MAX,
            "Amount::DOUBLE_MAX",
            "canceled as `account_invalid` or `invalid`",
            "a_stored_value_that_is_no_amount_says_value_kind_and_remedy",
        ),
        limit(
            "the reason of an adjustment or of a floor",
            bytes(l::REASON_BYTES_MAX),
            "REASON_BYTES_MAX",
            "it is refused",
            "a_reason_that_says_nothing_or_is_too_long_is_refused",
        ),
        limit(
            "foreign text in an error, a reason, a header or a log line",
            bytes(l::ECHO_BYTES_MAX),
            "ECHO_BYTES_MAX",
            "it is cut, and its length is told",
            "foreign_text_is_cut_at_a_character_and_says_how_long_it_was",
        ),
        limit(
            "the reason for a pause of settlement",
            bytes(client::PAUSE_REASON_BYTES_MAX),
            "PAUSE_REASON_BYTES_MAX",
            "it is refused",
            "a_reason_says_something_on_one_line_and_is_bounded",
        ),
        limit(
            "the name of a person, from the proxy of the console",
            bytes(l::NAME_BYTES_MAX),
            "NAME_BYTES_MAX",
            "the request is refused with 400",
            "what_the_proxy_sends_is_one_good_name_or_the_request_is_refused",
        ),
    ]
}

fn files() -> Vec<Limit> {
    vec![
        limit(
            "a line of a file",
            bytes(l::TEXT_BYTES_MAX),
            "TEXT_BYTES_MAX",
            "the row is refused by its line; exit code 2, or it is left out with `--skip-invalid`",
            "a_bad_line_is_named_and_the_next_one_is_read",
        ),
        limit(
            "problems of a file that are shown",
            SHOWN_MAX,
            "SHOWN_MAX",
            "the others are counted",
            "problems_are_counted_beyond_those_that_are_shown",
        ),
        limit(
            "the file of `adopt --resume`",
            bytes(adopt::RESUME_BYTES_MAX),
            "RESUME_BYTES_MAX",
            "exit code 2",
            "what_was_saved_is_loaded_and_a_file_of_something_else_is_refused",
        ),
        limit("lines of a file", u32::MAX, "u32", "exit code 1; it says to split the file", ""),
    ]
}

fn messages() -> Vec<Limit> {
    const DEAD: &str = "dead-lettered with `tandem-reason`";
    vec![
        limit(
            "a message",
            bytes(l::MESSAGE_BYTES_MAX),
            "MESSAGE_BYTES_MAX",
            DEAD,
            "poison_is_named",
        ),
        limit("ids of a message", l::MESSAGE_IDS_MAX, "MESSAGE_IDS_MAX", DEAD, "poison_is_named"),
        limit(
            "looks for ids that exist nowhere",
            decide::MISSING_TRIES_MAX,
            "MISSING_TRIES_MAX",
            DEAD,
            "unknown_ids_are_dead_after_their_last_try_and_alone",
        ),
        limit(
            "deaths of workers by one message alone",
            decide::STRIKES_MAX,
            "STRIKES_MAX",
            "dead-lettered, and its transaction is parked",
            "many_poisons_take_none_of_the_healthy_with_them",
        ),
        limit(
            "the prefix of queues and exchanges",
            bytes(l::QUEUE_PREFIX_BYTES_MAX),
            "QUEUE_PREFIX_BYTES_MAX",
            "exit code 2",
            "the_longest_prefix_makes_names_that_amqp_takes",
        ),
        limit(
            "a worker's name",
            bytes(l::APPLICATION_BYTES_MAX),
            "APPLICATION_BYTES_MAX",
            "exit code 2",
            "the_longest_names_are_taken_by_both_servers",
        ),
    ]
}

fn api() -> Vec<Limit> {
    let of = |variable, what, unit, happens, test| {
        flag("producer serve", variable, what, unit, happens, test)
    };
    let slow = "clients_that_are_slow_are_cut_off_and_delay_nobody";
    vec![
        of("TANDEM_CONNECTIONS", "connections", "", "further ones wait", slow),
        of(
            "TANDEM_HEAD_LIMIT",
            "the head of a request: how long it may take to come, from its first byte; of the first \
             one, from the beginning of the connection",
            "s",
            "cut off",
            slow,
        ),
        of("TANDEM_BODY_LIMIT", "a body: how long all of it may take to come", "s", "408", slow),
        of(
            "TANDEM_STALL_LIMIT",
            "a body of which nothing comes",
            "s",
            "408",
            "a_body_that_stalls_is_given_up_and_one_that_goes_on_has_its_whole_time",
        ),
        of(
            "TANDEM_STALL_LIMIT",
            "an answer of which nothing is read",
            "s",
            "cut off",
            "a_client_that_reads_nothing_is_cut_off",
        ),
        of(
            "TANDEM_IDLE_LIMIT",
            "a connection without a request, after an answer",
            "s",
            "closed",
            "an_idle_connection_outlives_the_limit_of_a_head_and_is_closed_after_its_own",
        ),
        of(
            "TANDEM_HEAD_LIMIT",
            "agreeing on TLS",
            "s",
            "cut off",
            "who_does_not_come_to_terms_keeps_nobody_out_and_is_cut_off",
        ),
        limit(
            "the head of a request: address and headers",
            bytes(p::HEAD_BYTES_MAX),
            "HEAD_BYTES_MAX",
            "431, and cut off; also beyond 100 headers",
            "heads_without_an_end_and_bodies_that_nobody_asked_for_are_refused",
        ),
        limit(
            "a body where none has a meaning",
            "none",
            "Operation::takes",
            "400, and nothing of it is kept",
            "nothing_is_read_where_there_must_be_no_body",
        ),
        of(
            "TANDEM_BODY_BYTES",
            "a body",
            "bytes",
            "413",
            "what_breaks_a_rule_is_refused_with_the_field_and_writes_nothing",
        ),
        limit(
            "ids that an act names; its reason is as long as that of a floor",
            mongo::ACT_IDS_MAX.to_string(),
            "ACT_IDS_MAX",
            "of more ids their number is kept",
            "what_is_noted_is_short_whatever_it_is_done_to",
        ),
        limit(
            "all bodies together",
            bytes(p::BODIES_BYTES_MAX),
            "BODIES_BYTES_MAX",
            "503 with `Retry-After`",
            "all_bodies_together_take_no_more_than_their_room",
        ),
        limit(
            "one transaction or account in a body",
            bytes(l::TEXT_BYTES_MAX),
            "TEXT_BYTES_MAX",
            "413, or the same in its item",
            "items_come_one_by_one_and_those_beyond_the_limit_are_counted",
        ),
        limit(
            "values within one of these, or within a line of JSON",
            VALUES_MAX,
            "VALUES_MAX",
            "413, or the same in its item; a line is refused",
            "a_crowd_of_values_is_told_from_its_text_on_each_level_and_never_within_a_string",
        ),
        of(
            "TANDEM_ARRAY_ITEMS",
            "transactions of one array, submitted or decided",
            "",
            "413",
            "what_breaks_a_rule_is_refused_with_the_field_and_writes_nothing",
        ),
        limit(
            "the ids of one array under an `Idempotency-Key`",
            bytes(p::KEYED_IDS_BYTES_MAX),
            "KEYED_IDS_BYTES_MAX",
            "413",
            "the_ids_of_an_array_under_a_key_are_limited",
        ),
        of(
            "TANDEM_RATE",
            "requests a second of one token that has no rate of its own, and items of its arrays; 0 is \
             unlimited",
            "",
            "429 with `Retry-After`; an array is taken as long as nothing is owed, and what is over is \
             owed",
            "an_array_counts_its_items_and_the_next_request_waits_for_them",
        ),
        of(
            "TANDEM_RATE_ADDRESS",
            "requests a second without a good token from one address (of IPv6: /64); 0 is unlimited",
            "",
            "429 with `Retry-After`",
            "requests_without_a_good_token_are_limited_and_those_with_one_are_not",
        ),
        limit(
            "addresses that are told apart for that",
            p::ADDRESSES_MAX,
            "ADDRESSES_MAX",
            "further ones share a rate, for a second",
            "very_many_addresses_take_no_more_than_the_table_and_shut_out_nobody_for_long",
        ),
        of(
            "TANDEM_TOKEN_STREAMS",
            "streams of one token: of events, of the overview, exports, and lists that wait for events",
            "",
            "429",
            "a_token_has_so_many_streams_and_leaves_those_of_others",
        ),
        of(
            "TANDEM_BACKLOG",
            "messages that wait for workers, and submissions of a server that wait for the broker",
            "",
            "submissions get 503",
            "submissions_are_refused_while_too_much_waits_and_taken_again_after_that",
        ),
        of("TANDEM_LISTENERS", "listeners to events", "", "429", ""),
        limit("streams of the overview", p::VIEWERS_MAX, "VIEWERS_MAX", "429", ""),
        limit("exports at the same time", p::EXPORTS_AT_ONCE, "EXPORTS_AT_ONCE", "429", ""),
        limit(
            "transactions that `GET /v1/stats` counts one by one",
            p::STATS_COUNTED_MAX,
            "STATS_COUNTED_MAX",
            "of more, the counts are estimated, and say so",
            "counts_of_very_many_transactions_are_estimated_and_say_so",
        ),
        limit(
            "dead letters that a list looks at",
            p::LETTERS_LOOKED_AT_MAX,
            "LOOKED_AT_MAX",
            "`complete` is false; also after a second",
            "a_list_of_very_many_letters_looks_at_some_and_says_so",
        ),
        limit(
            "parked transactions of one bulk job",
            producer_console::PARKED_MAX as usize,
            "BULK_PARKED_MAX",
            "the preview says that there are more; another job takes the rest",
            "",
        ),
        limit(
            "dead letters of one bulk job",
            producer_console::LETTERS_MAX,
            "BULK_LETTERS_MAX",
            "the same",
            "",
        ),
        limit(
            "failures of a bulk job that are told one by one",
            p::JOB_FAILURES_MAX,
            "JOB_FAILURES_MAX",
            "the others are only counted",
            "a_hundred_failures_are_told_and_all_are_counted",
        ),
        limit(
            "jobs and audits that the console lists",
            p::JOBS_LISTED_MAX as usize,
            "JOBS_LISTED_MAX",
            "older ones are kept, and have their pages",
            "",
        ),
        limit(
            "points of the overview's charts",
            overview::STEPS_MAX,
            "STEPS_MAX",
            "the oldest are dropped",
            "fifteen_minutes_are_kept_and_numbered",
        ),
        limit(
            "transactions in one state that the overview counts",
            l::COUNTED_MAX,
            "COUNTED_MAX",
            "it says that there may be more",
            "",
        ),
        limit(
            "workers in the overview; bytes of what one says of itself",
            format!("{}; {}", l::WORKERS_MAX, l::WORKER_BYTES_MAX),
            "WORKERS_MAX, WORKER_BYTES_MAX",
            "others are left out",
            "odd_documents_in_the_collection_of_workers_hide_nobody",
        ),
        limit(
            "events that are kept for followers",
            bytes(p::EVENTS_BYTES_MAX),
            "BYTES_MAX of the hub",
            "a follower that is slower reads the database",
            "a_follower_before_or_behind_the_buffer_is_told_to_read_elsewhere",
        ),
        limit(
            "items of a page",
            client::LIMIT_MAX,
            "LIMIT_MAX",
            "422",
            "a_cursor_continues_its_own_list_only_and_limits_have_bounds",
        ),
        limit(
            "a page of transactions or of accounts, as BSON or as JSON, whichever is more",
            bytes(client::PAGE_BYTES_MAX),
            "PAGE_BYTES_MAX",
            "it ends early, and `next` goes on behind its last item; one item is always given",
            "pages_of_the_largest_transactions_end_early_and_stay_within_the_memory_of_the_manifest",
        ),
        limit(
            "waiting for an outcome",
            format!("{} s", p::WAIT_MAX_S),
            "WAIT_MAX_S",
            "422; a header `Prefer` is cut",
            "a_request_is_read_or_answered_with_what_is_wrong",
        ),
        limit(
            "marks of an account that are told",
            p::MARKS_MAX,
            "MARKS_MAX",
            "the others are counted",
            "",
        ),
    ]
}

fn workers() -> Vec<Limit> {
    let of = |variable, what, happens, test| flag("worker", variable, what, "", happens, test);
    let seconds = |limit: std::time::Duration| format!("{} s", limit.as_secs());
    vec![
        of(
            "TANDEM_BATCH_SIZE",
            "ids of a batch",
            "the others are in the next batch",
            "a_batch_takes_one_at_least_and_keeps_its_limits",
        ),
        of("TANDEM_LANES", "batches in flight", "the next one waits", ""),
        limit(
            "messages delivered ahead",
            format!("about a second of work, at most {} batches of ids", worker::BATCHES_AHEAD),
            "TANDEM_PREFETCH",
            "the broker keeps the others",
            "small_messages_come_in_numbers_and_large_ones_do_not",
        ),
        limit(
            "ids of messages that were delivered before and not finished, in a batch",
            format!(
                "{first}, then {second}, then one message at a time",
                first = decide::SUSPECTS_TOGETHER[0],
                second = decide::SUSPECTS_TOGETHER[1]
            ),
            "SUSPECTS_TOGETHER",
            "the others are in the next batch",
            "what_was_delivered_before_is_in_batches_that_get_smaller_with_each_time",
        ),
        limit(
            "bytes that are read from the broker and not taken in",
            bytes(worker::UNREAD_MAX),
            "UNREAD_MAX",
            "the broker's connection keeps the others; also one larger message",
            "no_more_is_read_than_the_limit_until_somebody_takes_it",
        ),
        limit(
            "bytes of deliveries in processing, or that wait for the broker to take what follows from them; one takes 1 KiB at least",
            bytes(worker::BYTES_MAX),
            "BYTES_MAX of the intake",
            "nothing more is taken in",
            "a_worker_lives_within_its_memory_while_large_foreign_messages_fill_its_queue",
        ),
        limit(
            "the same of what nobody can use",
            bytes(worker::FOREIGN_BYTES_MAX),
            "FOREIGN_BYTES_MAX",
            "the next one waits; while an alarm lasts, the broker moves it to the dead letters (`malformed`)",
            "what_needs_no_publication_goes_on_while_the_memory_alarm_lasts",
        ),
        limit(
            "ids of one command",
            ledger::CALL_IDS_MAX,
            "ledger::CALL_IDS_MAX",
            "several commands",
            "pieces_keep_the_limits_and_the_order",
        ),
        limit(
            "postings of one command",
            ledger::POSTINGS_MAX,
            "ledger::POSTINGS_MAX",
            "several commands",
            "pieces_keep_the_limits_and_the_order",
        ),
        limit(
            "bytes of one command",
            bytes(ledger::BYTES_MAX),
            "ledger::BYTES_MAX",
            "several commands",
            "pieces_keep_the_limits_and_the_order",
        ),
        of(
            "TANDEM_ATTEMPTS_MAX",
            "claims for a transaction alone",
            "it is rolled back as `retries_exhausted`; from `applied` on it is never given up",
            "",
        ),
        limit(
            "connections to `/metrics`, `/healthz` and `/readyz`",
            pages::CONNECTIONS_MAX,
            "CONNECTIONS_MAX",
            "further ones wait",
            "connections_to_a_worker_s_pages_are_few_and_short",
        ),
        limit(
            "how long one of these may last",
            seconds(pages::CONNECTION_LIMIT),
            "CONNECTION_LIMIT",
            "cut off",
            "connections_to_a_worker_s_pages_are_few_and_short",
        ),
        limit(
            "the head of a request for one of these",
            bytes(pages::HEAD_BYTES_MAX),
            "HEAD_BYTES_MAX",
            "431, and cut off",
            "",
        ),
    ]
}

fn time() -> Vec<Limit> {
    let of = |variable, what, happens, test| flag("worker", variable, what, "ms", happens, test);
    vec![
        of(
            "TANDEM_OP_LIMIT_MS",
            "an operation of MongoDB",
            "tried again, or requeued with a growing delay",
            "",
        ),
        of(
            "TANDEM_LEASE_MS",
            "posting after a claim",
            "the server refuses the post; others claim after the grace",
            "",
        ),
        of("TANDEM_RETRY_MAX_MS", "the delay after a failure", "it grows no longer", ""),
        of(
            "TANDEM_DRAIN_MS",
            "finishing after SIGTERM",
            "the worker ends; its messages are delivered to others",
            "a_worker_stops_within_its_drain_limit_though_the_database_is_silent",
        ),
        flag(
            "producer submit",
            "TANDEM_GIVE_UP_AFTER",
            "a server that is away from a command",
            "s",
            "exit code 5 if it may have been done, else 1, with what to do; 503 in the API",
            "",
        ),
        limit(
            "an answer of the broker",
            format!("{} s", queue::ANSWER_LIMIT.as_secs()),
            "ANSWER_LIMIT",
            "the connection is given up and made anew",
            "",
        ),
        limit(
            "connections of a process to each server of MongoDB",
            mongo::POOL_MAX,
            "maxPoolSize",
            "an operation waits for one",
            "",
        ),
    ]
}
