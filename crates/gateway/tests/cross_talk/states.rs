//! The states of modern servers, over HTTP.

use std::sync::Arc;
use std::time::Duration;

use mcplane::proto::version::Era;
use mcplane::transport::Transport;
use mcplane::transport::http::client::Http;
use mcplane_gateway::Gateway;
use mcplane_gateway::config::{Secret, Server};
use mcplane_gateway::listen::Listeners;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use crate::plan::{Ending, Plan, Step};
use crate::upstream::Upstreams;
use crate::virtual_time::config;
use crate::world::World;

/// A request of 2026-07-28 and its answer.
async fn call(url: &str, who: &str, tag: &str, retry: Option<&Value>) -> Value {
    let plan = Plan {
        tag: tag.into(),
        steps: vec![Step::Elicit],
        ending: Ending::Answer,
        is_stubborn: false,
        late: None,
    };
    let mut params = json!({"name": "work", "arguments": plan.to_json(), "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    }});
    if let Some(state) = retry {
        params["requestState"] = state.clone();
        params["inputResponses"] =
            json!({"key": {"action": "accept", "content": {"answer": format!("{tag}#0")}}});
    }
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let http = Http::new(url).unwrap().header("authorization", &format!("Bearer token-{who}"));
    let (reader, mut writer) = http.open().unwrap();
    writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    writer.flush().await.unwrap();
    let mut lines = BufReader::new(reader).lines();
    let answer = timeout(Duration::from_secs(60), lines.next_line()).await.unwrap().unwrap();
    serde_json::from_str(&answer.unwrap()).unwrap()
}

async fn start(world: &Arc<World>, key: Option<&str>) -> (Gateway, String) {
    let upstreams =
        Upstreams { world: Arc::clone(world), era: Era::Modern, both: false, seed: 1, lag: 0 };
    let mut config = config(Server { command: Some("none".into()), ..Server::default() });
    config.gateway.listen = vec!["127.0.0.1:0".parse().unwrap()];
    config.gateway.tokens =
        ["alice", "bob"].map(|who| (who.to_owned(), Secret::new(format!("token-{who}")))).into();
    config.gateway.state_key = key.map(Secret::new);
    let gateway = Gateway::start_with(config.clone(), Arc::new(upstreams)).unwrap();
    gateway.ready().await;
    let listeners = Listeners::open(&config).await.unwrap();
    let url = listeners.url().unwrap().to_owned();
    let serving = gateway.clone();
    tokio::spawn(async move { listeners.serve(&serving, std::future::pending()).await });
    (gateway, url)
}

#[tokio::test]
async fn a_state_is_of_its_principal_request_and_gateway() {
    let world = Arc::new(World::default());
    let (gateway, url) = start(&world, Some("a key that several gateways have")).await;
    let (other, elsewhere) = start(&world, None).await;
    let asked = call(&url, "alice", "alice/0/1", None).await;
    let state = &asked["result"]["requestState"];
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");

    let refused = |answer: Value| assert_eq!(answer["error"]["code"], -32602, "{answer}");
    refused(call(&url, "bob", "alice/0/1", Some(state)).await);
    refused(call(&url, "alice", "alice/0/2", Some(state)).await);
    refused(call(&elsewhere, "alice", "alice/0/1", Some(state)).await);
    // What the server itself gave cannot be sent past the gateway.
    refused(call(&url, "bob", "alice/0/1", Some(&json!("alice/0/1#1"))).await);

    let done = call(&url, "alice", "alice/0/1", Some(state)).await;
    assert_eq!(done["result"]["content"][0]["text"], "alice/0/1|0", "{done}");
    gateway.close().await;
    // The next gateway with this key takes it too.
    let (again, url) = start(&world, Some("a key that several gateways have")).await;
    let done = call(&url, "alice", "alice/0/1", Some(state)).await;
    assert_eq!(done["result"]["content"][0]["text"], "alice/0/1|0", "{done}");
    again.close().await;
    other.close().await;
    assert!(world.wrongs().is_empty(), "{:?}", world.wrongs());
}
