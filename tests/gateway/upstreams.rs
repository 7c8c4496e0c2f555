//! Servers that misbehave: a clear error for who called them, a worker that works again, and no
//! effect on anybody else.

use std::{
    fs,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use mcplane_tests::child::{Listening, MARK};
use serde_json::{Value, json};

use crate::{
    TIMED_OUT, UNAVAILABLE,
    client::{Client, Http, error, text},
    gateway::{Gateway, bad, eventually, folder, good},
    neighbour::Neighbours,
};

#[path = "../cli/server.rs"]
mod server;

/// The server `name` in shell: with its `n`-th call it runs `then`.
fn in_shell(name: &str, n: u32, then: &str) -> String {
    let script = server::script(n, then).replace('$', "$$");
    format!(
        "[servers.{name}]\ncommand = \"sh\"\nargs = [\"-c\", '''{script}''']\n\
         inherit_env = [{MARK:?}]\n"
    )
}

/// What the gateway has in its environment is no server's business, unless the settings say so.
#[test]
#[cfg(target_os = "linux")]
fn a_server_gets_a_small_environment() {
    let own = bad("env = {OWN = \"1\"}", &[]);
    let private = own.replace("servers.bad", "servers.private").replace(MARK, "NO_SUCH");
    let gateway = Gateway::serve(&(own + &private));
    let names = |server: &str| {
        gateway.offers(server, "echo");
        let pid = gateway.pids(server)[0];
        let variables = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
        let names = variables.split('\0').filter_map(|variable| variable.split_once('='));
        names.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    let has = |names: &[String], wanted: &str| names.iter().any(|name| name == wanted);
    let [bad, private] = [names("bad"), names("private")];
    for names in [&bad, &private] {
        assert!(["PATH", "HOME", "OWN"].iter().all(|name| has(names, name)), "{names:?}");
        // Of the test itself.
        assert!(!names.iter().any(|name| name.starts_with("CARGO")), "{names:?}");
    }
    assert!(has(&bad, MARK) && !has(&private, MARK), "{bad:?} {private:?}");
}

/// Arguments may be secrets: neither log nor status has them.
#[test]
fn what_is_secret_in_a_command_line_is_not_shown() {
    let args = format!("[\"-c\", \"exit 3\", \"--token\", \"hunter2\", \"${{{MARK}}}\"]");
    let server = format!("[servers.gone]\ncommand = \"sh\"\nargs = {args}\n");
    let gateway = Gateway::serve(&(good() + &server));
    let server = gateway.server("gone", |server| server["trouble"].is_string());
    // Later than the first line about it, which says that it is down.
    gateway.says("--token … ");
    for shown in [server.to_string(), gateway.said()] {
        assert!(shown.contains("sh -c 'exit 3' --token … "), "{shown}");
        assert!(shown.contains(&format!("${{{MARK}}}")), "{shown}");
        assert!(!shown.contains("hunter2") && !shown.contains("gateway-"), "{shown}");
    }
}

/// Where a server is, and the key in its address, is not for clients; the key is for nobody.
#[test]
fn clients_hear_the_name_of_a_server_and_not_its_address() {
    let far = Listening::start(&["--transport", "http"]);
    let place = far.url.split('/').nth(2).unwrap().to_owned();
    let url = format!("{}?key=hunter2", far.url);
    let gateway = Gateway::serve(&(good() + &format!("[servers.far]\nurl = {url:?}\n")));
    gateway.offers("far", "add");
    let mut client = gateway.modern("far");
    assert_eq!(text(&client.call("add", json!({"a": 2, "b": 40}))), "42");
    drop(far);
    for _ in 0..3 {
        let response = client.call("add", json!({"a": 2, "b": 40})).to_string();
        assert!(response.contains("server `far`"), "{response}");
        assert!(!response.contains(&place) && !response.contains("hunter2"), "{response}");
    }
    let status = gateway.status().to_string();
    assert!(!status.contains("hunter2") && !gateway.said().contains("hunter2"), "{status}");
}

/// Servers that run already, over every transport and in both eras, for clients of both.
#[test]
fn a_server_behind_an_address() {
    let socket = folder().with_extension("sock");
    let unix = format!("unix:{}", socket.display());
    let _ = fs::remove_file(&socket);
    let servers = [
        ("http", Listening::start(&["--transport", "http"])),
        ("sse", Listening::start(&["--transport", "sse"])),
        ("ws", Listening::start(&["--transport", "ws"])),
        ("tcp", Listening::start(&["--transport", "tcp"])),
        ("unix", Listening::start(&["--transport", "unix", "--listen", &unix])),
    ];
    let mut expected = Vec::new();
    let mut settings = String::new();
    for (name, Listening { url, .. }) in &servers {
        let revisions: &[&str] =
            if *name == "sse" { &["2024-11-05"] } else { &["2025-11-25", "2026-07-28"] };
        for revision in revisions {
            let server = format!("{name}-{revision}");
            settings += &format!("[servers.{server}]\nurl = {url:?}\nrevision = \"{revision}\"\n");
            expected.push((server, revision));
        }
    }
    let gateway = Gateway::serve(&settings);
    for (server, revision) in expected {
        for mut client in [gateway.modern(&server), gateway.legacy(&server)] {
            assert_eq!(text(&client.call("echo", json!({"message": server}))), server);
        }
        let served = gateway.server(&server, |server| server["state"] == "healthy");
        assert_eq!(served["revision"], *revision, "{served}");
    }
}

/// Those who watch a resource of a server somewhere else hear of it again once that has been started
/// again, and so do those who come then.
#[test]
fn a_server_behind_an_address_that_is_started_again_is_heard() {
    const WATCHED: &str = "test://watched-resource";
    for revision in ["2026-07-28", "2025-11-25"] {
        let fixture = Listening::start(&["--transport", "http"]);
        let place = fixture.url.split('/').nth(2).unwrap().to_owned();
        let far = format!("[servers.far]\nurl = {:?}\nrevision = {revision:?}\n", fixture.url);
        let gateway = Gateway::serve(&far);
        gateway.offers("far", "touch_watched");
        let watches = || {
            let mut client = gateway.legacy("far");
            let stream = client.listen(gateway.address());
            let answer = client.request("resources/subscribe", json!({"uri": WATCHED}));
            assert!(answer["result"].is_object(), "{answer}");
            (client, stream)
        };
        let hears = |stream: &mut Http| loop {
            let event = stream.event().unwrap();
            if event["method"] == "notifications/resources/updated" {
                return assert_eq!(event["params"]["uri"], WATCHED, "{event}");
            }
        };
        // Touched until so many changes were heard: the worker's connection may need a moment to know
        // of the subscription, or to be made.
        let touched = AtomicUsize::new(0);
        let touches = |stream: &mut Http, times: usize| {
            let (address, is_heard) = (gateway.address(), AtomicBool::new(false));
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_heard.load(Ordering::Relaxed) {
                        Client::modern(address, "/far/mcp").call("touch_watched", json!({}));
                        touched.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(Duration::from_millis(100));
                    }
                });
                (0..times).for_each(|_| hears(stream));
                is_heard.store(true, Ordering::Relaxed);
            });
        };
        let (_old, mut stream) = watches();
        touches(&mut stream, 1);
        let before = touched.load(Ordering::Relaxed);
        drop(fixture);
        let _again = Listening::start(&["--transport", "http", "--listen", &place]);
        let (_new, mut other) = watches();
        touches(&mut other, 1);
        // One more than there can have been before.
        touches(&mut stream, before);
    }
}

