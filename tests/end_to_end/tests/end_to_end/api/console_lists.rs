//! The console's lists: their filter, their pages to and fro, and their files.

use harness::api::Api;
use harness::wait::s;
use harness::world::{World, transfer};
use serde_json::json;

/// The address of a link.
fn link(page: &str, rel: &str) -> Option<String> {
    let (before, _) = page.split_once(&format!("\" rel=\"{rel}\""))?;
    let (_, address) = before.rsplit_once("href=\"")?;
    Some(address.replace("&amp;", "&"))
}

/// The ids that a page lists.
fn listed(page: &str) -> Vec<String> {
    let cells = page.split("<th scope=\"row\">").skip(1);
    let id = |cell: &str| cell.split_once("\">")?.1.split('<').next().map(str::to_owned);
    cells.filter_map(id).collect()
}

#[tokio::test]
async fn pages_go_to_and_fro_with_the_filter_and_the_files_have_it_too() {
    let world = World::new().await;
    let transfers: Vec<_> = (0..250).map(|n| transfer(&format!("t{n:03}"), "a", "b", 1)).collect();
    world.insert(&transfers).await;
    let api = world.api(&[]).await;
    let page = async |api: &Api, path: &str| api.get(path).await.expect(200).body;
    let first_address = "/console/transactions?state=initial&since=2020-01-01T00%3A00%3A00Z";
    let first = page(&api, first_address).await;
    assert_eq!(
        (listed(&first).len(), link(&first, "prev"), link(&first, "first")),
        (100, None, None)
    );
    assert!(first.contains("value=\"2020-01-01T00:00:00Z\""), "the form shows its filter");
    let second = page(&api, &link(&first, "next").expect("it goes on")).await;
    assert_eq!(listed(&second).len(), 100);
    let again = page(&api, &link(&second, "prev").expect("there is a way back")).await;
    assert_eq!((listed(&again), link(&again, "prev")), (listed(&first), None));
    let third = page(&api, &link(&second, "next").expect("it goes on")).await;
    assert_eq!((listed(&third).len(), link(&third, "next")), (50, None));
    let back = page(&api, &link(&third, "prev").expect("there is a way back")).await;
    assert_eq!(listed(&back), listed(&second));
    let begin = page(&api, &link(&back, "first").expect("there is a way to the first")).await;
    assert_eq!(listed(&begin), listed(&first));

    for (name, lines) in [("csv", 251), ("jsonl", 250)] {
        let address = format!("/console/export.{name}?");
        let at = third.find(&address).expect("the file is linked");
        let address = third[at..].split('"').next().expect("it ends").replace("&amp;", "&");
        assert!(address.contains("state=initial") && !address.contains("cursor"), "{address}");
        let file = api.get(&address).await.expect(200);
        assert_eq!(file.body.lines().count(), lines, "{address}");
        assert!(file.header("Content-Disposition").is_some_and(|it| it.starts_with("attachment")));
    }
    let none = page(&api, "/console/transactions?reason=hold_limit").await;
    assert!(none.contains("There are none."), "{none}");
    world.finish().await;
}

#[tokio::test]
async fn the_pages_of_accounts_lead_back_as_they_lead_on() {
    let world = World::new().await;
    let names: Vec<String> = (0..250).map(|n| format!("acc-{n:03}")).collect();
    let accounts: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    world.accounts(&accounts).await;
    let api = world.api(&[]).await;
    let page = async |path: &str| api.get(path).await.expect(200).body;
    let first = page("/console/accounts").await;
    assert_eq!((listed(&first), link(&first, "prev")), (names[..100].to_vec(), None));
    let second = page(&link(&first, "next").expect("it goes on")).await;
    assert_eq!(listed(&second), names[100..200]);
    let again = page(&link(&second, "prev").expect("there is a way back")).await;
    assert_eq!((listed(&again), link(&again, "prev")), (listed(&first), None));
    let third = page(&link(&second, "next").expect("it goes on")).await;
    assert_eq!((listed(&third), link(&third, "next")), (names[200..].to_vec(), None));
    let back = page(&link(&third, "prev").expect("there is a way back")).await;
    assert_eq!(listed(&back), listed(&second));
    world.finish().await;
}

#[tokio::test]
async fn moments_are_taken_as_people_type_them_in_each_list_and_a_wrong_one_leaves_the_form() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let api = world.api(&[]).await;
    api.post(
        "/v1/transactions",
        &json!({ "id": "t", "source": "a", "destination": "b", "value": 1 }),
    )
    .await
    .expect(202);
    let worker = world.worker("one").start().await;
    world.wait_final(s(60)).await;
    let page = async |path: &str| api.get(path).await.expect(200).body;
    for (list, since, until) in [
        ("/console/transactions?state=done", "since", "until"),
        ("/console/transactions?state=done", "endedSince", "endedUntil"),
        ("/console/account?id=a", "from", "to"),
    ] {
        for (moment, name, is_there) in [
            ("2020-01-01+08:30", since, true),
            ("2020-01-01", since, true),
            ("2120-01-01+08:30:00.5", since, false),
            ("2120-01-01T08:30", until, true),
            ("2020-01-01+08:30", until, false),
        ] {
            let path = format!("{list}&{name}={moment}");
            let shown = page(&path).await;
            assert_eq!(
                shown.contains(r#"<th scope="row"><a class="id" href="/console/transaction?id=t""#),
                is_there,
                "{path}: {shown}"
            );
            assert!(
                shown.contains(&format!(r#"id="{name}" name="{name}" value="2"#)),
                "{path}: {shown}"
            );
        }
    }
    let wrong = page("/console/account?id=a&from=yesterday").await;
    for part in ["There is no statement: from", r#"name="from" value="yesterday""#, "Show</button>"]
    {
        assert!(wrong.contains(part), "{part}: {wrong}");
    }
    let refused = api.get("/console/transactions?since=yesterday").await.expect(422).body;
    assert!(refused.contains("since"), "{refused}");
    drop(worker);
    world.finish().await;
}
