//! Forms from types: the fields of a struct become the fields of an elicitation.

use std::any::type_name;

use mcplane_proto::method::Method;
use mcplane_proto::types::{ElicitAction, ElicitForm, ElicitResult};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

use super::context::Context;
use crate::error::{Error, Result};

/// The user's answer to a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the three actions of the protocol")]
pub enum Elicited<T> {
    /// Filled in.
    Accepted(T),
    /// Refused.
    Declined,
    /// Dismissed without an answer.
    Cancelled,
}

impl<T> Elicited<T> {
    /// What was filled in, if it was.
    pub fn accepted(self) -> Option<T> {
        match self {
            Self::Accepted(filled) => Some(filled),
            Self::Declined | Self::Cancelled => None,
        }
    }
}

impl Context {
    /// Asks the user to fill in a form with the fields of `T`, as [`Context::elicit`] does with
    /// a schema of your own; the same holds for its rounds.
    ///
    /// `T` is a struct of text, numbers, booleans and enums without data, `Vec`s of such enums,
    /// and `Option`s of all of them: the protocol has no other fields (elicitation §Requested
    /// Schema). Doc comments describe them.
    ///
    /// ```
    /// # use mcplane::{Context, server::Elicited, tool};
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Trip {
    ///     /// where to
    ///     city: String,
    ///     #[schemars(range(min = 1, max = 30))]
    ///     nights: u8,
    /// }
    ///
    /// /// Books a trip.
    /// #[tool]
    /// async fn book(context: &Context) -> mcplane::Result<String> {
    ///     Ok(match context.elicit_form::<Trip>("Where do you want to go?").await? {
    ///         Elicited::Accepted(trip) => format!("{} nights in {}", trip.nights, trip.city),
    ///         Elicited::Declined | Elicited::Cancelled => "Nothing is booked.".into(),
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Context::elicit`]; also, before the user is asked, if `T` cannot be a form.
    pub async fn elicit_form<T: DeserializeOwned + JsonSchema>(
        &self,
        message: impl Into<String>,
    ) -> Result<Elicited<T>> {
        self.elicit_form_as("elicitation", message).await
    }

    /// Like [`Context::elicit_form`], with the question's key in `inputRequests` (2026-07-28).
    ///
    /// # Errors
    /// As [`Context::elicit_form`].
    pub async fn elicit_form_as<T: DeserializeOwned + JsonSchema>(
        &self,
        key: &str,
        message: impl Into<String>,
    ) -> Result<Elicited<T>> {
        let fields = fields_of::<T>()?;
        let fields = to_raw_value(&fields)
            .map_err(|error| Error::misuse(format!("the fields of a form: {error}")))?;
        let answer = self.elicit_as(key, ElicitForm::new(message, fields)).await?;
        self.filled(answer)
    }

    fn filled<T: DeserializeOwned>(&self, answer: ElicitResult) -> Result<Elicited<T>> {
        match answer.action {
            ElicitAction::Accept => {
                let content = answer.content.unwrap_or_default();
                to_raw_value(&content)
                    .and_then(|json| serde_json::from_str(json.get()))
                    .map(Elicited::Accepted)
                    .map_err(|error| self.misread(Method::ElicitationCreate, &error))
            }
            ElicitAction::Decline => Ok(Elicited::Declined),
            _ => Ok(Elicited::Cancelled),
        }
    }
}

/// The form of a type.
///
/// # Errors
/// If it is not flat.
fn fields_of<T: JsonSchema>() -> Result<Value> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    let bad = |why: String| {
        Error::misuse(format!(
            "`{}` cannot be a form: {why} (a form has fields of text, numbers and booleans, and enums \
             without data, one or several of them)",
            type_name::<T>()
        ))
    };
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(bad("it is not a struct".to_owned()));
    }
    let mut properties = Map::new();
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let simple = simple(field).ok_or_else(|| bad(format!("its field `{name}` is not flat")));
        properties.insert(name.clone(), simple?);
    }
    let required = schema.get("required").cloned().unwrap_or_else(|| json!([]));
    Ok(json!({"type": "object", "properties": properties, "required": required}))
}

/// The keywords that a field of a form may have, beside its `type`, `enum` and `items`.
const KEYWORDS: [&str; 10] = [
    "title",
    "description",
    "default",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
];

/// The formats of text that a form knows.
const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

/// A field as the protocol has it; `None` if it has no such.
fn simple(field: &Value) -> Option<Value> {
    let (outer, field) = (field, present(field)?);
    let mut simple = match choices(&field) {
        Some(choices) => json!({"type": "string", "enum": choices}),
        None => match field.get("type")?.as_str()? {
            "string" => match field.get("format").and_then(Value::as_str) {
                Some(format) if FORMATS.contains(&format) => {
                    json!({"type": "string", "format": format})
                }
                _ => json!({"type": "string"}),
            },
            kind @ ("integer" | "number" | "boolean") => json!({"type": kind}),
            "array" => {
                let choices = choices(field.get("items")?)?;
                json!({"type": "array", "items": {"type": "string", "enum": choices}})
            }
            _ => return None,
        },
    };
    for keyword in KEYWORDS {
        // What is said of an optional field stands beside its choice of types.
        let said = outer.get(keyword).or_else(|| field.get(keyword));
        if let Some(said) = said.filter(|said| !said.is_null()) {
            simple.as_object_mut()?.insert(keyword.to_owned(), said.clone());
        }
    }
    Some(simple)
}

/// What a field is if it is not null.
fn present(field: &Value) -> Option<Value> {
    let is_null = |value: &&Value| value.get("type").and_then(Value::as_str) == Some("null");
    if let Some(Value::Array(alternatives)) = field.get("anyOf") {
        let mut others = alternatives.iter().filter(|alternative| !is_null(alternative));
        return match (others.next(), others.next()) {
            (Some(only), None) => present(only),
            _ => None,
        };
    }
    let mut field = field.clone();
    if let Some(Value::Array(kinds)) = field.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        let only = if kinds.len() == 1 { kinds.pop()? } else { return None };
        field.as_object_mut()?.insert("type".to_owned(), only);
    }
    Some(field)
}

/// The words of an enum without data.
fn choices(schema: &Value) -> Option<Vec<Value>> {
    let words: Vec<_> = match (schema.get("enum"), schema.get("oneOf")) {
        (Some(Value::Array(words)), _) => words.clone(),
        (_, Some(Value::Array(variants))) => variants.iter().flat_map(variant).collect(),
        _ => return schema.get("const").map(|word| vec![word.clone()]),
    };
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_null()).collect();
    (!words.is_empty() && words.iter().all(Value::is_string)).then_some(words)
}

/// The words of one variant; null, which is dropped or refused, if it holds data.
fn variant(variant: &Value) -> Vec<Value> {
    choices(variant).unwrap_or_else(|| vec![Value::Bool(false)])
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    enum Size {
        /// for one
        Small,
        /// for all
        Large,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Extra {
        Cheese,
        Olives,
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Order {
        /// who pays
        #[schemars(email)]
        name: String,
        #[schemars(range(min = 1, max = 9))]
        count: u8,
        price: Option<f64>,
        #[serde(default)]
        hot: bool,
        /// how large
        size: Size,
        second: Option<Extra>,
        extras: Vec<Extra>,
        id: Option<char>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Nested<T> {
        inner: T,
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    enum Data {
        Plain,
        Held(u8),
    }

    #[test]
    fn a_flat_type_is_a_form() {
        let form = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "format": "email", "description": "who pays"},
                "count": {"type": "integer", "minimum": 1, "maximum": 9},
                "price": {"type": "number"},
                "hot": {"type": "boolean", "default": false},
                "size": {
                    "type": "string", "enum": ["Small", "Large"], "description": "how large"
                },
                "second": {"type": "string", "enum": ["cheese", "olives"]},
                "extras": {
                    "type": "array", "items": {"type": "string", "enum": ["cheese", "olives"]}
                },
                "id": {"type": "string", "minLength": 1, "maxLength": 1},
            },
            "required": ["name", "count", "size", "extras"],
        });
        assert_eq!(fields_of::<Order>().unwrap(), form);
    }

    #[test]
    fn any_other_type_is_refused_by_name() {
        let why = |fields: Result<Value>| fields.unwrap_err().to_string();
        for error in [
            why(fields_of::<Nested<Nested<u8>>>()),
            why(fields_of::<Nested<Vec<String>>>()),
            why(fields_of::<Nested<Data>>()),
            why(fields_of::<Nested<Option<Data>>>()),
            why(fields_of::<Nested<Value>>()),
            why(fields_of::<Nested<(u8, u8)>>()),
            why(fields_of::<Nested<()>>()),
        ] {
            assert!(error.contains("Nested<"), "{error}");
            assert!(error.contains("its field `inner` is not flat"), "{error}");
        }
        assert!(why(fields_of::<String>()).contains("it is not a struct"));
    }
}
