//! What must hold of any message.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{replied, scan, value, written};
use crate::meta::{CLIENT_CAPABILITIES, PROTOCOL_VERSION, SERVER_INFO};
use crate::method::Method;
use crate::translate::{Back, Onward, hop_error, request, response};
use crate::version::{Era, Revision};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_\\\\\"{}\\[\\],:é\u{1F600}\n]{0,8}",
        prop::sample::select(vec!["audio", "title", "_meta", "icons", "resultType", "\\u0041"])
            .prop_map(str::to_owned),
    ]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Exact in every parser.
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 4.0)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            object(inner).prop_map(Value::Object),
        ]
    })
}

fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec((text(), inner), 0..4).prop_map(|members| members.into_iter().collect())
}

/// Any content and any members that nobody knows, none of which says a word that only some
/// revisions have.
fn plain_result() -> impl Strategy<Value = Map<String, Value>> {
    (
        prop::collection::vec("[a-zé\"\\\\]{0,8}", 0..3),
        object(json()),
        prop::option::of(object(json())),
    )
        .prop_map(|(texts, mut members, meta)| {
            for known in ["resultType", "_meta", "ttlMs", "cacheScope", "messages"] {
                members.remove(known);
            }
            let block = |text| json!({"type": "text", "text": text, "unknown": 1.5});
            members.insert("content".into(), texts.into_iter().map(block).collect());
            if let Some(mut meta) = meta.filter(|meta| !meta.is_empty()) {
                meta.remove(SERVER_INFO);
                if !meta.is_empty() {
                    members.insert("_meta".into(), Value::Object(meta));
                }
            }
            members
        })
}

fn id() -> impl Strategy<Value = Value> {
    prop_oneof![any::<i64>().prop_map(Value::from), text().prop_map(Value::from)]
}

fn revision(era: Era) -> impl Strategy<Value = Revision> {
    let all: Vec<_> = Revision::ALL.into_iter().filter(|r| r.era() == era).collect();
    prop::sample::select(all)
}

fn any_revision() -> impl Strategy<Value = Revision> {
    prop::sample::select(Revision::ALL.to_vec())
}

/// JSON with white space of all kinds between its tokens, and some keys escaped.
fn spaced(json: &Value, spaces: &[u8]) -> String {
    let mut spaces = spaces.iter().cycle();
    let mut space = move || match spaces.next().map_or(0, |n| n % 5) {
        0 => " ",
        1 => "\n\t",
        2 => "\r",
        _ => "",
    };
    let text = json.to_string();
    let (mut out, mut inside, mut escaped) = (String::new(), false, false);
    for c in text.chars() {
        let structural = !inside && matches!(c, '{' | '}' | '[' | ']' | ',' | ':');
        if structural {
            out.push_str(space());
        }
        out.push(c);
        if structural {
            out.push_str(space());
        }
        match c {
            _ if escaped => escaped = false,
            '\\' if inside => escaped = true,
            '"' => inside = !inside,
            _ => {}
        }
    }
    out
}

fn line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

