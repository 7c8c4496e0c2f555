//! mcplane's client on other people's servers over HTTP and HTTP+SSE: in each, the `echo` program of a peer with more tools,
//! or the official server-everything.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcplane::{
    Client,
    client::{Change, EraChoice, ListenFilter},
    proto::version::Era,
    transport::http::client::Http,
    types::{ElicitResult, ResourceUpdatedParams},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    peers::{Peer, npm_server},
    site::{Site, Tap, free_port},
};

/// One check; the slowest takes a second.
const CHECK_MAX: Duration = Duration::from_secs(20);

/// What a server can do beyond echo, add, steps and sleep.
#[derive(Clone, Copy)]
struct Abilities {
    /// It hears of a cancelled call.
    hears_cancel: bool,
    asks: bool,
    changes: bool,
    /// It tells of changes of a resource.
    watches: bool,
    /// It sends its client away in the middle of a call, and has the answer when it comes back.
    resumes: bool,
    /// It has sessions to forget.
    sessions: bool,
}

const ALL: Abilities = Abilities {
    hears_cancel: true,
    asks: true,
    changes: true,
    watches: true,
    resumes: true,
    sessions: true,
};

/// In HTTP+SSE and in the modern era nothing is resumed, and there are no sessions to forget.
const UNRESUMED: Abilities = Abilities { resumes: false, sessions: false, ..ALL };

/// A server of the older revisions without sessions: each call is on its own. What it would ask or
/// tell has no way to the client, and a cancellation none to the call.
const STATELESS: Abilities =
    Abilities { hears_cancel: false, asks: false, changes: false, watches: false, ..UNRESUMED };

macro_rules! servers {
    ($($name:ident: $peer:ident $kind:literal $choice:ident speaks $era:ident, $abilities:expr;)+) => {
        $(#[tokio::test]
        async fn $name() {
            let wanted = (EraChoice::$choice, Era::$era);
            check(Peer::$peer, $kind, wanted, $abilities).await;
        })+
    };
}

servers! {
    ts1_http: Ts1 "http" Auto speaks Legacy, ALL;
    ts1_sse: Ts1 "sse" Auto speaks Legacy, UNRESUMED;
    ts2_http: Ts2 "http" Auto speaks Modern, UNRESUMED;
    // This SDK and rmcp have no server of HTTP+SSE. `createMcpHandler` serves the older revisions
    // by its `legacyStatelessFallback`; sessions would be a server of their own, on
    // `NodeStreamableHTTPServerTransport`.
    ts2_http_legacy: Ts2 "http" Legacy speaks Legacy, STATELESS;
    python_http: Python "http" Auto speaks Modern, UNRESUMED;
    python_http_legacy: Python "http" Legacy speaks Legacy, ALL;
    python_sse: Python "sse" Legacy speaks Legacy, UNRESUMED;
    rmcp_http: Rmcp "http" Auto speaks Modern, UNRESUMED;
    rmcp_http_legacy: Rmcp "http" Legacy speaks Legacy, ALL;
    // With sessions it discovers older revisions only.
    go_http: Go "http" Auto speaks Legacy, ALL;
    go_http_legacy: Go "http" Legacy speaks Legacy, ALL;
    go_stateless: Go "stateless" Auto speaks Modern, UNRESUMED;
    go_stateless_legacy: Go "stateless" Legacy speaks Legacy, STATELESS;
    go_sse: Go "sse" Legacy speaks Legacy, UNRESUMED;
}

