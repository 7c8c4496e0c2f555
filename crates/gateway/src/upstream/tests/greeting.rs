//! Whom a server hears that it serves, and what it may say to it outside of any call.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::fake::{Fake, server, started};
use super::raw::{ask, raw};
use super::{one, with};
use crate::admin::{ServerState, ServerStatus, WorkerState};
use crate::config::{Mode, Server, Speaks};
use crate::gateway::Gateway;

fn per_session(revision: Speaks) -> Server {
    Server { mode: Mode::PerSession, ..server(revision) }
}

async fn gateway(fake: &Fake, server: Server) -> Gateway {
    let gateway = started(fake, server);
    gateway.ready().await;
    gateway
}

fn answer(fake: &Fake, call: &Value) {
    let result = json!({"content": []});
    fake.say_to(call, &json!({"jsonrpc": "2.0", "id": call["id"], "result": result}));
}

fn note(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

#[tokio::test]
async fn a_session_is_introduced_by_its_own_name() {
    let fake = Fake::new(&["echo"]);
    let gateway = gateway(&fake, per_session(Speaks::Legacy)).await;
    // One reads the lists, and one waits.
    let states = |gateway: &Gateway| {
        let status = gateway.status().servers.remove(0);
        status.workers.iter().map(|worker| worker.state).collect::<Vec<_>>()
    };
    one(&gateway, |status| status.workers.iter().any(|worker| worker.state == WorkerState::Spare))
        .await;
    assert_eq!(states(&gateway), [WorkerState::Healthy, WorkerState::Spare]);
    assert_eq!(fake.count("initialize"), 1);
    assert_eq!(fake.sent("initialize", 0).await["params"]["clientInfo"]["name"], "mcplane");
    let declared = [json!({"sampling": {}, "experimental": {"x": {"y": 1}}}), json!({})];
    let mut clients = [raw(&gateway), raw(&gateway)];
    for (n, (client, declared)) in clients.iter_mut().zip(declared).enumerate() {
        let mut with_tasks = declared.clone();
        with_tasks["tasks"] = json!({"list": {}});
        client.initialize(with_tasks).await;
        client.call(1).await;
        let call = fake.sent("tools/call", n).await;
        let hello = fake.sent("initialize", n + 1).await;
        assert_eq!(hello["params"]["clientInfo"], json!({"name": "raw", "version": "7"}));
        assert_eq!(hello["params"]["capabilities"], declared);
        assert_eq!(fake.connection_of(&call), fake.connection_of(&hello));
        answer(&fake, &call);
        assert_eq!(client.hear().await["id"], 1);
    }
    // One of each client, one for the lists, and one that waits.
    one(&gateway, |status| status.workers.len() == 4).await;
    assert_eq!(fake.count("tools/list"), 1);
    // What a client is offered may be its own: the lists are the others'.
    let own = fake.sent("tools/call", 1).await;
    fake.say_to(&own, &note("notifications/tools/list_changed", json!({})));
    let again = fake.sent("tools/list", 1).await;
    assert_eq!(fake.connection_of(&again), 0);
    gateway.close().await;
}

/// A client may call before the first worker is ready: it has that one, and there is a spare one and
/// one for the lists all the same.
#[tokio::test]
async fn a_session_that_comes_first_takes_nothing_from_the_others() {
    let folder = std::env::temp_dir().join(format!("mcplane-greeting-{}", std::process::id()));
    let fake = Fake::new(&["echo"]);
    let config = || {
        let mut config = with(per_session(Speaks::Legacy));
        config.gateway.state_dir = Some(folder.clone());
        config
    };
    // Its lists are known from last time: nobody waits for a worker.
    let before = Gateway::start_with(config(), Arc::new(fake.clone())).unwrap();
    let lists = folder.join("lists");
    // One that is being written has another name yet.
    let is_kept = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().path().extension().is_some_and(|extension| extension == "json")
    };
    while !std::fs::read_dir(&lists).is_ok_and(|mut all| all.any(is_kept)) {
        sleep(Duration::from_millis(10)).await;
    }
    before.close().await;
    for _ in 0..10 {
        let fake = Fake::new(&["echo"]);
        fake.state().opens_after = Duration::from_millis(30);
        let gateway = Gateway::start_with(config(), Arc::new(fake.clone())).unwrap();
        let mut client = raw(&gateway);
        client.initialize(json!({})).await;
        client.call(1).await;
        sleep(Duration::from_secs(3)).await;
        let call = fake.sent("tools/call", 0).await;
        answer(&fake, &call);
        assert_eq!(client.hear().await["id"], 1);
        let states = |status: &ServerStatus| {
            let mut states: Vec<_> = status.workers.iter().map(|worker| worker.state).collect();
            states.sort_by_key(|state| *state as u8);
            states
        };
        let wanted = [WorkerState::Healthy, WorkerState::Healthy, WorkerState::Spare];
        one(&gateway, |status| states(status) == wanted).await;
        fake.sent("tools/list", 0).await;
        let names: Vec<_> = [fake.sent("initialize", 0).await, fake.sent("initialize", 1).await]
            .map(|hello| hello["params"]["clientInfo"]["name"].as_str().unwrap().to_owned())
            .into();
        assert!(names.contains(&"raw".to_owned()) && names.contains(&"mcplane".to_owned()));
        gateway.close().await;
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_spare_that_ends_is_started_again_and_one_that_leaves_is_gone() {
    let server = Server { mode: Mode::PerSession, revision: Speaks::Legacy, ..super::in_shell("") };
    let script = super::TALKING;
    let server = Server { args: vec!["-c".into(), script.into()], ..server };
    let gateway = Gateway::start(with(server)).unwrap();
    let is_spare = |status: &ServerStatus| {
        status
            .workers
            .iter()
            .any(|worker| worker.state == WorkerState::Spare && worker.pid.is_some())
    };
    let pid = |status: &ServerStatus| {
        status
            .workers
            .iter()
            .find(|worker| worker.state == WorkerState::Spare)
            .and_then(|worker| worker.pid)
    };
    let before = pid(&one(&gateway, is_spare).await).unwrap();
    let killed = std::process::Command::new("kill").args(["-9", &before.to_string()]).status();
    assert!(killed.unwrap().success());
    let after = one(&gateway, |status| is_spare(status) && pid(status) != Some(before)).await;
    assert_eq!(after.state, ServerState::Healthy, "{after:#?}");
    gateway.close().await;
}

#[tokio::test]
async fn outside_of_calls_a_session_hears_its_own_server_and_is_heard() {
    let fake = Fake::new(&["echo"]);
    fake.state().capabilities = json!({"tools": {"listChanged": true}, "logging": {}});
    let gateway = gateway(&fake, per_session(Speaks::Legacy)).await;
    let (mut alice, mut bob) = (raw(&gateway), raw(&gateway));
    let mut calls = Vec::new();
    for (n, client) in [&mut alice, &mut bob].into_iter().enumerate() {
        client.initialize(json!({"roots": {"listChanged": true}, "elicitation": {}})).await;
        client.call(1).await;
        let call = fake.sent("tools/call", n).await;
        answer(&fake, &call);
        assert_eq!(client.hear().await["id"], 1);
        calls.push(call);
    }
    // What it logs.
    let log = note("notifications/message", json!({"level": "debug", "data": "for alice"}));
    fake.say_to(&calls[0], &log);
    assert_eq!(alice.hear().await, log);
    // What it asks, and how far the client is with it.
    let params = json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}},
                        "_meta": {"progressToken": "mine"}});
    fake.say_to(&calls[0], &ask(7, "elicitation/create", params));
    let asked = alice.hear().await;
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    let token = &asked["params"]["_meta"]["progressToken"];
    let progress = |by: &str| json!({"progressToken": token, "progress": 1, "message": by});
    bob.say(note("notifications/progress", progress("bob"))).await;
    bob.request(2, "ping", json!({})).await;
    assert_eq!(bob.hear().await["id"], 2);
    alice.say(note("notifications/progress", progress("alice"))).await;
    let heard = fake.sent("notifications/progress", 0).await;
    assert_eq!(
        heard["params"],
        json!({"progressToken": "mine", "progress": 1, "message": "alice"})
    );
    let accepted = json!({"action": "accept", "content": {}});
    alice.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": accepted})).await;
    fake.sent_back(7, &accepted).await;
    // One that it takes back.
    fake.say_to(&calls[1], &ask(8, "roots/list", json!({})));
    let asked = bob.hear().await;
    assert_eq!(asked["method"], "roots/list", "{asked}");
    fake.say_to(
        &calls[1],
        &note("notifications/cancelled", json!({"requestId": 8, "reason": "late"})),
    );
    let told = bob.hear().await;
    assert_eq!(told["params"], json!({"requestId": asked["id"], "reason": "late"}));
    // Its client's roots.
    bob.say(json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})).await;
    let changed = fake.sent("notifications/roots/list_changed", 0).await;
    assert!(changed.get("params").is_none(), "{changed}");
    fake.say_to(&calls[1], &ask(9, "roots/list", json!({})));
    let asked = bob.hear().await;
    let roots = json!({"roots": [{"uri": "file:///bob"}]});
    bob.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": roots})).await;
    fake.sent_back(9, &roots).await;
    assert_eq!(fake.count("notifications/roots/list_changed"), 1, "it is not alice's");
    assert_eq!(gateway.status().servers.remove(0).unowned_logs, 0);
    gateway.close().await;
}