proptest! {
    #[test]
    fn a_call_within_an_era_changes_the_hops_own_values_only(
        (from, to) in prop_oneof![
            (revision(Era::Legacy), revision(Era::Legacy)),
            (revision(Era::Modern), revision(Era::Modern)),
        ],
        (old, token) in (id(), id()), new in any::<i64>(), name in text(),
        (params, meta, capabilities) in (object(json()), object(json()), object(json())),
        envelope_first in any::<bool>(), spaces in any::<Vec<u8>>(),
    ) {
        let (mut params, mut meta) = (params, meta);
        meta.insert("progressToken".into(), json!("<TOKEN>"));
        if to.era() == Era::Modern {
            meta.insert(PROTOCOL_VERSION.into(), json!(to.as_str()));
            meta.insert(CLIENT_CAPABILITIES.into(), json!("<CAPABILITIES>"));
        }
        params.insert("_meta".into(), Value::Object(meta));
        params.insert("name".into(), json!("<NAME>"));
        let outer = json!({"jsonrpc": "2.0", "id": "<ID>", "method": "prompts/get", "params": params});
        let text = spaced(&outer, &spaces);
        // The order of the members is theirs.
        let text = if envelope_first {
            text
        } else {
            let params = spaced(&outer["params"], &spaces);
            format!("{{\"params\":{params},\"method\":\"prompts/get\",\"id\":\"<ID>\",\"jsonrpc\":\"2.0\"}}")
        };
        let fill = |id: &Value, token: &Value, capabilities: &Value, name: &str| {
            text.replace("\"<ID>\"", &id.to_string())
                .replace("\"<TOKEN>\"", &token.to_string())
                .replace("\"<CAPABILITIES>\"", &capabilities.to_string())
                .replace("\"<NAME>\"", &json!(name).to_string())
        };
        let theirs = fill(&old, &token, &json!({"roots": {}}), "a name");
        let capabilities = Value::Object(capabilities);
        let json = capabilities.to_string();
        let onward =
            Onward { name: Some(&name), capabilities: Some(json.as_bytes()), ..Onward::new(to, new) };
        let got = written(|out| request(&scan(&theirs), from, &onward, out));
        prop_assert_eq!(got, line(&fill(&json!(new), &json!(new), &capabilities, &name)));
    }

    #[test]
    fn a_result_within_an_era_changes_its_id_only(
        (from, to) in prop_oneof![
            (revision(Era::Legacy), Just(Revision::LATEST_LEGACY)),
            (revision(Era::Modern), revision(Era::Modern)),
        ],
        old in id(), new in any::<i64>(), body in object(json()), spaces in any::<Vec<u8>>(),
        method in prop::sample::select(Method::ALL.to_vec()),
    ) {
        let text = spaced(&json!({"jsonrpc": "2.0", "id": "<ID>", "result": body}), &spaces);
        let theirs = text.replace("\"<ID>\"", &new.to_string());
        let id = old.to_string();
        let back = Back { server_info: Some(b"{}"), wraps: true, ..Back::new(to, id.as_bytes()) };
        let got = replied(|out| response(method, &scan(&theirs), from, &back, out));
        prop_assert_eq!(got, line(&text.replace("\"<ID>\"", &id)));
    }

    #[test]
    fn any_request_arrives_as_one_with_all_its_members(
        (from, to) in (any_revision(), any_revision()), old in id(), token in prop::option::of(id()),
        params in object(json()), meta in object(json()), spaces in any::<Vec<u8>>(),
    ) {
        let (mut params, mut meta) = (params, meta);
        if let Some(token) = &token {
            meta.insert("progressToken".into(), token.clone());
        }
        for own in ["task", "inputResponses", "requestState"] {
            params.remove(own);
        }
        params.insert("_meta".into(), Value::Object(meta.clone()));
        let message = json!({"jsonrpc": "2.0", "id": old, "method": "tools/call", "params": params});
        let text = spaced(&message, &spaces);
        let got = value(written(|out| request(&scan(&text), from, &Onward::new(to, -4), out)));
        prop_assert_eq!(&got["id"], &json!(-4));
        let mut arrived = got["params"].clone();
        let arrived = arrived.as_object_mut().unwrap();
        let own = arrived.remove("_meta").unwrap_or_else(|| json!({}));
        let mut own = own.as_object().unwrap().clone();
        let modern = to.era() == Era::Modern && from.era() == Era::Legacy;
        own.retain(|key, _| !key.starts_with("io.modelcontextprotocol/"));
        if token.is_some() {
            prop_assert_eq!(own.get("progressToken"), Some(&json!(-4)));
            meta.insert("progressToken".into(), json!(-4));
        }
        prop_assert_eq!(own, meta);
        params.remove("_meta");
        prop_assert_eq!(&*arrived, &params);
        prop_assert_eq!(modern, got["params"]["_meta"].get("io.modelcontextprotocol/clientCapabilities").is_some());
    }

    #[test]
    fn a_result_that_crosses_twice_is_itself_again(
        legacy in revision(Era::Legacy), result in plain_result(), old in id(), spaces in any::<Vec<u8>>(),
        named in any::<bool>(),
    ) {
        let method = Method::ToolsCall;
        let text = spaced(&json!({"jsonrpc": "2.0", "id": 1, "result": result}), &spaces);
        let server_info = named.then_some(&b"{\"name\":\"s\",\"version\":\"1\"}"[..]);
        let modern = Back { server_info, ..Back::new(Revision::LATEST, b"2") };
        let modern = replied(|out| response(method, &scan(&text), legacy, &modern, out));
        prop_assert_eq!(&value(&modern)["result"]["resultType"], &json!("complete"));
        let id = old.to_string();
        let newest = Back::new(Revision::LATEST_LEGACY, id.as_bytes());
        let again = replied(|out| response(method, &scan(&modern), Revision::LATEST, &newest, out));
        prop_assert_eq!(value(again), json!({"jsonrpc": "2.0", "id": old, "result": result}));
    }

    #[test]
    fn any_answer_becomes_one_message(
        (from, to) in (any_revision(), any_revision()), body in object(json()), old in id(),
        method in prop::sample::select(Method::ALL.to_vec()), spaces in any::<Vec<u8>>(),
        code in prop_oneof![Just(None), (-32700_i64..-31990).prop_map(Some)], wraps in any::<bool>(),
    ) {
        let mut body = body;
        let outcome = if let Some(code) = code {
            body.insert("code".into(), code.into());
            "error"
        } else {
            "result"
        };
        let text = spaced(&json!({"jsonrpc": "2.0", "id": 1, outcome: body}), &spaces);
        let id = old.to_string();
        let back = Back { wraps, server_info: Some(b"{}"), ..Back::new(to, id.as_bytes()) };
        let answer = scan(&text);
        let got = value(replied(|out| response(method, &answer, from, &back, out)));
        prop_assert_eq!(&got["id"], &old);
        prop_assert_eq!(hop_error(&answer).is_some(), matches!(code, Some(-32022..=-32020 | -32042)));
    }
}

