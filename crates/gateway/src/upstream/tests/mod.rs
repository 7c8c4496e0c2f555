//! Servers that are real processes, and what their gateway says of them.

mod asking;
mod closing;
pub(super) mod dice;
mod fake;
mod far;
mod fresh;
mod greeting;
mod hops;
mod losses;
mod memory;
mod raw;
mod sides;
mod subscriptions;
mod times;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcplane::Client;
use mcplane::proto::version::Revision;
use mcplane::transport::memory::pair;
use tokio::time::{sleep, timeout};

use super::state::State;
use crate::admin::{CauseStatus, ServerState, ServerStatus, WorkerState};
use crate::clock;
use crate::config::{Config, Period, Server, Size, Speaks};
use crate::gateway::Gateway;

/// How long something may take that has to come.
const LIMIT: Duration = Duration::from_secs(20);

/// A server that reads and says nothing.
const SILENT: &str = "while read -r line; do :; done";

/// A server with four tools.
const TALKING: &str = r#"
say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
tool() { printf '{"name":"%s","inputSchema":{"type":"object"}}' "$1"; }
while read -r line; do
    id=${line#*'"id":'}; id=${id%%[,\}]*}
    case $line in
        *'"initialize"'*) say '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},
            "serverInfo":{"name":"s","version":"1"}}' | tr -d '\n'; echo ;;
        *'"tools/list"'*)
            say "{\"tools\":[$(tool echo),$(tool sleep),$(tool add),$(tool more)]}" ;;
    esac
done"#;

fn in_shell(script: &str) -> Server {
    let args = vec!["-c".to_owned(), script.to_owned()];
    let revision = Speaks::Revision(Revision::V2025_11_25);
    Server { command: Some("sh".into()), args, revision, ..Server::default() }
}

/// Settings with the server `one`.
fn with(server: Server) -> Config {
    let mut config = Config::default();
    // Nothing is kept on the disk.
    config.gateway.state_dir = Some("/dev/null/nowhere".into());
    config.servers.insert("one", server);
    config
}

