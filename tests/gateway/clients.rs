//! Clients that misbehave: a clear error for them, and no effect on anybody else.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    OVERLOADED,
    client::{Client, Http, Lines, error, legacy_call, modern, text},
    gateway::{Gateway, bad, eventually, good},
    neighbour::Neighbours,
};

const TCP_TOO: &str = "listen = [\"127.0.0.1:0\", \"tcp://127.0.0.1:0\"]\n";

/// A client of the endpoint of all servers, in lines.
fn lines(gateway: &Gateway) -> Lines {
    Lines::tcp(gateway.addresses(2)[1].strip_prefix("tcp://").unwrap().parse().unwrap())
}

fn in_flight(gateway: &Gateway, count: u64) {
    gateway.server("bad", |server| server["workers"][0]["in_flight"] == count);
}

/// The server hears at once that nobody waits any more, however the client went away.
#[test]
fn a_client_that_vanishes_in_the_middle() {
    let gateway = Gateway::serve(&(TCP_TOO.to_owned() + &bad("", &[])));
    let neighbours = Neighbours::of(&gateway, "bad");
    let mut witness = gateway.modern("bad");
    let mut count = 0;
    let mut cancelled = |how: &str, gone: Instant| {
        count += 1;
        eventually(|| match text(&witness.call("cancelled", json!({}))) {
            said if said == count.to_string() => Ok(()),
            said => Err(format!("{how}: {said} of {count}")),
        });
        let took = gone.elapsed();
        assert!(took < Duration::from_secs(2), "{how}: {took:?}");
    };
    let waits = || {
        gateway.server("bad", |server| {
            server["workers"][0]["calls"].as_u64().unwrap() > 0
                && server["workers"][0]["in_flight"].as_u64().unwrap() > 0
        });
        // Long enough to be the call that is never answered, and not a neighbour's.
        thread::sleep(Duration::from_millis(100));
    };

    let mut client = gateway.modern("bad");
    let message = client.message("tools/call", json!({"name": "silent", "arguments": {}}));
    client.begin(&message);
    waits();
    drop(client);
    cancelled("2026-07-28 over HTTP", Instant::now());

    let mut client = lines(&gateway).initialized();
    client.send(&legacy_call(7, "silent", json!({})));
    waits();
    drop(client);
    cancelled("TCP", Instant::now());

    let mut client = lines(&gateway).initialized();
    client.send(&legacy_call("seven", "silent", json!({})));
    waits();
    let params = json!({"requestId": "seven"});
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    cancelled("a notification", Instant::now());

    // In a session over HTTP a client may come back; it is gone when it says so.
    let mut client = gateway.legacy("bad");
    let session = client.session.clone().unwrap();
    client.begin(&legacy_call(9, "silent", json!({})));
    waits();
    drop(client);
    let mut http = Http::open(gateway.address());
    http.send("DELETE", "/bad/mcp", &[("Mcp-Session-Id", &session)], "");
    assert_eq!(http.answer().status, 204);
    cancelled("DELETE", Instant::now());
    neighbours.are_well();
}

/// A call that waits in the queue and is given up never reaches the server.
#[test]
fn a_client_that_vanishes_from_the_queue() {
    let gateway = Gateway::serve(&bad("calls_per_worker = 1", &[]));
    let mut first = gateway.modern("bad");
    let first = thread::spawn(move || first.call("sleep", json!({"ms": 700})));
    in_flight(&gateway, 1);
    let mut second = gateway.modern("bad");
    let message = second.message("tools/call", json!({"name": "die", "arguments": {}}));
    second.begin(&message);
    gateway.server("bad", |server| server["queued"] == 1);
    drop(second);
    assert_eq!(text(&first.join().unwrap()), "slept 700 ms");
    assert_eq!(text(&gateway.modern("bad").call("echo", json!({"message": "alive"}))), "alive");
    let server = gateway.server("bad", |server| server["queued"] == 0);
    assert_eq!(server["workers"][0]["restarts"], 0, "{server}");
}

#[test]
fn a_client_that_uses_an_id_twice_at_once() {
    let gateway = Gateway::serve(&(TCP_TOO.to_owned() + &bad("", &[])));
    let neighbours = Neighbours::of(&gateway, "bad");
    let mut client = lines(&gateway).initialized();
    client.send(&legacy_call(7, "sleep", json!({"ms": 300})));
    client.send(&legacy_call(7, "sleep", json!({"ms": 400})));
    let (refused, answered) = (client.receive(), client.receive());
    assert_eq!((&refused["id"], error(&refused).0), (&json!(7), -32600));
    assert_eq!((&answered["id"], text(&answered)), (&json!(7), "slept 300 ms"));
    let response = client.ask(&legacy_call(8, "echo", json!({"message": "well"})));
    assert_eq!((&response["id"], text(&response)), (&json!(8), "well"));
    neighbours.are_well();
}

