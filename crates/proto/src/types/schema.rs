//! Wrapping an output schema that older revisions cannot name.
//!
//! Up to 2025-11-25 an output schema must have `"type":"object"` at its root. Any other schema `S`
//! becomes `{"type":"object","properties":{"result":S},"required":["result"]}`. Inside `S` a local
//! reference `#/…` now starts one level too high, so it is rewritten to
//! `#/properties/result/…`. A subschema with its own `$id` is a root of its own: nothing in it
//! changes, and neither does anything when `S` itself has an `$id`. Anchors (`#name`) stay valid.

use serde_json::value::RawValue;

use super::json::{Text, append, is_object, member, members};
use crate::limits::DEPTH_MAX;

/// Whether the root of a schema has `"type":"object"`.
pub(crate) fn describes_object(schema: &str) -> bool {
    member(schema, "type").is_some_and(|kind| kind.get() == "\"object\"")
}

/// The wrapped schema; `None` when it cannot be rewritten (too deep, or no JSON), in which case
/// the schema is better left out.
pub(crate) fn wrap(schema: &str) -> Option<String> {
    let mut out = Vec::with_capacity(schema.len() + 100);
    out.push(b'{');
    // A dialect is named at the root of a document only.
    if let Some(dialect) = member(schema, "$schema") {
        out.extend_from_slice(b"\"$schema\":");
        out.extend_from_slice(dialect.get().as_bytes());
        out.push(b',');
    }
    out.extend_from_slice(b"\"type\":\"object\",\"properties\":{\"result\":");
    rewrite(schema, Place::Schema, 0, &mut out)?;
    out.extend_from_slice(b"},\"required\":[\"result\"]}");
    String::from_utf8(out).ok()
}

/// What a JSON value inside a schema is.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// A schema, or an array of schemas.
    Schema,
    /// An object whose keys are names and whose values are schemas.
    Names,
}

fn rewrite(json: &str, place: Place, depth: usize, out: &mut Vec<u8>) -> Option<()> {
    if depth > DEPTH_MAX {
        return None;
    }
    let rooted = place == Place::Schema && is_object(json) && member(json, "$id").is_some();
    match json.trim_start().as_bytes().first() {
        Some(b'{') if !rooted => rewrite_object(json, place, depth, out),
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
            out.push(b'[');
            for (index, item) in items.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                rewrite(item.get(), place, depth + 1, out)?;
            }
            out.push(b']');
            Some(())
        }
        _ => {
            out.extend_from_slice(json.as_bytes());
            Some(())
        }
    }
}

fn rewrite_object(json: &str, place: Place, depth: usize, out: &mut Vec<u8>) -> Option<()> {
    let mut fits = Some(());
    let mut first = true;
    out.push(b'{');
    members(json, |key, value| {
        if depth == 0 && key == "$schema" {
            return;
        }
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        append(out, &*key);
        out.push(b':');
        let value = value.get();
        let done = match (place, &*key) {
            (Place::Names, _) => rewrite(value, Place::Schema, depth + 1, out),
            (_, "$ref" | "$dynamicRef" | "$recursiveRef") => {
                match moved_reference(value) {
                    Some(moved) => append(out, &moved),
                    None => out.extend_from_slice(value.as_bytes()),
                }
                Some(())
            }
            (_, "const" | "enum" | "default" | "examples" | "example") => {
                out.extend_from_slice(value.as_bytes());
                Some(())
            }
            (
                _,
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
            ) => rewrite(value, Place::Names, depth + 1, out),
            _ => rewrite(value, Place::Schema, depth + 1, out),
        };
        fits = fits.and(done);
    })
    .ok()?;
    out.push(b'}');
    fits
}

/// The reference seen from one level up, if it is one to a place in this document.
fn moved_reference(value: &str) -> Option<String> {
    let Text(reference) = serde_json::from_str(value).ok()?;
    let pointer = reference.strip_prefix('#')?;
    (pointer.is_empty() || pointer.starts_with('/'))
        .then(|| format!("#/properties/result{pointer}"))
}
