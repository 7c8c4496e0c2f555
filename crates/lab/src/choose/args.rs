//! Arguments built from an input schema: the least that looks valid. A guess, which is why one call
//! is always made with them before anything is measured.

use std::cell::Cell;

use serde_json::{Map, Value, json};

use super::words;

/// Deepest nesting followed, in levels: a schema may refer to itself.
const DEPTH_MAX: usize = 16;

/// Longest string built for a `minLength`, in characters.
const CHARS_MAX: u64 = 10_000;

/// Most items built for a `minItems`.
const ITEMS_MAX: u64 = 100;

/// Most that is built in all, in bytes of text and [`VALUE_BYTES`] for each value: lists in lists grow
/// with every level.
pub(super) const BYTES_MAX: usize = 1024 * 1024;

/// What each value counts beside its text, in bytes.
const VALUE_BYTES: usize = 16;

/// An object with the required properties of `schema`; `None` if that is more than [`BYTES_MAX`].
pub(super) fn build(schema: &Value) -> Option<Value> {
    let builder = Builder { root: schema, left: Cell::new(Some(BYTES_MAX)) };
    let built = builder.value(schema, "", 0);
    builder.left.get()?;
    Some(if built.is_object() { built } else { json!({}) })
}

/// The required properties of `schema`, at its top level.
pub(super) fn required(schema: &Value) -> impl Iterator<Item = &str> {
    let listed = schema.get("required").and_then(Value::as_array);
    listed.into_iter().flatten().filter_map(Value::as_str)
}

struct Builder<'a> {
    root: &'a Value,
    /// Bytes that may still be built; `None` once it was more.
    left: Cell<Option<usize>>,
}

impl Builder<'_> {
    /// A value for `schema`, which belongs to the property `name`.
    fn value(&self, schema: &Value, name: &str, depth: usize) -> Value {
        if depth > DEPTH_MAX || !self.spend(VALUE_BYTES) {
            return Value::Null;
        }
        let next = |schema: &Value| self.value(schema, name, depth + 1);
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let found = target.strip_prefix('#').and_then(|path| self.root.pointer(path));
            return found.map_or(Value::Null, next);
        }
        if let Some(fixed) = given(schema) {
            return if self.spend(weight(fixed)) { fixed.clone() } else { Value::Null };
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(choices) = schema.get(key).and_then(Value::as_array) {
                let is_null = |choice: &&Value| choice.get("type") == Some(&json!("null"));
                let pick =
                    choices.iter().find(|choice| !is_null(choice)).or_else(|| choices.first());
                return pick.map_or(Value::Null, next);
            }
        }
        if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
            return self.all_of(schema, parts, name, depth);
        }
        match kind(schema) {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, name, depth),
            "integer" => number(schema, true),
            "number" => number(schema, false),
            "boolean" => json!(false),
            "null" => Value::Null,
            _ => {
                let text = string(schema, name);
                self.spend(text.len());
                json!(text)
            }
        }
    }

    /// Whether so much more may be built.
    fn spend(&self, bytes: usize) -> bool {
        self.left.set(self.left.get().and_then(|left| left.checked_sub(bytes)));
        self.left.get().is_some()
    }

    fn object(&self, schema: &Value, depth: usize) -> Value {
        let any = Value::Bool(true);
        let property = |name: &str| schema.get("properties")?.get(name);
        let members = required(schema).map(|name| {
            let schema = property(name).unwrap_or(&any);
            self.spend(name.len());
            (name.to_owned(), self.value(schema, name, depth + 1))
        });
        Value::Object(members.collect())
    }

    /// Objects are merged; of anything else the first that says something is taken.
    fn all_of(&self, schema: &Value, parts: &[Value], name: &str, depth: usize) -> Value {
        let mut merged = match self.object(schema, depth) {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        for part in parts {
            match self.value(part, name, depth + 1) {
                Value::Object(members) => merged.extend(members),
                other => return other,
            }
        }
        Value::Object(merged)
    }

    fn array(&self, schema: &Value, name: &str, depth: usize) -> Value {
        let tuple = schema.get("prefixItems").and_then(Value::as_array);
        let mut items: Vec<Value> =
            tuple.into_iter().flatten().map(|item| self.value(item, name, depth + 1)).collect();
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0).min(ITEMS_MAX);
        let rest = schema.get("items").unwrap_or(&Value::Null);
        while (items.len() as u64) < least {
            items.push(self.value(rest, name, depth + 1));
        }
        Value::Array(items)
    }
}

/// A value that the schema itself offers.
fn given(schema: &Value) -> Option<&Value> {
    let first = |key: &str| schema.get(key)?.as_array()?.first();
    let found = schema.get("const").or_else(|| schema.get("default").filter(|v| !v.is_null()));
    found.or_else(|| first("enum")).or_else(|| first("examples"))
}

/// What a value counts.
fn weight(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(weight).sum(),
            Value::Object(members) => members.iter().map(|(key, of)| key.len() + weight(of)).sum(),
            _ => 0,
        }
}