async fn check(peer: Peer, kind: &str, (choice, era): (EraChoice, Era), abilities: Abilities) {
    if !peer.is_there() {
        return;
    }
    let port = free_port();
    let mut words = peer.program("echo");
    words.extend([kind.to_owned(), port.to_string()]);
    let path = if kind == "sse" { "/sse" } else { "/mcp" };
    let site = Site::at(port, path, &words, &[]);
    let tap = Tap::on(&site);
    let seen = Arc::<Seen>::default();
    let client = connect(&tap.url, choice, &seen).await;
    assert_eq!(client.peer().era(), era);
    within("basics", basics(&client)).await;
    within("cancel", cancel(&client, abilities.hears_cancel)).await;
    if abilities.asks {
        within("ask", ask(&client, &seen)).await;
        let in_result = tap.was_asked("\"inputResponses\"");
        assert_eq!(in_result, era == Era::Modern, "it asks as its era does");
    }
    if abilities.changes {
        within("change", change(&client)).await;
    }
    if abilities.watches {
        within("watch", watch(&client, &seen)).await;
        let subscribed = tap.was_asked("\"resources/subscribe\"");
        assert_eq!(subscribed, era == Era::Legacy, "a modern server is listened to");
    }
    if abilities.resumes {
        within("leave", leave(&client)).await;
        assert!(tap.was_asked("last-event-id: "), "the stream was not resumed");
    }
    if abilities.sessions {
        within("restart", restart(client, site, &words, port, &tap, choice)).await;
    } else {
        within("close", client.close()).await;
    }
}

/// What a server asked and told its client.
#[derive(Default)]
struct Seen {
    questions: AtomicUsize,
    updates: Mutex<Vec<String>>,
}

async fn connect(url: &str, choice: EraChoice, seen: &Arc<Seen>) -> Client {
    let (asked, told) = (Arc::clone(seen), Arc::clone(seen));
    let builder = Client::builder("mcplane", "1")
        .revision(choice)
        .on_elicit_form(move |form| {
            assert_eq!(form.message, "Who are you?");
            asked.questions.fetch_add(1, Ordering::Relaxed);
            async { ElicitResult::accept().with("name", "Ada") }
        })
        .on_notification(move |notification| {
            if let Some(updated) = notification.parse::<ResourceUpdatedParams>().unwrap() {
                told.updates.lock().unwrap().push(updated.uri);
            }
        });
    within("connect", builder.connect(Http::new(url).unwrap())).await.unwrap()
}

