//! Ways to start a gateway, and what cannot be started.

use std::{
    fs,
    net::TcpListener,
    time::{Duration, Instant},
};

use mcplane_tests::child::{MARK, binary, mcplane};
use serde_json::{Value, json};

use crate::{
    LIMIT, UNAVAILABLE,
    client::{Client, Http, error, text},
    gateway::{Gateway, bad, eventually, folder, good},
    neighbour::Neighbours,
};

/// A newcomer starts it without a word, and finds a server that works, its endpoint and its pages.
#[test]
fn alone_it_serves_the_fixture() {
    let mut gateway = Gateway::serve_words(&[]);
    let address = gateway.address();
    for mut client in
        [Client::modern(address, "/mcp"), gateway.modern("fixture"), gateway.legacy("fixture")]
    {
        assert_eq!(text(&client.call("add", json!({"a": 2, "b": 40}))), "42");
    }
    gateway.says(&format!("http://{address}/fixture/mcp"));
    let health = Http::get(address, "/healthz");
    assert_eq!((health.status, health.json()), (200, json!({"servers": 1, "up": 1})));
    let status = gateway.status();
    let server = &status["servers"][0];
    assert_eq!((&server["name"], &server["state"]), (&json!("fixture"), &json!("healthy")));
    assert_eq!((&server["fresh"], &server["mode"]), (&json!(true), &json!("shared")));
    assert_eq!(status["sessions"], 1);

    let own = format!("state/mcplane/gateways/{}", gateway.pid());
    let found = gateway.file(&own).join("endpoint.json");
    let discovery: Value = serde_json::from_slice(&fs::read(&found).unwrap()).unwrap();
    assert_eq!(discovery["url"], format!("http://{address}/mcp"));
    assert_eq!(discovery["pid"], gateway.pid());
    gateway.signal("TERM");
    assert_eq!(gateway.code(), Some(0));
    assert!(!gateway.file(&own).exists());
}

#[test]
fn a_command_is_served_in_the_mode_and_under_the_name_that_are_asked_for() {
    let program = env!("CARGO_BIN_EXE_bad-server");
    let words =
        ["--name", "mine", "--mode", "per_session", "--workers", "2", "--", program, "--banner"];
    let gateway = Gateway::serve_words(&words);
    let mut clients = [gateway.legacy("mine"), gateway.legacy("mine")];
    let pids: Vec<_> =
        clients.iter_mut().map(|client| text(&client.call("pid", json!({}))).to_owned()).collect();
    assert_ne!(pids[0], pids[1]);
    assert_eq!(text(&clients[0].call("pid", json!({}))), pids[0]);
    let server = gateway.server("mine", |_| true);
    assert_eq!(
        (&server["mode"], &server["revision"]),
        (&json!("per_session"), &json!("2025-11-25"))
    );
    // A banner is noise, and is counted.
    let workers = server["workers"].as_array().unwrap();
    let busy: Vec<_> = workers.iter().filter(|worker| worker["calls"] != 0).collect();
    assert!(busy.len() == 2 && busy.iter().all(|worker| worker["strays"] == 2), "{server}");
}

