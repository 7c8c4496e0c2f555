//! Arguments without the feature `schema`: the types check them, and what types do not check is
//! refused when the server starts.
//!
//! A tool's schema is derived from the type that its arguments are parsed as, so that whatever the
//! schema says of types, names and words, `serde` says too: one thing at a time, where the validator
//! lists every violation. Bounds and patterns are only in the schema, and so is all of a schema that
//! belongs to no type; a tool that has them would promise what nobody keeps.

use serde_json::Value;
use serde_json::value::RawValue;

/// What the root of a schema may be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    Object,
    Any,
}

/// A schema that its type keeps.
#[derive(Clone)]
pub(crate) struct Schema(Root);

/// What to do about it.
const REMEDY: &str = "switch on the validator, mcplane's feature `schema`: `cargo add mcplane \
                      --features schema`";

/// Keywords that no type checks.
const UNCHECKED: [&str; 15] = [
    "contains",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
];

/// Smallest and largest number of the types that `schemars` names in `format`, as far as it says
/// them.
const RANGES: [(&str, i64, i64); 9] = [
    ("int8", -128, 127),
    ("int16", -32_768, 32_767),
    ("int32", i32::MIN as i64, i32::MAX as i64),
    ("uint8", 0, 255),
    ("uint16", 0, 65_535),
    ("uint32", 0, u32::MAX as i64),
    ("uint64", 0, i64::MAX),
    ("uint128", 0, i64::MAX),
    ("uint", 0, i64::MAX),
];

impl Schema {
    /// Takes a schema that was derived from a type.
    ///
    /// # Errors
    /// If it says what the type does not check.
    pub(crate) fn compile(schema: &RawValue, root: Root) -> Result<Self, String> {
        let schema: Value =
            serde_json::from_str(schema.get()).map_err(|error| error.to_string())?;
        match unchecked(&schema, None) {
            None => Ok(Self(root)),
            Some((name, keyword)) => {
                let of = name.map(|name| format!(" of `{name}`")).unwrap_or_default();
                Err(format!("it says `{keyword}`{of}, which no type checks: {REMEDY}"))
            }
        }
    }

    /// Why a schema is refused that is not that of the type.
    pub(crate) fn refused() -> String {
        format!("it is one of your own, which no type checks: {REMEDY}")
    }

    /// The type checks the arguments when they are parsed, and a result is made of one. Only that
    /// the arguments are an object is not for it to say: a struct takes a list, too.
    ///
    /// # Errors
    /// If they are not an object.
    pub(crate) fn check(&self, json: &[u8]) -> Result<(), &'static str> {
        match (self.0, json.first()) {
            (Root::Any, _) | (Root::Object, Some(b'{')) => Ok(()),
            (Root::Object, _) => Err("they are not an object"),
        }
    }
}

/// The first keyword that the type does not check, and the property that has it.
fn unchecked<'s>(schema: &'s Value, name: Option<&'s str>) -> Option<(Option<&'s str>, &'s str)> {
    match schema {
        Value::Object(keywords) => keywords.iter().find_map(|(keyword, value)| {
            // Names of properties are not keywords, and defaults and examples are data.
            match keyword.as_str() {
                "properties" => {
                    value.as_object()?.iter().find_map(|(name, value)| unchecked(value, Some(name)))
                }
                "$defs" => value.as_object()?.values().find_map(|value| unchecked(value, None)),
                "default" | "examples" | "enum" | "const" => None,
                known if UNCHECKED.contains(&known) && !is_of_type(schema, known, value) => {
                    Some((name, known))
                }
                _ => unchecked(value, name),
            }
        }),
        Value::Array(schemas) => schemas.iter().find_map(|schema| unchecked(schema, name)),
        _ => None,
    }
}

/// Whether the bound is the type's own: that of a number, the one character of a `char`, the length
/// of an array or a tuple. A `length(equal = …)` of a list looks like the last.
fn is_of_type(schema: &Value, keyword: &str, value: &Value) -> bool {
    let format = schema.get("format").and_then(Value::as_str);
    let range = RANGES.iter().find(|(name, ..)| Some(*name) == format);
    match (keyword, range) {
        ("minimum", Some((_, least, _))) => value.as_i64() == Some(*least),
        ("maximum", Some((_, _, most))) => value.as_i64() == Some(*most),
        ("minLength" | "maxLength", _) => {
            [schema.get("minLength"), schema.get("maxLength")] == [Some(&Value::from(1)); 2]
        }
        ("minItems" | "maxItems", _) => schema.get("minItems") == schema.get("maxItems"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use schemars::{JsonSchema, schema_for};
    use serde_json::value::to_raw_value;

    use super::*;

    fn compiled<T: JsonSchema>() -> Result<Schema, String> {
        Schema::compile(&to_raw_value(&schema_for!(T)).unwrap(), Root::Any)
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Kept {
        /// a property that is called like a keyword
        pattern: Option<String>,
        numbers: (i8, i16, i32, i64, u8, u16, u32, u64, usize, u128, f64),
        letter: char,
        corners: [[f64; 2]; 4],
        many: BTreeMap<String, Vec<Self>>,
        #[schemars(example = serde_json::json!({"minimum": 3}))]
        any: Value,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Bounded {
        inner: Vec<Percent>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Percent {
        #[schemars(range(max = 100))]
        value: u8,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Named {
        #[schemars(length(min = 1))]
        name: String,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Coded {
        #[schemars(regex(pattern = "^[a-z]+$"))]
        code: Option<String>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Few {
        #[schemars(length(max = 3))]
        words: Vec<String>,
    }

    #[test]
    fn what_a_type_checks_is_taken_and_anything_else_refused() {
        compiled::<Kept>().unwrap();
        let why = |result: Result<Schema, String>| result.err().unwrap();
        for (refused, says) in [
            (compiled::<Bounded>(), "it says `maximum` of `value`, which no type checks: "),
            (compiled::<Named>(), "it says `minLength` of `name`, which no type checks: "),
            (compiled::<Coded>(), "it says `pattern` of `code`, which no type checks: "),
            (compiled::<Few>(), "it says `maxItems` of `words`, which no type checks: "),
        ] {
            assert_eq!(why(refused), format!("{says}{REMEDY}"));
        }
        assert!(Schema::refused().ends_with(REMEDY));
    }
}
