//! Results and errors.

use serde_json::{Value, json};

use super::{AUTUMN, MODERN, OLDEST, SPRING, SUMMER, replied, scan, value};
use crate::method::Method;
use crate::translate::{Back, HopError, entry, hop_error, response, url_questions};
use crate::version::{Era, Revision};

const INFO: &[u8] = br#"{"name":"s","version":"1"}"#;

fn answered(method: Method, text: &str, from: Revision, back: &Back<'_>) -> String {
    replied(|out| response(method, &scan(text), from, back, out))
}

fn result(method: Method, result: &Value, from: Revision, to: Revision) -> Value {
    let text = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
    let answer = value(answered(method, &text, from, &Back::new(to, b"\"c\"")));
    assert_eq!(answer["id"], "c");
    answer["result"].clone()
}

#[test]
fn what_needs_no_other_words_keeps_its_bytes() {
    let text = r#" {"result" : { "content":[{"type":"text","text":"\u0041 \"audio\""} ], "x":1.0,"_meta":{"a":{}} },"id": 12 ,"jsonrpc":"2.0"}"#;
    for from in Revision::ALL.into_iter().filter(|r| r.era() == Era::Legacy) {
        for to in Revision::ALL.into_iter().filter(|r| *r >= from && r.era() == Era::Legacy) {
            for id in ["\"i\\\"d\"", "-1", "\"\""] {
                let back = Back::new(to, id.as_bytes());
                assert_eq!(answered(Method::ToolsCall, text, from, &back), text.replace("12", id),);
            }
        }
    }
    let text = r#"{"id":12,"jsonrpc":"2.0","result":{"resultType":"complete","content":[],"structuredContent":null,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"up"}}}}"#;
    let back = Back { server_info: Some(INFO), wraps: true, ..Back::new(MODERN, b"\"i\"") };
    assert_eq!(answered(Method::ToolsCall, text, MODERN, &back), text.replace("12", "\"i\""));
}

