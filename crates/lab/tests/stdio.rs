//! The lab against real processes, and beside floors that are processes. This executable is its own server: it starts itself again with
//! the name of a behaviour, which is why it does without the test harness.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "fake/net.rs"]
mod net;

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use mcplane_lab::results::Run;
use mcplane_lab::{
    Control, Error, Floor, Plan, Target, Transport, Until, Writes, run, serve_listening,
    serve_stdio,
};
use mcplane_process::Command;
use net::{Act, Kind, Server};
use serde_json::{Value, json};

const TESTS: &[(&str, fn())] = &[
    ("a_process_is_measured_beside_its_floor", a_process_is_measured_beside_its_floor),
    ("a_server_of_the_modern_era_gets_its_envelope", a_server_of_the_modern_era_gets_its_envelope),
    (
        "a_server_that_dies_of_the_probe_is_started_again",
        a_server_that_dies_of_the_probe_is_started_again,
    ),
    ("a_death_is_reported_with_the_last_words", a_death_is_reported_with_the_last_words),
    ("servers_that_cannot_be_spoken_to_are_named", servers_that_cannot_be_spoken_to_are_named),
    ("a_pinned_run_works", a_pinned_run_works),
    ("several_sessions_are_several_processes", several_sessions_are_several_processes),
    ("each_transport_has_its_floor", each_transport_has_its_floor),
    ("a_floor_that_does_not_listen_is_named", a_floor_that_does_not_listen_is_named),
];

fn main() {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("serve") => serve(&args.next().unwrap()),
        Some("floor") => floor(&args.collect::<Vec<_>>()),
        _ => {
            let wanted: Vec<String> =
                std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
            for (name, test) in TESTS {
                if wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())) {
                    test();
                    eprintln!("test {name} ... ok");
                }
            }
        }
    }
}

fn a_process_is_measured_beside_its_floor() {
    let run = measure(&plan(), "legacy").unwrap();
    assert!(run.is_clean(), "{:?}", run.results.first_failure);
    assert_eq!((run.results.calls_ok, run.target.era.as_str()), (4000, "legacy"));
    let floor = run.floor.unwrap();
    assert_eq!((floor.calls_ok, floor.errors.total()), (4000, 0));
    let (me, binary) = (std::env::current_exe().unwrap(), run.target.binary.unwrap());
    assert_eq!((binary.path.as_str(), binary.sha256.unwrap().len()), (me.to_str().unwrap(), 64));
    assert_eq!(run.plan.knobs.unwrap().floor, "process");
    if cfg!(target_os = "linux") {
        let ratio = run.ratios.unwrap().cpu_per_call.unwrap();
        assert!(ratio.value() > 0.1, "{ratio:?}");
        assert!(run.results.resources.rss_bytes_max > Some(0));
        assert_eq!(run.results.resources.processes_max, Some(1));
    }
}

fn a_server_of_the_modern_era_gets_its_envelope() {
    let run = measure(&plan(), "modern").unwrap();
    assert!(run.is_clean(), "{:?}", run.results.first_failure);
    assert_eq!(
        (run.target.revision.as_str(), run.target.server.as_deref()),
        ("2026-07-28", Some("s"))
    );
}

fn a_server_that_dies_of_the_probe_is_started_again() {
    let run = measure(&plan(), "fragile").unwrap();
    assert!(run.is_clean());
    assert_eq!(run.target.era.as_str(), "legacy");
}

fn a_death_is_reported_with_the_last_words() {
    let run = measure(&plan(), "mortal").unwrap();
    let broken = run.broken.as_ref().unwrap();
    assert!(broken.contains("it exited with code 7") && broken.contains("out of ink"), "{broken}");
    assert!(run.results.errors.transport >= 1 && run.results.calls_ok > 0);
}

fn servers_that_cannot_be_spoken_to_are_named() {
    for (kind, said) in [
        ("exits", "out of ink"),
        ("banner", "welcome to my server"),
        ("hangs", "no answer to initialize within"),
    ] {
        let error = measure(&plan(), kind).unwrap_err();
        let text = error.to_string();
        assert!(error.is_unreachable() && text.contains(said) && text.contains(kind), "{text}");
    }
    let nowhere = Target::Stdio(Command::new("/no/such/program"));
    let error = run(&plan(), &nowhere, &Floor::Off, &Arc::new(Control::default())).unwrap_err();
    assert!(error.is_unreachable() && error.to_string().contains("/no/such/program"), "{error}");
}

fn a_pinned_run_works() {
    if !cfg!(target_os = "linux") {
        return;
    }
    // The first core that this process may use.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let first: String = list.trim().chars().take_while(char::is_ascii_digit).collect();
    let pinned = Plan { pin: first.parse().ok(), ..plan() };
    assert!(pinned.pin.is_some());
    assert!(measure(&pinned, "legacy").unwrap().is_clean());
    // One call in flight can be compared only when it is pinned, and the report says so.
    for pin in [None, pinned.pin] {
        let alone = Plan { concurrency: 1, until: Until::Calls(100), pin, ..plan() };
        let notes = measure(&alone, "legacy").unwrap().notes;
        assert_eq!(notes.iter().any(|note| note.contains("--pin")), pin.is_none(), "{notes:?}");
    }
    let nowhere = Plan { pin: Some(1_000_000), ..plan() };
    assert!(measure(&nowhere, "legacy").unwrap_err().is_usage());
}

