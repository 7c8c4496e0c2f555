//! What is wrong with arguments that do not fit their type: which member, and what was expected.
//!
//! `serde` says what it expected, but not which member has the wrong type. Arguments that do not
//! fit are therefore parsed once more, and the path to the member is noted: only failures pay for
//! that.

use std::fmt::Display;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};

/// Longest name of a member, in bytes; it is the caller's.
const NAME_BYTES_MAX: usize = 128;

/// Longest text of what is wrong, in bytes: it quotes the caller's value, and an `enum` may be
/// long.
const WHY_BYTES_MAX: usize = 384;

/// Why the JSON text is not a `T`, fit to be shown to whoever sent it.
#[cold]
pub(crate) fn why<T: DeserializeOwned>(json: &[u8]) -> String {
    let parser = &mut serde_json::Deserializer::from_slice(json);
    match serde_path_to_error::deserialize::<_, T>(parser) {
        Ok(_) => "they do not end where they should".to_owned(),
        Err(error) => {
            let (path, error) = (error.path().to_string(), error.into_inner());
            let text = error.to_string();
            // The sender has a tree, not the line and column of its text.
            let place = format!(" at line {} column {}", error.line(), error.column());
            located(&path, text.strip_suffix(&place).unwrap_or(&text))
        }
    }
}

/// For `#[serde(deserialize_with = …)]` beside `flatten`: members of a flattened type are copied
/// before they are parsed, and the path to them would be lost.
///
/// # Errors
/// As the type's own, with the name of the member.
pub fn flattened<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    serde_path_to_error::deserialize(from).map_err(|error| {
        let path = error.path().to_string();
        Error::custom(located(&path, error.into_inner()))
    })
}

/// `error`, with the name of the member that it is about unless that is all of them.
fn located(path: &str, error: impl Display) -> String {
    let why = short(&error.to_string(), WHY_BYTES_MAX);
    match path {
        "." => why,
        path => format!("`{}`: {why}", short(path, NAME_BYTES_MAX)),
    }
}

/// The text without its middle, if it is longer: what was expected is said last.
fn short(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let start = text.floor_char_boundary(bytes_max / 2);
    let end = text.ceil_char_boundary(text.len() - bytes_max / 2);
    let [start, end] = [text.get(..start), text.get(end..)].map(Option::unwrap_or_default);
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only the error is looked at")]
    struct Point {
        x: i32,
        y: Option<f64>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Unit {
        Metre,
        Mile,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only the error is looked at")]
    struct Paging {
        skip: u32,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only the error is looked at")]
    struct Arguments {
        name: String,
        points: Vec<Point>,
        unit: Option<Unit>,
        #[serde(default)]
        marks: BTreeMap<String, u8>,
        #[serde(flatten, deserialize_with = "flattened")]
        paging: Paging,
    }

    fn told(change: &Value) -> String {
        let mut arguments = json!({"name": "a", "points": [], "skip": 0});
        for (name, value) in change.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        arguments.as_object_mut().unwrap().retain(|_, value| *value != "none");
        why::<Arguments>(arguments.to_string().as_bytes())
    }

    #[test]
    fn the_member_is_named_and_what_was_expected() {
        let word = "x".repeat(5_000);
        for (change, said) in [
            (json!({"name": "none"}), "missing field `name`"),
            (json!({"skip": "none"}), "missing field `skip`"),
            (json!({"name": 3}), "`name`: invalid type: integer `3`, expected a string"),
            (json!({"name": null}), "`name`: invalid type: null, expected a string"),
            (json!({"skip": "few"}), "`skip`: invalid type: string \"few\", expected u32"),
            (json!({"skip": -1}), "`skip`: invalid value: integer `-1`, expected u32"),
            (json!({"points": [{"x": 1}, {"y": 1}]}), "`points[1]`: missing field `x`"),
            (
                json!({"points": [{"x": 0.5}]}),
                "`points[0].x`: invalid type: floating point `0.5`, expected i32",
            ),
            (json!({"points": {"x": 1}}), "`points`: invalid type: map, expected a sequence"),
            (json!({"unit": "foot"}), "`unit`: unknown variant `foot`, expected `metre` or `mile`"),
            (json!({"marks": {"b": 256}}), "`marks.b`: invalid value: integer `256`, expected u8"),
        ] {
            assert_eq!(told(&change), said);
        }
        let long = told(&json!({ "skip": word, "points": [] }));
        assert!(long.len() < 450 && long.starts_with("`skip`: invalid type"), "{long}");
        assert!(long.ends_with("xxx\", expected u32"), "{long}");
        let long = told(&json!({ "marks": { word: "ü".repeat(5_000) } }));
        assert!(long.len() < 600 && long.starts_with("`marks.xxx"), "{long}");
        assert!(long.ends_with("üü\", expected u8"), "{long}");
        assert_eq!(why::<Point>(br#"{"x":1,"x":1}"#), "duplicate field `x`");
    }
}
