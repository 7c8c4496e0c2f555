//! Pages that come from upstreams, well-formed and not.

use mcplane::proto::method::Method;
use mcplane::proto::types::ServerCapabilities;
use mcplane::proto::version::Revision;

use super::super::offer::{ENTRIES_MAX, LIST_BYTES_MAX, NAME_BYTES_MAX, TEMPLATES_MAX};
use super::{Kind, Offer, add, offer, template, tool};

fn empty(revision: Option<Revision>) -> Offer {
    Offer::new(revision, ServerCapabilities::new())
}

#[test]
fn pages_add_up() {
    let mut offer = empty(None);
    let first = br#"{"tools":[{"name":"a","inputSchema":{}}],"nextCursor":"","x":1}"#;
    assert_eq!(offer.add_page(Method::ToolsList, first).unwrap(), Some(String::new()));
    let second = br#"{"tools":[{"name":"b","inputSchema":{}}],"nextCursor":null}"#;
    assert_eq!(offer.add_page(Method::ToolsList, second).unwrap(), None);
    let names: Vec<_> = offer.entries(Kind::Tools).iter().map(|entry| &*entry.name).collect();
    assert_eq!(names, ["a", "b"]);
    offer.restart(Kind::Tools);
    assert!(offer.entries(Kind::Tools).is_empty());
}

#[test]
fn one_bad_entry_hides_no_other() {
    let mut offer = empty(Some(Revision::LATEST));
    let bad = [
        "7",
        "null",
        r#"{"name":"no schema"}"#,
        r#"{"name":3,"inputSchema":{}}"#,
        r#"{"name":"","inputSchema":{}}"#,
        r#"{"name":"two","name":"two","inputSchema":{}}"#,
        r#"{"name":"two","Name":"three","inputSchema":{}}"#,
        &tool(&"x".repeat(NAME_BYTES_MAX + 1)),
    ];
    let header = r#"{"name":"h","inputSchema":{"properties":{"a":{"x-mcp-header":"A"}}}}"#;
    let entries = bad.map(String::from).into_iter().chain([tool("a"), tool("a"), header.into()]);
    add(&mut offer, Kind::Tools, entries);
    assert_eq!(offer.entries(Kind::Tools).len(), 1);
    let left_out = offer.left_out(Kind::Tools);
    assert_eq!((left_out.malformed, left_out.repeated, left_out.misannotated), (8, 1, 1));
    assert_eq!(left_out.total(), 10);
}

#[test]
fn a_result_of_another_form_is_an_error() {
    for (method, result, expected) in [
        (Method::ToolsList, "{}", "`tools` is missing"),
        (Method::ToolsList, "[]", "tools/list is malformed"),
        (Method::ToolsList, r#"{"tools":{}}"#, "tools/list is malformed"),
        (Method::PromptsList, r#"{"prompts":[],"nextCursor":7}"#, "prompts/list is malformed"),
        (Method::ToolsCall, "{}", "tools/call does not list"),
    ] {
        let error = empty(None).add_page(method, result.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn lists_are_bounded() {
    let mut offer = empty(None);
    let large = |name: &str| {
        let text = "x".repeat(LIST_BYTES_MAX / 2);
        format!(r#"{{"name":{name:?},"description":"{text}","inputSchema":{{}}}}"#)
    };
    add(&mut offer, Kind::Tools, [large("a"), large("b"), tool("c")]);
    assert_eq!(offer.entries(Kind::Tools).len(), 2);
    assert_eq!(offer.left_out(Kind::Tools).beyond_limit, 1);

    let mut offer = empty(None);
    let many = (0..ENTRIES_MAX + 3).map(|index| tool(&index.to_string()));
    add(&mut offer, Kind::Tools, many);
    assert_eq!(offer.left_out(Kind::Tools).beyond_limit, 3);
    let many = (0..TEMPLATES_MAX + 2).map(|index| template(&format!("x:{index}")));
    add(&mut offer, Kind::Templates, many);
    assert_eq!(offer.left_out(Kind::Templates).beyond_limit, 2);
}

#[test]
fn tools_lose_execution_and_nothing_else() {
    let mut offer = empty(Some(Revision::LATEST_LEGACY));
    let text = r#"{"x":{"y":1e2},"name":"t","execution":{"taskSupport":"optional"},
        "inputSchema":{"type":"object","big":12345678901234567890},
        "annotations":{"readOnlyHint":true,"zHint":1},"_meta":{"k":"a\nb"}}"#;
    add(&mut offer, Kind::Tools, [text.into()]);
    let [entry] = offer.entries(Kind::Tools) else { panic!("one tool") };
    let raw = entry.raw.get();
    assert!(!raw.contains("execution") && !raw.contains('\n'), "{raw}");
    let kept = [r#""x":{"y":1e2}"#, r#""big":12345678901234567890"#, r#""zHint":1"#, r#""a\nb""#];
    assert!(kept.iter().all(|part| raw.contains(part)), "{raw}");
    assert!(entry.read_only && !entry.idempotent && entry.mirrored.is_none());
}

#[test]
fn header_annotations_are_checked() {
    let annotated = |name: &str, header: &str| {
        format!(
            r#"{{"name":{name:?},"inputSchema":{{"type":"object","properties":{{
                "a":{{"type":"string","x-mcp-header":{header}}},
                "x-mcp-header":{{"type":"string","default":{{"x-mcp-header":1}}}},
                "b":{{"items":[{{"x-mcp-header":"no","minimum":1.50}}]}}}}}}}}"#
        )
    };
    let valid =
        r#"{"name":"v","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}"#;

    let mut modern = empty(Some(Revision::LATEST));
    add(&mut modern, Kind::Tools, [annotated("bad", "3"), valid.into()]);
    assert_eq!(modern.left_out(Kind::Tools).misannotated, 1);
    let [entry] = modern.entries(Kind::Tools) else { panic!("one tool") };
    let mirrored = entry.mirrored.as_deref().unwrap();
    assert_eq!((mirrored.len(), mirrored[0].name.as_str()), (1, "A"));

    let mut legacy = empty(Some(Revision::LATEST_LEGACY));
    add(&mut legacy, Kind::Tools, [annotated("bad", "3"), valid.into()]);
    let [stripped, kept] = legacy.entries(Kind::Tools) else { panic!("two tools") };
    assert!(stripped.mirrored.is_none() && kept.mirrored.is_some());
    // A property of that name and a default value are no annotations.
    let expected = r#"{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"string"},"x-mcp-header":{"type":"string","default":{"x-mcp-header":1}},"b":{"items":[{"minimum":1.50}]}}}}"#;
    assert_eq!(stripped.raw.get(), expected);
    assert!(kept.raw.get().contains("x-mcp-header"));
}

#[test]
fn a_schema_too_deep_to_clean_is_left_out() {
    let deep = format!("{}{{\"x-mcp-header\":1}}{}", "{\"not\":".repeat(90), "}".repeat(90));
    let mut legacy = offer(&["fine"]);
    add(&mut legacy, Kind::Tools, [format!(r#"{{"name":"deep","inputSchema":{deep}}}"#)]);
    assert_eq!(legacy.left_out(Kind::Tools).misannotated, 1);
    assert_eq!(legacy.entries(Kind::Tools).len(), 1);
}
