//! `mcplane fixture` on its own: lines in, lines out.

use std::collections::BTreeMap;

use mcplane_tests::child::{mcplane, start_mcplane};
use serde_json::{Value, json};

use crate::LIMIT;

/// Everything that was asked is answered, each exactly once, whatever is in flight at the end.
#[test]
fn the_end_of_input_is_the_end_after_the_answers() {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let call = |id: Value, name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments, "_meta": meta});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let mut lines = vec![call(json!("slow"), "sleep", json!({"ms": 300}))];
    lines.extend((0..500).map(|n| call(json!(n), "echo", json!({"message": format!("m{n}")}))));
    lines.push(call(json!("big"), "big", json!({"bytes": 1_000_000})));
    lines.push(call(json!("fast"), "sleep", json!({"ms": 1})));
    let mut input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    input.pop(); // the last line has no end
    let ended = start_mcplane(&["fixture"], &input).wait(LIMIT).ok().left_nothing();
    let mut texts = BTreeMap::new();
    for line in ended.stdout.lines() {
        let answer: Value = serde_json::from_str(line).unwrap();
        let text = answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        let twin = texts.insert(answer["id"].to_string(), text);
        assert!(twin.is_none(), "{} was answered twice", answer["id"]);
    }
    assert_eq!(texts.len(), lines.len());
    assert!((0..500).all(|n| texts[&n.to_string()] == format!("m{n}")));
    assert_eq!((&*texts["\"slow\""], &*texts["\"fast\""]), ("slept 300 ms", "slept 1 ms"));
    assert_eq!(texts["\"big\""].len(), 1_000_000);
}

#[test]
fn no_input_is_no_output() {
    let ended = mcplane(&["fixture"], LIMIT).ok();
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
}

#[test]
fn bad_lines_do_not_end_the_connection() {
    let input = "\n{\nnot json\n[]\n{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}\n\
        {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\
        \"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}\n\
        {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n";
    let ended = start_mcplane(&["fixture"], input).wait(LIMIT).ok();
    let answers: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (results, errors): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.get("result").is_some());
    assert_eq!(results.len(), 2, "{ended}");
    assert_eq!(results[1]["id"], 2);
    assert!(!errors.is_empty() && errors.iter().all(|error| error["error"]["code"].is_i64()));
}
