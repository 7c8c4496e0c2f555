//! Commands that look for a gateway that runs: how they find it, `connect` and `negotiate`.

use std::{fs, io, process::Command};

use mcplane_tests::child::binary;
use serde_json::{Value, json};

use crate::{
    client::{initialize, legacy_call, text},
    gateway::{Gateway, bad, eventually, good},
};

/// Two servers with some of the same tools.
fn two() -> String {
    good() + &bad("", &[])
}

fn url(gateway: &Gateway) -> String {
    format!("http://{}/mcp", gateway.address())
}

/// The whole of what a client has to say, all at once, before there is any answer to read.
fn at_once() -> String {
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let listed = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let called = legacy_call(2, "add", json!({"a": 2, "b": 40}));
    format!("{}\n{initialized}\n{listed}\n{called}\n", initialize(0))
}

fn answers(said: &str) -> Vec<Value> {
    said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Nobody has to wait for answers before the next request: `connect` does.
#[test]
fn a_client_that_says_everything_at_once() {
    let gateway = Gateway::serve(&good());
    let ended = gateway.beside(&[], &["connect"], &at_once()).ok().left_nothing();
    let answers = answers(&ended.stdout);
    let answer = |id: i64| {
        let found = answers.iter().find(|answer| answer["id"] == id);
        found.unwrap_or_else(|| panic!("no {id} in {ended}"))
    };
    assert_eq!(answer(0)["result"]["protocolVersion"], "2025-11-25", "{ended}");
    assert!(answer(1)["result"]["tools"].is_array(), "{ended}");
    assert_eq!(text(answer(2)), "42");
    assert_eq!(answers.len(), 3, "{ended}");
}

/// The command line, then the variable, then the discovery file, then the default.
#[test]
fn the_gateway_is_found_in_this_order() {
    let gateway = Gateway::serve(&two());
    let (all, one) = (url(&gateway), format!("http://{}/good/mcp", gateway.address()));
    let nowhere = "http://127.0.0.1:9/mcp";
    let variable = |url: &str| format!("MCPLANE_ENDPOINT={url}");
    let (here, elsewhere) = (variable(&one), variable(nowhere));
    for (variables, words, found) in [
        (&[&*elsewhere][..], &["connect", "--url", &one][..], (&one, "the command line")),
        (&[&*elsewhere], &["connect", &one], (&one, "the command line")),
        (&[&*here], &["connect"], (&one, "MCPLANE_ENDPOINT")),
        (&["MCPLANE_ENDPOINT="], &["connect"], (&all, "the discovery file")),
    ] {
        let ended = gateway.beside(variables, words, &at_once()).ok();
        let told = format!("connecting to {} (from {})", found.0, found.1);
        assert!(ended.stderr.contains(&told), "no {told:?} in {ended}");
        assert_eq!(answers(&ended.stdout)[0]["result"]["protocolVersion"], "2025-11-25", "{ended}");
    }
    let ended = gateway.beside(&["XDG_STATE_HOME=/nowhere"], &["connect"], "").ok();
    let told = "connecting to http://127.0.0.1:8765/mcp (from the default)";
    assert!(ended.stderr.contains(told), "{ended}");
}

/// Whatever the gateway listens on, and whether it asks for a token there or not.
#[test]
fn a_gateway_at_any_kind_of_address() {
    let listen =
        "listen = [\"127.0.0.1:0\", \"unix:gateway.sock\"]\ntokens = { me = \"secret\" }\n";
    let gateway = Gateway::serve(&(listen.to_owned() + &good()));
    let unix = format!("unix:{}", gateway.file("gateway.sock").display());
    let websocket = format!("ws://{}/mcp", gateway.address());
    for url in [unix, websocket] {
        let ended = gateway.beside(&["MCPLANE_TOKEN=secret"], &["connect", &url], &at_once()).ok();
        let answers = answers(&ended.stdout);
        assert_eq!(answers[0]["result"]["protocolVersion"], "2025-11-25", "{ended}");
        let called = answers.iter().find(|answer| answer["id"] == 2);
        assert_eq!(text(called.unwrap()), "42", "{ended}");
    }
    let ended = gateway.beside(&[], &["connect", "localhost:1"], "").code(1);
    let told = "`localhost:1` is not an address: the scheme is missing; write http://";
    assert!(ended.stderr.contains(told), "{ended}");
}

/// Of several gateways one that runs is found, however the others ended.
#[test]
fn a_gateway_that_is_gone_is_not_found() {
    let mut first = Gateway::serve(&good());
    let found = |first: &Gateway| first.beside(&[], &["connect"], "").ok().stderr;
    let announced = format!("{} (from the discovery file)", url(&first));
    assert!(found(&first).contains(&announced), "{}", found(&first));
    for signal in ["TERM", "KILL"] {
        let mut second = first.again();
        let second_is = format!("{} (from the discovery file)", url(&second));
        eventually(|| match found(&first) {
            said if said.contains(&announced) || said.contains(&second_is) => Ok(()),
            said => Err(said),
        });
        second.signal(signal);
        second.code();
        assert!(found(&first).contains(&announced), "{}", found(&first));
    }
    first.signal("KILL");
    first.code();
    assert!(found(&first).contains("(from the default)"), "{}", found(&first));
    let left = fs::read_dir(first.file("state/mcplane/gateways")).unwrap().count();
    assert_eq!(left, 0);
}

/// What is found can be called under the name that is told.
#[test]
fn negotiate_tells_what_to_call() {
    let gateway = Gateway::serve(&two());
    gateway.offers("good", "add");
    gateway.offers("bad", "die");
    let negotiate = |words: &[&str]| gateway.beside(&[], &[&["negotiate"], words].concat(), "");
    let ended = negotiate(&["--tool", "die", "--tool", "echo"]).ok().left_nothing();
    let plan = "covered by bad\n  bad: die, bad__echo\nbad: 2 of 2, healthy\n";
    assert!(ended.stdout.starts_with(plan), "{ended}");
    assert!(ended.stdout.contains("good: 1 of 2, healthy, lacks die\n"), "{ended}");
    let own = format!("http://{}/bad/mcp", gateway.address());
    let ended = negotiate(&["--tool", "die", "--tool", "echo", "--url", &own]).ok();
    assert!(ended.stdout.contains("\n  bad: die, echo\n"), "{ended}");
    let ended = negotiate(&["--tool", "die", "--tool", "add"]).ok();
    assert!(ended.stdout.contains("covered by several servers together\n"), "{ended}");
    let ended = negotiate(&["--tool", "fly", "--tool", "add"]).code(1);
    assert!(ended.stdout.starts_with("not covered; missing: fly\n"), "{ended}");
    let ended = negotiate(&["--tool", "add", "--json"]).ok();
    let said: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&said["outcome"], &said["best"]), (&json!("covered"), &json!("good")));
    // To need nothing is a mistake, and nobody is asked.
    let ended = negotiate(&[]).code(2);
    assert!(ended.stdout.is_empty() && ended.stderr.contains("--tool"), "{ended}");
}

/// As `negotiate … | head -1` does.
#[test]
fn negotiate_is_cut_short_without_complaint() {
    let gateway = Gateway::serve(&good());
    for more in [&[][..], &["--json"]] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(binary());
        command.args(["negotiate", "--url", &url(&gateway), "--tool", "add"]).args(more);
        let ended = command.stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && said.is_empty(), "{} {said}", ended.status);
    }
}
