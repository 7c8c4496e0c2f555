//! What servers ask of clients, both ways.

use serde_json::{Value, json};

use super::{AUTUMN, OLDEST, SPRING, SUMMER, scan, value, written};
use crate::message::Part;
use crate::method::Method;
use crate::translate::{
    answer_to_legacy, answer_to_modern, can_answer, input_required, question, question_to_legacy,
    question_to_modern,
};
use crate::types::InputRequest;
use crate::version::{Era, Revision};

const ELICIT: &str = "elicitation/create";
const SAMPLE: &str = "sampling/createMessage";
const ROOTS: &str = "roots/list";

fn ask(method: &str, params: &Value) -> crate::Message {
    scan(&json!({"jsonrpc": "2.0", "id": 0, "method": method, "params": params}).to_string())
}

/// The question as a legacy client of `to` gets it, from a modern upstream and from a legacy one.
fn legacy(method: &str, params: &Value, to: Revision, id: Option<&str>) -> Result<Value, String> {
    let entry = json!({"method": method, "params": params}).to_string();
    let entry: InputRequest = serde_json::from_str(&entry).unwrap();
    let modern = question_to_legacy(&entry, to, id).map(|(asked, params)| {
        assert_eq!(asked.as_str(), method);
        value(params)
    });
    if id.is_none() {
        let same = question(&ask(method, params), AUTUMN, to, None).map(value);
        assert_eq!(same, modern, "{method} at {to}");
    }
    modern
}

fn form(field: Value) -> Value {
    json!({"mode": "form", "message": "m", "requestedSchema": {"type": "object", "properties": {"f": field}, "required": ["f"]}, "unknown": 1})
}