#[test]
fn a_legacy_result_gains_what_modern_clients_need() {
    let back = Back { server_info: Some(INFO), ..Back::new(MODERN, b"1") };
    let cases = [
        (
            Method::ToolsCall,
            "{}",
            r#"{"_meta":{"io.modelcontextprotocol/serverInfo":INFO},"resultType":"complete"}"#,
        ),
        (
            Method::ToolsCall,
            r#"{ "content":[ ]}"#,
            r#"{"_meta":{"io.modelcontextprotocol/serverInfo":INFO},"resultType":"complete", "content":[ ]}"#,
        ),
        (
            Method::ToolsCall,
            r#"{"content":[],"_meta":{}}"#,
            r#"{"resultType":"complete","content":[],"_meta":{"io.modelcontextprotocol/serverInfo":INFO}}"#,
        ),
        (
            Method::ToolsCall,
            r#"{"_meta":{"a":"\"}"},"content":[]}"#,
            r#"{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":INFO,"a":"\"}"},"content":[]}"#,
        ),
        (
            Method::ResourcesRead,
            r#"{"_meta":{"io.modelcontextprotocol/serverInfo":1},"contents":[]}"#,
            r#"{"ttlMs":0,"cacheScope":"private","resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":1},"contents":[]}"#,
        ),
        (
            Method::PromptsList,
            r#"{"ttlMs":5,"prompts":[],"resultType":"complete"}"#,
            r#"{"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":INFO},"ttlMs":5,"prompts":[],"resultType":"complete"}"#,
        ),
        (Method::ToolsCall, r#"{"_meta":null}"#, r#"{"resultType":"complete","_meta":null}"#),
    ];
    let info = std::str::from_utf8(INFO).unwrap();
    for from in Revision::ALL.into_iter().filter(|r| r.era() == Era::Legacy) {
        for (method, old, new) in cases {
            let text = format!(r#"{{"jsonrpc":"2.0","result":{old},"id":1}}"#);
            let new = new.replace("INFO", info);
            assert_eq!(
                answered(method, &text, from, &back),
                format!(r#"{{"jsonrpc":"2.0","result":{new},"id":1}}"#)
            );
        }
    }
    let text = r#"{"jsonrpc":"2.0","result":{},"id":1}"#;
    assert_eq!(
        answered(Method::Complete, text, SUMMER, &Back::new(MODERN, b"\"1\"")),
        r#"{"jsonrpc":"2.0","result":{"resultType":"complete"},"id":"1"}"#
    );
}

#[test]
fn a_legacy_tool_loses_what_only_its_own_era_means() {
    let tools = json!({"tools": [
        {"name": "a", "inputSchema": {"type": "object", "properties": {
            "x-mcp-header": {"type": "string", "x-mcp-header": "A"},
            "b": {"anyOf": [{"x-mcp-header": "B"}, true], "default": {"x-mcp-header": 1}}}},
         "execution": {"taskSupport": "optional"}, "title": "t", "unknown": 1},
        {"name": "b", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}},
    ]});
    let back = result(Method::ToolsList, &tools, AUTUMN, MODERN);
    assert_eq!(
        back["tools"],
        json!([
            {"name": "a", "inputSchema": {"type": "object", "properties": {
                "x-mcp-header": {"type": "string"},
                "b": {"anyOf": [{}, true], "default": {"x-mcp-header": 1}}}},
             "title": "t", "unknown": 1},
            tools["tools"][1],
        ])
    );
    assert_eq!(back["ttlMs"], 0);
}

#[test]
fn a_modern_result_loses_what_legacy_clients_lack() {
    let text = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":1,"contents":[ {"uri":"a","text":"x","y":1.0}],"cacheScope":"public","z":[ ],"_meta":{"io.modelcontextprotocol/serverInfo":{},"k":1}}}"#;
    let bare = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{}}}}"#;
    for to in Revision::ALL.into_iter().filter(|r| r.era() == Era::Legacy) {
        let back = Back::new(to, b"\"x\"");
        assert_eq!(
            answered(Method::ResourcesRead, text, MODERN, &back),
            r#"{"jsonrpc":"2.0","id":"x","result":{"contents":[ {"uri":"a","text":"x","y":1.0}],"z":[ ],"_meta":{"k":1}}}"#
        );
        assert_eq!(
            answered(Method::Complete, bare, MODERN, &back),
            r#"{"jsonrpc":"2.0","id":"x","result":{}}"#
        );
        for kind in ["input_required", "task", "other"] {
            let asked = bare.replace("complete", kind);
            let error = value(answered(Method::ToolsCall, &asked, MODERN, &back));
            assert_eq!(error["error"]["code"], -32603);
            assert!(error["error"]["message"].as_str().unwrap().contains(kind));
        }
    }
}

/// Every kind of block, as each revision says it.
#[test]
fn blocks_are_said_in_the_words_of_the_client() {
    let blocks = json!([
        {"type": "text", "text": "t", "unknown": 1},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "a:b", "name": "n", "title": "T", "unknown": 2,
         "icons": [{"src": "https://x"}]},
        {"type": "resource", "resource": {"uri": "a:b", "text": "t", "unknown": 3}},
        {"type": "later", "x": 1.0},
        {"no": "type"},
    ]);
    for from in [AUTUMN, MODERN] {
        for to in Revision::ALL.into_iter().filter(|to| *to < from) {
            let mut expected = blocks.clone();
            if to < AUTUMN {
                expected[3].as_object_mut().unwrap().remove("icons");
            }
            if to < SUMMER {
                expected[3] = json!({"type": "text", "text": "T: a:b", "unknown": 2});
            }
            if to < SPRING {
                let note = "[audio of type audio/wav, about 3 bytes, left out]";
                expected[2] = json!({"type": "text", "text": note});
            }
            let call =
                result(Method::ToolsCall, &json!({"content": blocks, "isError": true}), from, to);
            assert_eq!(call, json!({"content": expected, "isError": true}), "{from} to {to}");

            let message = |block: &Value| json!({"role": "user", "content": block, "unknown": 4});
            let messages = |blocks: &Value| -> Value {
                blocks.as_array().unwrap().iter().map(message).collect()
            };
            let prompt = json!({"description": "d", "messages": messages(&blocks)});
            let got = result(Method::PromptsGet, &prompt, from, to);
            assert_eq!(got, json!({"description": "d", "messages": messages(&expected)}));
        }
    }
}

