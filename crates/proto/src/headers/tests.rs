use super::*;

#[test]
fn values_survive_the_way_there_and_back() {
    for (text, value) in [
        ("us-west1", "us-west1"),
        ("a b\tc", "a b\tc"),
        ("", ""),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("\ttab", "=?base64?CXRhYg==?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?BASE64?x?=", "=?BASE64?x?="),
    ] {
        assert_eq!(encode(text), value);
        assert_eq!(decode(value.as_bytes()).unwrap(), text);
        let padded = format!(" \t{value}  ");
        assert_eq!(decode(padded.as_bytes()).unwrap(), text);
    }
    assert_eq!(decode(&encode("=?base64?=").into_owned().into_bytes()).unwrap(), "=?base64?=");
}

#[test]
fn malformed_values_are_told_apart() {
    for value in [&b"a\0b"[..], b"caf\xc3\xa9", b"a\rb", b"\x7f"] {
        assert_eq!(decode(value), Err(Malformed::Characters));
    }
    for value in ["=?base64?!?=", "=?base64?YQ?=", "=?base64?YQ= =?="] {
        assert_eq!(decode(value.as_bytes()), Err(Malformed::Base64), "{value}");
    }
    assert_eq!(decode(b"=?base64?/w==?="), Err(Malformed::Utf8));
}