async fn basics(client: &Client) {
    let names: Vec<_> =
        client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert!(["echo", "add", "steps", "sleep"].iter().all(|name| names.iter().any(|n| n == name)));
    assert_eq!(text(client, "add", json!({ "a": 2, "b": 40 })).await, "42");
    let messages = (0..24).map(|i| format!("ünïcødé 🦀 \n{i}"));
    let calls: Vec<_> = messages
        .map(|message| {
            let client = client.clone();
            tokio::spawn(async move {
                assert_eq!(text(&client, "echo", json!({ "message": message })).await, message);
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    let seen = Arc::<Mutex<Vec<f64>>>::default();
    let watched = Arc::clone(&seen);
    let call = client.call("steps", &json!({ "count": 5 }));
    let done = call.on_progress(move |at| watched.lock().unwrap().push(at.progress)).await.unwrap();
    assert_eq!(text_of(&done), "done");
    assert_eq!(*seen.lock().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0]);
}

async fn cancel(client: &Client, is_heard: bool) {
    let sleeping = client.call("sleep", &json!({ "ms": 30_000 })).start().await.unwrap();
    sleep(Duration::from_millis(200)).await;
    sleeping.cancel("enough");
    assert_eq!(text(client, "add", json!({ "a": 1, "b": 1 })).await, "2");
    let asked = Instant::now();
    while is_heard && text(client, "cancelled", json!({})).await != "1" {
        assert!(asked.elapsed() < Duration::from_secs(5), "the server did not hear of it");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn ask(client: &Client, seen: &Seen) {
    assert_eq!(text(client, "ask", json!({})).await, "accept Ada");
    assert_eq!(seen.questions.load(Ordering::Relaxed), 1);
}

async fn change(client: &Client) {
    let filter = ListenFilter { tools_list_changed: true, ..ListenFilter::default() };
    let mut changes = client.listen(filter).await.unwrap();
    assert_eq!(text(client, "change", json!({})).await, "changed");
    assert_eq!(changes.next().await.unwrap(), Some(Change::Tools));
    let tools = client.list_tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "extra"), "the new tool is not listed");
}

async fn watch(client: &Client, seen: &Seen) {
    const NOTE: &str = "memo://note";
    client.subscribe(NOTE).await.unwrap();
    assert_eq!(text(client, "touch", json!({})).await, "touched");
    while seen.updates.lock().unwrap().is_empty() {
        sleep(Duration::from_millis(20)).await;
    }
    client.unsubscribe(NOTE).await.unwrap();
    assert_eq!(text(client, "touch", json!({})).await, "touched");
    sleep(Duration::from_millis(200)).await;
    assert_eq!(*seen.updates.lock().unwrap(), [NOTE], "once, and no more when nobody wants it");
}

async fn leave(client: &Client) {
    assert_eq!(text(client, "leave", json!({})).await, "came back");
    let (first, second) =
        tokio::join!(text(client, "leave", json!({})), text(client, "leave", json!({})));
    assert_eq!((&*first, &*second), ("came back", "came back"));
}

/// A server that knows nothing of the session any more: the call says so, or the client opens a new one by itself; then all is well.
async fn restart(
    client: Client,
    site: Site,
    words: &[String],
    port: u16,
    tap: &Tap,
    choice: EraChoice,
) {
    drop(site);
    let _again = Site::at(port, "/mcp", words, &[]);
    let lost = client.call_tool("add", &json!({ "a": 1, "b": 2 })).await;
    let client = match lost {
        Ok(sum) => {
            assert_eq!(text_of(&sum), "3");
            client
        }
        Err(error) => {
            assert!(error.is_closed(), "a forgotten session is {error:?}");
            connect(&tap.url, choice, &Arc::default()).await
        }
    };
    assert_eq!(text(&client, "add", json!({ "a": 2, "b": 2 })).await, "4");
    client.close().await;
}

#[tokio::test]
async fn everything_streamable_http() {
    everything("streamableHttp", "/mcp").await;
}

#[tokio::test]
async fn everything_sse() {
    everything("sse", "/sse").await;
}

async fn everything(mode: &str, path: &str) {
    if !Peer::Ts1.is_there() {
        return;
    }
    let port = free_port();
    let mut words = npm_server("server-everything");
    words.push(mode.to_owned());
    let site = Site::at(port, path, &words, &[("PORT", &port.to_string())]);
    let client = connect(&site.url, EraChoice::Auto, &Arc::default()).await;
    assert_eq!(client.peer().era(), Era::Legacy);
    let tools = within("list", client.list_tools()).await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "get-sum"));
    let sum = within("call", text(&client, "get-sum", json!({ "a": 2, "b": 40 }))).await;
    assert_eq!(sum, "The sum of 2 and 40 is 42.");
    let uri = "demo://resource/static/document/features.md";
    assert!(!within("read", client.read_resource(uri)).await.unwrap().contents.is_empty());
    let steps = Arc::<Mutex<u32>>::default();
    let counted = Arc::clone(&steps);
    let long = client.call("trigger-long-running-operation", &json!({ "duration": 1, "steps": 4 }));
    let long = long.on_progress(move |_| *counted.lock().unwrap() += 1);
    assert!(
        text_of(&within("progress", async { long.await }).await.unwrap()).contains("completed")
    );
    assert_eq!(*steps.lock().unwrap(), 4);
    within("close", client.close()).await;
}

async fn text(client: &Client, tool: &str, arguments: Value) -> String {
    let result = client.call_tool(tool, &arguments).await;
    text_of(&result.unwrap_or_else(|error| panic!("{tool}: {error:?}")))
}

fn text_of(result: &mcplane::types::CallToolResult) -> String {
    let result = serde_json::to_value(result).unwrap();
    assert_ne!(result["isError"], true, "{result}");
    result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    timeout(CHECK_MAX, work).await.unwrap_or_else(|_| panic!("{what} took over {CHECK_MAX:?}"))
}
