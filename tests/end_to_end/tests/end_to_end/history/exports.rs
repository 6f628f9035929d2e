//! Files of all transactions that a filter names.

use harness::api::Api;
use harness::world::transfer;
use ledger::transaction::State;
use mongo::JOURNAL;
use mongodb::bson::{DateTime, Document, doc};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{from_now, insert, refused, stored, world_with_history};

#[tokio::test]
async fn a_file_has_what_the_list_has_and_a_spreadsheet_runs_nothing_of_it() {
    let world = world_with_history().await;
    world.accounts(&[("a", 100), ("b", 0), ("c", 0)]).await;
    let begun = from_now(-600_000).timestamp_millis();
    let one = |n: i64| {
        let at = DateTime::from_millis(begun + n);
        match n % 3 {
            0 => refused(&format!("=t{n}"), at),
            _ => stored(&transfer(&format!("=t{n}"), "a", "b", 1), State::Done, at),
        }
    };
    // More than two pages of the reading.
    insert(&world, (0..1_200).map(one).collect()).await;
    let file = world.directory().join("tokens");
    let reader = world.token(&file, "reader", "read").await;
    let bound = world.token_with(&file, "bound", "read", &["--accounts", "b"]).await;
    let mut api = world.api(&["--tokens", file.to_str().expect("UTF-8")]).await;
    api.use_token(&reader);
    let export = async |api: &Api, asked: &str| api.get(&format!("/v1/export/{asked}")).await;

    let csv = export(&api, "transactions.csv?reason=insufficient_funds").await.expect(200);
    assert_eq!(csv.header("Content-Type"), Some("text/csv; charset=utf-8"));
    assert!(csv.header("Content-Disposition").is_some_and(|it| it.contains("transactions.csv")));
    let lines: Vec<&str> = csv.body.lines().collect();
    assert!(lines[0].starts_with("id,state,source,destination,value,"), "{}", lines[0]);
    assert_eq!(lines.len(), 1 + 400);
    assert!(lines[1].starts_with("'=t1197,canceled,a,c,1,"), "{}", lines[1]);
    assert!(lines[1].contains(",insufficient_funds,too little,"), "{}", lines[1]);

    let asked = "transactions.jsonl?account=a&state=done";
    let json = export(&api, asked).await.expect(200).body;
    let json: Vec<Value> =
        json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((json.len(), &json[0]["id"]), (800, &"=t1199".into()));
    for wrong in ["reason=gone", "since=yesterday", "account=a&state=initial"] {
        export(&api, &format!("transactions.csv?{wrong}")).await.expect(422);
    }
    export(&api, "transactions.csv?limit=1").await.expect(400);
    // A token sees in a file what it sees in the list.
    api.use_token(&bound);
    export(&api, "transactions.csv").await.expect(403);
    let others = export(&api, "transactions.csv?account=a").await.expect(200).body;
    assert_eq!(others.lines().count(), 1, "the names of the columns only");
    let own = export(&api, "transactions.jsonl?account=b").await.expect(200).body;
    assert_eq!(own.lines().count(), 800);
    world.finish().await;
}

/// All that comes as an answer, with the lengths of its chunks.
async fn as_it_comes(api: &Api, path: &str) -> String {
    let mut stream = TcpStream::connect(api.address).await.expect("it listens");
    let ask = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).await.expect("it reads");
    let mut bytes = Vec::new();
    // A connection that is reset has been cut off, too; what has come until then is there.
    drop(stream.read_to_end(&mut bytes).await);
    String::from_utf8(bytes).expect("UTF-8")
}

#[tokio::test]
async fn a_file_that_is_cut_off_ends_without_its_last_chunk() {
    const LAST_CHUNK: &str = "0\r\n\r\n";
    let world = world_with_history().await;
    let begun = from_now(-600_000).timestamp_millis();
    let one = |n: i64| {
        let at = DateTime::from_millis(begun + n);
        stored(&transfer(&format!("t{n}"), "a", "b", 1), State::Done, at)
    };
    insert(&world, (0..700).map(one).collect()).await;
    let api = world.api(&[]).await;
    let path = "/v1/export/transactions.jsonl?account=a";
    let whole = as_it_comes(&api, path).await;
    assert!(whole.starts_with("HTTP/1.1 200") && whole.ends_with(LAST_CHUNK), "{whole}");
    // The line of the oldest one, which no first page reads.
    let journal = world.store.database().collection::<Document>(JOURNAL);
    let oldest = doc! { "at": DateTime::from_millis(begun) };
    let damage = doc! { "$unset": { "done": "" } };
    let damaged = journal.update_one(oldest, damage).await.expect("MongoDB is there");
    assert_eq!(damaged.modified_count, 1);
    let part = as_it_comes(&api, path).await;
    assert!(part.starts_with("HTTP/1.1 200") && part.contains("\"t699\""), "{part}");
    assert!(!part.contains("\"t0\"") && !part.ends_with(LAST_CHUNK), "{part}");
    assert!(api.log().contains("an export is cut off"), "{}", api.log());
    world.finish().await;
}
