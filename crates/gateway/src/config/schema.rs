//! The published JSON Schema of the settings, for editors.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::{address::Listen, model::Config};

/// The JSON Schema of `mcplane.toml`, generated from the model.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Config);
    schema.insert("$comment".into(), json!("Generated; see docs/gateway/config.md."));
    schema.into()
}

/// One address or several.
pub(super) fn listen(generator: &mut SchemaGenerator) -> Schema {
    let one = generator.subschema_for::<Listen>();
    json_schema!({ "oneOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
}

/// A server has a command or a URL, and never both.
pub(super) fn command_or_url(schema: &mut Schema) {
    schema.insert("oneOf".into(), json!([{ "required": ["command"] }, { "required": ["url"] }]));
}
