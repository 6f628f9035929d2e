//! What the translation makes of documents and statements, on one layout that shares no path with
//! the default one.

use bson::oid::ObjectId;
use bson::{Document, RawDocumentBuf, doc};

use super::*;

fn layout() -> Layout {
    let text = r#"
        [accounts]
        collection = "users"
        ids = "objectId"
        fields = { balance = "wallet.sum", pendingTransactions = "wallet.open", status = "state" }
        status = { frozen = ["locked", "blocked"] }
        [transactions]
        collection = "payments"
        ids = "int64"
        fields = { source = "from", destination = "to", value = "how.much", state = "word" }
        state = { applied = ["committed", "applied"] }
    "#;
    Layout::from_toml(text).expect("it is good")
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("plain BSON")
}

fn plain(raw: RawDocumentBuf) -> Document {
    Document::try_from(raw).expect("plain BSON")
}

fn a() -> ObjectId {
    ObjectId::from_bytes([10; 12])
}

const A: &str = "0a0a0a0a0a0a0a0a0a0a0a0a";

#[test]
fn a_document_that_is_stored_is_read_as_it_was() {
    let layout = layout();
    let transaction = doc! {
        "_id": "7", "source": A, "destination": A, "value": 5_i64, "state": "applied",
        "claim": "token", "createdAt": bson::DateTime::from_millis(5),
        "legs": [{ "account": A, "amount": 1_i64 }], "reverses": "-3",
    };
    let stored = plain(layout.transactions.store(&raw(&transaction)).expect("BSON"));
    let expected = doc! {
        "_id": 7_i64, "from": a(), "to": a(), "how": { "much": 5_i64 }, "word": "committed",
        "tandem": {
            "claim": "token", "createdAt": bson::DateTime::from_millis(5), "reverses": -3_i64,
        },
        "legs": [{ "account": a(), "amount": 1_i64 }],
    };
    let sorted = |document: &Document| -> std::collections::BTreeMap<String, bson::Bson> {
        document.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    assert_eq!(sorted(&stored), sorted(&expected));
    let read = plain(layout.transactions.read(&raw(&stored)).expect("BSON"));
    assert_eq!(sorted(&read), sorted(&transaction));
}

#[test]
fn what_is_no_id_no_word_or_no_object_is_nothing_that_tandem_takes() {
    let read = |document: Document| plain(layout().accounts.read(&raw(&document)).expect("BSON"));
    let foreign = read(doc! { "_id": A, "state": "gold", "balance": 5, "wallet": { "sum": 1.5 } });
    assert_eq!(foreign.get("_id"), Some(&bson::Bson::Null), "a text is no ObjectId");
    let status = foreign.get_str("status").expect("a text that is no status");
    assert_eq!(status, "gold, which is no word of the schema");
    assert_eq!(foreign.get("balance"), Some(&bson::Bson::Double(1.5)));
    for wallet in [bson::Bson::from(5), bson::Bson::from(vec![doc! { "sum": 5 }]), bson::Bson::Null]
    {
        let read = read(doc! { "_id": a(), "wallet": wallet });
        let balance = read.get_str("balance").expect("a text, which is no amount");
        assert_eq!(balance, "something else than an object stands at `wallet`");
    }
}

#[test]
fn a_field_that_stands_twice_is_read_twice() {
    let mut stored = RawDocumentBuf::new();
    for sum in [1, 2] {
        stored.append(cstr("wallet"), bson::rawdoc! { "sum": sum });
    }
    let read = layout().accounts.read(&stored).expect("BSON");
    let balances = read.iter_elements().flatten().filter(|e| e.key().as_str() == "balance");
    assert_eq!(balances.count(), 2);
}

#[test]
fn filters_name_paths_ids_and_all_words() {
    let filter =
        |filter: Document| plain(layout().transactions.filter(&raw(&filter)).expect("BSON"));
    assert_eq!(
        filter(doc! { "_id": { "$in": ["1", "x"] }, "state": "applied", "claim": null }),
        doc! {
            "_id": { "$in": [1_i64, "x"] }, "word": { "$in": ["committed", "applied"] },
            "tandem.claim": null,
        }
    );
    assert_eq!(
        filter(doc! { "$or": [{ "state": { "$ne": "applied" } }, { "source": A }] }),
        doc! { "$or": [{ "word": { "$nin": ["committed", "applied"] } }, { "from": a() }] }
    );
    assert_eq!(
        filter(doc! { "source": { "$not": { "$type": "string" } }, "legs.0.account": A }),
        doc! { "from": { "$not": { "$type": ["objectId"] } }, "legs.0.account": a() }
    );
}

#[test]
fn an_update_changes_paths_and_only_where_objects_are_on_the_way() {
    let statement = doc! {
        "q": { "_id": "1" },
        "u": [
            { "$set": {
                "state": { "$cond": [{ "$eq": ["$state", "initial"] }, "applied", "$state"] },
                "claim": { "$literal": "$token" },
            } },
            { "$unset": ["parked", "value"] },
        ],
        "multi": true,
    };
    let stored = plain(
        layout().transactions.statement(&raw(&statement), KeptOnce::ByValidator).expect("BSON"),
    );
    let stages = stored.get_array("u").expect("stages");
    let fails = stages[0].as_document().and_then(|s| s.get_document("$replaceWith").ok());
    let branches = fails.expect("the stage that refuses").to_string();
    assert!(branches.contains("\"$how\"") && branches.contains("\"$tandem\""), "{branches}");
    let set = stages[1].as_document().and_then(|s| s.get_document("$set").ok()).expect("a stage");
    assert_eq!(set.get_document("tandem.claim").ok(), Some(&doc! { "$literal": "$token" }));
    let word = set.get_document("word").and_then(|word| word.get_array("$cond")).expect("it is");
    assert_eq!((word[1].as_str(), word[2].as_str()), (Some("committed"), Some("$word")));
    let gone = stages[2].as_document().and_then(|s| s.get_array("$unset").ok()).expect("a stage");
    assert_eq!(gone, &["tandem.parked".into(), "how.much".into()] as &[bson::Bson]);
    assert_eq!(stored.get_document("q").ok(), Some(&doc! { "_id": 1_i64 }));
    let plain_one = doc! { "q": { "_id": A }, "u": { "$inc": { "balance": 1 } } };
    let stored =
        plain(layout().accounts.statement(&raw(&plain_one), KeptOnce::ByValidator).expect("BSON"));
    assert_eq!(stored, doc! { "q": { "_id": a() }, "u": { "$inc": { "wallet.sum": 1 } } });
    let statement = doc! { "q": { "_id": A }, "u": [{ "$set": { "balance": 1 } }] };
    let stored =
        plain(layout().accounts.statement(&raw(&statement), KeptOnce::ByValidator).expect("BSON"));
    let objects = stored.get_document("q").and_then(|q| q.get_array("$and")).expect("conditions");
    let types = |path: &str| doc! { "$in": [{ "$type": path }, ["object", "missing"]] };
    let expected = doc! { "$expr": { "$and": [types("$tandem"), types("$wallet")] } };
    assert_eq!(objects, &[expected.into()] as &[bson::Bson]);
}

#[test]
fn without_a_validator_one_stage_looks_for_what_stands_twice_and_for_what_is_on_the_way() {
    let statement = raw(&doc! { "q": { "_id": "1" }, "u": [{ "$set": { "claim": "t" } }] });
    let layout = layout();
    let stages = |collection: &Collection, kept_once| {
        let stored = plain(collection.statement(&statement, kept_once).expect("BSON"));
        stored.get_array("u").expect("stages").clone()
    };
    for collection in [&layout.accounts, &layout.transactions] {
        let [guard, set] = &stages(collection, KeptOnce::ByPipeline)[..] else { panic!("two") };
        assert_eq!(Some(set), stages(collection, KeptOnce::ByValidator).last());
        let guard = guard.to_string();
        for parent in collection.parents() {
            let once = format!(r#"["${parent}", {{ "$mergeObjects": ["${parent}"] }}]"#);
            assert!(guard.contains(&once), "{once} in {guard}");
        }
        assert_eq!(guard.contains("missing"), collection.is_of_transactions(), "{guard}");
    }
}

#[test]
fn a_whole_account_is_merged_object_by_object() {
    let changed = doc! { "$mergeObjects": ["$$ROOT", {
        "balance": { "$add": ["$$read.balance", 1] }, "pendingTransactions": [], "openingBalance": 5,
    }] };
    let changed = raw(&changed);
    let stored = layout().accounts.expression((&*changed).into()).expect("BSON");
    let expected = doc! { "$mergeObjects": ["$$ROOT", {
        "wallet": { "$mergeObjects": ["$wallet", {
            "sum": { "$add": ["$$read.wallet.sum", 1] }, "open": [],
        }] },
        "tandem": { "$mergeObjects": ["$tandem", { "openingBalance": 5 }] },
    }] };
    assert_eq!(bson::Bson::try_from(stored).expect("BSON"), expected.into());
}

#[test]
fn answers_are_read_as_their_command_makes_them() {
    let layout = layout();
    let answer = |command: Document| {
        layout.command(&raw(&command), KeptOnce::ByValidator).expect("BSON").answer
    };
    let own = |answer: Answer| matches!(answer, Answer::Own);
    assert!(matches!(answer(doc! { "find": "accounts", "filter": {} }), Answer::Stored(_)));
    assert!(own(answer(doc! { "find": "accounts", "projection": { "id": { "x": "$_id" } } })));
    assert!(own(answer(doc! { "find": "tandem.journal", "filter": {} })));
    let key = doc! { "find": "transactions", "filter": {}, "returnKey": true };
    assert!(matches!(answer(key), Answer::Keys(_)));
    for (replaced, is_as_expected) in [
        (bson::Bson::from("$$ROOT"), (|a| matches!(a, Answer::Stored(_))) as fn(Answer) -> bool),
        (doc! { "$cond": [true, "$$ROOT", {}] }.into(), |a| matches!(a, Answer::Stored(_))),
        (doc! { "$cond": [true, { "document": "$$ROOT" }, { "a": 1 }] }.into(), |a| {
            matches!(a, Answer::Within(_))
        }),
        (doc! { "_id": "$_id" }.into(), |a| matches!(a, Answer::Own)),
    ] {
        let made = doc! { "aggregate": "accounts", "pipeline": [{ "$replaceWith": &replaced }] };
        assert!(is_as_expected(answer(made)), "{replaced}");
    }
}

#[test]
fn a_missing_floor_or_currency_means_what_the_layout_says() {
    let text = "[accounts.missing]\nfloor = \"none\"\ncurrency = \"EUR\"\n[accounts.fields]\nfloor = \"limit\"";
    let Layout { accounts, transactions, .. } = Layout::from_toml(text).expect("it is good");
    let read = |of: &Collection, document| plain(of.read(&raw(&document)).expect("BSON"));
    let euros = doc! { "_id": "a", "floor": bson::Bson::Null, "currency": "EUR" };
    let sorted = |document: &Document| -> std::collections::BTreeMap<String, bson::Bson> {
        document.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    assert_eq!(sorted(&read(&accounts, doc! { "_id": "a" })), sorted(&euros));
    let other = doc! { "_id": "a", "limit": -5_i64, "currency": "USD" };
    let read_as = doc! { "_id": "a", "floor": -5_i64, "currency": "USD" };
    assert_eq!(sorted(&read(&accounts, other)), sorted(&read_as));
    assert_eq!(read(&transactions, doc! { "_id": "t" }).get_str("currency").ok(), Some("EUR"));
    let expression = |text: &str| {
        let stored = accounts.expression(bson::RawBsonRef::String(text)).expect("BSON");
        bson::Bson::try_from(stored).expect("BSON")
    };
    let is_missing = doc! { "$eq": [{ "$type": "$limit" }, "missing"] };
    let meant = doc! { "$literal": bson::Bson::Null };
    assert_eq!(expression("$floor"), doc! { "$cond": [is_missing, meant, "$limit"] }.into());
    assert_eq!(expression("$balance"), "$balance".into());
}

#[test]
fn a_field_counts_as_standing_twice_in_each_object_on_the_way() {
    let asked = raw(&doc! { "$eq": ["$$ROOT", { "$mergeObjects": ["$$ROOT"] }] });
    let stored = layout().accounts.reading((&*asked).into()).expect("BSON");
    let once = |object: &str| doc! { "$eq": [object, { "$mergeObjects": [object] }] };
    let within = |path: &str| {
        doc! { "$cond": [{ "$eq": [{ "$type": path }, "object"] }, once(path), true] }
    };
    let expected = doc! { "$and": [once("$$ROOT"), within("$tandem"), within("$wallet")] };
    assert_eq!(bson::Bson::try_from(stored).expect("BSON"), expected.into());
}

#[test]
fn what_is_computed_beside_fields_is_read_with_those_that_were_asked_for() {
    let find = doc! {
        "find": "accounts", "filter": { "_id": { "$gt": "" } }, "sort": { "_id": 1 },
        "hint": { "_id": 1 }, "min": { "_id": A },
        "projection": { "balance": 1, "status": 1, EACH_FIELD_ONCE: { "$literal": true } },
    };
    let Command { sent, answer } =
        layout().command(&raw(&find), KeptOnce::ByValidator).expect("BSON");
    let expected = doc! {
        "find": "users", "filter": { "_id": { "$type": ["objectId"] } }, "sort": { "_id": 1 },
        "hint": { "_id": 1 }, "min": { "_id": a() },
        "projection": { "wallet": 1, "state": 1, EACH_FIELD_ONCE: { "$literal": true } },
    };
    assert_eq!(plain(sent), expected);
    let found = doc! {
        "_id": a(), "state": "blocked", "wallet": { "sum": 5, "open": ["t"] }, EACH_FIELD_ONCE: false,
    };
    let read = answer.read(&raw(&found)).expect("BSON").into_owned();
    let expected = doc! { "_id": A, "balance": 5, "status": "frozen", EACH_FIELD_ONCE: false };
    assert_eq!(plain(read), expected, "the marks were not asked for");
}

#[test]
fn a_list_goes_on_at_the_same_item_whatever_ids_are_and_in_both_directions() {
    let asked = |condition: Document| {
        let find = doc! { "find": "accounts", "filter": { "_id": condition } };
        let Command { sent, .. } =
            layout().command(&raw(&find), KeptOnce::ByValidator).expect("BSON");
        plain(sent).get_document("filter").expect("a filter").clone()
    };
    let above = format!("{A}\0");
    for (own, stored) in [
        (doc! { "$gte": A }, doc! { "$gte": a() }),
        (doc! { "$lt": A }, doc! { "$lt": a() }),
        (doc! { "$gte": &above }, doc! { "$gt": a() }),
        (doc! { "$gte": "", "$lt": &above }, doc! { "$type": ["objectId"], "$lte": a() }),
    ] {
        assert_eq!(asked(own.clone()), doc! { "_id": stored }, "{own}");
    }
}

#[test]
fn what_a_change_has_set_is_read_by_paths_and_by_objects_that_are_new() {
    let of = layout().transactions;
    let updated = |fields: Document| plain(of.updated(&raw(&fields)).expect("BSON"));
    assert_eq!(
        updated(doc! { "word": "committed", "tandem.parked.at": 5, "mine.word": "x", "tags.0": 1 }),
        doc! { "state": "applied", "parked": { "at": 5 } }
    );
    assert_eq!(
        updated(doc! { "tandem": { "attempts": 1 }, "how": { "much": 5, "else": 1 } }),
        doc! { "value": 5, "attempts": 1 }
    );
}

#[test]
fn a_pipeline_that_reads_may_add_fields() {
    let pipeline = [
        doc! { "$set": { "marks": { "$size": "$pendingTransactions" } } },
        doc! {
            "$unset": "pendingTransactions",
        },
    ];
    let command = doc! { "aggregate": "accounts", "pipeline": pipeline.to_vec() };
    let sent = plain(layout().command(&raw(&command), KeptOnce::ByValidator).expect("BSON").sent);
    let expected = vec![
        bson::Bson::from(doc! { "$set": { "tandem.marks": { "$size": "$wallet.open" } } }),
        doc! { "$unset": "wallet.open" }.into(),
    ];
    assert_eq!(sent.get_array("pipeline").ok(), Some(&expected));
}
