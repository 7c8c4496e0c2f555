//! Several servers as one: names, time limits, and what one that fails costs.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{builder, modern};
use crate::client::{Client, Fleet};
use crate::transport::memory;
use crate::{Context, NoArguments, Server, Tool};

/// A client of a server in memory with these tools, each of which says who it is.
async fn client(server: &'static str, tools: &[&'static str]) -> Client {
    let mut built = Server::new(server, "1");
    for tool in tools {
        let tool = *tool;
        built = built.tool(Tool::inline(tool, move |_: &Context, _: NoArguments| {
            format!("{tool} of {server}")
        }));
    }
    let (near, far) = memory::pair();
    let service = built.start().unwrap();
    tokio::spawn(async move { service.serve(far).await });
    builder().connect(near).await.unwrap()
}

#[tokio::test]
async fn tools_are_named_after_their_servers_and_called_by_that() {
    let fleet = Fleet::new().with("one", client("one", &["a", "b"]).await).unwrap();
    let fleet = fleet.with("other", client("other", &["a", "with__two"]).await).unwrap();
    let tools = fleet.list_tools().await;
    assert!(tools.is_whole());
    let names: Vec<_> = tools.items.iter().map(|of| of.item.name.as_str()).collect();
    assert_eq!(names, ["one__a", "one__b", "other__a", "other__with__two"]);
    for (name, said) in [
        ("one__a", "a of one"),
        ("other__a", "a of other"),
        ("other__with__two", "with__two of other"),
    ] {
        let result = fleet.call_tool(name, &json!({})).await.unwrap();
        assert!(format!("{result:?}").contains(said), "{result:?}");
    }
    for (name, part) in [("a", "server__name"), ("none__a", "there are one, other")] {
        let wrong = fleet.call_tool(name, &json!({})).await.unwrap_err();
        assert!(wrong.is_misuse() && wrong.to_string().contains(part), "{wrong}");
    }
    fleet.close().await;
}

/// What a server that says nothing costs is its own tools and the time limit, once.
#[tokio::test]
async fn one_that_does_not_answer_costs_what_it_offers() {
    let mut fleet = Fleet::new().timeout(Duration::from_millis(100));
    let mut silent = Vec::new();
    for name in ["first", "second", "third"] {
        let (client, fake) = modern(builder()).await;
        fleet = fleet.with(name, client).unwrap();
        silent.push(fake);
    }
    let fleet = fleet.with("good", client("good", &["a"]).await).unwrap();
    let began = Instant::now();
    let tools = fleet.list_tools().await;
    let took = began.elapsed();
    assert!(took < Duration::from_millis(280), "one after another: {took:?}");
    let names: Vec<_> = tools.items.iter().map(|of| of.item.name.as_str()).collect();
    assert_eq!(names, ["good__a"]);
    let failed: Vec<_> = tools.failed.iter().map(|(server, _)| &**server).collect();
    assert_eq!(failed, ["first", "second", "third"]);
    assert!(tools.failed.iter().all(|(_, error)| error.is_timeout()), "{:?}", tools.failed);
    let late = fleet.call_tool("first__a", &json!({})).await.unwrap_err();
    assert!(late.is_timeout(), "{late}");
}

#[tokio::test]
async fn names_that_could_be_mistaken_are_refused() {
    let one = client("one", &["a"]).await;
    for name in ["", "a__b", "_a", "a_", "a b", "ä", "a:b"] {
        let wrong = Fleet::new().with(name, one.clone()).unwrap_err();
        assert!(wrong.is_misuse(), "{name:?}: {wrong}");
    }
    let fleet = Fleet::new().with("a", one.clone()).unwrap();
    assert!(fleet.with("a", one).unwrap_err().to_string().contains("two servers"));
}
