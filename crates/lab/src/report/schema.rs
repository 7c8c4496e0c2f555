//! The published JSON Schema of results.

use crate::results::{Report, SCHEMA};
use serde_json::{Value, json};

/// The JSON Schema of what `mcplane bench --json` writes, generated from the model: [`Report`].
#[must_use]
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Report);
    schema.insert("$comment".to_owned(), json!("Generated; see docs/lab/report.md."));
    let mut schema = Value::from(schema);
    // A file of another format is not a result of this one.
    if let Some(format) = schema.pointer_mut("/properties/schema").and_then(Value::as_object_mut) {
        format.insert("const".to_owned(), json!(SCHEMA));
    }
    schema
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{env, fs, path::Path};

    use super::*;

    /// Set, the published schemas are written anew.
    const UPDATE: &str = "MCPLANE_UPDATE";

    /// Holds a schema against the one in `docs/lab`.
    pub(crate) fn assert_published(name: &str, schema: &Value) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab").join(name);
        if env::var_os(UPDATE).is_some() {
            let text = serde_json::to_string_pretty(schema).unwrap();
            fs::write(&file, text + "\n").unwrap();
        }
        let published: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert!(
            published == *schema,
            "{} is old: run `{UPDATE}=1 cargo test -p mcplane-lab schema`",
            file.display()
        );
    }

    #[test]
    fn the_published_schema_is_that_of_the_code() {
        assert_published("bench.schema.json", &schema());
        assert_eq!(schema()["properties"]["schema"]["const"], SCHEMA);
    }
}