/// A gateway with the server `bad`, and clients of `good` beside it.
fn beside_the_good(gateway_keys: &str, bad_keys: &str, words: &[&str]) -> (Gateway, Neighbours) {
    let gateway = Gateway::serve(&format!("{gateway_keys}\n{}{}", good(), bad(bad_keys, words)));
    let neighbours = Neighbours::of(&gateway, "good");
    (gateway, neighbours)
}

fn worker(server: &Value, key: &str) -> u64 {
    server["workers"][0][key].as_u64().unwrap_or_else(|| panic!("no {key} in {server}"))
}

/// Noise on its stdout is counted and dropped; the calls on the same worker go on.
#[test]
fn a_server_that_talks_too_much() {
    let (gateway, neighbours) = beside_the_good("", "", &["--banner"]);
    let others = Neighbours::of(&gateway, "bad");
    let mut client = gateway.modern("bad");
    assert_eq!(text(&client.call("notes", json!({"count": 20_000}))), "said it all");
    assert_eq!(text(&client.call("garbage", json!({"count": 5_000}))), "said it all");
    let server = gateway.server("bad", |_| true);
    assert!(worker(&server, "strays") >= 5_000 && worker(&server, "restarts") == 0, "{server}");
    others.are_well();
    neighbours.are_well();
}

