//! A tool's arguments as a table: name, type, whether it is required, what it means.

use mcplane::types::Entries;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::text::{Style, WIDTH, line, padded, shortened, wrap};

/// Deepest objects within objects that are shown; deeper ones are `object`.
const DEPTH_MAX: usize = 3;

/// Most values of an enumeration that are shown.
const VALUES_MAX: usize = 8;

/// Widest columns of names and types; longer ones push the rest of their line to the right.
const NAME_WIDTH_MAX: usize = 32;
const TYPE_WIDTH_MAX: usize = 24;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) required: bool,
    pub(super) description: String,
}

/// The arguments that a JSON Schema of an object describes, in its order; those of inner objects
/// as `outer.inner`, by name.
pub(super) fn arguments(schema: &str) -> Vec<Argument> {
    #[derive(Deserialize)]
    struct Ordered {
        properties: Entries<IgnoredAny>,
    }
    let mut found = Vec::new();
    if let Ok(root) = serde_json::from_str(schema) {
        collect(&root, &root, "", 0, &mut found);
    }
    if let Ok(Ordered { properties }) = serde_json::from_str(schema) {
        let names: Vec<String> = properties.into_iter().map(|(name, _)| line(&name)).collect();
        let outer = |argument: &Argument| {
            let of = |name: &String| {
                argument
                    .name
                    .strip_prefix(name.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            names.iter().position(of)
        };
        // Stable: inner arguments stay behind the one that they belong to.
        found.sort_by_key(outer);
    }
    found
}

/// Appends one row for each argument, aligned, wrapped, at this indent.
pub(super) fn table(out: &mut String, indent: usize, rows: &[Argument], style: Style) {
    let width = |text: fn(&Argument) -> &str, max: usize| {
        rows.iter().map(|row| text(row).chars().count()).max().unwrap_or(0).min(max)
    };
    let names = width(|row| &row.name, NAME_WIDTH_MAX);
    let kinds = width(|row| &row.kind, TYPE_WIDTH_MAX);
    let any_required = rows.iter().any(|row| row.required);
    for row in rows {
        let required = match (any_required, row.required) {
            (false, _) => "",
            (true, true) => "required  ",
            (true, false) => "          ",
        };
        let (name, kind) = (padded(&row.name, names), padded(&row.kind, kinds));
        let taken = [indent, name.chars().count(), 2, kind.chars().count(), 2, required.len()];
        let start: usize = taken.iter().sum();
        // What is pushed too far to the right goes below, where there is room.
        let (start, below) =
            if start > WIDTH * 2 / 3 { (indent + 4, true) } else { (start, false) };
        let first = format!(
            "{}{}  {}  {required}",
            " ".repeat(indent),
            style.name(&name),
            style.dim(&kind)
        );
        let lines = wrap(&row.description, WIDTH - start);
        let mut lines = lines.iter().filter(|line| !line.is_empty());
        let second = if below { None } else { lines.next() };
        out.push_str(format!("{first}{}", second.map_or("", |line| line)).trim_end());
        out.push('\n');
        for line in lines {
            out.push_str(&" ".repeat(start));
            out.push_str(line);
            out.push('\n');
        }
    }
}

fn collect(root: &Value, schema: &Value, prefix: &str, depth: usize, found: &mut Vec<Argument>) {
    let schema = resolve(root, schema);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (key, property) in properties {
        let inner = resolve(root, property);
        let name = format!("{prefix}{}", line(key));
        found.push(Argument {
            kind: kind(root, inner),
            required: required.contains(&key.as_str()),
            description: description(property, inner),
            name: name.clone(),
        });
        if depth < DEPTH_MAX {
            collect(root, inner, &format!("{name}."), depth + 1, found);
        }
    }
}

/// Follows a local `$ref`. One that leads nowhere, or round in circles, is left as it is.
fn resolve<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..DEPTH_MAX {
        let Some(path) = schema.get("$ref").and_then(Value::as_str) else { break };
        let target = path.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        let Some(target) = target else { break };
        schema = target;
    }
    schema
}

/// The type in a few words.
fn kind(root: &Value, schema: &Value) -> String {
    let alternatives = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array());
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return listed(values.iter());
    }
    if let Some(value) = schema.get("const") {
        return listed(std::iter::once(value));
    }
    if let Some(alternatives) = alternatives {
        let constants: Vec<_> = alternatives.iter().filter_map(|one| one.get("const")).collect();
        if constants.len() == alternatives.len() {
            return listed(constants.into_iter());
        }
        let kinds = alternatives.iter().map(|one| match one.get("$ref") {
            Some(path) => last_segment(path),
            None => kind(root, one),
        });
        let mut kinds: Vec<_> = kinds.collect();
        kinds.dedup();
        return kinds.join(" | ");
    }
    match schema.get("type") {
        Some(Value::String(name)) if name == "array" => {
            let items = schema.get("items").map(|items| kind(root, resolve(root, items)));
            match items.as_deref() {
                None | Some("any") => "array".to_owned(),
                Some(items) if items.contains(" | ") => format!("({items})[]"),
                Some(items) => format!("{items}[]"),
            }
        }
        Some(Value::String(name)) => line(name),
        Some(Value::Array(names)) => {
            let names: Vec<_> = names.iter().filter_map(Value::as_str).map(line).collect();
            names.join(" | ")
        }
        _ if schema.get("properties").is_some() => "object".to_owned(),
        _ => "any".to_owned(),
    }
}