#[test]
fn structured_content_fits_the_client() {
    let call = |json: Value| json!({"content": [], "structuredContent": json, "x": 1});
    let text = |json: &Value| json!([{"type": "text", "text": json.to_string()}]);
    for json in [json!({"a": 1}), json!([1, 2]), json!(null), json!("x\"\u{e9}"), json!(1.5)] {
        for to in [OLDEST, SPRING] {
            let got = result(Method::ToolsCall, &call(json.clone()), MODERN, to);
            assert_eq!(got, json!({"content": text(&json), "x": 1}), "{to}");
        }
        for to in [SUMMER, AUTUMN] {
            let got = result(Method::ToolsCall, &call(json.clone()), MODERN, to);
            let wrapped = if json.is_object() { json.clone() } else { json!({ "result": json }) };
            assert_eq!(got, call(wrapped), "{to}");
            let line = json!({"jsonrpc": "2.0", "id": 1, "result": call(json.clone())}).to_string();
            let back = Back { wraps: true, ..Back::new(to, b"1") };
            let got = value(answered(Method::ToolsCall, &line, MODERN, &back));
            assert_eq!(got["result"], call(json!({ "result": json })), "{to}");
        }
    }
    // Not every number fits the parser; it is said all the same.
    let huge = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":[1e999]}}"#;
    assert_eq!(
        answered(Method::ToolsCall, huge, MODERN, &Back::new(OLDEST, b"1")),
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"[1e999]"}]}}"#
    );
    // A block that says the same is enough; without any `content` there must be one.
    let said = json!({"content": [{"type": "text", "text": " {\"b\":2,\"a\":1}"}], "structuredContent": {"a": 1, "b": 2}});
    assert_eq!(
        result(Method::ToolsCall, &said, AUTUMN, SPRING),
        json!({"content": said["content"]})
    );
    let bare = json!({"structuredContent": {"a": 1}});
    assert_eq!(
        result(Method::ToolsCall, &bare, MODERN, OLDEST),
        json!({"content": text(&json!({"a": 1}))})
    );
}

