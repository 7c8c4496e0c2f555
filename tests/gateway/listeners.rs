//! Every kind of listener, and which clients it admits.

use std::os::unix::net::UnixStream;

use mcplane_tests::child::mcplane;
use serde_json::json;

use crate::{
    LIMIT,
    client::{Client, Http, Lines, error, legacy_call, modern, text},
    gateway::{Gateway, bad, good},
};

#[test]
fn every_listener_leads_to_the_same_servers() {
    let listen = "listen = [\"127.0.0.1:0\", \"tcp://127.0.0.1:0\", \"unix:gateway.sock\"]\n";
    let gateway = Gateway::serve(&(listen.to_owned() + &good()));
    let addresses = gateway.addresses(3);
    let http = addresses[0].strip_suffix("/mcp").unwrap().strip_prefix("http://").unwrap();
    let tcp = addresses[1].strip_prefix("tcp://").unwrap().parse().unwrap();
    let unix = || UnixStream::connect(gateway.file("gateway.sock")).unwrap();
    let (one, two) = (unix(), unix());
    for mut lines in
        [Lines::tcp(tcp), Lines::new(one.try_clone().unwrap(), one)].map(Lines::initialized)
    {
        let response = lines.ask(&legacy_call("a", "echo", json!({"message": "hello"})));
        assert_eq!((text(&response), &response["id"]), ("hello", &json!("a")));
    }
    for mut lines in [Lines::tcp(tcp), Lines::new(two.try_clone().unwrap(), two)] {
        let params = json!({"name": "echo", "arguments": {"message": "hello"}});
        let response = lines.ask(&modern("a", "tools/call", params));
        assert_eq!((text(&response), &response["id"]), ("hello", &json!("a")));
    }
    for url in [
        format!("http://{http}/mcp"),
        format!("http://{http}/good/mcp"),
        format!("ws://{http}/mcp"),
        format!("ws://{http}/good/mcp"),
    ] {
        let words = ["inspect", "--tool", "add", "--args", r#"{"a":2,"b":40}"#, &url];
        assert_eq!(mcplane(&words, LIMIT).ok().stdout, "42\n", "{url}");
    }
}

/// A server with a worker for each session: `server/discover` tells a client of 2026-07-28 without a
/// session or a token to use `initialize`, and then it works.
#[test]
fn a_client_without_a_session_is_told_what_to_do() {
    let keyed = good() + "mode = \"per_session\"\n";
    let gateway = Gateway::serve(&keyed);
    let address = gateway.address();
    let refused =
        Client::modern(address, "/good/mcp").post(&modern(1, "server/discover", json!({})));
    let answer = refused.json();
    let (code, message) = error(&answer);
    assert_eq!((refused.status, code), (400, -32022), "{answer}");
    assert!(message.contains("`initialize`") && message.contains("authenticate"), "{message}");
    let supported = answer["error"]["data"]["supported"].as_array().unwrap();
    assert!(supported.contains(&json!("2025-11-25")) && !supported.contains(&json!("2026-07-28")));
    for url in [format!("http://{address}/good/mcp"), format!("ws://{address}/good/mcp")] {
        let words = ["inspect", "--tool", "add", "--args", r#"{"a":2,"b":40}"#, &url];
        assert_eq!(mcplane(&words, LIMIT).ok().stdout, "42\n", "{url}");
    }
    // Whose token it is tells whose worker it has.
    let known = Gateway::serve(&format!("tokens = {{alice = \"a-secret\"}}\n{keyed}"));
    let mut alice = Client::known(known.address(), "/good/mcp", "a-secret");
    assert_eq!(text(&alice.call("add", json!({"a": 2, "b": 40}))), "42");
}

/// HTTP+SSE of 2024-11-05: a stream first, which says where to post.
#[test]
fn http_and_sse() {
    let gateway = Gateway::serve(&good());
    let address = gateway.address();
    for path in ["/sse", "/good/sse"] {
        let mut stream = Http::open(address);
        stream.send("GET", path, &[("Accept", "text/event-stream")], "");
        assert_eq!(stream.head().0, 200);
        let place = stream.endpoint();
        let mut post = Http::open(address);
        let mut send = |message: &serde_json::Value| {
            let headers = [("Content-Type", "application/json")];
            post.send("POST", &place, &headers, &message.to_string());
            assert_eq!(post.answer().status, 202);
        };
        let params = json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}));
        assert_eq!(stream.event().unwrap()["result"]["protocolVersion"], "2024-11-05");
        send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        send(&legacy_call(2, "echo", json!({"message": "hello"})));
        assert_eq!(text(&stream.event().unwrap()), "hello");
    }
}