fn several_sessions_are_several_processes() {
    let several = Plan { sessions: 2, ..plan() };
    let run = measure(&several, "legacy").unwrap();
    assert!(run.is_clean());
    if cfg!(target_os = "linux") {
        assert_eq!(run.results.resources.processes_max, Some(2));
    }
}

fn each_transport_has_its_floor() {
    let plan = Plan { until: Until::Calls(400), sessions: 2, ..plan() };
    let kinds = [Kind::Modern, Kind::Legacy, Kind::WebSocket, Kind::Lines];
    let mut servers = Vec::from(kinds.map(|kind| Server::start(kind, |_| Act::Answer)));
    if cfg!(unix) {
        servers.push(Server::start_unix(&mcplane_lab::socket_path("test")));
    }
    for server in &servers {
        let floor = Floor::Process(Command::new(std::env::current_exe().unwrap()).arg("floor"));
        let run = run(&plan, &server.target(), &floor, &Arc::new(Control::default())).unwrap();
        assert!(run.is_clean(), "{}: {:?}", server.url, run.results.first_failure);
        let floor = run.floor.unwrap();
        let failure = &floor.first_failure;
        assert_eq!(
            (run.results.calls_ok, floor.calls_ok),
            (400, 400),
            "{}: {failure:?}",
            server.url
        );
        assert_eq!((run.results.in_flight_max, floor.in_flight_max), (16, 16), "{}", server.url);
        if cfg!(target_os = "linux") {
            assert!(floor.resources.cpu_ns_per_call > Some(0.0), "{}", server.url);
            assert_eq!(floor.resources.processes_max, Some(1), "two sessions share it");
        }
        if let Some(path) = server.url.strip_prefix("unix:") {
            std::fs::remove_file(path).unwrap();
        }
    }
}

fn a_floor_that_does_not_listen_is_named() {
    let server = Server::start(Kind::Modern, |_| Act::Answer);
    for (kind, said) in [("exits", "did not say where it listens"), ("banner", "is not an address")]
    {
        let floor =
            Floor::Process(Command::new(std::env::current_exe().unwrap()).args(["serve", kind]));
        let error = run(&plan(), &server.target(), &floor, &Arc::new(Control::default()));
        let text = error.unwrap_err().to_string();
        assert!(text.contains(said) && text.contains("--transport http"), "{text}");
    }
}

/// The floor as its own process, as the words say.
fn floor(words: &[String]) {
    let after = |flag: &str| words.iter().skip_while(|word| *word != flag).nth(1);
    let transport = match after("--transport").map(String::as_str) {
        None => return serve_stdio(Writes::PerRead).unwrap(),
        Some("http") => Transport::Http,
        Some("sse") => Transport::Sse,
        Some("ws") => Transport::WebSocket,
        Some("unix") => Transport::Unix,
        _ => Transport::Tcp,
    };
    serve_listening(transport, after("--listen").map(String::as_str), Writes::PerRead).unwrap();
}

fn plan() -> Plan {
    Plan {
        concurrency: 8,
        until: Until::Calls(4000),
        warmup: Until::Calls(100),
        timeout: Duration::from_secs(5),
        start_timeout: Duration::from_millis(1500),
        settle: Duration::ZERO,
        slices: 2,
        ..Plan::default()
    }
}

fn measure(plan: &Plan, kind: &str) -> Result<Run, Error> {
    let me = || Command::new(std::env::current_exe().unwrap());
    let target = Target::Stdio(me().args(["serve", kind]));
    let floor = Floor::Process(me().arg("floor"));
    run(plan, &target, &floor, &Arc::new(Control::default()))
}

/// A small server of one kind.
fn serve(kind: &str) {
    let mut out = io::stdout().lock();
    match kind {
        "exits" => fail(3),
        "banner" => writeln!(out, "welcome to my server").unwrap(),
        _ => {}
    }
    let mut calls = 0;
    for line in io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let Some(id) = message.get("id").cloned() else { continue };
        let method = message["method"].as_str().unwrap();
        let answer = match (kind, method) {
            ("hangs" | "banner", _) => continue,
            ("fragile", "server/discover") => fail(1),
            ("modern", _) => modern(&message),
            (_, "initialize") => {
                let version = &message["params"]["protocolVersion"];
                json!({"result": {"protocolVersion": version, "serverInfo": {"name": "s"}}})
            }
            (_, "tools/list") => json!({"result": {"tools": [{"name": "echo"}]}}),
            (_, "tools/call") => json!({"result": {"content": []}}),
            _ => json!({"error": {"code": -32601, "message": "no such method"}}),
        };
        calls += u32::from(method == "tools/call");
        if kind == "mortal" && calls > 1000 {
            fail(7);
        }
        let mut answer = answer;
        answer["jsonrpc"] = "2.0".into();
        answer["id"] = id;
        writeln!(out, "{answer}").unwrap();
    }
}

/// Answers only requests that carry the whole envelope.
fn modern(message: &Value) -> Value {
    let meta = &message["params"]["_meta"];
    let key = |name: &str| &meta[format!("io.modelcontextprotocol/{name}")];
    if key("protocolVersion") != "2026-07-28" || !key("clientCapabilities").is_object() {
        return json!({"error": {"code": -32602, "message": "no envelope"}});
    }
    match message["method"].as_str() {
        Some("server/discover") => json!({"result": {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "2"}},
        }}),
        Some("tools/list") => json!({"result": {"tools": [{"name": "echo"}]}}),
        _ => json!({"result": {"resultType": "complete", "content": []}}),
    }
}

fn fail(code: i32) -> ! {
    eprintln!("out of ink");
    std::process::exit(code)
}
