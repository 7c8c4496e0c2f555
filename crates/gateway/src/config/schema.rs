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

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, env, fs, path::Path};

    use super::*;
    use crate::catalog::Rules;

    /// Set, the published schema is written anew.
    const UPDATE: &str = "MCPLANE_UPDATE";

    fn docs(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gateway").join(name)
    }

    #[test]
    fn the_published_schema_is_that_of_the_code() {
        let file = docs("mcplane.schema.json");
        if env::var_os(UPDATE).is_some() {
            let text = serde_json::to_string_pretty(&schema()).unwrap();
            fs::write(&file, text + "\n").unwrap();
        }
        let published: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert!(
            published == schema(),
            "{} is old: run `{UPDATE}=1 cargo test -p mcplane-gateway config::schema`",
            file.display()
        );
    }

    /// The names of all keys in the schema.
    fn keys(schema: &Value, all: &mut BTreeSet<String>) {
        match schema {
            Value::Object(object) => {
                if let Some(Value::Object(properties)) = object.get("properties") {
                    all.extend(properties.keys().cloned());
                }
                object.values().for_each(|value| keys(value, all));
            }
            Value::Array(array) => array.iter().for_each(|value| keys(value, all)),
            _ => {}
        }
    }

    #[test]
    fn the_page_has_every_key() {
        let page = fs::read_to_string(docs("config.md")).unwrap();
        let mut all = BTreeSet::new();
        keys(&schema(), &mut all);
        assert!(all.len() > 40, "{all:?}");
        for key in all {
            let told = [format!("| `{key}` |"), format!("### `{key}`"), format!("`[{key}")];
            assert!(told.iter().any(|told| page.contains(told)), "no `{key}` in config.md");
        }
    }

    #[test]
    fn the_example_on_the_page_is_one() {
        let page = fs::read_to_string(docs("config.md")).unwrap();
        let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let config = Config::parse(example, "mcplane.toml").unwrap();
        let names: Vec<&str> = config.servers.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["files", "browser", "search"]);
        assert_eq!(config.servers.get("browser").unwrap().workers_limit(), 8);
        let rules = Rules::from(&config.servers.get("files").unwrap().tools);
        assert!(!rules.shows("write_file"));
    }
}
