//! Clients of both eras before a server that speaks both, or does not.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::fake::{Fake, Initialize, server, started};
use super::far::{Instead, far};
use super::raw::{ask, raw};
use super::{LIMIT, one, with};
use crate::admin::ServerState;
use crate::config::{Mode, Period, Speaks};
use crate::gateway::Gateway;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// The era in which the server was sent a request.
fn is_modern(request: &Value) -> bool {
    request["params"]["_meta"].get(VERSION).is_some()
}

fn answer(fake: &Fake, call: &Value) {
    let result = json!({"content": []});
    fake.say_to(call, &json!({"jsonrpc": "2.0", "id": call["id"], "result": result}));
}

async fn gateway(fake: &Fake) -> Gateway {
    let gateway = started(fake, server(Speaks::Auto));
    gateway.ready().await;
    gateway
}

#[tokio::test]
async fn each_client_is_served_in_its_own_era() {
    let fake = Fake::new(&["echo"]);
    let gateway = gateway(&fake).await;
    let (mut old, mut new) = (raw(&gateway), raw(&gateway));
    old.initialize(json!({"elicitation": {}})).await;
    old.call(1).await;
    let of_old = fake.sent("tools/call", 0).await;
    assert!(!is_modern(&of_old), "{of_old}");
    new.modern_call(1, json!({})).await;
    let of_new = fake.sent("tools/call", 1).await;
    assert!(is_modern(&of_new), "{of_new}");
    // What is asked in the old way reaches the old client as it is.
    let params =
        json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}});
    fake.say_to(&of_old, &ask(7, "elicitation/create", params));
    let asked = old.hear().await;
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    let declined = json!({"action": "decline"});
    old.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": declined})).await;
    fake.sent_back(7, &declined).await;
    for call in [&of_old, &of_new] {
        answer(&fake, call);
    }
    assert!(old.hear().await["result"].is_object());
    assert!(new.hear().await["result"].is_object());
    let status = one(&gateway, |status| status.workers.len() == 2).await;
    let revisions = status.workers.iter().map(|worker| worker.revision).collect::<Vec<_>>();
    assert_eq!(revisions, [Some("2026-07-28"), Some("2025-11-25")]);
    gateway.close().await;
}

