use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::error::Code;

fn scan(text: &str) -> Result<Message, ScanFailure> {
    Message::scan(text.to_owned())
}

fn code_and_id(text: &str) -> (Code, Option<Id>) {
    let failure = scan(text).unwrap_err();
    (failure.error.code(), failure.id)
}

#[test]
fn a_call_of_2026_shows_all_its_parts() {
    let text = r#" {"jsonrpc":"2.0","id":"a\"b","method":"tools/call","params":{"_meta":{
        "io.modelcontextprotocol/protocolVersion":"2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":{"x":[1,{"id":2}]},
        "progressToken":7,"vendor/x":{"name":"no"}},
        "name":"echo","arguments":{"name":"not this","id":[[]]},"requestState":"s"}} "#;
    let message = scan(text).unwrap();
    assert_eq!(message.kind(), Kind::Request);
    assert_eq!(message.method(), Some(Method::ToolsCall));
    assert_eq!(message.id(), Some(Id::from("a\"b")));
    assert_eq!(message.text(Part::Name).unwrap(), "echo");
    assert_eq!(message.part(Part::ProgressToken).unwrap(), b"7");
    assert_eq!(message.text(Part::ProtocolVersion).unwrap(), "2026-07-28");
    assert_eq!(message.part(Part::ClientCapabilities).unwrap(), br#"{"x":[1,{"id":2}]}"#);
    assert_eq!(message.part(Part::Arguments).unwrap(), br#"{"name":"not this","id":[[]]}"#);
    assert_eq!(message.text(Part::RequestState).unwrap(), "s");
    assert_eq!(message.part(Part::Uri), None);
    assert_eq!(message.bytes(), text.as_bytes());
}

#[test]
fn kinds() {
    let kind = |text| scan(text).unwrap().kind();
    assert_eq!(kind(r#"{"jsonrpc":"2.0","method":"x"}"#), Kind::Notification);
    assert_eq!(kind(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), Kind::Response);
    assert_eq!(
        kind(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":""}}"#),
        Kind::ErrorResponse
    );
    assert_eq!(kind(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1}}"#), Kind::ErrorResponse);
    assert_eq!(kind(r#"{"jsonrpc":"2.0","error":{"code":-1}}"#), Kind::ErrorResponse);
}

#[test]
fn each_fault_has_its_name_its_code_and_its_id() {
    let one = Some(Id::from(1));
    for (text, code, id) in [
        ("", Code::PARSE_ERROR, None),
        ("nonsense", Code::PARSE_ERROR, None),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x""#, Code::PARSE_ERROR, None),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x"} x"#, Code::PARSE_ERROR, None),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x",}"#, Code::PARSE_ERROR, None),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\nb\"}", Code::PARSE_ERROR, None),
        (r#"{"jsonrpc":"2.0","id":01,"method":"x"}"#, Code::PARSE_ERROR, None),
        (r#""text""#, Code::INVALID_REQUEST, None),
        ("[]", Code::INVALID_REQUEST, None),
        ("{}", Code::INVALID_REQUEST, None),
        (r#"{"id":1,"method":"x"}"#, Code::INVALID_REQUEST, one.clone()),
        (r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, Code::INVALID_REQUEST, one.clone()),
        (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, Code::INVALID_REQUEST, None),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#, Code::INVALID_REQUEST, None),
        (r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, Code::INVALID_REQUEST, None),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, Code::INVALID_REQUEST, one.clone()),
        (r#"{"jsonrpc":"2.0","id":1}"#, Code::INVALID_REQUEST, one.clone()),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#,
            Code::INVALID_REQUEST,
            one.clone(),
        ),
        (
            r#"{"jsonrpc":"2.0","params":[1],"method":"x","id":1}"#,
            Code::INVALID_PARAMS,
            one.clone(),
        ),
        (
            r#"{"jsonrpc":"2.0","params":{"_meta":1},"method":"x","id":1}"#,
            Code::INVALID_PARAMS,
            one,
        ),
    ] {
        assert_eq!(code_and_id(text), (code, id), "{text}");
    }
    assert!(scan(r#"{"jsonrpc":"2.0","id":1,"result":[]}"#).unwrap_err().is_response);
}

#[test]
fn an_answer_that_is_no_message_tells_whose_it_is_unless_there_is_doubt() {
    let id = |bytes: &[u8]| {
        let failure = Message::scan(bytes.to_vec()).unwrap_err();
        failure.id.filter(|_| failure.is_response)
    };
    let deep =
        format!(r#"{{"result":{}{},"jsonrpc":"2.0","id":7}}"#, "[".repeat(200), "]".repeat(200));
    for bytes in [
        r#"{"jsonrpc":"2.0","id":7,"result":5}"#.as_bytes(),
        br#"{"jsonrpc":"2.0","id":7,"result":null}"#,
        br#"{"id":7,"result":{}}"#,
        b"{\"jsonrpc\":\"2.0\",\"result\":{\"a\":\"\xff\"},\"id\":7}",
        br#" {"jsonrpc":"2.0","id":7,"result":{"a":NaN,"b":-Infinity,"c":"\x}"}} "#,
        b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":\"tab\there\"}}",
        br#"{"jsonrpc":"2.0","id":7,"result":{},"result":{}}"#,
        br#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"x","ResultType":"y"}}"#,
        br#"{"jsonrpc":"2.0","id":7,"Error":{},"result":{}}"#,
        br#"{"jsonrpc":"2.0","id":7,"error":{},"result":{}}"#,
        deep.as_bytes(),
    ] {
        assert_eq!(id(bytes), Some(Id::from(7)), "{}", String::from_utf8_lossy(bytes));
    }
    for text in [
        r#"{"jsonrpc":"2.0","id":7,"id":7,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"ID":8,"result":{}}"#,
        r#"{"jsonrpc":"2.0","ID":7,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"x","result":5}"#,
        r#"{"jsonrpc":"2.0","id":7,"Method":"x","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"res{"jsonrpc":"2.0","id":8,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"a":"{"jsonrpc":"2.0","id":8,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":7.5,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":}"#,
        r#"[{"jsonrpc":"2.0","id":7,"result":5}]"#,
        "{\"id\":7,\"result\":\"\\",
    ] {
        assert_eq!(id(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn duplicate_keys_that_decide_something_are_refused_however_they_are_spelled() {
    for (text, key) in [
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#, "id"),
        (r#"{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"x"}"#, "id"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"a","n\u0061me":"b"}}"#, "name"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"progressToken":1,"progressToken":2}}}"#,
            "progressToken",
        ),
    ] {
        let error = scan(text).unwrap_err().error;
        assert!(matches!(error, ScanError::DuplicateKey { key: k, .. } if k == key), "{error}");
    }
}

#[test]
fn keys_that_pass_for_one_that_decides_something_are_refused() {
    let call = |envelope: &str, params: &str, meta: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call"{envelope},"params":{{"name":"a"{params},
            "_meta":{{"progressToken":1{meta}}}}}}}"#
        )
    };
    let answer = |result: &str, meta: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"x":1{result},"_meta":{{"y":1{meta}}}}}}}"#)
    };
    for (text, key) in [
        (call(r#","ID":2"#, "", ""), "id"),
        (call(r#","iD":2"#, "", ""), "id"),
        (call(",\"\u{131}d\":2", "", ""), "id"),
        (call(r#","Method":"x""#, "", ""), "method"),
        (call(r#","Params":{"name":"b"}"#, "", ""), "params"),
        (call(r#","param\u017f":{}"#, "", ""), "params"),
        (call(",\"par\u{7f}ams\":{}", "", ""), "params"),
        (call(r#","JSONRPC":"1""#, "", ""), "jsonrpc"),
        (call("", r#","Name":"b""#, ""), "name"),
        (call("", r#","name\u0000":"b""#, ""), "name"),
        (call("", r#","name\u0000x":"b""#, ""), "name"),
        (call("", r#","\u0000na\u0001me":"b""#, ""), "name"),
        (call("", r#","N\u0061ME":"b""#, ""), "name"),
        (call("", r#","URI":"b""#, ""), "uri"),
        (call("", r#","_Meta":{}"#, ""), "_meta"),
        (call("", r#","REF":{}"#, ""), "ref"),
        (call("", r#","ref":{"type":"ref/prompt","Name":"b"}"#, ""), "name"),
        (call("", r#","Level":"debug""#, ""), "level"),
        (call("", ",\"ta\u{17f}kId\":1", ""), "taskId"),
        (call("", ",\"tas\u{212a}Id\":1", ""), "taskId"),
        (call("", "", r#","ProgressToken":2"#), "progressToken"),
        (
            call("", "", r#","io.modelcontextprotocol/protocolversion":"2026-07-28""#),
            "io.modelcontextprotocol/protocolVersion",
        ),
        (answer(r#","resulttype":"input_required""#, ""), "resultType"),
        (answer(r#","RequestState":"s""#, ""), "requestState"),
        (answer(r#","Tools":[]"#, ""), "tools"),
        (answer(r#","NextCursor":"x""#, ""), "nextCursor"),
        (
            answer("", r#","IO.modelcontextprotocol/serverInfo":{}"#),
            "io.modelcontextprotocol/serverInfo",
        ),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"CODE":2}}"#.into(), "code"),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1},"Result":{}}"#.into(), "result"),
    ] {
        let error = scan(&text).unwrap_err().error;
        assert!(
            matches!(error, ScanError::LookalikeKey { alike, .. } if alike == key),
            "{text}: {error}"
        );
        assert_eq!(error.code(), Code::INVALID_REQUEST);
    }
    let half = call("", r#","name\u0000\ud800":"b""#, "");
    assert!(matches!(scan(&half).unwrap_err().error, ScanError::BadKey { .. }));
}

#[test]
fn keys_that_pass_for_nothing_and_those_of_users_are_left_alone() {
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"a","names":1,"nam":1,"name ":1,
            "arguments":{"name":"b","Name":"c","name\u0000":"d","ID":1,"\ud800":2},
            "Vendor":1,"inputResponses":{"Action":1},"_meta":{"x/Name":1,"Foo":1}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"Text":"x"}],"structuredContent":{"IsError":1},
            "tools":[],"contents":[],"Extra":1,"_meta":null}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"ref":"text","level":"info"}}"#,
    ] {
        assert!(scan(text).is_ok(), "{:?}", scan(text).err());
    }
}

#[test]
fn depth_and_length_are_bounded() {
    let deep = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"a":{open}{close}}}}}"#)
    };
    use crate::limits::{DEPTH_MAX, MESSAGE_BYTES_MAX};
    assert!(scan(&deep(DEPTH_MAX - 2)).is_ok());
    let failure = scan(&deep(DEPTH_MAX - 1)).unwrap_err();
    assert!(matches!(failure.error, ScanError::TooDeep { .. }));
    assert_eq!(failure.id, Some(Id::from(1)));
    assert!(matches!(
        scan(&" ".repeat(MESSAGE_BYTES_MAX + 1)).unwrap_err().error,
        ScanError::TooLong { .. }
    ));
    let failure = Message::scan(&b"{\"jsonrpc\":\"2.0\",\xff}"[..]).unwrap_err();
    assert_eq!(failure.error, ScanError::NotUtf8 { at: 17 });
}

#[test]
fn batches_are_split_without_copying() {
    let bytes = Bytes::from_static(br#" [ {"a":1} , [2],3 ] "#);
    assert!(is_batch(&bytes));
    assert_eq!(split_batch(&bytes).unwrap(), [&br#"{"a":1}"#[..], b"[2]", b"3"]);
    assert!(split_batch(&Bytes::from_static(b"[]")).is_err());
    assert!(split_batch(&Bytes::from_static(b"[1] 2")).is_err());
    let many = format!("[{}1]", "1,".repeat(BATCH_MAX));
    assert!(split_batch(&Bytes::from(many)).is_err());
}

#[test]
fn splice_changes_the_parts_and_nothing_else() {
    let message = scan(
        r#"{"id" : 7, "jsonrpc":"2.0","params":{"_meta":{"progressToken":"t","x":1.0}},"method":"tools/call"}"#,
    )
    .unwrap();
    let edits: &[(Part, &[u8])] =
        &[(Part::ProgressToken, b"12"), (Part::Id, b"\"new\""), (Part::Uri, b"absent")];
    assert_eq!(
        String::from_utf8(message.splice(edits)).unwrap(),
        r#"{"id" : "new", "jsonrpc":"2.0","params":{"_meta":{"progressToken":12,"x":1.0}},"method":"tools/call"}"#
    );
    assert_eq!(
        message.splice(&[(Part::ProgressToken, b"1"), (Part::Params, b"{}")]),
        br#"{"id" : 7, "jsonrpc":"2.0","params":{},"method":"tools/call"}"#
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9f64).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_id() -> impl Strategy<Value = Id> {
    prop_oneof![any::<i64>().prop_map(Id::from), any::<String>().prop_map(Id::from)]
}

fn id_json(id: &Id) -> Vec<u8> {
    let mut out = Vec::new();
    id.write_json(&mut out);
    out
}

/// Escapes of every kind, one after the other and apart, at every place of a word of eight bytes.
#[test]
fn a_text_that_is_dense_with_escapes_ends_where_it_ends_for_serde_json() {
    const PIECES: [&str; 9] =
        ["a", "bcdefghi", "\\n", "\\\"", "\\\\", "\\u0041", "\\x", "\"", "\t"];
    let mut texts = vec![String::new()];
    for _ in 0..5 {
        let longer = |text: &String| PIECES.map(|piece| format!("{text}{piece}"));
        texts = texts.iter().flat_map(longer).collect();
    }
    for (number, text) in texts.iter().enumerate() {
        let lead = "\\n".to_owned() + &"z".repeat(number % 8);
        let bytes = format!("[\"{lead}{text}\",\"{text}{lead}abcdefgh\"]");
        let theirs = serde_json::from_str::<&serde_json::value::RawValue>(&bytes);
        let is_syntax = matches!(scan_error(bytes.as_bytes()), ScanError::NotJson { .. });
        assert_eq!(is_syntax, theirs.is_err(), "{bytes}");
    }
}

proptest! {
    /// The scan accepts what serde_json accepts, and refuses what it refuses.
    #[test]
    fn agrees_with_serde_json_on_what_is_json(bytes in prop::collection::vec(
        prop::sample::select(b"{}[]\",:\\u0e1.-+ tfnrue\x01\xc3".to_vec()), 0..24))
    {
        let ours = scan_error(&bytes);
        let theirs = serde_json::from_slice::<&serde_json::value::RawValue>(&bytes);
        let is_syntax = matches!(
            ours, ScanError::NotJson { .. } | ScanError::NotUtf8 { .. });
        prop_assert_eq!(is_syntax, theirs.is_err(), "{:?} {:?}", ours, theirs.map(|r| r.get()));
    }

    /// scan → splice(id) → scan gives the new id and leaves every other byte alone.
    #[test]
    fn splice_of_an_id_keeps_the_rest(
        id in any_id(), new in any_id(), params in any_json(), pretty in any::<bool>(),
    ) {
        let envelope = serde_json::json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "t", "arguments": params}, "x-unknown": params,
        });
        let text = if pretty {
            serde_json::to_string_pretty(&envelope).unwrap()
        } else {
            envelope.to_string()
        };
        let message = scan(&text).unwrap();
        prop_assert_eq!(message.id().unwrap(), id);
        let spliced = message.splice(&[(Part::Id, &id_json(&new))]);
        let again = Message::scan(spliced).unwrap();
        prop_assert_eq!(again.id().unwrap(), new);
        prop_assert_eq!(again.part(Part::Params), message.part(Part::Params));
        let back = again.splice(&[(Part::Id, message.part(Part::Id).unwrap())]);
        prop_assert_eq!(back, text.as_bytes());
    }

    /// scan → line → scan never changes a value, and the line is one line.
    #[test]
    fn a_line_holds_the_same_values(params in any_json()) {
        let envelope = serde_json::json!({"jsonrpc": "2.0", "method": "x", "params": {"p": params}});
        let text = serde_json::to_string_pretty(&envelope).unwrap();
        let mut line = Vec::new();
        crate::frame::lines::write(&mut line, scan(&text).unwrap().bytes());
        prop_assert_eq!(line.iter().filter(|&&b| b == b'\n').count(), 1);
        let value = |bytes| serde_json::from_slice::<Value>(bytes).unwrap();
        prop_assert_eq!(value(&line), value(text.as_bytes()));
    }

    /// No input makes the scan panic, and a failure is never answered with a wrong id.
    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(failure) = Message::scan(bytes) {
            prop_assert!(failure.id.is_none());
        }
    }
}

fn scan_error(bytes: &[u8]) -> ScanError {
    match Message::scan(bytes.to_vec()) {
        Ok(_) => ScanError::BadShape,
        Err(failure) => failure.error,
    }
}