#[test]
fn who_needs_tools_is_told_which_servers_have_them() {
    let gateway = Gateway::serve(&(good() + &bad("", &[])));
    let negotiate = |need: &str| {
        let mut http = Http::open(gateway.address());
        http.send("POST", "/admin/negotiate", &[("Content-Type", "application/json")], need);
        http.answer()
    };
    let verdict = negotiate(r#"{"tools": ["add", "die"]}"#);
    assert_eq!(verdict.status, 200, "{verdict:?}");
    let both = verdict.json().to_string();
    assert!(both.contains("good") && both.contains("bad"), "{both}");
    let missing = negotiate(r#"{"tools": ["add", "fly"]}"#).json().to_string();
    assert!(missing.contains("fly"), "{missing}");
    for (need, part) in [("{", "EOF"), (r#"{"tool": []}"#, "unknown field `tool`")] {
        let answer = negotiate(need);
        assert!(answer.status == 400 && answer.body.contains(part), "{answer:?}");
    }
    assert_eq!(Http::get(gateway.address(), "/admin/negotiate").status, 405);
    assert_eq!(Http::get(gateway.address(), "/admin").status, 404);
}

/// File, line, column, key, and what was expected; nothing is started.
#[test]
fn settings_that_are_wrong_are_told_with_their_place() {
    let file = folder().join("mcplane.toml");
    let name = file.to_str().unwrap();
    let table = "[servers.a]\ncommand = \"x\"\n";
    for (settings, place, parts) in [
        (format!("{table}workrs = 2\n"), ":3:1: servers.a.workrs: ", ["unknown", "`workers`"]),
        (format!("{table}workers = 0\n"), ":3:11: servers.a.workers: ", ["0", "1 to 256"]),
        (format!("{table}mode = \"share\"\n"), ":3:8: servers.a.mode: ", ["share", "`shared`"]),
        (
            format!("{table}idle_stop = \"5 min\"\n"),
            ":3:13: servers.a.idle_stop: ",
            ["5 min", "5m"],
        ),
        (format!("{table}workers = \n"), ":3:1", ["workers", "value"]),
        // Two servers with one name.
        (format!("{table}\n{table}"), ":4:10: servers.a: ", ["line 1", "another name"]),
        ("[servers.a]\n".into(), ":1:", ["command", "url"]),
        ("[servers.admin]\ncommand = \"x\"\n".into(), ":1:10: servers.admin: ", ["admin", "paths"]),
        (
            "[gateway]\nlisten = \"0.0.0.0:0\"\n".into(),
            ":2:10: gateway.listen: ",
            ["tokens", "hosts"],
        ),
    ] {
        fs::write(&file, &settings).unwrap();
        let ended = mcplane(&["serve", "--config", name], LIMIT).code(1).left_nothing();
        assert!(
            ended.stdout.is_empty() && ended.stderr.contains(&format!("{name}{place}")),
            "{ended}"
        );
        assert!(parts.iter().all(|part| ended.stderr.contains(part)), "no {parts:?} in {ended}");
        let checked = mcplane(&["serve", "--check", name], LIMIT).code(1);
        assert_eq!((&checked.stdout, &checked.stderr), (&ended.stdout, &ended.stderr));
    }
    let off = "[servers.b]\nurl = \"https://x.example/mcp\"\ndisabled = true\n";
    fs::write(&file, format!("{table}{off}")).unwrap();
    let ended = mcplane(&["serve", "--check", name], LIMIT).code(0).left_nothing();
    assert_eq!(ended.stdout, format!("{name}: right; 2 servers, 1 of them disabled\n"), "{ended}");
    fs::remove_file(&file).unwrap();
    let ended = mcplane(&["serve", "--config", name], LIMIT).code(1);
    assert!(ended.stderr.contains(name) && ended.stderr.contains("mcplane import"), "{ended}");
    assert_eq!(ended.stderr.matches("No such file").count(), 1, "{ended}");
}

#[test]
fn a_command_line_that_is_wrong_is_explained() {
    for (words, part) in [
        (&["--config", "f", "--", "x"][..], "cannot be used with"),
        (&["--listen", "here"], "127.0.0.1:8765"),
        (&["--mode", "solo"], "per_session"),
    ] {
        let ended = mcplane(&[&["serve"], words].concat(), LIMIT).code(2);
        assert!(ended.stdout.is_empty() && ended.stderr.contains(part), "no {part:?} in {ended}");
    }
    let ended =
        mcplane(&["serve", "--listen", "127.0.0.1:0", "--name", "No!", "--", "x"], LIMIT).code(1);
    assert!(ended.stderr.contains("`No!` cannot name a server"), "{ended}");
}

#[test]
fn a_port_in_use_is_named_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = mcplane(&["serve", "--listen", &address], LIMIT).code(1).left_nothing();
    assert!(ended.stdout.is_empty() && ended.stderr.lines().count() == 1, "{ended}");
    for part in [&*address, "in use", "--listen"] {
        assert!(ended.stderr.contains(part), "no {part:?} in {ended}");
    }
}

/// The others work; its own callers, and whoever looks, are told why it does not.
#[test]
fn a_command_that_is_missing_is_named_at_once() {
    let settings = good() + "[servers.gone]\ncommand = \"no-such-program\"\n";
    let began = Instant::now();
    let gateway = Gateway::serve(&settings);
    let neighbours = Neighbours::of(&gateway, "good");
    // Nobody waits for what cannot come.
    gateway.says("gone: down");
    assert!(began.elapsed().as_secs() < 8, "{:?}", began.elapsed());
    gateway.says("no-such-program");
    let server = gateway.server("gone", |server| server["state"] == "down");
    assert!(server["trouble"].as_str().unwrap().contains("there is no program"), "{server}");
    let response = gateway.modern("gone").call("echo", json!({}));
    let (code, why) = error(&response);
    assert!(code == UNAVAILABLE && why.contains("`gone`"), "{response}");
    neighbours.are_well();
}

#[test]
fn settings_without_a_server_are_served_and_said() {
    let gateway = Gateway::serve("");
    gateway.says("no servers in mcplane.toml");
    assert_eq!(Http::get(gateway.address(), "/healthz").json(), json!({"servers": 0, "up": 0}));
    gateway.rewrite(&(good() + "disabled = true\n"));
    gateway.says("no servers that are not disabled in mcplane.toml");
}

/// What nobody has listed yet is missing from the first list, and the others do not wait for it.
#[test]
fn a_server_that_is_slow_to_start_delays_nobody() {
    let settings = good() + &bad("", &["--late", "9000"]);
    let began = Instant::now();
    let gateway = Gateway::serve(&settings);
    let mut client = gateway.legacy("good");
    assert_eq!(text(&client.call("add", json!({"a": 2, "b": 40}))), "42");
    let mut all = Client::legacy(gateway.address(), "/mcp");
    let mut changes = all.listen(gateway.address());
    let tools = all.tools();
    assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
    let has = |tools: &[String], name: &str| tools.iter().any(|tool| tool == name);
    assert!(has(&tools, "add") && !has(&tools, "die"), "{tools:?}");
    assert_eq!(changes.event().unwrap()["method"], "notifications/tools/list_changed");
    assert!(has(&all.tools(), "die"));
}

/// The last good lists stand in for a server that is slow to come back.
#[test]
fn a_restart_is_no_outage() {
    let program = env!("CARGO_BIN_EXE_bad-server");
    let slow = format!("test ! -e slow || sleep 30; exec '{program}'");
    let settings = format!(
        "[servers.slow]\ncommand = \"sh\"\nargs = [\"-c\", {slow:?}]\ninherit_env = [{MARK:?}]\n"
    );
    let mut gateway = Gateway::serve(&(good() + &settings));
    let is_kept = |file: &fs::DirEntry| file.path().extension().is_some_and(|kind| kind == "json");
    let kept = || Some(fs::read_dir(gateway.file("state/lists")).ok()?.flatten().filter(is_kept));
    eventually(|| match kept().map_or(0, Iterator::count) {
        2 => Ok(()),
        count => Err(format!("{count} kept")),
    });
    gateway.signal("TERM");
    assert_eq!(gateway.code(), Some(0));

    fs::write(gateway.file("slow"), "").unwrap();
    let began = Instant::now();
    let gateway = gateway.again();
    let tools = Client::modern(gateway.address(), "/mcp").tools();
    assert!(tools.iter().any(|tool| tool == "die"), "{tools:?}");
    assert_eq!(text(&gateway.modern("good").call("add", json!({"a": 2, "b": 40}))), "42");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    let server = gateway.server("slow", |_| true);
    assert_eq!(
        (&server["fresh"], &server["state"]),
        (&json!(false), &json!("starting")),
        "{server}"
    );
}

/// It is asked for once, however many workers there are to be, and nobody else waits for it.
#[test]
fn a_server_that_waits_for_approval_is_shown_as_such() {
    let keys = "workers = 3\napproval = \"60s\"";
    let gateway = Gateway::serve(&(good() + &bad(keys, &["--late", "9000"])));
    let neighbours = Neighbours::of(&gateway, "good");
    gateway.server("bad", |server| server["state"] == "awaiting_approval");
    let asking = gateway.processes();
    let asking = asking.iter().filter(|(_, line)| line.contains("bad-server"));
    assert_eq!(asking.count(), 1);
    gateway.offers("bad", "echo");
    assert_eq!(text(&gateway.modern("bad").call("echo", json!({"message": "well"}))), "well");
    neighbours.are_well();
}

/// It ends as at any other time while its only server has not said a word.
#[test]
fn sigterm_during_the_start_ends_it_well() {
    let mut gateway = Gateway::serve(&bad("", &["--late", "30000"]));
    eventually(|| match gateway.processes() {
        all if all.iter().any(|(_, line)| line.contains("bad-server")) => Ok(()),
        all => Err(format!("{all:?}")),
    });
    let began = Instant::now();
    gateway.signal("TERM");
    assert_eq!(gateway.code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    for state in ["state", "state/mcplane"] {
        let left = fs::read_dir(gateway.file(state).join("gateways")).unwrap().count();
        assert_eq!(left, 0, "{state}");
    }
    gateway.leaves_nothing();
}

/// With no server that works it is not well, and says so; the server may come back.
#[test]
fn health_is_that_of_the_servers() {
    let script = folder().join("server");
    let settings = format!(
        "[servers.late]\ncommand = {script:?}\ninherit_env = [{MARK:?}]\n\
         restart = {{longest = \"200ms\", budget = 1000}}\n"
    );
    let gateway = Gateway::serve(&settings);
    let health = |status| {
        eventually(|| match Http::get(gateway.address(), "/healthz") {
            answer if answer.status == status => Ok(()),
            answer => Err(format!("{answer:?}")),
        });
    };
    health(503);
    fs::write(&script, format!("#!/bin/sh\nexec '{}' fixture\n", binary())).unwrap();
    assert!(std::process::Command::new("chmod").arg("+x").arg(&script).status().unwrap().success());
    health(200);
    let mut client = gateway.modern("late");
    eventually(|| match client.call("add", json!({"a": 1, "b": 1})) {
        response if response["result"].is_object() => Ok(()),
        response => Err(response.to_string()),
    });
}