#[tokio::test]
async fn who_refuses_to_initialize_is_translated_for() {
    let fake = Fake::new(&["echo"]);
    fake.state().initialize = Initialize::Refuses;
    let gateway = gateway(&fake).await;
    let mut client = raw(&gateway);
    client.initialize(json!({})).await;
    for n in 0..2 {
        client.call(1).await;
        let call = fake.sent("tools/call", n).await;
        assert!(is_modern(&call), "{call}");
        answer(&fake, &call);
        assert!(client.hear().await["result"].is_object());
    }
    assert_eq!(fake.count("initialize"), 1, "it has said that it does not");
    let status = one(&gateway, |status| status.workers.len() == 1).await;
    assert_eq!((status.state, status.trouble), (ServerState::Healthy, None));
    gateway.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_broke_is_made_again_after_a_while() {
    let fake = Fake::new(&["echo"]);
    fake.state().initialize = Initialize::Breaks;
    let gateway = gateway(&fake).await;
    let mut troubles = gateway.troubles();
    let mut client = raw(&gateway);
    client.initialize(json!({})).await;
    for (n, trials) in [(0, 1), (1, 1), (2, 2)] {
        client.call(1).await;
        let call = fake.sent("tools/call", n).await;
        assert_eq!((is_modern(&call), fake.count("initialize")), (n < 2, trials), "{n}");
        answer(&fake, &call);
        assert!(client.hear().await["result"].is_object());
        if n == 1 {
            let told = troubles.next().await.unwrap();
            assert!(told.contains("older clients are translated for"), "{told}");
            fake.state().initialize = Initialize::Takes;
            sleep(Duration::from_secs(61)).await;
        }
    }
    gateway.close().await;
}

/// Whatever lost it on its way: the upstream has not said that it takes no older clients.
#[tokio::test]
async fn a_trial_that_was_lost_on_its_way_is_no_verdict() {
    let busy = || Instead::Http("503 Service Unavailable", "retry-after: 0", "later");
    let losses: [fn() -> Instead; 2] = [busy, || Instead::Nothing];
    for loss in losses {
        let server = far(Speaks::Auto, move |method| (method == "initialize").then(loss)).await;
        let gateway = Gateway::start(with(server)).unwrap();
        gateway.ready().await;
        let mut troubles = gateway.troubles();
        let mut client = raw(&gateway);
        client.initialize(json!({})).await;
        client.call(1).await;
        assert!(client.hear().await["result"].is_object());
        let told = timeout(LIMIT, troubles.next()).await.unwrap().unwrap();
        assert!(told.contains("older clients are translated for"), "{told}");
        gateway.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn workers_for_legacy_clients_end_when_none_calls() {
    let fake = Fake::new(&["echo"]);
    let gateway = gateway(&fake).await;
    let mut client = raw(&gateway);
    client.initialize(json!({})).await;
    for n in 0..2 {
        client.call(1).await;
        let call = fake.sent("tools/call", n).await;
        assert!(!is_modern(&call), "{call}");
        // A call that takes long keeps them.
        sleep(Duration::from_secs(290)).await;
        assert_eq!(gateway.status().servers[0].workers.len(), 2);
        answer(&fake, &call);
        assert!(client.hear().await["result"].is_object());
        sleep(Duration::from_secs(290)).await;
        assert_eq!(gateway.status().servers[0].workers.len(), 2);
        sleep(Duration::from_secs(30)).await;
        assert_eq!(gateway.status().servers[0].workers.len(), 1);
        assert_eq!(fake.count("initialize"), n + 1);
    }
    gateway.close().await;
}

/// The catalog is on the disk, so that calls come before the server has said what it speaks.
#[tokio::test]
async fn calls_that_wait_for_the_first_worker_go_where_they_belong() {
    let kept = std::env::temp_dir().join(format!("mcplane-sides-{}", std::process::id()));
    std::fs::create_dir_all(&kept).unwrap();
    let fake = Fake::new(&["echo"]);
    let begin = || {
        let mut config = with(server(Speaks::Auto));
        config.gateway.state_dir = Some(kept.clone());
        Gateway::start_with(config, std::sync::Arc::new(fake.clone())).unwrap()
    };
    let gateway = begin();
    gateway.ready().await;
    // A file that is being written has another name.
    let is_kept = || {
        let files = kept.join("lists").read_dir().into_iter().flatten().flatten();
        files.into_iter().any(|file| file.path().extension().is_some_and(|end| end == "json"))
    };
    while !is_kept() {
        sleep(Duration::from_millis(5)).await;
    }
    gateway.close().await;
    fake.state().opens_after = Duration::from_millis(300);
    let gateway = begin();
    let (mut old, mut new) = (raw(&gateway), raw(&gateway));
    old.initialize(json!({})).await;
    old.call(1).await;
    new.modern_call(1, json!({})).await;
    for (n, modern) in [(0, true), (1, false)] {
        let call = fake.sent("tools/call", n).await;
        assert_eq!(is_modern(&call), modern, "{call}");
        answer(&fake, &call);
    }
    assert!(old.hear().await["result"].is_object());
    assert!(new.hear().await["result"].is_object());
    gateway.close().await;
    std::fs::remove_dir_all(kept).unwrap();
}

#[tokio::test]
async fn a_session_has_its_worker_in_its_own_era() {
    let fake = Fake::new(&["echo"]);
    let mut server = server(Speaks::Auto);
    (server.mode, server.idle_stop) = (Mode::PerSession, Period::ZERO);
    let gateway = started(&fake, server);
    gateway.ready().await;
    let mut clients = [raw(&gateway), raw(&gateway)];
    for (n, client) in clients.iter_mut().enumerate() {
        client.initialize(json!({})).await;
        client.call(1).await;
        let call = fake.sent("tools/call", n).await;
        assert!(!is_modern(&call), "{call}");
        answer(&fake, &call);
        assert!(client.hear().await["result"].is_object());
    }
    // Two that are taken, and a spare one of each era.
    let status = one(&gateway, |status| status.workers.len() == 4).await;
    let old = status.workers.iter().filter(|worker| worker.calls > 0).count();
    assert_eq!(old, 2, "{status:#?}");
    drop(clients);
    one(&gateway, |status| status.workers.len() == 2).await;
    gateway.close().await;
}
