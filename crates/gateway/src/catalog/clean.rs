//! The few changes that are made to what an upstream sent, with all other bytes left alone.

use std::borrow::Cow;

use mcplane::proto::headers;
use mcplane::proto::message::write;
use mcplane::proto::types::Entries;
use serde_json::value::RawValue;

/// Most levels of a schema whose annotations are taken away.
const SCHEMA_DEPTH_MAX: usize = 64;

/// JSON that may stand in a message of one line. A line break can only be between tokens, where a
/// space means the same; peers on HTTP do send such JSON.
pub(super) fn on_one_line(raw: &RawValue) -> Box<RawValue> {
    if !raw.get().contains(['\n', '\r']) {
        return raw.to_owned();
    }
    let line = raw.get().replace(['\n', '\r'], " ");
    RawValue::from_string(line).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// An object with other values, or without some: `change` sees every member. `None` when `raw` is
/// not an object.
pub(super) fn rewritten<'v>(
    raw: &'v RawValue,
    mut change: impl FnMut(&str, &'v str) -> Option<Cow<'v, str>>,
) -> Option<Box<RawValue>> {
    let members: Entries<&RawValue> = serde_json::from_str(raw.get()).ok()?;
    let mut out = Vec::with_capacity(raw.get().len());
    out.push(b'{');
    for (key, value) in members.iter() {
        let Some(value) = change(key, value.get()) else { continue };
        member(key, &value, &mut out);
    }
    out.push(b'}');
    RawValue::from_string(String::from_utf8(out).ok()?).ok()
}

/// Appends a member to an object that is open in `out`.
pub(super) fn member(key: &str, value: &str, out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    write::string(out, key);
    out.push(b':');
    out.extend_from_slice(value.as_bytes());
}

/// A schema without any `x-mcp-header`. `None` when it is deeper than [`SCHEMA_DEPTH_MAX`].
pub(super) fn without_annotations(schema: &str) -> Option<String> {
    let mut out = Vec::with_capacity(schema.len());
    strip_annotations(schema, Place::Schema, 0, &mut out)?;
    String::from_utf8(out).ok()
}

/// What a value inside a schema is.
#[derive(Clone, Copy)]
enum Place {
    /// A schema, or an array of them.
    Schema,
    /// An object whose keys are names and whose values are schemas.
    Names,
}

fn strip_annotations(json: &str, place: Place, depth: usize, out: &mut Vec<u8>) -> Option<()> {
    if depth > SCHEMA_DEPTH_MAX {
        return None;
    }
    if let Ok(members) = serde_json::from_str::<Entries<&RawValue>>(json) {
        out.push(b'{');
        for (key, value) in members.iter() {
            let inside = match (place, key) {
                (Place::Schema, headers::ANNOTATION) => continue,
                (Place::Schema, "const" | "enum" | "default" | "examples") => {
                    member(key, value.get(), out);
                    continue;
                }
                (
                    Place::Schema,
                    "properties" | "patternProperties" | "$defs" | "definitions"
                    | "dependentSchemas",
                ) => Place::Names,
                _ => Place::Schema,
            };
            member(key, "", out);
            strip_annotations(value.get(), inside, depth + 1, out)?;
        }
        out.push(b'}');
    } else if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(json) {
        out.push(b'[');
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            strip_annotations(item.get(), place, depth + 1, out)?;
        }
        out.push(b']');
    } else {
        out.extend_from_slice(json.as_bytes());
    }
    Some(())
}