#[test]
fn lists_fit_the_client() {
    let tool = json!({"name": "t", "title": "T", "inputSchema": {"type": "object", "properties": {"title": {}}},
        "outputSchema": {"type": "array", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": {}}},
        "annotations": {"readOnlyHint": true, "unknown": 1}, "icons": [{"src": "https://x"}], "unknown": {"a": 1.0},
        "_meta": {"ui": 1}});
    let wrapped = json!({"type": "object", "properties": {"result": {"type": "array",
        "items": {"$ref": "#/properties/result/$defs/x"}, "$defs": {"x": {}}}}, "required": ["result"]});
    for to in Revision::ALL {
        let mut expected = tool.clone();
        let members = expected.as_object_mut().unwrap();
        if to < AUTUMN {
            members.remove("icons");
        }
        if to < SUMMER {
            members.remove("title");
            members.remove("outputSchema");
            members["annotations"] = json!({"title": "T", "readOnlyHint": true});
        } else if to < MODERN {
            members["outputSchema"] = wrapped.clone();
        }
        if to < SPRING {
            members.remove("annotations");
        }
        let list = json!({"tools": [tool], "nextCursor": "n", "unknown": 1});
        let got = result(Method::ToolsList, &list, MODERN, to);
        assert_eq!(got, json!({"tools": [expected], "nextCursor": "n", "unknown": 1}), "{to}");
        let mut out = Vec::new();
        entry(Method::ToolsList, tool.to_string().as_bytes(), MODERN, to, &mut out);
        assert_eq!(value(&out), expected);
    }
    let lists = [
        (Method::PromptsList, "prompts", json!({"name": "n", "arguments": [{"name": "a"}]})),
        (Method::ResourcesList, "resources", json!({"name": "n", "uri": "a:b", "size": 1})),
        (
            Method::ResourceTemplatesList,
            "resourceTemplates",
            json!({"name": "n", "uriTemplate": "a:{b}"}),
        ),
    ];
    for (method, name, old) in lists {
        let mut new = old.clone();
        new["unknown"] = json!(1);
        let old = new.clone();
        new["title"] = json!("T");
        let titled = new.clone();
        new["icons"] = json!([{"src": "https://x"}]);
        let as_said = |to| match to {
            OLDEST | SPRING => &old,
            SUMMER => &titled,
            _ => &new,
        };
        for from in [AUTUMN, MODERN] {
            for to in Revision::ALL.into_iter().filter(|to| *to <= from) {
                let got = result(method, &json!({name: [new, old]}), from, to);
                assert_eq!(got, json!({name: [as_said(to), old]}), "{method} from {from} to {to}");
            }
        }
    }
}

#[test]
fn what_does_not_parse_is_not_lost() {
    for content in [json!(1), json!([1, {"type": "audio"}]), json!({"type": "audio"}), json!(null)]
    {
        let call = json!({"resultType": "complete", "content": content});
        assert_eq!(result(Method::ToolsCall, &call, MODERN, OLDEST), json!({"content": content}));
        let list = json!({"tools": content, "ttlMs": -1});
        assert_eq!(result(Method::ToolsList, &list, MODERN, OLDEST), json!({"tools": content}));
        let prompt = json!({"messages": content, "x": "title", "title": "audio"});
        assert_eq!(result(Method::PromptsGet, &prompt, MODERN, OLDEST), prompt);
    }
}

#[test]
fn words_behind_escapes_are_found() {
    let text = r#"{"jsonrpc":"2.0","id":1,"result":{"\u0063ontent":[{"\u0074ype":"\u0061udio","data":"AAAA","mimeType":"a/b"}],"result\u0054ype":"complete"}}"#;
    let got = value(answered(Method::ToolsCall, text, MODERN, &Back::new(OLDEST, b"1")));
    assert_eq!(got["result"]["content"][0]["type"], "text");
    assert_eq!(got["result"]["resultType"], Value::Null);
}

fn error(method: Method, error: &Value, from: Revision, back: &Back<'_>) -> Value {
    let text = json!({"jsonrpc": "2.0", "id": 1, "error": error}).to_string();
    let answer = value(answered(method, &text, from, back));
    assert_eq!(answer["id"], value(back.id_json));
    answer["error"].clone()
}

#[test]
fn a_missing_resource_has_the_code_of_the_clients_era() {
    let read = Method::ResourcesRead;
    for (from, to) in Revision::ALL.iter().flat_map(|a| Revision::ALL.map(|b| (*a, b))) {
        let back = Back::new(to, b"\"c\"");
        let missing = |era| if era == Era::Modern { -32602 } else { -32002 };
        for data in [json!({"uri": "a:b"}), json!(null)] {
            let sent =
                json!({"code": missing(from.era()), "message": "Resource not found", "data": data});
            let got = error(read, &sent, from, &back);
            let expected =
                json!({"code": missing(to.era()), "message": "Resource not found", "data": data});
            assert_eq!(got, expected, "{from} to {to}");
            // Other methods have no resource.
            assert_eq!(error(Method::ToolsCall, &sent, from, &back), sent);
        }
        let other = json!({"code": -32602, "message": "bad cursor"});
        assert_eq!(error(read, &other, from, &back), other);
    }
}

/// SDKs of older revisions leave it out.
#[test]
fn a_modern_client_hears_which_resource_is_missing() {
    let back = |to| Back { uri: Some("a:b"), ..Back::new(to, b"1") };
    let legacy = Revision::LATEST_LEGACY;
    for code in [-32002, -32602] {
        let bare = json!({"code": code, "message": "Resource a:b not found"});
        let named =
            json!({"code": -32602, "message": "Resource a:b not found", "data": {"uri": "a:b"}});
        assert_eq!(error(Method::ResourcesRead, &bare, legacy, &back(MODERN)), named);
        assert_eq!(error(Method::ResourcesRead, &bare, legacy, &back(legacy)), bare);
        assert_eq!(error(Method::PromptsGet, &bare, legacy, &back(MODERN)), bare);
    }
    let other = json!({"code": -32602, "message": "bad cursor"});
    assert_eq!(error(Method::ResourcesRead, &other, legacy, &back(MODERN)), other);
}

#[test]
fn errors_of_the_hop_do_not_reach_the_client() {
    let object = |code: i64| {
        json!({"code": code, "message": "why", "data": {
        "requiredCapabilities": {"roots": {}}, "supported": ["2026-07-28", 1, "x"],
        "elicitations": [{"mode": "url", "url": "https://x", "message": "m", "elicitationId": "e"}]}})
    };
    let text = |code| json!({"jsonrpc": "2.0", "error": object(code)}).to_string();
    let kind = |code: i64| hop_error(&scan(&text(code))).map(|error| format!("{error:?}"));
    assert_eq!(hop_error(&scan(&text(-32020))), Some(HopError::HeaderMismatch));
    assert_eq!(
        hop_error(&scan(&text(-32021))),
        Some(HopError::MissingCapability { required: Some(br#"{"roots":{}}"#) })
    );
    let supported = vec!["2026-07-28".to_owned(), "x".to_owned()];
    assert_eq!(hop_error(&scan(&text(-32022))), Some(HopError::UnsupportedVersion { supported }));
    assert_eq!((kind(-32602), kind(-32002), kind(-32099)), (None, None, None));
    let answer = scan(&text(-32042));
    let Some(HopError::UrlElicitationRequired { elicitations }) = hop_error(&answer) else {
        panic!("not recognised")
    };
    let questions: Vec<_> = url_questions(elicitations).iter().map(value).collect();
    let params = json!({"mode": "url", "url": "https://x", "message": "m"});
    assert_eq!(questions, [json!({"method": "elicitation/create", "params": params})]);

    for (from, to) in Revision::ALL.iter().flat_map(|a| Revision::ALL.map(|b| (*a, b))) {
        for code in [-32020, -32021, -32022, -32042] {
            let relayed = match code {
                -32042 => to == AUTUMN,
                _ => from.era() == Era::Legacy && to.era() == Era::Legacy,
            };
            let got = error(Method::ToolsCall, &object(code), from, &Back::new(to, b"5"));
            if relayed {
                assert_eq!(got, object(code), "{from} to {to}");
            } else {
                assert_eq!(got["code"], -32603, "{code} {from} to {to}");
                assert!(got["message"].as_str().unwrap().contains("upstream"));
            }
        }
    }
    let back = Back { lacks_capability: true, ..Back::new(MODERN, b"5") };
    assert_eq!(error(Method::ToolsCall, &object(-32021), MODERN, &back), object(-32021));
}

#[test]
fn errors_keep_their_bytes_and_get_an_id() {
    let text =
        r#"{"jsonrpc":"2.0","error":{ "code":-32000 ,"message":"m","data":{"x":1.0}},"id":9}"#;
    for (from, to) in Revision::ALL.iter().flat_map(|a| Revision::ALL.map(|b| (*a, b))) {
        let back = Back::new(to, b"\"c\"");
        assert_eq!(answered(Method::ToolsCall, text, from, &back), text.replace(":9", ":\"c\""));
        let null = text.replace(":9", ":null");
        assert_eq!(answered(Method::ToolsCall, &null, from, &back), text.replace(":9", ":\"c\""));
        let none = text.replace(",\"id\":9", "");
        assert_eq!(
            answered(Method::ToolsCall, &none, from, &back),
            r#"{"jsonrpc":"2.0","id":"c","error":{ "code":-32000 ,"message":"m","data":{"x":1.0}}}"#
        );
    }
}