#[test]
fn a_megabyte_crosses_whole() {
    let data = "A".repeat(1 << 20);
    let noise = "\\\"audio\\\",{".repeat(50_000);
    for (from, to) in Revision::ALL.iter().flat_map(|a| Revision::ALL.map(|b| (*a, b))) {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"image","data":"{data}","mimeType":"image/png"}},{{"type":"text","text":"{noise}"}}]}}}}"#
        );
        let got = replied(|out| {
            response(Method::ToolsCall, &scan(&text), from, &Back::new(to, b"2"), out)
        });
        let mut expected = value(&text)["result"].clone();
        if to.era() == Era::Modern && from.era() == Era::Legacy {
            expected["resultType"] = json!("complete");
        }
        assert!(value(&got)["result"] == expected, "{from} to {to}");
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a","arguments":{{"data":"{data}"}}}}}}"#
        );
        let sent = written(|out| request(&scan(&text), from, &Onward::new(to, 2), out));
        assert!(value(&sent)["params"]["arguments"] == value(&text)["params"]["arguments"]);
    }
}

#[test]
fn keys_that_occur_twice_stay_twice() {
    let text = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","x":1,"x":2,"content":[{"type":"text","text":"a","text":"b"}]}}"#;
    let back = Back::new(Revision::V2024_11_05, b"1");
    let got = replied(|out| response(Method::ToolsCall, &scan(text), Revision::LATEST, &back, out));
    assert_eq!(got, text.replace(r#""resultType":"complete","#, ""));
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":1,"x":2,"_meta":{"a":1,"a":2}}}"#;
    let got = written(|out| {
        request(&scan(text), Revision::LATEST, &Onward::new(Revision::V2024_11_05, 1), out);
    });
    assert_eq!(got, text);
}