/// What talks nonsense without end is no server: it is replaced.
#[test]
fn a_server_that_only_talks_nonsense() {
    let (gateway, neighbours) = beside_the_good("", "", &[]);
    let mut client = gateway.modern("bad");
    let response = client.call("garbage", json!({"count": 20_000}));
    let (code, why) = error(&response);
    assert!(code == UNAVAILABLE && why.contains("not messages"), "{response}");
    assert_eq!(text(&client.call("echo", json!({"message": "again"}))), "again");
    neighbours.are_well();
}

/// Answers to nobody, and second answers, reach nobody.
#[test]
fn a_server_that_answers_wrongly() {
    let (gateway, neighbours) = beside_the_good("call_timeout = \"600ms\"", "", &[]);
    let others = Neighbours::of(&gateway, "bad");
    let mut clients = [gateway.modern("bad"), gateway.legacy("bad")];
    for client in &mut clients {
        let response = client.call("wrong_id", json!({}));
        assert_eq!(error(&response).0, TIMED_OUT, "{response}");
        assert_eq!(text(&client.call("twice", json!({}))), "the first");
        assert_eq!(text(&client.call("echo", json!({"message": "third"}))), "third");
    }
    let server = gateway.server("bad", |server| worker(server, "late") >= 4);
    assert_eq!(worker(&server, "restarts"), 0, "{server}");
    others.are_well();
    neighbours.are_well();
}

/// An answer that is no message ends its call at once, with the reason.
#[test]
fn a_server_whose_answers_are_no_messages() {
    let (gateway, neighbours) = beside_the_good("", "", &[]);
    let mut clients = [gateway.modern("bad"), gateway.legacy("bad")];
    for (how, expected) in [
        "`result` must be an object",
        "invalid UTF-8",
        "nested deeper",
        "duplicate key \"result\"",
        "key \"Result\"",
        "invalid JSON",
        "either `method`, or `result`",
    ]
    .into_iter()
    .enumerate()
    {
        for client in &mut clients {
            let response = client.call("mangled", json!({"how": how}));
            let (_, why) = error(&response);
            assert!(why.contains("breaks the protocol") && why.contains(expected), "{response}");
        }
    }
    let server = gateway.server("bad", |server| worker(server, "strays") >= 14);
    assert!(server["state"] == "healthy" && worker(&server, "restarts") == 0, "{server}");
    neighbours.are_well();
}

/// Who makes a server answer an id of their choice cannot know that of another's call.
#[test]
fn ids_that_nobody_can_guess() {
    let gateway = Gateway::serve(&bad("", &[]));
    let mut client = gateway.modern("bad");
    let mut id = || text(&client.call("id", json!({}))).parse::<i64>().unwrap();
    let ids: Vec<i64> = (0..8).map(|_| id()).collect();
    assert!(ids.iter().all(|id| (1..1 << 53).contains(id)), "{ids:?}");
    assert!(ids.windows(2).all(|two| two[0].abs_diff(two[1]) > 1_000), "{ids:?}");
}

