//! A server of 2025-11-25 on stdio with one tool for each way in which a server can misbehave.
//!
//! Words on its command line: `--banner` talks before it is spoken to, `--stubborn` stays when its
//! input ends, `--tools N` offers N tools more, `--late MS` takes its time to begin.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::{
    env,
    hint::black_box,
    io::{self, BufRead as _, Write as _},
    process::{self, Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

const TOOLS: [&str; 16] = [
    "echo",
    "pid",
    "sleep",
    "notes",
    "garbage",
    "wrong_id",
    "mangled",
    "id",
    "twice",
    "silent",
    "huge",
    "die",
    "fork",
    "detach",
    "grow",
    "cancelled",
];

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let at = |word: &str| words.iter().position(|given| given == word);
    let number = |word: &str| at(word).map_or(0, |at| words[at + 1].parse().unwrap());
    let (more, late) = (number("--tools"), number("--late"));
    if at("--banner").is_some() {
        say("Welcome to the server!\n\n{\"level\":\"info\",\"msg\":\"listening\"}");
    }
    let mut cancelled = 0;
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).unwrap();
        let (id, params) = (&message["id"], &message["params"]);
        match message["method"].as_str() {
            Some("notifications/cancelled") => cancelled += 1,
            Some("initialize") => {
                thread::sleep(Duration::from_millis(late as u64));
                reply(id, &identity());
            }
            Some("ping") => reply(id, &json!({})),
            Some("tools/list") => reply(id, &tools(more)),
            Some("tools/call") => call(id, params, cancelled),
            Some(_) if !id.is_null() => {
                let error = json!({"code": -32601, "message": "unknown method"});
                say(&json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string());
            }
            _ => {}
        }
    }
    while at("--stubborn").is_some() {
        thread::sleep(Duration::from_secs(600));
    }
}

fn identity() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {"listChanged": true}},
        "serverInfo": {"name": "bad", "version": "1"},
    })
}

fn tools(more: usize) -> Value {
    let more = (0..more).map(|n| format!("more_{n:04}"));
    let names = TOOLS.iter().map(|name| (*name).to_owned()).chain(more);
    let tools: Vec<_> =
        names.map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
    json!({"tools": tools})
}

fn call(id: &Value, params: &Value, cancelled: usize) {
    let number = |key: &str| params["arguments"][key].as_u64().unwrap_or(0);
    match params["name"].as_str().unwrap() {
        "echo" => answer(id, params["arguments"]["message"].as_str().unwrap()),
        "pid" => answer(id, &process::id().to_string()),
        "sleep" => {
            let (id, ms) = (id.clone(), number("ms"));
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(ms));
                answer(&id, &format!("slept {ms} ms"));
            });
        }
        "notes" => {
            for n in 0..number("count") {
                let method =
                    ["notifications/message", "notifications/progress", "x"][n as usize % 3];
                let params =
                    json!({"level": "error", "data": n, "progressToken": n, "progress": n});
                say(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
            }
            answer(id, "said it all");
        }
        "garbage" => {
            (0..number("count")).for_each(|_| say("\u{1b}[31mBEEP\u{1b}[0m {\"id\":"));
            answer(id, "said it all");
        }
        "wrong_id" => {
            for wrong in [json!(id.as_i64().unwrap() + 1000), json!(id.to_string()), Value::Null] {
                answer(&wrong, "for somebody else");
            }
        }
        "mangled" => mangled(id, number("how")),
        "id" => answer(id, &id.to_string()),
        "twice" => {
            answer(id, "the first");
            answer(id, "the second");
        }
        "silent" => {}
        "huge" => {
            thread::sleep(Duration::from_millis(number("ms")));
            // Not in one piece: to make one takes longer than to send it.
            let (pieces, piece) = (number("mb"), "x".repeat(1_000_000));
            let content = r#"{"content":[{"type":"text","text":""#;
            print(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{content}"));
            (0..pieces).for_each(|_| print(&piece));
            say("\"}]}}");
        }
        "die" => {
            thread::sleep(Duration::from_millis(number("ms")));
            process::exit(7);
        }
        "fork" => fork(id),
        "detach" => detach(id),
        "grow" => {
            let bytes = number("mb") as usize * 1_000_000;
            black_box(vec![1u8; bytes].leak());
            answer(id, "grown");
        }
        "cancelled" => answer(id, &cancelled.to_string()),
        name => answer(id, &format!("`{name}` does nothing")),
    }
}

/// An answer that is no message.
fn mangled(id: &Value, how: u64) {
    let deep = "[".repeat(200) + &"]".repeat(200);
    let rest: &[u8] = match how {
        0 => b"\"result\":5",
        1 => b"\"result\":{\"content\":\"\xff\"}",
        2 => &[b"\"result\":", deep.as_bytes()].concat(),
        3 => b"\"result\":{},\"result\":{}",
        4 => b"\"result\":{},\"Result\":{}",
        5 => b"\"result\":{\"content\":NaN}",
        _ => b"\"x\":{}",
    };
    print([format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},").as_bytes(), rest, b"}\n"].concat());
}

/// A child that holds on to stdout.
fn fork(id: &Value) {
    let mut child = Command::new("sh");
    child.args(["-c", "trap '' TERM; sleep 600; :"]);
    child.stdin(Stdio::null()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    answer(id, &child.spawn().unwrap().id().to_string());
}

/// A child that leaves the group.
fn detach(id: &Value) {
    let mut child = Command::new("setsid");
    child.args(["sh", "-c", "trap '' TERM HUP; sleep 600; :"]);
    child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    answer(id, &child.spawn().unwrap().id().to_string());
}

fn answer(id: &Value, text: &str) {
    reply(id, &json!({"content": [{"type": "text", "text": text}]}));
}

fn reply(id: &Value, result: &Value) {
    say(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
}

fn say(line: &str) {
    print(format!("{line}\n"));
}

fn print(text: impl AsRef<[u8]>) {
    // Whoever does not listen any more has ended us.
    if io::stdout().lock().write_all(text.as_ref()).is_err() {
        process::exit(1);
    }
}