/// How the server is as soon as it is as wanted.
async fn one(gateway: &Gateway, wanted: impl Fn(&ServerStatus) -> bool) -> ServerStatus {
    let began = Instant::now();
    loop {
        let status = gateway.status().servers.remove(0);
        if wanted(&status) {
            return status;
        }
        assert!(began.elapsed() < LIMIT, "{status:#?}");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn client(gateway: &Gateway) -> Client {
    let (ours, theirs) = pair();
    let service = gateway.service();
    tokio::spawn(async move { service.serve(theirs).await });
    Client::builder("c", "1").connect(ours).await.unwrap()
}

fn says(status: &ServerStatus, part: &str) -> bool {
    status.trouble.as_ref().is_some_and(|trouble| trouble.contains(part))
}

/// To be replaced is to be started again: the budget holds, and then nobody waits any more.
#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_server_that_is_always_too_big_is_given_up() {
    let mut server = in_shell(SILENT);
    server.memory_max = Some(Size::of_bytes(1));
    server.restart.budget = 2;
    let gateway = Gateway::start(with(server)).unwrap();
    let client = client(&gateway).await;
    let waiting = tokio::spawn(async move { client.read_resource("x:1").await });
    let given_up = |status: &ServerStatus| {
        status.workers.iter().all(|worker| worker.state == WorkerState::Down)
    };
    let status = one(&gateway, |status| given_up(status) && says(status, "of memory")).await;
    assert_eq!(status.workers[0].restarts, 2, "{status:#?}");
    let error = timeout(LIMIT, waiting).await.unwrap().unwrap().unwrap_err().to_string();
    assert!(error.contains("too much memory"), "{error}");
    sleep(Duration::from_secs(2)).await;
    let status = one(&gateway, |_| true).await;
    assert!(status.next_start_s.is_some_and(|time| time > 20), "{status:#?}");
    assert!(matches!(status.cause, Some(CauseStatus::Memory { max_bytes: 1, .. })), "{status:#?}");
    assert!(given_up(&status) && status.workers[0].pid.is_none(), "{status:#?}");
    gateway.close().await;
}

/// The settings bound how long it is waited for, and a call waits no longer.
#[tokio::test]
async fn a_server_that_nobody_approves_is_given_up() {
    let mut server = in_shell(SILENT);
    server.approval = Period::of_s(1);
    let gateway = Gateway::start(with(server)).unwrap();
    let client = client(&gateway).await;
    let began = Instant::now();
    let error = client.read_resource("x:1").await.unwrap_err().to_string();
    assert!(error.contains("no answer to `initialize` within 1 s"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    gateway.close().await;
}

/// A probe may fail after its worker was let go: that needs no other one, in a lane that is nobody's.
#[tokio::test]
async fn a_worker_that_leaves_is_not_replaced_and_stays_so() {
    let gateway = Gateway::start(with(in_shell(TALKING))).unwrap();
    gateway.ready().await;
    let pool = Arc::clone(&gateway.upstreams()[0].pool);
    let worker = Arc::clone(&pool.workers()[0]);
    pool.retire(&worker, clock::now() + LIMIT);
    pool.replace(&worker, Duration::ZERO);
    for state in [State::Starting, State::Healthy, State::Quarantined] {
        worker.set_state(state);
        assert_eq!(worker.state(), State::Leaving);
    }
    assert!(pool.workers().iter().all(|other| other.number == worker.number));
    timeout(LIMIT, gateway.close()).await.unwrap();
}

/// A call during which its process ends is lost, and put down to it; the next worker is there for others.
#[tokio::test]
async fn a_call_is_lost_with_its_process() {
    let script = TALKING.replace("esac", "*'\"tools/call\"'*) exit 7 ;;\n    esac");
    let gateway = Gateway::start(with(in_shell(&script))).unwrap();
    let client = client(&gateway).await;
    gateway.ready().await;
    let nothing = serde_json::json!({});
    let call = client.call_tool("echo", &nothing);
    let error = timeout(LIMIT, call).await.unwrap().unwrap_err().to_string();
    assert!(error.contains("its process exited with code 7"), "{error}");
    let status = one(&gateway, |status| status.state == ServerState::Healthy).await;
    assert_eq!((status.calls.lost, status.workers[0].restarts), (1, 1), "{status:#?}");
    gateway.close().await;
}

/// How a process ended is known before it is told.
#[tokio::test]
async fn a_server_that_ends_before_it_answers_does_not_run() {
    let gateway = Gateway::start(with(in_shell("read -r line; echo no luck >&2; exit 3"))).unwrap();
    let status = one(&gateway, |status| status.trouble.is_some()).await;
    assert!(says(&status, "closed the connection before it answered"), "{status:#?}");
    assert!(says(&status, "exited with code 3"), "{status:#?}");
    let cause = serde_json::to_value(status.cause.unwrap()).unwrap();
    let process = serde_json::json!({"code": 3, "signal": null, "last_lines": ["no luck"]});
    assert_eq!((&cause["kind"], &cause["process"]), (&"handshake".into(), &process), "{cause}");
    gateway.close().await;
}

#[tokio::test]
async fn what_clients_see_is_counted_and_a_name_that_is_taken_is_told() {
    let mut server = in_shell(TALKING);
    server.tools.allow = ["echo", "sleep", "add"].map(str::to_owned).to_vec();
    let plain = with(server.clone());
    server.tools.rename.insert("echo".into(), "sleep".into());
    let gateway = Gateway::start(with(server)).unwrap();
    let mut troubles = gateway.troubles();
    let told = "servers.one.tools.rename.echo: another tool is called `sleep`";
    let status = one(&gateway, |status| says(status, told)).await;
    assert_eq!(
        (status.state, status.offers.unwrap().tools),
        (ServerState::Healthy, 3),
        "{status:#?}"
    );
    let said = troubles.next().await.unwrap();
    assert!(said.starts_with(&format!("one: {told}")), "{said}");
    gateway.reload(plain).await.unwrap();
    let status = one(&gateway, |status| status.trouble.is_none()).await;
    assert_eq!(status.offers.unwrap().tools, 3, "{status:#?}");
    gateway.close().await;
}

/// A server that lists this tool and this resource.
fn offering(tool: &str, uri: &str) -> Server {
    in_shell(&format!(
        r#"
say() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$1"; }}
while read -r line; do
    id=${{line#*'"id":'}}; id=${{id%%[,\}}]*}}
    case $line in
        *'"initialize"'*) say '{{"protocolVersion":"2025-11-25","serverInfo":{{"name":"s","version":"1"}},"capabilities":{{"tools":{{}},"resources":{{}}}}}}' ;;
        *'"tools/list"'*) say '{{"tools":[{{"name":"{tool}","inputSchema":{{"type":"object"}}}}]}}' ;;
        *'"resources/list"'*) say '{{"resources":[{{"name":"r","uri":"{uri}"}}]}}' ;;
        *'"resources/templates/list"'*) say '{{"resourceTemplates":[]}}' ;;
    esac
done"#
    ))
}

#[tokio::test]
async fn a_name_and_a_uri_of_another_server_are_told_once_and_shown() {
    let mut config = with(offering("echo", "x:1"));
    config.servers.insert("two", offering("gone__echo", "x:1"));
    config.servers.insert("gone", Server { disabled: true, ..in_shell(SILENT) });
    let gateway = Gateway::start(config).unwrap();
    let mut troubles = gateway.troubles();
    let status = loop {
        let status = gateway.status().servers.remove(1);
        if status.shadowed_total == 2 {
            break status;
        }
        sleep(Duration::from_millis(20)).await;
    };
    let shown: Vec<_> = status.shadowed.iter().map(|s| (s.kind, &*s.name, &*s.by)).collect();
    assert_eq!(shown, [("tool", "gone__echo", "gone"), ("resource", "x:1", "one")]);
    assert_eq!(status.shadowed[0].seen_as.as_deref(), Some("two__gone__echo"));
    assert!(says(&status, "\"gone__echo\" has the name of server `gone`"), "{status:#?}");
    let told = timeout(LIMIT, troubles.next()).await.unwrap().unwrap();
    assert!(told.starts_with("two: its tool \"gone__echo\""), "{told}");
    // At its own endpoint it can be taken for nobody else.
    let client = client(&gateway).await;
    let tools = client.list_tools().await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["echo", "two__gone__echo"]);
    gateway.close().await;
}