/// What does not fit into the queue is refused before anything else happens.
#[test]
fn a_client_that_floods() {
    let keys = "calls_per_worker = 2\nqueue = 8";
    let settings = TCP_TOO.to_owned() + &good() + &bad(keys, &[]);
    let gateway = Gateway::serve(&settings);
    let neighbours = Neighbours::of(&gateway, "good");
    let mut client = lines(&gateway).initialized();
    (0..500).for_each(|id| client.send(&legacy_call(id, "bad__sleep", json!({"ms": 1000}))));
    let responses: Vec<Value> = (0..500).map(|_| client.receive()).collect();
    for (at, response) in responses.iter().enumerate() {
        // Two run and six wait: the rest of the queue is for others.
        if at < 492 {
            let (code, why) = error(response);
            assert!(code == OVERLOADED && why.contains("6 calls"), "{at}: {response}");
        } else {
            assert_eq!(text(response), "slept 1000 ms", "{at}: {response}");
        }
    }
    let mut ids: Vec<_> =
        responses.iter().map(|response| response["id"].as_i64().unwrap()).collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..500));
    let server = gateway.server("bad", |server| server["queued"] == 0);
    assert_eq!(server["refused"], 492, "{server}");
    assert_eq!(text(&gateway.modern("bad").call("echo", json!({"message": "well"}))), "well");
    neighbours.are_well();
}

/// Who has much waiting does not make others wait for all of it.
#[test]
fn clients_take_turns() {
    let settings = TCP_TOO.to_owned() + &bad("calls_per_worker = 1", &[]);
    let gateway = Gateway::serve(&settings);
    let mut greedy = lines(&gateway).initialized();
    (0..10).for_each(|id| greedy.send(&legacy_call(id, "sleep", json!({"ms": 200}))));
    gateway.server("bad", |server| server["queued"] == 9);
    let began = Instant::now();
    assert_eq!(text(&gateway.modern("bad").call("echo", json!({"message": "me"}))), "me");
    assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
    (0..10).for_each(|_| assert_eq!(text(&greedy.receive()), "slept 200 ms"));
}

#[test]
fn a_client_that_uses_what_is_another_ones() {
    let settings = "tokens = {alice = \"a-secret\", bob = \"b-secret\"}\n[servers.good]\nrevision = \"legacy\"\n";
    let gateway = Gateway::serve(&good().replace("[servers.good]\n", settings));
    let path = "/good/mcp";
    let alice = || Client::known(gateway.address(), path, "a-secret");
    let bob = || Client::known(gateway.address(), path, "b-secret");

    // A session.
    let mut hers = alice().initialized();
    let mut thief = bob();
    thief.session = hers.session.clone();
    let message = thief.message("tools/list", json!({}));
    let answer = thief.post(&message);
    assert!(answer.status == 404 && answer.body.contains("no such session"), "{answer:?}");
    thief.session = Some("made-up".into());
    assert_eq!(thief.post(&message).status, 404);
    assert_eq!(text(&hers.call("echo", json!({"message": "mine"}))), "mine");

    // A parked call: its state, forged, another's, or for another call.
    let call = json!({"name": "test_elicitation", "arguments": {"message": "Who?"}});
    let parked = alice().request("tools/call", call);
    let state = parked["result"]["requestState"].as_str().unwrap_or_else(|| panic!("{parked}"));
    let question = parked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let answer = json!({"action": "accept", "content": {"username": "a", "email": "a@b.c"}});
    let retry = |state: &str, message: &str| {
        json!({
            "name": "test_elicitation",
            "arguments": {"message": message},
            "requestState": state,
            "inputResponses": {question: answer},
        })
    };
    let forged = format!("{}0000", &state[..state.len() - 4]);
    for (mut client, params) in [
        (bob(), retry(state, "Who?")),
        (alice(), retry(&forged, "Who?")),
        (alice(), retry(state, "Somebody else?")),
    ] {
        let response = client.request("tools/call", params);
        let (code, why) = error(&response);
        assert!(code == -32602 && why.contains("requestState"), "{response}");
    }
    let response = alice().request("tools/call", retry(state, "Who?"));
    assert!(text(&response).contains("accept"), "{response}");
    // It is good once.
    let response = alice().request("tools/call", retry(state, "Who?"));
    assert_eq!(error(&response).0, -32602, "{response}");
}