/// The schema's type; of several the first that is not null, of none the one its keywords imply.
fn kind(schema: &Value) -> &str {
    let named = match schema.get("type") {
        Some(Value::Array(types)) => {
            types.iter().filter_map(Value::as_str).find(|name| *name != "null")
        }
        Some(name) => name.as_str(),
        None => None,
    };
    let has = |keys: &[&str]| keys.iter().any(|key| schema.get(key).is_some());
    named.unwrap_or_else(|| match () {
        () if has(&["properties", "required"]) => "object",
        () if has(&["items", "prefixItems", "minItems"]) => "array",
        () if has(&["minimum", "maximum", "multipleOf"]) => "number",
        () => "string",
    })
}

/// The number closest to 1 that the bounds allow.
fn number(schema: &Value, whole: bool) -> Value {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let step = bound("multipleOf").filter(|step| *step > 0.0);
    let nudge = step.unwrap_or(1.0);
    let low = bound("exclusiveMinimum").map(|low| low + nudge).or_else(|| bound("minimum"));
    let high = bound("exclusiveMaximum").map(|high| high - nudge).or_else(|| bound("maximum"));
    let mut value = 1.0_f64;
    value = low.map_or(value, |low| value.max(low));
    value = high.map_or(value, |high| value.min(high));
    if let Some(step) = step {
        value = (value / step).ceil() * step;
    }
    if whole || value.fract() == 0.0 {
        #[allow(clippy::cast_possible_truncation, reason = "saturates, and a guess anyway")]
        return json!(value.ceil() as i64);
    }
    json!(value)
}

/// A string in the form that the format, the pattern or the property's name asks for.
fn string(schema: &Value, name: &str) -> String {
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    let formed = text("format").and_then(of_format).or_else(|| of_pattern(text("pattern")?));
    let mut value = formed.unwrap_or_else(|| of_name(name)).to_owned();
    let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
    let least = bound("minLength").unwrap_or(0).min(CHARS_MAX);
    while (value.chars().count() as u64) < least {
        value.push('x');
    }
    if let Some(most) = bound("maxLength") {
        value = value.chars().take(usize::try_from(most).unwrap_or(usize::MAX)).collect();
    }
    value
}

fn of_format(format: &str) -> Option<&'static str> {
    Some(match format {
        "date" => "2026-01-02",
        "time" => "12:00:00Z",
        "date-time" => "2026-01-02T12:00:00Z",
        "duration" => "PT1S",
        "email" | "idn-email" => "someone@example.com",
        "hostname" | "idn-hostname" => "example.com",
        "uri" | "url" | "iri" => "https://example.com/",
        "uri-reference" | "iri-reference" => "/",
        "uuid" => "00000000-0000-4000-8000-000000000000",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "json-pointer" => "/a",
        "regex" => "a",
        _ => return None,
    })
}

/// Only the patterns that one meets; the validation call finds out about the others.
fn of_pattern(pattern: &str) -> Option<&'static str> {
    let bare = pattern.trim_start_matches('^').trim_end_matches('$');
    let digits = ["[0-9]+", "\\d+", "[0-9]*", "\\d*", "[1-9][0-9]*", "[1-9]\\d*"];
    Some(match bare {
        bare if digits.contains(&bare) => "1",
        "\\d{4}-\\d{2}-\\d{2}" | "[0-9]{4}-[0-9]{2}-[0-9]{2}" => "2026-01-02",
        "\\d{2}:\\d{2}" | "[0-9]{2}:[0-9]{2}" => "12:00",
        "https?://.*" | "https?://.+" | "https://.*" | "https://.+" => "https://example.com/",
        "/.*" | "/.+" => "/",
        "[A-Z]+" | "[A-Z]*" | "[A-Z]{1,}" => "A",
        "[A-Z]{2}" => "AA",
        "[A-Z]{3}" => "AAA",
        "[a-f0-9]+" | "[0-9a-f]+" => "0a",
        _ => return None,
    })
}