/// A list that names a resource may come later than the client that watches it.
#[tokio::test]
async fn a_resource_is_watched_at_the_server_that_turns_out_to_have_it() {
    let folder = std::env::temp_dir().join(format!("mcplane-watch-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let note = |name: &str| folder.join(name);
    // Each subscription is noted in a file; the server `two` takes its time.
    let server = |name: &str, uri: &str, late: &str| {
        let mut server = offering(name, uri);
        let told = format!(
            r#"*'"resources/subscribe"'*) echo "$line" >> {:?}; say '{{}}' ;;"#,
            note(name)
        );
        let script =
            server.args[1].replace("*'\"tools/list\"'*)", &format!("{told}\n*'\"tools/list\"'*)"));
        let script = script.replace(r#""resources":{}"#, r#""resources":{"subscribe":true}"#);
        server.args[1] = format!("sleep {late}\n{script}");
        server
    };
    let mut config = with(server("one", "x:1", "0"));
    config.servers.insert("two", server("two", "x:2", "1"));
    let gateway = Gateway::start(config).unwrap();
    one(&gateway, |status| status.offers.is_some()).await;
    let mut client = raw::raw(&gateway);
    client.initialize(serde_json::json!({})).await;
    client.request(1, "resources/subscribe", serde_json::json!({"uri": "x:2"})).await;
    assert_eq!(client.hear().await["id"], 1);
    let began = Instant::now();
    while !note("two").exists() {
        assert!(began.elapsed() < LIMIT, "the server that has it was not told");
        sleep(Duration::from_millis(20)).await;
    }
    let told = std::fs::read_to_string(note("two")).unwrap();
    assert!(told.contains("x:2"), "{told}");
    gateway.close().await;
    std::fs::remove_dir_all(folder).unwrap();
}

/// A server of which one list fails and one never comes.
const PARTLY: &str = r#"
say() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
while read -r line; do
    id=${line#*'"id":'}; id=${id%%[,\}]*}
    case $line in
        *'"initialize"'*) say '"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},"capabilities":{"tools":{},"resources":{},"prompts":{}}}' ;;
        *'"tools/list"'*) say '"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}' ;;
        *'"resources/list"'*) say '"error":{"code":-32603,"message":"the disk is on fire"}' ;;
        *'"resources/templates/list"'*) say '"result":{"resourceTemplates":[]}' ;;
    esac
done"#;

#[tokio::test]
async fn a_list_that_fails_and_one_that_hangs_do_not_hide_the_others() {
    let mut config = with(in_shell(PARTLY));
    config.gateway.list_deadline = Period::of_s(1);
    let gateway = Gateway::start(config).unwrap();
    let mut troubles = gateway.troubles();
    // Served while the prompts may come yet.
    gateway.listed().await;
    let status = one(&gateway, |status| status.offers.is_some()).await;
    assert_eq!(
        (status.state, status.offers.unwrap().tools),
        (ServerState::Healthy, 1),
        "{status:#?}"
    );
    let client = client(&gateway).await;
    assert_eq!(client.list_tools().await.unwrap().len(), 1);
    let error = |status: &ServerStatus, list: &str| {
        let list = status.lists.iter().find(|one| one.list == list);
        list.and_then(|list| list.error.clone())
    };
    let status = one(&gateway, |status| error(status, "prompts/list").is_some()).await;
    let failed = error(&status, "resources/list").unwrap();
    assert!(failed.contains("on fire"), "{status:#?}");
    assert_eq!(error(&status, "tools/list"), None, "{status:#?}");
    assert!(says(&status, "resources/list: the disk is on fire"), "{status:#?}");
    let told = timeout(LIMIT, troubles.next()).await.unwrap().unwrap();
    assert!(told.contains("prompts/list") && told.contains("on fire"), "{told}");
    gateway.close().await;
}