#[test]
fn a_client_that_uses_a_cursor_that_is_none() {
    let settings = |tools: &str| good() + &bad("", &["--tools", tools]);
    let gateway = Gateway::serve(&settings("300"));
    let neighbours = Neighbours::of(&gateway, "good");
    for mut client in [gateway.modern("bad"), gateway.legacy("bad")] {
        let first = client.request("tools/list", json!({}));
        let cursor = first["result"]["nextCursor"].clone();
        let second = client.request("tools/list", json!({"cursor": cursor}));
        let count = |page: &Value| page["result"]["tools"].as_array().unwrap().len();
        assert_eq!((count(&first), count(&second)), (250, 66));
        for (cursor, mut client) in [
            (json!("made up"), gateway.modern("bad")),
            (json!(7), gateway.modern("bad")),
            (json!(""), gateway.legacy("bad")),
            // Of another list.
            (cursor.clone(), gateway.modern("good")),
            (cursor.clone(), gateway.legacy("good")),
        ] {
            let response = client.request("tools/list", json!({"cursor": cursor}));
            assert_eq!(error(&response).0, -32602, "{response}");
        }
    }
    // Of a list that has changed since.
    let mut client = gateway.modern("bad");
    let cursor = client.request("tools/list", json!({}))["result"]["nextCursor"].clone();
    gateway.rewrite(&settings("301"));
    eventually(|| match client.request("tools/list", json!({"cursor": cursor})) {
        response if response["error"]["code"] == -32602 => Ok(()),
        response => Err(response.to_string()),
    });
    neighbours.are_well();
}

