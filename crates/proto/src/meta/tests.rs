use super::*;
use crate::types::{CallToolParams, ListToolsParams, PingParams};
use crate::version::Revision::{V2025_06_18, V2026_07_28};

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}

fn envelope() -> Envelope {
    Envelope {
        client_info: Some(Implementation::new("c", "1")),
        log_level: Some(LogLevel::Info),
        progress_token: Some(Id::from("p")),
        trace: Trace { parent: Some("00-a".into()), ..Trace::default() },
        ..Envelope::new(V2026_07_28, ClientCapabilities::new().with_sampling())
    }
}

fn meta(envelope: &Envelope, revision: Revision, extra: &str) -> String {
    let mut out = Vec::new();
    envelope.write(revision, Some(&raw(extra)), &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn the_envelope_is_written_and_read_again() {
    let text = meta(&envelope(), V2026_07_28, r#"{"x/y":1.0}"#);
    assert_eq!(
        text,
        r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/logLevel":"info","progressToken":"p","traceparent":"00-a","x/y":1.0}"#
    );
    let back = Envelope::parse(Some(text.as_bytes())).unwrap();
    assert_eq!(back.protocol_version, "2026-07-28");
    assert!(back.client_capabilities.sampling());
    assert_eq!(back.client_info.unwrap().name, "c");
    assert_eq!(back.log_level, Some(LogLevel::Info));
    assert_eq!(back.progress_token, Some("p".into()));
    assert_eq!(back.trace, envelope().trace);
    assert!(has_envelope(text.as_bytes()) && !has_envelope(b"{}") && !has_envelope(b"[1]"));
    assert_eq!(progress_token(&raw(&text)), Some("p".into()));
}

#[test]
fn extra_members_cannot_replace_the_envelopes() {
    let forged = r#"{"a":[],"io.modelcontextprotocol/clientCapabilities":{"roots":{}},"progressToken":1,"traceparent":"x","io.modelcontextprotocol/related-task":{"taskId":"t"}}"#;
    let bare = Envelope::new(V2026_07_28, ClientCapabilities::new());
    assert_eq!(
        meta(&bare, V2026_07_28, forged),
        r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"a":[],"traceparent":"x","io.modelcontextprotocol/related-task":{"taskId":"t"}}"#
    );
    assert!(!meta(&envelope(), V2026_07_28, forged).contains("\"x\""), "one trace only");
    assert_eq!(meta(&bare, V2026_07_28, "[1]"), meta(&bare, V2026_07_28, "{}"));
}

#[test]
fn legacy_requests_carry_the_token_and_the_trace_only() {
    assert_eq!(
        meta(&envelope(), V2025_06_18, r#"{"a":1}"#),
        r#"{"progressToken":"p","traceparent":"00-a","a":1}"#
    );
    let bare = Envelope::new(V2025_06_18, ClientCapabilities::new());
    let mut out = b"before ".to_vec();
    assert!(!bare.write(V2025_06_18, None, &mut out));
    assert_eq!(out, b"before {}");
}

#[test]
fn parameters_get_the_envelope_in_front() {
    let write = |params: &CallToolParams, revision, envelope| {
        let mut out = b"> ".to_vec();
        write_params(params, revision, envelope, &mut out);
        String::from_utf8(out).unwrap()
    };
    let call = CallToolParams { meta: Some(raw(r#"{"a":1}"#)), ..CallToolParams::new("t") };
    let bare = Envelope::new(V2026_07_28, ClientCapabilities::new());
    assert_eq!(
        write(&call, V2026_07_28, Some(&bare)),
        r#"> {"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"a":1},"name":"t"}"#
    );
    assert_eq!(write(&call, V2025_06_18, Some(&bare)), r#"> {"_meta":{"a":1},"name":"t"}"#);
    assert_eq!(write(&call, V2025_06_18, None), r#"> {"_meta":{"a":1},"name":"t"}"#);
    assert_eq!(write(&CallToolParams::new("t"), V2025_06_18, Some(&bare)), r#"> {"name":"t"}"#);
    let mut out = Vec::new();
    write_params(&PingParams::default(), V2025_06_18, Some(&bare), &mut out);
    assert_eq!(out, b"{}");
    out.clear();
    write_params(&ListToolsParams::default(), V2026_07_28, Some(&bare), &mut out);
    assert!(out.ends_with(b":{}}}"), "{}", String::from_utf8_lossy(&out));
}

#[test]
fn every_fault_of_an_envelope_is_named() {
    let fault = |json: Option<&str>| {
        let error = Envelope::parse(json.map(str::as_bytes)).unwrap_err();
        assert_eq!(error.code, crate::Code::INVALID_PARAMS);
        error.message.into_owned()
    };
    let missing = "params._meta: missing io.modelcontextprotocol/protocolVersion, \
                   io.modelcontextprotocol/clientCapabilities";
    assert_eq!(fault(None), missing);
    assert_eq!(fault(Some("{}")), missing);
    assert_eq!(
        fault(Some(r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#)),
        "params._meta: missing io.modelcontextprotocol/clientCapabilities"
    );
    assert_eq!(
        fault(Some(
            r#"{"io.modelcontextprotocol/protocolVersion":20260728,"io.modelcontextprotocol/clientCapabilities":[],"io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/logLevel":"loud","progressToken":1.5}"#
        )),
        "params._meta: io.modelcontextprotocol/protocolVersion must be a string; \
         io.modelcontextprotocol/clientCapabilities must be an object; \
         io.modelcontextprotocol/clientInfo must be an object with `name` and `version`; \
         io.modelcontextprotocol/logLevel must be one of debug, info, notice, warning, error, \
         critical, alert, emergency; progressToken must be a string or an integer"
    );
    assert!(fault(Some("[1]")).starts_with("params._meta is not an envelope: invalid"));
    assert!(fault(Some("{\"a\":")).starts_with("params._meta is not an envelope: EOF"));
}

#[test]
fn keys_follow_the_grammar() {
    for key in ["a", "a.b_c-d", "", "com.example/", "io.x-y/n0", "x/progress.Token", "A1/b"] {
        assert!(is_valid_key(key), "{key}");
    }
    for key in ["-a", "a-", ".", "1x/a", "a./b", "a..b/c", "/a", "a-/b", "a/b/c", "é", "a b"] {
        assert!(!is_valid_key(key), "{key}");
    }
    for key in [
        "io.modelcontextprotocol/x",
        "dev.mcp/x",
        "org.modelcontextprotocol.api/",
        "com.mcp.tools/a",
    ] {
        assert!(is_reserved(key), "{key}");
    }
    for key in
        ["progressToken", "com.example.mcp/x", "mcp/x", "modelcontextprotocol.io/x", "a.mcpx/y"]
    {
        assert!(!is_reserved(key), "{key}");
    }
}