/// What a property of this name usually wants.
fn of_name(name: &str) -> &'static str {
    let words = words(name);
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    match () {
        () if has(&["timezone", "tz"]) => "UTC",
        () if has(&["url", "uri", "href", "link"]) => "https://example.com/",
        () if has(&["email"]) => "someone@example.com",
        () if has(&["path", "dir", "directory", "folder", "cwd"]) => ".",
        () if has(&["date", "day"]) => "2026-01-02",
        () if has(&["time"]) => "12:00",
        () if has(&["country"]) => "CH",
        () if has(&["language", "lang", "locale"]) => "en",
        () if has(&["currency"]) => "EUR",
        () if has(&["id"]) => "1",
        () => "hello",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value built for one required property `p` of this schema.
    fn of(schema: Value) -> Value {
        let schema = json!({"type": "object", "required": ["p"], "properties": {"p": schema}});
        build(&schema).unwrap()["p"].clone()
    }

    #[test]
    fn what_grows_with_every_level_is_not_built() {
        let nest = |inner: Value, levels| {
            (0..levels).fold(inner, |items, _| json!({"minItems": 100, "items": items}))
        };
        let of = |schema: &Value| build(&json!({"required": ["p"], "properties": {"p": schema}}));
        assert!(of(&nest(json!({"type": "integer"}), 2)).is_some(), "ten thousand");
        assert_eq!(of(&nest(json!({"type": "integer"}), 9)), None);
        assert_eq!(of(&nest(json!({"type": "string", "minLength": 10_000}), 2)), None);
        assert_eq!(of(&nest(json!({"const": "x".repeat(100_000)}), 1)), None);
        let names: Vec<_> = (0..20).map(|n| n.to_string()).collect();
        let again = json!({"$ref": "#/$defs/all"});
        let members: Map<_, _> = names.iter().map(|name| (name.clone(), again.clone())).collect();
        let all = json!({"required": names, "properties": members});
        let schema = json!({"$ref": "#/$defs/all", "$defs": {"all": all}});
        assert_eq!(build(&schema), None, "each has twenty that have twenty");
    }

    #[test]
    fn only_what_is_required_is_built() {
        let schema = json!({
            "type": "object", "required": ["a"],
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        });
        assert_eq!(build(&schema), Some(json!({"a": "hello"})));
        assert_eq!(build(&json!({"type": "object"})), Some(json!({})));
        assert_eq!(build(&Value::Null), Some(json!({})));
    }

    #[test]
    fn each_keyword_shapes_the_value() {
        for (schema, want) in [
            (json!({"type": "boolean"}), json!(false)),
            (json!({"type": "null"}), Value::Null),
            (json!({"const": 7}), json!(7)),
            (json!({"type": "string", "default": "d", "enum": ["e", "d"]}), json!("d")),
            (json!({"enum": ["e", "f"]}), json!("e")),
            (json!({"type": "string", "examples": ["x"]}), json!("x")),
            (json!({"type": ["null", "integer"]}), json!(1)),
            (json!({"type": "integer", "minimum": 5}), json!(5)),
            (json!({"type": "integer", "exclusiveMinimum": 5}), json!(6)),
            (json!({"type": "integer", "maximum": -3}), json!(-3)),
            (json!({"type": "integer", "multipleOf": 4}), json!(4)),
            (json!({"type": "number", "minimum": 1.5}), json!(1.5)),
            (json!({"minimum": 2}), json!(2)),
            (json!({"type": "string", "minLength": 8}), json!("helloxxx")),
            (json!({"type": "string", "maxLength": 2}), json!("he")),
            (json!({"type": "string", "pattern": "^\\d+$"}), json!("1")),
            (json!({"type": "string", "format": "date"}), json!("2026-01-02")),
            (json!({"type": "string", "format": "email"}), json!("someone@example.com")),
            (json!({"type": "string", "format": "uri"}), json!("https://example.com/")),
            (json!({"type": "array", "items": {"type": "integer"}}), json!([])),
            (json!({"type": "array", "items": {"type": "integer"}, "minItems": 2}), json!([1, 1])),
            (json!({"prefixItems": [{"type": "integer"}, {"const": "z"}]}), json!([1, "z"])),
            (json!({"anyOf": [{"type": "null"}, {"type": "integer"}]}), json!(1)),
            (json!({"oneOf": [{"type": "boolean"}, {"type": "integer"}]}), json!(false)),
            (json!({"required": ["q"], "properties": {"q": {"type": "integer"}}}), json!({"q": 1})),
            (
                json!({"allOf": [
                    {"required": ["a"], "properties": {"a": {"const": 1}}},
                    {"required": ["b"], "properties": {"b": {"const": 2}}},
                ]}),
                json!({"a": 1, "b": 2}),
            ),
        ] {
            assert_eq!(of(schema.clone()), want, "{schema}");
        }
    }

    #[test]
    fn references_are_followed_and_circles_end() {
        let schema = json!({
            "required": ["c", "self", "gone"],
            "properties": {
                "c": {"$ref": "#/$defs/colour"},
                "self": {"$ref": "#/$defs/loop"},
                "gone": {"$ref": "https://example.com/x"},
            },
            "$defs": {
                "colour": {"enum": ["red"]},
                "loop": {"required": ["again"], "properties": {"again": {"$ref": "#/$defs/loop"}}},
            },
        });
        let built = build(&schema).unwrap();
        assert_eq!((&built["c"], &built["gone"]), (&json!("red"), &Value::Null));
        assert!(built["self"]["again"].is_object());
    }

    #[test]
    fn names_help_where_the_schema_is_silent() {
        let schema = json!({
            "required": ["timezone", "source_tz", "filePath", "other"],
            "properties": {"timezone": {"type": "string"}, "source_tz": {"type": "string"}},
        });
        assert_eq!(
            build(&schema),
            Some(json!({"timezone": "UTC", "source_tz": "UTC", "filePath": ".", "other": "hello"}))
        );
    }
}
