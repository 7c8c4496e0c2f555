//! What may be long writes itself, and writes what `Serialize` does.

use serde::Serialize;

use super::{raw, written};
use crate::types::*;
use crate::version::Revision;

/// Texts that need no escape, some, and nothing else.
const TEXTS: [&str; 4] = ["", "hé ✓ plain", "a \"quoted\"\nline\t\\", "\0\u{1f}\u{7f}\"\\\r"];

fn same<R: WireResult + Serialize>(result: &R) {
    assert_eq!(written(result, Revision::V2025_11_25), serde_json::to_string(result).unwrap());
}

#[test]
fn every_block_of_a_call_is_written_as_serde_writes_it() {
    for text in TEXTS {
        let annotations = || Annotations::default().priority(0.5);
        let mut noted = TextContent { text: text.into(), annotations: None, meta: None };
        noted.meta = Some(raw(r#"{"a":1}"#));
        let blocks = vec![
            Content::text(text),
            Content::text(text).annotations(annotations()),
            Content::Text(noted),
            Content::image(text, "image/png"),
            Content::audio("aGk=", text).annotations(annotations()),
            Content::audio("aGk=", text),
            Content::resource(ResourceContents::text("file:///a", text)),
            Content::Other(raw(r#"{"type":"hologram","z":1.0}"#)),
        ];
        for block in &blocks {
            let lone = CallToolResult::new(vec![block.clone()]);
            same(&lone);
            same(&lone.clone().error());
            same(&lone.structured_content(raw(r#"{"n":1.0,"t":"\n"}"#)));
        }
        same(&CallToolResult { is_error: Some(false), ..CallToolResult::new(blocks) });
    }
    same(&CallToolResult::new(Vec::new()));
}

#[test]
fn contents_of_resources_are_written_as_serde_writes_them() {
    for text in TEXTS {
        let contents = vec![
            ResourceContents::text(text, text),
            ResourceContents::blob("file:///b", text).mime_type(text),
            ResourceContents::text("file:///c", text).mime_type("a/b").meta(raw(r#"{"x":[1]}"#)),
        ];
        same(&ReadResourceResult::new(contents));
    }
    same(&ReadResourceResult::new(Vec::new()));
}

#[test]
fn who_may_be_long_says_about_how_long() {
    let text = "x".repeat(5000);
    let result = CallToolResult::text(text.as_str()).and(Content::image(text.as_str(), "a/b"));
    let result = result.structured_content(raw("[1]"));
    for (hint, len) in [
        (result.len_hint(), 10_003),
        (ReadResourceResult::text("file:///a", text).len_hint(), 5_000),
        (EmptyResult::default().len_hint(), 0),
    ] {
        assert_eq!(hint, len);
    }
}