fn listed<'a>(values: impl ExactSizeIterator<Item = &'a Value>) -> String {
    let more = values.len() > VALUES_MAX;
    let mut shown: Vec<_> = values.take(VALUES_MAX).map(|value| line(&value.to_string())).collect();
    if more {
        shown.push("…".to_owned());
    }
    shown.join(" | ")
}

fn last_segment(path: &Value) -> String {
    line(path.as_str().and_then(|path| path.rsplit('/').next()).unwrap_or("any"))
}

/// What it means, its default, and its bounds.
fn description(property: &Value, resolved: &Value) -> String {
    let member = |key: &str| property.get(key).or_else(|| resolved.get(key));
    let words = member("description").or_else(|| member("title")).and_then(Value::as_str);
    let mut text = line(words.unwrap_or_default());
    let mut notes = Vec::new();
    if let Some(default) = member("default").filter(|default| !default.is_null()) {
        notes.push(format!("default {}", shortened(&line(&default.to_string()), 40)));
    }
    notes.extend(bounds(resolved));
    if !notes.is_empty() {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&format!("({})", notes.join("; ")));
    }
    text
}

fn bounds(schema: &Value) -> Option<String> {
    let empty = Map::new();
    let schema = schema.as_object().unwrap_or(&empty);
    match (schema.get("minimum"), schema.get("maximum")) {
        (Some(least), Some(most)) => Some(format!("{least} to {most}")),
        (Some(least), None) => Some(format!("at least {least}")),
        (None, Some(most)) => Some(format!("at most {most}")),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(schema: &str) -> String {
        let mut out = String::new();
        table(&mut out, 4, &arguments(schema), Style::PLAIN);
        out
    }

    #[test]
    fn the_table_is_aligned() {
        let schema = r##"{"type":"object","required":["city","point"],
            "properties":{
                "city":{"type":"string","description":"Where to look.\nA name or a code."},
                "days":{"type":"integer","minimum":1,"maximum":7,"default":3},
                "units":{"enum":["metric","imperial"],"description":"How to count"},
                "tags":{"type":"array","items":{"type":["string","null"]}},
                "point":{"$ref":"#/$defs/Point"},
                "extra":{"anyOf":[{"$ref":"#/$defs/Point"},{"type":"null"}]}},
            "$defs":{"Point":{"type":"object","required":["x"],"description":"A place on the map",
                "properties":{"x":{"type":"number"}}}}}"##;
        assert_eq!(
            shown(schema),
            r#"    city     string                 required  Where to look. A name or a code.
    days     integer                          (default 3; 1 to 7)
    units    "metric" | "imperial"            How to count
    tags     (string | null)[]
    point    object                 required  A place on the map
    point.x  number                 required
    extra    Point | null
"#
        );
    }

    #[test]
    fn long_descriptions_wrap_under_themselves() {
        let words = "word ".repeat(30);
        let table = shown(&format!(
            r#"{{"properties":{{"a":{{"type":"string","description":"{words}"}}}}}}"#
        ));
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH));
        assert_eq!(lines[0].find("word"), lines[1].find("word"));
    }

    #[test]
    fn wide_names_do_not_squeeze_what_they_mean() {
        let name = "n".repeat(90);
        let table = shown(&format!(
            r#"{{"properties":{{"{name}":{{"type":"string","description":"why"}}}}}}"#
        ));
        assert_eq!(table, format!("    {name}  string\n        why\n"));
    }

    #[test]
    fn strange_schemas_are_no_trouble() {
        assert_eq!(arguments("true"), []);
        assert_eq!(arguments(r#"{"type":"object"}"#), []);
        assert_eq!(arguments("not json"), []);
        let circle = r##"{"properties":{"next":{"$ref":"#"}}}"##;
        assert_eq!(arguments(circle).len(), DEPTH_MAX + 1);
        let lost = arguments(r##"{"properties":{"a":{"$ref":"#/nowhere"},"b":true}}"##);
        assert_eq!([&*lost[0].kind, &*lost[1].kind], ["any", "any"]);
        let loud = arguments(r#"{"properties":{"a\u001b[1m":{"type":"string"}}}"#);
        assert_eq!(loud[0].name, "a [1m");
    }
}