/// A call without an answer costs its own caller the wait, and nobody else; the server hears that
/// nobody waits. Late answers change nothing.
#[test]
fn a_server_that_never_answers() {
    let (gateway, neighbours) = beside_the_good("call_timeout = \"400ms\"", "", &[]);
    let others = Neighbours::of(&gateway, "bad");
    for (tool, arguments) in [("silent", json!({})), ("sleep", json!({"ms": 700}))] {
        let began = Instant::now();
        let response = gateway.modern("bad").call(tool, arguments);
        let (code, why) = error(&response);
        assert!(code == TIMED_OUT && why.contains("tools/call"), "{response}");
        assert!((300..3000).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    }
    let mut client = gateway.modern("bad");
    assert_eq!(text(&client.call("cancelled", json!({}))), "2");
    gateway.server("bad", |server| worker(server, "late") == 1 && server["state"] == "healthy");
    others.are_well();
    neighbours.are_well();
}

/// Three silences in a row, and a worker gets nothing before it has answered a probe.
#[test]
fn a_server_that_never_answers_is_set_aside_until_it_does() {
    let (gateway, neighbours) = beside_the_good("call_timeout = \"600ms\"", "", &[]);
    let mut client = gateway.modern("bad");
    for _ in 0..3 {
        assert_eq!(error(&client.call("silent", json!({}))).0, TIMED_OUT);
    }
    let server = gateway.server("bad", |server| server["state"] == "quarantined");
    assert_eq!(worker(&server, "restarts"), 0, "{server}");
    // None waits for the probe for longer than a call may take.
    assert_eq!(error(&client.call("echo", json!({"message": "early"}))).0, -31997);
    gateway.server("bad", |server| server["state"] != "quarantined");
    assert_eq!(text(&client.call("echo", json!({"message": "back"}))), "back");
    gateway.server("bad", |server| server["state"] == "healthy");
    neighbours.are_well();
}

/// More than any message may have: told as such, whole or not, and never kept.
#[test]
fn a_server_that_sends_100_mb_in_one_line() {
    let (gateway, neighbours) = beside_the_good("", "", &[]);
    let memory = || {
        let status = fs::read_to_string(format!("/proc/{}/status", gateway.pid()));
        let line =
            status.unwrap().lines().find(|line| line.starts_with("VmHWM")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let mut client = gateway.modern("bad");
    let before = memory();
    let response = client.call("huge", json!({"mb": 100}));
    let (code, why) = error(&response);
    assert!(code == -32603 && why.contains("bytes"), "{response}");
    assert!(memory() < before + 60_000, "{} kB", memory());
    assert_eq!(text(&client.call("echo", json!({"message": "again"}))), "again");
    assert_eq!(worker(&gateway.server("bad", |_| true), "restarts"), 0);
    neighbours.are_well();
}

/// Every call in flight ends once, with an error that says that nobody knows what it did; the next
/// one meets a new worker.
#[test]
fn a_server_that_dies_in_the_middle() {
    let (gateway, neighbours) = beside_the_good("", "", &[]);
    let mut client = gateway.legacy("bad");
    let before = text(&client.call("pid", json!({}))).to_owned();
    let mut waiting = gateway.modern("bad");
    let waiting = thread::spawn(move || waiting.call("silent", json!({})));
    gateway.server("bad", |server| worker(server, "in_flight") == 1);
    for response in [client.call("die", json!({})), waiting.join().unwrap()] {
        let (code, why) = error(&response);
        assert!(code == UNAVAILABLE && why.contains("may or may not"), "{response}");
        assert!(why.contains("code 7") && !why.contains("bad-server"), "{response}");
    }
    assert_ne!(text(&client.call("pid", json!({}))), before);
    gateway.says("exited with code 7");
    neighbours.are_well();
}

/// Nothing of a server is left when it is gone, however deaf it is.
#[test]
fn a_server_whose_children_outlive_it() {
    let (gateway, neighbours) = beside_the_good("", "", &[]);
    let mut client = gateway.modern("bad");
    gateway.starts_child("bad", "fork");
    assert_eq!(error(&client.call("die", json!({}))).0, UNAVAILABLE);
    assert_eq!(text(&client.call("echo", json!({"message": "again"}))), "again");
    gateway.runs_no("sleep 600");
    neighbours.are_well();
}

/// It is replaced, its callers do not notice, and why is said for as long as there is no other.
#[test]
fn a_server_that_uses_too_much_memory() {
    // The first clients wait for a tenth of `ready`, which is more than the server takes to start.
    let (keys, late) = ("memory_max = \"64MiB\"", ["--late", "1000"]);
    let (gateway, neighbours) = beside_the_good("ready = \"60s\"", keys, &late);
    let mut client = gateway.modern("bad");
    assert_eq!(text(&client.call("grow", json!({"mb": 20}))), "grown");
    let before = text(&client.call("pid", json!({}))).to_owned();
    // Two looks, a second apart, find nothing to complain about.
    thread::sleep(Duration::from_millis(2200));
    assert_eq!(text(&client.call("pid", json!({}))), before);

    let callers = Neighbours::of(&gateway, "bad");
    assert_eq!(text(&client.call("grow", json!({"mb": 80}))), "grown");
    let is_memory =
        |trouble: &Value| trouble.as_str().is_some_and(|why| why.contains("of memory, and 64MiB"));
    gateway.server("bad", |server| is_memory(&server["trouble"]));
    gateway.says("bytes of memory, and 64MiB is the most");
    let after = text(&client.call("pid", json!({}))).to_owned();
    assert_ne!(after, before);
    gateway.server("bad", |server| server["trouble"].is_null() && server["state"] == "healthy");
    eventually(|| match gateway.processes().iter().any(|(id, _)| id.to_string() == before) {
        false => Ok(()),
        true => Err(format!("{before} lives on")),
    });
    callers.are_well();
    neighbours.are_well();
}

/// Without its stdout it cannot be spoken to: its process is stopped, and another one started.
#[test]
fn a_server_that_closes_its_output_and_lives() {
    let gateway = Gateway::serve(&(good() + &in_shell("mute", 2, "exec >&-; exec sleep 600")));
    let neighbours = Neighbours::of(&gateway, "good");
    let mut client = gateway.modern("mute");
    let before = gateway.pids("mute");
    assert_eq!(text(&client.call("echo", json!({}))), "hello");
    let (code, why) = {
        let response = client.call("echo", json!({}));
        let (code, why) = error(&response);
        (code, why.to_owned())
    };
    assert!(code == UNAVAILABLE && why.contains("closed"), "{why}");
    assert_eq!(text(&client.call("echo", json!({}))), "hello");
    assert_ne!(gateway.pids("mute"), before);
    eventually(|| match gateway.processes().iter().find(|(_, line)| line.starts_with("sleep")) {
        None => Ok(()),
        Some(left) => Err(format!("{left:?} lives on")),
    });
    neighbours.are_well();
}

/// The end of its input and SIGTERM are not enough: at the end it is killed, and the gateway ends.
#[test]
fn a_server_that_does_not_want_to_end() {
    let program = env!("CARGO_BIN_EXE_bad-server");
    let script = format!("trap '' TERM; exec '{program}' --stubborn");
    let mut gateway = Gateway::serve_words(&["--", "sh", "-c", &script]);
    assert_eq!(text(&gateway.modern("server").call("echo", json!({"message": "hi"}))), "hi");
    let began = Instant::now();
    gateway.signal("TERM");
    assert_eq!(gateway.code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    gateway.leaves_nothing();
}

/// It does not read what it is sent: its callers are told, and others are not held up.
#[test]
fn a_server_that_does_not_read() {
    let script = in_shell("deaf", 1, "exec sleep 600");
    let settings = format!(
        "call_timeout = \"1s\"
{}{script}",
        good()
    );
    let gateway = Gateway::serve(&settings);
    let neighbours = Neighbours::of(&gateway, "good");
    let calls = (0..8).map(|_| {
        let mut client = gateway.modern("deaf");
        thread::spawn(move || client.call("echo", json!({"message": "x".repeat(200_000)})))
    });
    for call in calls.collect::<Vec<_>>() {
        let response = call.join().unwrap();
        assert_eq!(error(&response).0, TIMED_OUT, "{response}");
    }
    neighbours.are_well();
}

/// A call that ends the server each time costs whoever makes it, and not everybody the restarts that
/// the server has.
#[test]
fn a_call_that_ends_its_worker_does_not_use_up_everybodys_restarts() {
    let tokens = "tokens = {alice = \"a-secret\", bob = \"b-secret\"}\n";
    let gateway = Gateway::serve(&format!("{tokens}{}", bad("", &[])));
    let address = gateway.address();
    let of = |token: &str| Client::known(address, "/bad/mcp", token);
    let (mut alice, mut bob) = (of("a-secret"), of("b-secret"));
    let mut refused = 0;
    for round in 0..20 {
        let response = alice.call("die", json!({}));
        let (code, why) = error(&response);
        assert_eq!(code, UNAVAILABLE, "{response}");
        refused +=
            u32::from(why.contains("3 times in a row with this client's `tools/call` of \"die\""));
        assert_eq!(text(&bob.call("echo", json!({"message": "well"}))), "well", "{round}");
    }
    assert_eq!(refused, 17);
    // What else she calls is as good as anybody's, and to be fair he may try.
    assert_eq!(text(&alice.call("echo", json!({"message": "well"}))), "well");
    let response = bob.call("die", json!({}));
    assert!(error(&response).1.contains("exited with code 7"), "{response}");
}

/// To give such a call up while it runs is no way around that.
#[test]
fn a_call_that_ends_its_worker_is_known_when_its_client_has_gone() {
    let gateway = Gateway::serve(&bad("", &[]));
    let mut other = gateway.modern("bad");
    for round in 1..=3 {
        let mut client = gateway.modern("bad");
        let call = json!({"name": "die", "arguments": {"ms": 300}});
        let message = client.message("tools/call", call);
        client.begin(&message);
        gateway.server("bad", |server| worker(server, "in_flight") == 1);
        drop(client);
        gateway.server("bad", |server| {
            worker(server, "restarts") == round && server["state"] == "healthy"
        });
        assert_eq!(text(&other.call("echo", json!({"message": "well"}))), "well", "{round}");
    }
    let response = other.call("die", json!({}));
    assert!(error(&response).1.contains("3 times in a row"), "{response}");
}

fn signal_to(pid: &str, name: &str) {
    let status = std::process::Command::new("kill").args([&format!("-{name}"), pid]).status();
    assert!(status.unwrap().success(), "no process {pid}");
}

/// It runs and answers nobody: while it is idle it is asked now and then, and when it has let a call
/// time out, at once.
#[test]
fn a_server_that_is_frozen() {
    let keys = "probe = {every = \"1s\", timeout = \"500ms\"}";
    let gateway = Gateway::serve(&format!("call_timeout = \"2s\"\n{}{}", good(), bad(keys, &[])));
    let neighbours = Neighbours::of(&gateway, "good");
    let mut client = gateway.modern("bad");
    let mut pid = || text(&client.call("pid", json!({}))).to_owned();
    let idle = pid();
    // It is asked for the first time, and answers.
    thread::sleep(Duration::from_millis(2500));
    signal_to(&idle, "STOP");
    gateway.server("bad", |server| {
        server["workers"][0]["pid"].as_u64().is_some_and(|pid| pid.to_string() != idle)
            && server["state"] == "healthy"
    });
    let busy = pid();
    assert_ne!(busy, idle);
    // A call that is only slow does not cost the worker.
    let mut slow = gateway.modern("bad");
    assert_eq!(error(&slow.call("silent", json!({}))).0, TIMED_OUT);
    thread::sleep(Duration::from_millis(2500));
    assert_eq!(pid(), busy);
    let calling = thread::spawn(move || slow.call("sleep", json!({"ms": 1000})));
    gateway.server("bad", |server| worker(server, "in_flight") == 1);
    signal_to(&busy, "STOP");
    let began = Instant::now();
    assert_eq!(error(&calling.join().unwrap()).0, TIMED_OUT);
    gateway.server("bad", |server| {
        server["workers"][0]["pid"].as_u64().is_some_and(|pid| pid.to_string() != busy)
            && server["state"] == "healthy"
    });
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    neighbours.are_well();
}

/// A server that knows no `ping` is not judged by it.
#[test]
fn a_server_that_answers_no_probe_is_let_alone() {
    let keys = "probe = {every = \"1s\", timeout = \"200ms\", misses = 1}\n";
    let mute = in_shell("mute", 1_000, "exit")
        .replace("*) result=", "*'\"ping\"'*) continue ;;\n    *) result=");
    let gateway = Gateway::serve(&(mute + keys));
    let pids = gateway.pids("mute");
    thread::sleep(Duration::from_secs(4));
    assert_eq!(gateway.pids("mute"), pids);
}

/// At its own endpoint a server judges names itself that it does not list, unless the settings hold some
/// back; at the endpoint of all, nobody knows whose they would be.
#[test]
fn a_name_that_no_list_has() {
    let unlisted = |gateway: &Gateway, path: &str| {
        gateway.offers("bad", "echo");
        Client::modern(gateway.address(), path).call("unlisted", json!({}))
    };
    let gateway = Gateway::serve(&bad("", &[]));
    assert_eq!(text(&unlisted(&gateway, "/bad/mcp")), "`unlisted` does nothing");
    let response = unlisted(&gateway, "/mcp");
    assert_eq!(error(&response), (-32602, "unknown tool: unlisted"));
    for rule in ["deny = [\"die\"]", "allow = [\"echo\"]", "rename = {pid = \"pod\"}"] {
        let gateway = Gateway::serve(&(bad("", &[]) + &format!("[servers.bad.tools]\n{rule}\n")));
        let response = unlisted(&gateway, "/bad/mcp");
        assert_eq!(error(&response), (-32602, "unknown tool: unlisted"), "{rule}");
    }
}