#[test]
fn elicitation_has_the_form_of_the_clients_revision() {
    let plain = form(json!({"type": "string", "format": "email", "default": "a@b"}));
    for to in [OLDEST, SPRING] {
        assert!(legacy(ELICIT, &plain, to, None).unwrap_err().contains(to.as_str()));
    }
    assert_eq!(legacy(ELICIT, &plain, AUTUMN, None).unwrap(), plain);
    let modeless = |mut params: Value| {
        params.as_object_mut().unwrap().remove("mode");
        params
    };
    assert_eq!(legacy(ELICIT, &plain, SUMMER, None).unwrap(), modeless(plain.clone()));

    let titled = form(json!({"type": "string", "title": "t",
        "oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}));
    let named =
        form(json!({"type": "string", "title": "t", "enum": ["a", "b"], "enumNames": ["A", "b"]}));
    assert_eq!(legacy(ELICIT, &titled, AUTUMN, None).unwrap(), titled);
    assert_eq!(legacy(ELICIT, &titled, SUMMER, None).unwrap(), modeless(named));

    for items in
        [json!({"type": "string", "enum": ["a"]}), json!({"anyOf": [{"const": "a", "title": "A"}]})]
    {
        let many = form(json!({"type": "array", "items": items}));
        assert_eq!(legacy(ELICIT, &many, AUTUMN, None).unwrap(), many);
        let why = legacy(ELICIT, &many, SUMMER, None).unwrap_err();
        assert!(why.contains("\"f\""), "{why}");
    }
}

#[test]
fn a_url_is_asked_where_there_are_urls() {
    let url = json!({"mode": "url", "message": "m", "url": "https://x"});
    for to in [OLDEST, SPRING, SUMMER] {
        assert!(legacy(ELICIT, &url, to, Some("e")).is_err());
    }
    let mut named = url.clone();
    named["elicitationId"] = json!("e\"1");
    assert_eq!(legacy(ELICIT, &url, AUTUMN, Some("e\"1")).unwrap(), named);
    assert!(legacy(ELICIT, &url, AUTUMN, None).unwrap_err().contains("elicitationId"));
    assert_eq!(legacy(ELICIT, &named, AUTUMN, None).unwrap(), named);
    named["elicitationId"] = json!("other");
    assert_eq!(legacy(ELICIT, &named, AUTUMN, Some("e")).unwrap()["elicitationId"], "e");
    // The id belongs to URLs only.
    let plain = form(json!({"type": "boolean"}));
    assert_eq!(legacy(ELICIT, &plain, AUTUMN, Some("e")).unwrap(), plain);
}

#[test]
fn sampling_has_tools_from_2025_11_25() {
    let user = |content: Value| json!({"role": "user", "content": content});
    let text = |text: &str| json!({"type": "text", "text": text});
    let audio = json!({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"});
    let plain =
        json!({"messages": [user(text("a"))], "maxTokens": 5, "temperature": 1.5, "unknown": 1});
    for to in Revision::ALL.into_iter().filter(|r| r.era() == Era::Legacy) {
        assert_eq!(legacy(SAMPLE, &plain, to, None).unwrap(), plain, "{to}");
        let several = json!({"messages": [user(json!([text("a"), audio])), user(text("b"))], "maxTokens": 5, "x": 1});
        let got = legacy(SAMPLE, &several, to, None).unwrap();
        let heard = if to == OLDEST {
            text("[audio of type audio/wav, about 3 bytes, left out]")
        } else {
            audio.clone()
        };
        if to == AUTUMN {
            assert_eq!(got, several);
        } else {
            let apart = json!([user(text("a")), user(heard), user(text("b"))]);
            assert_eq!(got, json!({"messages": apart, "maxTokens": 5, "x": 1}), "{to}");
        }
        let tools =
            json!({"messages": [user(text("a"))], "maxTokens": 5, "tools": [], "toolChoice": {}});
        let used = user(json!({"type": "tool_use", "id": "1", "name": "t", "input": {}}));
        let used = json!({"messages": [used], "maxTokens": 5});
        for params in [tools, used] {
            match legacy(SAMPLE, &params, to, None) {
                Ok(got) => assert!(to == AUTUMN && got == params),
                Err(why) => assert!(to < AUTUMN && why.contains("tools"), "{why}"),
            }
        }
        let malformed = json!({"messages": 1});
        assert_eq!(legacy(SAMPLE, &malformed, to, None).unwrap(), malformed);
    }
}

#[test]
fn questions_leave_the_hop_behind() {
    let meta = json!({"progressToken": 1, "k": 2, "io.modelcontextprotocol/related-task": {"taskId": "t"}});
    let params = json!({"mode": "url", "url": "https://x", "message": "m", "elicitationId": "e", "task": {}, "_meta": meta});
    let entry = value(question_to_modern(&ask(ELICIT, &params)).unwrap());
    let bare = json!({"mode": "url", "url": "https://x", "message": "m", "_meta": {"k": 2}});
    assert_eq!(entry, json!({"method": ELICIT, "params": bare}));
    let entry =
        value(question_to_modern(&ask(ROOTS, &json!({"_meta": {"progressToken": 1}}))).unwrap());
    assert_eq!(entry, json!({"method": ROOTS, "params": {}}));
    let bare = scan(r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
    assert_eq!(value(question_to_modern(&bare).unwrap()), json!({"method": ROOTS, "params": {}}));
    assert_eq!(value(question(&bare, OLDEST, AUTUMN, None).unwrap()), json!({}));

    let refused = question_to_modern(&ask("tools/call", &json!({}))).unwrap_err();
    assert_eq!(refused.code, crate::Code::METHOD_NOT_FOUND);
    let empty = scan(r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}"#);
    assert_eq!(question_to_modern(&empty).unwrap_err().code, crate::Code::INVALID_PARAMS);
    assert!(question(&ask("ping", &json!({})), OLDEST, AUTUMN, None).is_err());
    let entry: InputRequest = serde_json::from_str(r#"{"method":"later/ask"}"#).unwrap();
    assert!(question_to_legacy(&entry, AUTUMN, None).unwrap_err().contains("later/ask"));

    // Between legacy peers a task stays a task.
    let got = value(question(&ask(ELICIT, &params), AUTUMN, AUTUMN, None).unwrap());
    let mut expected = params;
    expected["_meta"].as_object_mut().unwrap().remove("progressToken");
    assert_eq!(got, expected);
}

#[test]
fn answers_cross_both_ways() {
    let elicited = r#"{"action":"accept","content":{"n":1.0,"many":["a"]},"_meta":{"k":1,"io.modelcontextprotocol/related-task":{}}}"#;
    let bare = r#"{"action":"accept","content":{"n":1.0,"many":["a"]},"_meta":{"k":1}}"#;
    assert_eq!(answer_to_modern(elicited.as_bytes()), bare.as_bytes());
    for upstream in Revision::ALL.into_iter().filter(|r| r.era() == Era::Legacy) {
        let got = answer_to_legacy(bare.as_bytes(), Method::ElicitationCreate, upstream);
        assert_eq!(got, bare.as_bytes());
        let roots = br#"{"resultType":"complete","roots":[{"uri":"file:///a"}]}"#;
        let got = answer_to_legacy(roots, Method::RootsList, upstream);
        assert_eq!(got, br#"{"roots":[{"uri":"file:///a"}]}"#);

        let text = |text: &str| json!({"type": "text", "text": text});
        let said = |content: Value| json!({"role": "assistant", "model": "m", "content": content, "unknown": 1});
        let several = said(json!([text("a"), text("b")]));
        let got = value(answer_to_legacy(
            several.to_string().as_bytes(),
            Method::CreateMessage,
            upstream,
        ));
        assert_eq!(got, if upstream < AUTUMN { said(text("a\nb")) } else { several });
        assert_eq!(answer_to_legacy(b"7", Method::CreateMessage, upstream), b"{}");
    }
}

#[test]
fn only_those_are_asked_who_can_answer() {
    let url = json!({"mode": "url", "message": "m", "url": "https://x"});
    let later = json!({"mode": "later"});
    let form = form(json!({"type": "boolean"}));
    let sample = json!({"messages": [], "maxTokens": 1});
    let tools = json!({"messages": [], "maxTokens": 1, "tools": []});
    let cases = [
        (Method::ElicitationCreate, &form, "{}", Err(json!({"elicitation": {"form": {}}}))),
        (Method::ElicitationCreate, &form, r#"{"elicitation":{}}"#, Ok(())),
        (Method::ElicitationCreate, &form, r#"{"elicitation":{"form":{}}}"#, Ok(())),
        (
            Method::ElicitationCreate,
            &form,
            r#"{"elicitation":{"url":{}}}"#,
            Err(json!({"elicitation": {"form": {}}})),
        ),
        (
            Method::ElicitationCreate,
            &url,
            r#"{"elicitation":{}}"#,
            Err(json!({"elicitation": {"url": {}}})),
        ),
        (Method::ElicitationCreate, &url, r#"{"elicitation":{"form":{},"url":{}}}"#, Ok(())),
        (Method::ElicitationCreate, &later, r#"{"elicitation":{"url":{}}}"#, Ok(())),
        (Method::ElicitationCreate, &later, "{}", Err(json!({"elicitation": {"form": {}}}))),
        (Method::CreateMessage, &sample, "[]", Err(json!({"sampling": {}}))),
        (Method::CreateMessage, &sample, r#"{"sampling":{}}"#, Ok(())),
        (
            Method::CreateMessage,
            &tools,
            r#"{"sampling":{}}"#,
            Err(json!({"sampling": {"tools": {}}})),
        ),
        (Method::CreateMessage, &tools, r#"{"sampling":{"tools":{}}}"#, Ok(())),
        (Method::RootsList, &json!({}), r#"{"roots":{"listChanged":true}}"#, Ok(())),
        (Method::RootsList, &json!({}), r#"{"roots":null}"#, Err(json!({"roots": {}}))),
        (Method::ToolsCall, &json!({}), r#"{"roots":{}}"#, Err(json!({}))),
    ];
    for (method, params, capabilities, expected) in cases {
        let params = params.to_string();
        let got = can_answer(method, Some(params.as_bytes()), capabilities.as_bytes());
        let got = got.map_err(|lacks| serde_json::to_value(lacks).unwrap());
        assert_eq!(got, expected, "{method} {params} {capabilities}");
    }
}

#[test]
fn a_modern_client_is_asked_by_its_answer() {
    let entry = question_to_modern(&ask(ROOTS, &json!({}))).unwrap();
    let got = written(|out| {
        input_required(b"\"i\"", &[("k\"1", &entry), ("b", b"{}")], "s\n", Some(b"{}"), out);
    });
    assert_eq!(
        got,
        r#"{"jsonrpc":"2.0","id":"i","result":{"resultType":"input_required","inputRequests":{"k\"1":{"method":"roots/list","params":{}},"b":{}},"requestState":"s\n","_meta":{"io.modelcontextprotocol/serverInfo":{}}}}"#
    );
    let got = written(|out| input_required(b"1", &[], "s", None, out));
    assert_eq!(
        scan(&got).part(Part::Result),
        Some(&br#"{"resultType":"input_required","requestState":"s"}"#[..])
    );
    assert_eq!(scan(&got).text(Part::ResultType).as_deref(), Some("input_required"));
}