#[tokio::test]
async fn who_has_no_roots_leaves_them_to_the_settings() {
    let fake = Fake::new(&["echo"]);
    let mut server = per_session(Speaks::Legacy);
    server.roots = vec!["file:///work".into()];
    let gateway = gateway(&fake, server).await;
    let mut client = raw(&gateway);
    client.initialize(json!({})).await;
    client.call(1).await;
    let call = fake.sent("tools/call", 0).await;
    assert_eq!(fake.sent("initialize", 1).await["params"]["capabilities"], json!({"roots": {}}));
    fake.say_to(&call, &ask(7, "roots/list", json!({})));
    fake.sent_back(7, &json!({"roots": [{"uri": "file:///work"}]})).await;
    answer(&fake, &call);
    assert_eq!(client.hear().await["id"], 1);
    gateway.close().await;
}

#[tokio::test]
async fn the_level_of_a_session_is_the_one_that_it_asked_for_last() {
    let fake = Fake::new(&["echo"]);
    fake.state().capabilities = json!({"tools": {}, "logging": {}});
    let gateway = gateway(&fake, per_session(Speaks::Legacy)).await;
    let mut client = raw(&gateway);
    client.initialize(json!({})).await;
    client.call(1).await;
    answer(&fake, &fake.sent("tools/call", 0).await);
    assert_eq!(client.hear().await["id"], 1);
    for (n, level) in ["debug", "error"].into_iter().enumerate() {
        client.request(2, "logging/setLevel", json!({"level": level})).await;
        assert_eq!(client.hear().await["id"], 2);
        assert_eq!(fake.sent("logging/setLevel", n).await["params"]["level"], level);
    }
    gateway.close().await;
}
