//! Requests and notifications.

use serde_json::json;

use super::{AUTUMN, MODERN, OLDEST, SUMMER, scan, value, written};
use crate::translate::{Onward, change, log, progress, request};
use crate::version::{Era, Revision};

const ENVELOPE: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}}"#;

fn sent(text: &str, from: Revision, onward: &Onward<'_>) -> String {
    written(|out| request(&scan(text), from, onward, out))
}

#[test]
fn within_an_era_only_the_hops_own_bytes_change() {
    let text = r#" {"id" : "a", "jsonrpc":"2.0" ,"method":"tools/call","x":[1 ],"params":{ "task":{}, "_meta":{"progressToken":"t","traceparent":"00-1","k\u00e9y":1.0},"name" :"b__add","arguments":{"id":"a","name":"b__add"} } } "#;
    for from in Revision::ALL.into_iter().filter(|r| r.era() == Era::Legacy) {
        for to in Revision::ALL.into_iter().filter(|r| r.era() == Era::Legacy) {
            let onward = Onward { name: Some("a\"dd"), ..Onward::new(to, -9) };
            let expected = text.replacen("\"a\"", "-9", 1).replacen("\"t\"", "-9", 1).replacen(
                "\"b__add\"",
                r#""a\"dd""#,
                1,
            );
            assert_eq!(sent(text, from, &onward), expected);
            assert_eq!(
                sent(text, from, &Onward::new(to, 3)),
                text.replacen("\"a\"", "3", 1).replacen("\"t\"", "3", 1)
            );
        }
    }
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{{"_meta":{{{ENVELOPE},"io.modelcontextprotocol/clientInfo":{{ }},"progressToken":7,"a.b/c":[]}},"name":"p","inputResponses":{{"q": {{}}}},"requestState":"s"}}}}"#
    );
    let onward = Onward { capabilities: Some(b"{}"), ..Onward::new(MODERN, 8) };
    let expected = text.replacen("\"id\":7", "\"id\":8", 1).replacen("n\":7", "n\":8", 1).replacen(
        r#"{"roots":{}}"#,
        "{}",
        1,
    );
    assert_eq!(sent(&text, MODERN, &onward), expected);
}

#[test]
fn a_retry_replaces_the_answers_of_the_client() {
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"inputResponses":{{"mine":{{}}}},"_meta":{{{ENVELOPE},"progressToken":"t","a":1}},"name":"p","requestState":"old"}}}}"#
    );
    let retry = br#","inputResponses":{"theirs":{}},"requestState":"new""#;
    let onward = Onward { retry, capabilities: Some(b"{}"), ..Onward::new(MODERN, 8) };
    assert_eq!(
        sent(&text, MODERN, &onward),
        r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":8,"a":1},"name":"p","inputResponses":{"theirs":{}},"requestState":"new"}}"#
    );
    // A legacy client's call is repeated with the answers that the gateway gathered.
    let text = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"p","requestState":"forged"}}"#;
    assert_eq!(
        value(sent(text, SUMMER, &Onward { retry, ..Onward::new(MODERN, 8) }))["params"],
        json!({"name":"p","inputResponses":{"theirs":{}},"requestState":"new","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}})
    );
    // A legacy upstream has no rounds.
    let text = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"p"}}"#;
    let onward = Onward { retry, ..Onward::new(SUMMER, 7) };
    assert_eq!(sent(text, SUMMER, &onward), text);
    assert_eq!(sent(text, MODERN, &onward), text);
}

#[test]
fn a_modern_request_loses_its_envelope() {
    for to in Revision::ALL.into_iter().filter(|r| r.era() == Era::Legacy) {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{{"name":"add","arguments": {{"a":1.0,"_meta":{{}}}},"inputResponses":{{}},"requestState":"s","new":[1, 2],"_meta":{{{ENVELOPE},"io.modelcontextprotocol/logLevel":"info","progressToken":"t","traceparent":"00-1","own\"key":12345678901234567890}}}}}}"#
        );
        assert_eq!(
            sent(&text, MODERN, &Onward::new(to, 5)),
            r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"add","arguments":{"a":1.0,"_meta":{}},"new":[1, 2],"_meta":{"progressToken":5,"traceparent":"00-1","own\"key":12345678901234567890}}}"#
        );
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{{{ENVELOPE}}}}}}}"#
        );
        assert_eq!(
            sent(&text, MODERN, &Onward::new(to, 5)),
            r#"{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{}}"#
        );
    }
}

