//! The form of an elicitation as 2025-06-18 can show it: flat fields, one choice each.

use super::text::{Object, elements, member, members};
use crate::error::shorten;

/// The schema of a form without what came with 2025-11-25: choices with titles become `enum` and
/// `enumNames`.
///
/// # Errors
/// A sentence, when a field takes several values.
pub(super) fn flat(schema: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    if !schema.starts_with(b"{") {
        out.extend_from_slice(schema);
        return Ok(());
    }
    let mut object = Object::open(out);
    for found in members(schema) {
        if found.name() == "properties" && found.value.starts_with(b"{") {
            let mut fields = Object::open(object.value_of(&found));
            for field in members(found.value) {
                flat_field(&field.name(), field.value, fields.value_of(&field))?;
            }
            fields.close();
        } else {
            object.copy(&found);
        }
    }
    object.close();
    Ok(())
}

fn flat_field(name: &str, field: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    if member(field, "type") == Some(b"\"array\"") {
        let name = shorten(name);
        return Err(format!(
            "the field {name:?} takes several values, which 2025-06-18 cannot ask"
        ));
    }
    let Some(choices) = member(field, "oneOf").filter(|choices| choices.starts_with(b"[")) else {
        out.extend_from_slice(field);
        return Ok(());
    };
    let mut object = Object::open(out);
    members(field).filter(|found| found.name() != "oneOf").for_each(|found| object.copy(&found));
    if member(field, "type").is_none() {
        object.member("type", b"\"string\"");
    }
    let value = |choice| member(choice, "const").unwrap_or(b"null");
    list(elements(choices).map(value), object.value("enum"));
    let title = |choice| member(choice, "title").unwrap_or_else(|| value(choice));
    list(elements(choices).map(title), object.value("enumNames"));
    object.close();
    Ok(())
}

fn list<'a>(values: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, value) in values.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(value);
    }
    out.push(b']');
}