/// One client on standard input and output; the gateway ends with it.
#[test]
fn standard_input_and_output() {
    let mut gateway = Gateway::serve_words(&["--listen", "stdio"]);
    let mut lines = gateway.stdio().initialized();
    let response = lines.ask(&legacy_call(1, "echo", json!({"message": "hello"})));
    assert_eq!(text(&response), "hello");
    drop(lines);
    assert_eq!(gateway.code(), Some(0));
    gateway.leaves_nothing();
}

#[test]
fn a_token_admits_its_principal_to_its_own_sessions() {
    let settings = "tokens = {alice = \"a-secret\", bob = \"b-secret\"}\n".to_owned();
    let gateway = Gateway::serve(&(settings + &bad("mode = \"per_principal\"", &[])));
    let address = gateway.address();
    for (path, status) in
        [("/mcp", 401), ("/bad/mcp", 401), ("/admin/status", 401), ("/healthz", 200)]
    {
        assert_eq!(Http::get(address, path).status, status, "{path}");
    }
    let mut nobody = Client::known(address, "/bad/mcp", "c-secret");
    let message = nobody.message("tools/list", json!({}));
    let answer = nobody.post(&message);
    assert_eq!(answer.status, 401, "{answer:?}");
    assert!(answer.headers["www-authenticate"].starts_with("Bearer "));
    assert!(!gateway.said().contains("secret"), "{}", gateway.said());

    let alice = || Client::known(address, "/bad/mcp", "a-secret");
    let bob = || Client::known(address, "/bad/mcp", "b-secret");
    let pid = |mut client: Client| text(&client.call("pid", json!({}))).to_owned();
    let hers = pid(alice());
    assert_eq!(hers, pid(alice().initialized()));
    assert_ne!(hers, pid(bob()));
    assert_eq!(pid(bob().initialized()), pid(bob()));
}

/// A token for tools does not open the administration.
#[test]
fn administration_is_for_the_principals_in_the_settings() {
    let tokens = "tokens = {alice = \"a-secret\", bob = \"b-secret\"}\n";
    let gateway = Gateway::serve(&format!("{tokens}admins = [\"alice\"]\n{}", good()));
    for (token, status) in [("a-secret", 200), ("b-secret", 403), ("c-secret", 401)] {
        let mut asking = Http::open(gateway.address());
        let bearer = format!("Bearer {token}");
        asking.send("GET", "/admin/status", &[("Authorization", &bearer)], "");
        let answer = asking.answer();
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(status != 403 || answer.json().to_string().contains("gateway.admins"));
        let token = format!("MCPLANE_TOKEN={token}");
        let asked = gateway.beside(&[&token], &["negotiate", "--tool", "add"], "");
        let told = match status {
            200 => asked.stdout.contains("covered"),
            403 => asked.stderr.contains("gateway.admins"),
            _ => asked.stderr.contains("valid credentials"),
        };
        assert!(told, "{asked}");
    }
}

/// A client with a token may use any `Host`; so may a health check.
#[test]
fn foreign_hosts_are_refused_only_without_tokens() {
    let get = |gateway: &Gateway, path: &str, token: &str| {
        let mut asking = Http::open(gateway.address());
        let headers = [("Host", "mybox.lan:8791"), ("Authorization", token)];
        asking.send("GET", path, &headers, "");
        asking.answer().status
    };
    let open = Gateway::serve(&good());
    assert_eq!(get(&open, "/admin/status", ""), 421);
    assert_eq!(get(&open, "/healthz", ""), 200);
    open.says("the host `mybox.lan:8791` was refused");
    assert!(open.said().contains("gateway.hosts"), "{}", open.said());
    let tokens = "tokens = {alice = \"a-secret\"}\nadmins = [\"alice\"]\n";
    let guarded = Gateway::serve(&(tokens.to_owned() + &good()));
    assert_eq!(get(&guarded, "/admin/status", "Bearer a-secret"), 200);
    assert_eq!(get(&guarded, "/admin/status", ""), 401);
    assert_eq!(get(&guarded, "/healthz", ""), 200);
}

/// A server with a worker for each session cannot serve clients without one: its own endpoint refuses
/// them altogether, the common endpoint refuses its tools.
#[test]
fn per_session_needs_a_session() {
    let gateway = Gateway::serve(&bad("mode = \"per_session\"", &[]));
    for (path, expected) in [("/bad/mcp", -32022), ("/mcp", -32600)] {
        let response = Client::modern(gateway.address(), path).call("pid", json!({}));
        let (code, why) = error(&response);
        assert!(code == expected && why.contains("exclusive"), "{path}: {response}");
    }
    assert!(gateway.legacy("bad").call("pid", json!({}))["result"].is_object());
}