/// Ids are each client's own: nobody can end or learn of another's call with them.
#[test]
fn a_client_that_names_what_it_does_not_have() {
    let gateway = Gateway::serve(&(TCP_TOO.to_owned() + &bad("", &[])));
    let neighbours = Neighbours::of(&gateway, "bad");
    let (mut one, mut two) = (lines(&gateway).initialized(), lines(&gateway).initialized());
    one.send(&legacy_call(1, "sleep", json!({"ms": 500})));
    in_flight(&gateway, 1);
    for id in [json!(1), json!("1"), json!(-1), json!(null), json!({})] {
        let params = json!({"requestId": id});
        two.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    }
    for method in ["tasks/get", "tasks/cancel", "tasks/result"] {
        let params = json!({"taskId": "1"});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let response = two.ask(&request);
        assert!([-32601, -32602].contains(&error(&response).0), "{response}");
        let response = gateway.modern("bad").request(method, params);
        assert!([-32601, -32602].contains(&error(&response).0), "{response}");
    }
    // An answer to a question that was never asked.
    two.send(&json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    assert_eq!(text(&one.receive()), "slept 500 ms");
    let response = two.ask(&legacy_call(2, "cancelled", json!({})));
    assert_eq!(text(&response), "0");
    neighbours.are_well();
}

/// Refused by what it says of its length, or with the first byte that is too much; not in the memory
/// of the gateway, and not at the cost of others.
#[test]
fn a_client_that_sends_too_much() {
    const MOST: usize = 4 << 20;
    let gateway = Gateway::serve(&good());
    let neighbours = Neighbours::of(&gateway, "good");
    for path in ["/mcp", "/good/mcp"] {
        let mut http = Http::open(gateway.address());
        http.begin(path, &format!("Content-Length: {}", MOST + 1), b"{\"jsonrpc\":");
        let announced = http.answer();
        let mut http = Http::open(gateway.address());
        let mut chunk = format!("{:x}\r\n", MOST + 1).into_bytes();
        chunk.resize(chunk.len() + MOST + 1, b' ');
        http.begin(path, "Transfer-Encoding: chunked", &chunk);
        for answer in [announced, http.answer()] {
            assert!(answer.status == 413 && answer.body.contains("4194304 bytes"), "{answer:?}");
        }
    }
    // What is just not too much is not told so: it is taken, and then it is no message.
    let mut http = Http::open(gateway.address());
    http.begin("/mcp", &format!("Content-Length: {MOST}"), &vec![b' '; MOST]);
    assert_eq!(http.answer().status, 400);
    let mut client = gateway.modern("good");
    assert_eq!(text(&client.call("echo", json!({"message": "well"}))), "well");
    neighbours.are_well();
}

#[test]
fn a_client_that_sends_what_is_no_request() {
    let gateway = Gateway::serve(&(TCP_TOO.to_owned() + &good()));
    let neighbours = Neighbours::of(&gateway, "good");
    let post = |headers: &[(&str, &str)], body: &str| {
        let mut http = Http::open(gateway.address());
        let json = [("Content-Type", "application/json")];
        http.send("POST", "/mcp", &[&json, headers].concat(), body);
        http.answer()
    };
    for (body, code) in [("", -32700), ("{", -32700), ("[]", -32600), ("7", -32600)] {
        let answer = post(&[], body);
        assert_eq!((answer.status, error(&answer.json()).0), (400, code), "{body}: {answer:?}");
    }
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let params = format!("{{\"name\":\"echo\",\"arguments\":{{\"message\":{deep}}}}}");
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    assert_eq!(post(&[], &body).status, 400);
    let listed = modern(1, "tools/list", json!({}));
    let origin = [("Origin", "https://evil.example"), ("MCP-Protocol-Version", "2026-07-28")];
    assert_eq!(post(&origin, &listed.to_string()).status, 403);
    let mismatch = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call")];
    assert_eq!(post(&mismatch, &listed.to_string()).status, 400);
    for (path, status) in [("/", 404), ("/nobody/mcp", 404), ("/good/mcp/more", 404), ("/mcp", 400)]
    {
        assert_eq!(Http::get(gateway.address(), path).status, status, "{path}");
    }

    let mut client = lines(&gateway).initialized();
    for noise in [json!([]), json!({"jsonrpc": "1.0", "id": 3, "method": "ping"})] {
        assert_eq!(error(&client.ask(&noise)).0, -32600, "{noise}");
    }
    let response = client.ask(&legacy_call(4, "echo", json!({"message": "well"})));
    assert_eq!(text(&response), "well");
    neighbours.are_well();
}

/// Servers whose parsers are less strict never see a key that only passes for one of the protocol.
#[test]
fn a_client_that_spells_keys_in_its_own_way() {
    let gateway = Gateway::serve(&bad("tools.deny = [\"pid\"]\n", &[]));
    for mut client in [gateway.modern("bad"), gateway.legacy("bad")] {
        for key in ["Name", "NAME", "name\0", "na\u{1}me", "name\0x", "n\u{e5}me"] {
            let mut message = client.message("tools/call", json!({"name": "echo"}));
            message["params"]["arguments"] = json!({"message": "hello", key: "pid"});
            assert_eq!(text(&client.post(&message).messages().remove(0)), "hello", "{key:?}");
            message["params"][key] = "pid".into();
            let answer = client.post(&message).messages().remove(0);
            // What passes for nothing is the server's own business.
            match key.contains('\u{e5}') {
                true => assert_eq!(text(&answer), "hello"),
                false => assert!(error(&answer).1.contains("passes for \"name\""), "{answer}"),
            }
        }
        for (key, value) in [
            ("Params", json!({"name": "pid"})),
            ("param\u{17f}", json!({"name": "pid"})),
            ("Method", json!("ping")),
            ("ID", json!(1)),
            ("iD", json!(1)),
            ("\u{131}d", json!(1)),
            ("id\0", json!(1)),
        ] {
            let arguments = json!({"message": "hello"});
            let call = json!({"name": "echo", "arguments": arguments});
            let mut message = client.message("tools/call", call);
            message[key] = value;
            let answer = client.post(&message).messages().remove(0);
            assert!(error(&answer).1.contains("passes for"), "{answer}");
        }
    }
}

/// What a server of an older revision asks for shows what the client lacks: the status says so too.
#[test]
fn a_client_that_lacks_what_a_legacy_server_asks_for() {
    let gateway = Gateway::serve(&(good() + "revision = \"legacy\"\n"));
    gateway.offers("good", "test_elicitation");
    for path in ["/good/mcp", "/mcp"] {
        let mut client = Client::modern(gateway.address(), path);
        let arguments = json!({"message": "who?"});
        let call = json!({"name": "test_elicitation", "arguments": arguments});
        let mut message = client.message("tools/call", call);
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let answer = client.post(&message);
        let response = answer.json();
        assert_eq!((answer.status, error(&response).0), (400, -32021), "{response}");
        let required = &response["error"]["data"]["requiredCapabilities"];
        assert!(required["elicitation"].is_object(), "{response}");
    }
}