#[test]
fn annotations_are_found_on_nested_properties() {
    let schema = r#"{"type":"object","properties":{
        "region":{"type":"string","x-mcp-header":"Region"},
        "x-mcp-header":{"type":"string"},
        "where":{"type":"object","properties":{"zone":{"type":"integer","x-mcp-header":"Zone-1"}}},
        "flag":{"type":"boolean","x-mcp-header":"FLAG","default":{"x-mcp-header":1}},
        "other":{"enum":[{"x-mcp-header":"no"}]}}}"#;
    let found: Vec<_> =
        param_headers(schema).unwrap().into_iter().map(|p| (p.name, p.path.join("/"))).collect();
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(
        found,
        [pair("FLAG", "flag"), pair("Region", "region"), pair("Zone-1", "where/zone")]
    );
    assert_eq!(param_headers(r#"{"type":"object"}"#), Ok(vec![]));
    let escaped = r#"{"properties":{"a":{"type":"string","\u0078-mcp-header":"A"}}}"#;
    assert_eq!(param_headers(escaped).unwrap().len(), 1);
}

#[test]
fn every_broken_rule_of_an_annotation_is_named() {
    let on_a = |property: &str| format!(r#"{{"type":"object","properties":{{"a":{property}}}}}"#);
    let unreachable = "must be on a property that is reached through `properties` only";
    let kind = "needs the property's type to be string, integer or boolean";
    let token = "must be a header name (RFC 9110 token), not ";
    let cases = [
        (on_a(r#"{"type":"string","x-mcp-header":""}"#), "#/a", format!("{token}\"\"")),
        (on_a(r#"{"type":"string","x-mcp-header":"a b"}"#), "#/a", format!("{token}\"a b\"")),
        (on_a(r#"{"type":"string","x-mcp-header":"a\r\nb"}"#), "#/a", format!("{token}\"a\\r\\nb\"")),
        (on_a(r#"{"type":"string","x-mcp-header":1}"#), "#/a", "must be a string".into()),
        (on_a(r#"{"type":"number","x-mcp-header":"A"}"#), "#/a", kind.into()),
        (on_a(r#"{"type":"object","x-mcp-header":"A"}"#), "#/a", kind.into()),
        (on_a(r#"{"x-mcp-header":"A"}"#), "#/a", kind.into()),
        (on_a(r#"{"items":{"type":"string","x-mcp-header":"A"}}"#), "#/a", unreachable.into()),
        (
            on_a(r#"{"oneOf":[{"properties":{"b":{"type":"string","x-mcp-header":"A"}}}]}"#),
            "#/a/b",
            unreachable.into(),
        ),
        (r#"{"x-mcp-header":"A","type":"string"}"#.into(), "#", unreachable.into()),
        (r#"{"$defs":{"a":{"type":"string","x-mcp-header":"A"}}}"#.into(), "#/a", unreachable.into()),
        (r#"{"if":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}"#.into(), "#/a", unreachable.into()),
        (
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#.into(),
            "#/b",
            "repeats the name \"a\"".into(),
        ),
    ];
    for (schema, place, reason) in cases {
        let error = param_headers(&schema).unwrap_err();
        assert_eq!((error.place.as_str(), &error.reason), (place, &reason), "{schema}");
        assert_eq!(error.to_string(), format!("x-mcp-header at {place} {reason}"));
    }
}

#[test]
fn mirrored_arguments_are_bounded() {
    let schema = |count: usize| {
        let properties: Vec<_> = (0..count)
            .map(|n| format!(r#""p{n}":{{"type":"string","x-mcp-header":"H{n}"}}"#))
            .collect();
        format!(r#"{{"properties":{{{}}}}}"#, properties.join(","))
    };
    assert_eq!(param_headers(&schema(PARAM_HEADERS_MAX)).unwrap().len(), PARAM_HEADERS_MAX);
    let error = param_headers(&schema(PARAM_HEADERS_MAX + 1)).unwrap_err();
    assert_eq!(error.reason, "is one more than the 64 that are mirrored");
}

fn params() -> Vec<ParamHeader> {
    let header = |name: &str, path: &[&str]| ParamHeader {
        name: name.into(),
        path: path.iter().map(|key| (*key).to_owned()).collect(),
    };
    vec![header("Region", &["region"]), header("Zone", &["where", "zone"])]
}

fn mirrored(arguments: &str) -> Result<Vec<(String, String)>, ErrorObject> {
    let arguments = RawValue::from_string(arguments.into()).unwrap();
    mirror(&params(), Some(&arguments))
}

#[test]
fn arguments_become_headers() {
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(
        mirrored(r#"{"region":"é","where":{"zone":-7}}"#).unwrap(),
        [pair("mcp-param-region", "=?base64?w6k=?="), pair("mcp-param-zone", "-7")]
    );
    assert_eq!(mirrored(r#"{"region":true,"where":{"zone":42.0}}"#).unwrap()[1].1, "42");
    assert_eq!(mirrored(r#"{"region":null,"where":7}"#).unwrap(), []);
    assert_eq!(mirror(&params(), None).unwrap(), []);
    for zone in ["9007199254740992", "-9007199254740992", "1.5", "[]", "{}", "1e300"] {
        let error = mirrored(&format!(r#"{{"where":{{"zone":{zone}}}}}"#)).unwrap_err();
        assert!(error.message.starts_with("argument #/where/zone must be"), "{error}");
    }
    assert_eq!(
        mirrored(r#"{"where":{"zone":9007199254740991}}"#).unwrap()[0].1,
        "9007199254740991"
    );
}

const CALL: Body<'static> = Body {
    version: "2026-07-28",
    method: "tools/call",
    name: Some("tö"),
    arguments: Some(r#"{"region":"us","where":{"zone":42}}"#),
};

fn check(body: &Body<'_>, change: &[(&str, Option<&str>)]) -> Result<(), String> {
    let mut headers = vec![
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "=?base64?dMO2?="),
        ("mcp-param-REGION", "us"),
        ("Mcp-Param-Zone", "42"),
        ("Mcp-Param-Unknown", "\u{7f}"),
        ("Accept", "*/*"),
    ];
    for (name, value) in change {
        headers.retain(|(other, _)| {
            !other.eq_ignore_ascii_case(name.trim_start_matches('+')) || name.starts_with('+')
        });
        headers.extend(value.map(|value| (name.trim_start_matches('+'), value)));
    }
    let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
    validate(headers, body, &params()).map_err(|error| {
        assert_eq!(error.object().code, Code::HEADER_MISMATCH);
        error.to_string()
    })
}

#[test]
fn headers_that_mirror_the_body_pass() {
    assert_eq!(check(&CALL, &[]), Ok(()));
    assert_eq!(check(&CALL, &[("Mcp-Method", Some(" tools/call\t"))]), Ok(()));
    assert_eq!(check(&CALL, &[("Mcp-Param-Zone", Some("42.0"))]), Ok(()));
    let none = Body { arguments: Some(r#"{"region":null}"#), ..CALL };
    assert_eq!(check(&none, &[("Mcp-Param-Region", None), ("Mcp-Param-Zone", None)]), Ok(()));
    let built: Vec<_> = standard(&CALL).collect();
    assert_eq!(built[2], ("mcp-name", "=?base64?dMO2?=".into()));
    let built = built.iter().map(|(name, value)| (*name, value.as_bytes()));
    assert_eq!(validate(built, &CALL, &[]), Ok(()));
}

#[test]
fn every_header_that_does_not_mirror_the_body_is_named() {
    let fails = |name: &str, value: Option<&str>, text: &str| {
        assert_eq!(check(&CALL, &[(name, value)]).unwrap_err(), text);
    };
    fails("MCP-Protocol-Version", None, "header mcp-protocol-version is missing");
    fails("Mcp-Method", None, "header mcp-method is missing");
    fails("Mcp-Name", None, "header mcp-name is missing");
    fails("Mcp-Param-Region", None, "header Mcp-Param-Region is missing");
    fails("+Mcp-Method", Some("tools/call"), "header Mcp-Method is repeated");
    fails("+Mcp-Param-Region", Some("us"), "header Mcp-Param-Region is repeated");
    fails(
        "Mcp-Method",
        Some("Tools/call"),
        "header mcp-method is \"Tools/call\", but the body says \"tools/call\"",
    );
    fails("Mcp-Name", Some("other"), "header mcp-name is \"other\", but the body says \"tö\"");
    fails("Mcp-Name", Some("tö"), "header mcp-name has characters that a header must not have");
    fails("Mcp-Name", Some("=?base64?x?="), "header mcp-name is marked as base64 but is not");
    fails(
        "Mcp-Param-Zone",
        Some("43"),
        "header Mcp-Param-Zone is \"43\", but the body says \"42\"",
    );
    fails(
        "Mcp-Param-Zone",
        Some("inf"),
        "header Mcp-Param-Zone is \"inf\", but the body says \"42\"",
    );
    fails(
        "Mcp-Param-Region",
        Some("a\u{1}"),
        "header Mcp-Param-Region has characters that a header must not have",
    );
    let none = Body { arguments: None, ..CALL };
    assert_eq!(
        check(&none, &[]).unwrap_err(),
        "header Mcp-Param-Region mirrors an argument that the body does not have"
    );
    let object = Body { arguments: Some(r#"{"region":{},"where":{"zone":42}}"#), ..CALL };
    assert!(check(&object, &[]).unwrap_err().contains("the body says \"{}\""));
}

#[test]
fn names_are_mirrored_for_these_methods_only() {
    let named: Vec<_> =
        Method::ALL.iter().filter(|m| name_member(**m).is_some()).map(|m| m.as_str()).collect();
    assert_eq!(
        named,
        [
            "tools/call",
            "resources/read",
            "prompts/get",
            "tasks/get",
            "tasks/cancel",
            "tasks/update"
        ]
    );
}
