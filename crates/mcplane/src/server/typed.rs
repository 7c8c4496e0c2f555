//! Arguments without the feature `schema`: the types check them, and what types do not check is
//! refused when the server starts.
//!
//! A tool's schema is derived from the type that its arguments are parsed as, so that whatever the
//! schema says of types, names and words, `serde` says too: one thing at a time, where the validator
//! lists every violation. Bounds and patterns are only in the schema; a tool that has them would
//! promise what nobody keeps.

use std::convert::Infallible;

use serde_json::Value;
use serde_json::value::RawValue;

/// What the root of a schema may be; a type has decided it.
pub(crate) enum Root {
    Object,
    Any,
}

/// A schema that its type keeps.
#[derive(Clone)]
pub(crate) struct Schema;

/// Keywords that no type checks.
const UNCHECKED: [&str; 8] = [
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxLength",
    "maximum",
    "minLength",
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
    pub(crate) fn compile(schema: &RawValue, _: Root) -> Result<Self, String> {
        let schema: Value =
            serde_json::from_str(schema.get()).map_err(|error| error.to_string())?;
        match unchecked(&schema) {
            None => Ok(Self),
            Some(keyword) => Err(format!(
                "it says `{keyword}`, which the type does not check: switch on the feature \
                 `schema` of mcplane"
            )),
        }
    }

    /// The type checks the arguments when they are parsed, and a result is made of one.
    #[allow(clippy::unused_self, reason = "the validator's needs one")]
    pub(crate) const fn check(&self, _: &[u8]) -> Result<(), Infallible> {
        Ok(())
    }
}

/// The first keyword that the type does not check.
fn unchecked(schema: &Value) -> Option<String> {
    match schema {
        Value::Object(keywords) => keywords.iter().find_map(|(keyword, value)| {
            // Names of properties are no keywords, and defaults and examples are data.
            match keyword.as_str() {
                "properties" | "$defs" => value.as_object()?.values().find_map(unchecked),
                "default" | "examples" | "enum" | "const" => None,
                known if UNCHECKED.contains(&known) && !is_of_type(schema, known, value) => {
                    Some(known.to_owned())
                }
                _ => unchecked(value),
            }
        }),
        Value::Array(schemas) => schemas.iter().find_map(unchecked),
        _ => None,
    }
}

/// Whether the bound is the type's own: that of a number, or the one character of a `char`.
fn is_of_type(schema: &Value, keyword: &str, value: &Value) -> bool {
    let format = schema.get("format").and_then(Value::as_str);
    let range = RANGES.iter().find(|(name, ..)| Some(*name) == format);
    match (keyword, range) {
        ("minimum", Some((_, least, _))) => value.as_i64() == Some(*least),
        ("maximum", Some((_, _, most))) => value.as_i64() == Some(*most),
        ("minLength" | "maxLength", _) => {
            [schema.get("minLength"), schema.get("maxLength")] == [Some(&Value::from(1)); 2]
        }
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

    #[test]
    fn what_a_type_checks_is_taken_and_anything_else_refused() {
        compiled::<Kept>().unwrap();
        let why = |result: Result<Schema, String>| result.err().unwrap();
        assert!(why(compiled::<Bounded>()).contains("`maximum`, which the type does not check"));
        assert!(why(compiled::<Named>()).contains("the feature `schema`"));
    }
}