#[test]
fn a_legacy_request_gains_an_envelope() {
    let onward = Onward {
        client_info: Some(br#"{"name":"c","version":"1"}"#),
        capabilities: Some(br#"{"sampling":{}}"#),
        log_level: Some("warning"),
        ..Onward::new(MODERN, 5)
    };
    let envelope = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/logLevel": "warning",
    });
    for from in Revision::ALL.into_iter().filter(|r| r.era() == Era::Legacy) {
        for params in ["", r#","params":{}"#, r#","params":{"_meta":{}}"#] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list"{params}}}"#);
            let sent = value(sent(&text, from, &onward));
            assert_eq!(sent["params"], json!({ "_meta": envelope }), "{params}");
        }
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":"t","traceparent":"00","io.modelcontextprotocol/clientInfo":{"name":"forged"},"io.modelcontextprotocol/related-task":{"taskId":"1"}},"task":{"ttl":1},"name":"p","arguments":{"x": 1.0}}}"#;
        let sent = sent(text, from, &onward);
        assert!(sent.contains(r#""arguments":{"x": 1.0}"#), "{sent}");
        let mut expected = envelope.clone();
        expected["progressToken"] = json!(5);
        expected["traceparent"] = json!("00");
        assert_eq!(
            value(&sent)["params"],
            json!({"_meta": expected, "name": "p", "arguments": {"x": 1.0}})
        );
    }
}

#[test]
fn a_legacy_request_that_poses_as_modern_is_undone() {
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{{{ENVELOPE},"a":1}}}}}}"#
    );
    assert_eq!(
        sent(&text, AUTUMN, &Onward::new(SUMMER, 2)),
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"a":1}}}"#
    );
}

#[test]
fn names_are_replaced_where_the_method_has_them() {
    let cases = [
        ("tools/call", r#"{"name":"OLD","uri":"x"}"#),
        ("prompts/get", r#"{"name":"OLD"}"#),
        ("resources/read", r#"{"name":"x","uri":"OLD"}"#),
        ("resources/subscribe", r#"{"uri":"OLD"}"#),
        ("tasks/get", r#"{"taskId":"OLD"}"#),
        (
            "completion/complete",
            r#"{"name":"x","ref":{"type":"ref/prompt","name":"OLD"},"argument":{"name":"x","value":""}}"#,
        ),
        ("completion/complete", r#"{"ref":{"name":"x","uri":"OLD","type":"ref\/resource"}}"#),
    ];
    for (method, params) in cases {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        for to in [SUMMER, MODERN] {
            let onward = Onward { name: Some("new"), ..Onward::new(to, 1) };
            let mut sent = value(sent(&text, SUMMER, &onward));
            sent["params"].as_object_mut().unwrap().remove("_meta");
            assert_eq!(sent["params"], value(params.replace("OLD", "new")), "{method} to {to}");
        }
    }
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"name":"x"}}"#;
    let onward = Onward { name: Some("new"), ..Onward::new(OLDEST, 1) };
    assert_eq!(sent(text, OLDEST, &onward), text);
}

#[test]
fn notifications_carry_the_clients_own_names() {
    let note = scan(
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":0.5,"progressToken":17,"message":"17"}}"#,
    );
    assert_eq!(
        written(|out| progress(&note, b"\"t\\u0041\"", out)),
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":0.5,"progressToken":"t\u0041","message":"17"}}"#
    );
    let text = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1.0}}"#;
    assert_eq!(written(|out| log(&scan(text), out)), text);

    let plain = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let tagged = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}}"#;
    assert_eq!(written(|out| change(&scan(plain), None, out)), plain);
    assert_eq!(written(|out| change(&scan(plain), Some(b"\"l\""), out)), tagged);
    assert_eq!(written(|out| change(&scan(tagged), None, out)), plain);
    assert_eq!(written(|out| change(&scan(tagged), Some(b"4"), out)), tagged.replace("\"l\"", "4"));
    let updated = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b","_meta":{"k":1}}}"#;
    let tagged = written(|out| change(&scan(updated), Some(b"1"), out));
    assert_eq!(
        value(&tagged)["params"],
        json!({"uri":"a:b","_meta":{"k":1,"io.modelcontextprotocol/subscriptionId":1}})
    );
    assert_eq!(value(written(|out| change(&scan(&tagged), None, out))), value(updated));
}
