//! JSON Schema for the inputs and outputs of tools: compiled once, checked on every call.
//!
//! Layout, in reading order: [`Schema`] here · `tape` indexes the text of an instance · `node`
//! shows the index to the validator · `violations` says what is wrong · `survey` bounds the cost of
//! a schema.
//!
//! A valid instance of ordinary size is checked without a heap allocation: the validator reads the
//! bytes of the message through an index on the stack. Defaults are not filled in, and nothing is
//! changed: the handler gets the bytes that were checked.

mod node;
mod survey;
mod tape;
mod violations;

#[cfg(test)]
mod tests;

use std::{
    cell::Cell,
    fmt,
    sync::{Arc, LazyLock},
};

use jsonschema::{Draft, PatternOptions, Validator, options_for};
use serde_json::{Value, value::RawValue};

pub use self::violations::Violations;
use self::{
    node::{Text, TextNode},
    survey::survey,
    tape::Tape,
};

/// Longest schema, in bytes. It travels whole in every `tools/list`.
const SCHEMA_BYTES_MAX: usize = 256 * 1024;

/// Longest reason in a [`SchemaError`], in bytes; it may quote the schema.
const REASON_BYTES_MAX: usize = 512;

/// Largest compiled regular expression, in bytes, and largest cache while one runs.
const PATTERN_COMPILED_BYTES_MAX: usize = 1024 * 1024;

/// Most steps back that one regular expression with look-around or back-references may take on one
/// string, about a millisecond; the instance is refused beyond it. Others take linear time.
const BACKTRACKS_MAX: usize = 50_000;

/// Work one check may take, in visits to containers and keys compared: so much for any instance,
/// and so much more for each value in it. A plain schema needs a handful per value.
const STEPS_BASE: u64 = 100_000;
const STEPS_PER_VALUE: u64 = 256;

const EMPTY_OBJECT: &str = r#"{"type":"object","additionalProperties":false}"#;

const DIALECTS: [(&str, Draft); 2] = [
    ("https://json-schema.org/draft/2020-12/schema", Draft::Draft202012),
    ("http://json-schema.org/draft-07/schema", Draft::Draft7),
];

/// What the root of a schema may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Root {
    /// `"type": "object"`, as the specification requires of an `inputSchema`.
    Object,
    /// Any schema, as for an `outputSchema`.
    Any,
}

/// A compiled JSON Schema. A clone shares it.
#[derive(Clone)]
pub struct Schema {
    compiled: Arc<Compiled>,
}

struct Compiled {
    raw: Box<RawValue>,
    validator: Validator<Text>,
}

impl Schema {
    /// Compiles a schema of dialect 2020-12, or of draft-07 if its `$schema` says so.
    ///
    /// References stay inside the schema; nothing is ever fetched. `format` is an annotation, as
    /// 2020-12 has it.
    ///
    /// # Errors
    ///
    /// If the schema is not valid, its dialect is not supported, its root is not what `root` asks
    /// for, a reference leaves it or leads nowhere, or it exceeds a bound on its size and cost. The
    /// error says where and why.
    pub fn compile(schema: &RawValue, root: Root) -> Result<Self, SchemaError> {
        let value = parse(schema.get())?;
        let draft = dialect(&value)?;
        if root == Root::Object && value.get("type").and_then(Value::as_str) != Some("object") {
            return Err(SchemaError::new("", "the root must have \"type\": \"object\"".to_owned()));
        }
        survey(&value)?;
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(BACKTRACKS_MAX)
            .size_limit(PATTERN_COMPILED_BYTES_MAX)
            .dfa_size_limit(PATTERN_COMPILED_BYTES_MAX);
        let validator = options_for::<Text>()
            .offline()
            .with_draft(draft)
            .with_pattern_options(patterns)
            .build(&value)
            .map_err(|error| SchemaError::new(error.instance_path().as_str(), error.to_string()))?;
        Ok(Self { compiled: Arc::new(Compiled { raw: schema.to_owned(), validator }) })
    }

    /// The schema of a tool without parameters: an object without members, as the specification
    /// recommends (server/tools).
    #[must_use]
    pub fn empty_object() -> Self {
        static EMPTY: LazyLock<Schema> = LazyLock::new(|| {
            #[expect(clippy::expect_used, reason = "a constant, compiled by the tests")]
            RawValue::from_string(EMPTY_OBJECT.to_owned())
                .map_err(|error| SchemaError::new("", error.to_string()))
                .and_then(|raw| Schema::compile(&raw, Root::Object))
                .expect("the empty schema compiles")
        });
        EMPTY.clone()
    }

    /// The schema as it was given, byte for byte.
    #[must_use]
    pub fn raw(&self) -> &RawValue {
        &self.compiled.raw
    }

    /// Checks the JSON text of an instance. The text should already be known to be valid JSON: what
    /// is not is either refused here or by its reader.
    ///
    /// What a handler could read differently is refused too: a key that an object holds twice, a
    /// number beyond `f64`, half of a surrogate pair.
    ///
    /// # Errors
    ///
    /// What is wrong, in words for the caller.
    pub fn check(&self, instance: &[u8]) -> Result<(), Violations> {
        let mut tape = Tape::empty();
        let text = tape.fill(instance).map_err(Violations::flaw)?;
        let values = tape.tokens().len() as u64;
        let steps = Cell::new(STEPS_BASE + STEPS_PER_VALUE * values);
        let root = TextNode::root(text, tape.tokens(), &steps);
        if let Some((object, key)) = root.duplicate() {
            return Err(Violations::duplicate(&root, &object, &key));
        }
        let valid = self.compiled.validator.is_valid(root);
        if steps.get() == 0 {
            return Err(Violations::too_complex());
        }
        if valid { Ok(()) } else { Err(Violations::list(&self.compiled.validator, text, &tape)) }
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.raw().get()).finish()
    }
}

/// Why a schema cannot be used, and where in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid schema at {at}: {reason}")]
pub struct SchemaError {
    at: String,
    reason: String,
}

impl SchemaError {
    fn new(at: &str, mut reason: String) -> Self {
        if reason.len() > REASON_BYTES_MAX {
            reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
            reason.push('…');
        }
        Self { at: format!("#{at}"), reason }
    }
}

fn parse(schema: &str) -> Result<Value, SchemaError> {
    if schema.len() > SCHEMA_BYTES_MAX {
        return Err(SchemaError::new("", format!("it is longer than {SCHEMA_BYTES_MAX} bytes")));
    }
    let tape = Tape::index(schema)
        .map_err(|flaw| SchemaError::new("", format!("it {} (byte {})", flaw.what, flaw.at)))?;
    if let Some((_, key)) = TextNode::root(schema, tape.tokens(), &Cell::new(0)).duplicate() {
        return Err(SchemaError::new("", format!("an object holds the key {key:?} twice")));
    }
    serde_json::from_str(schema).map_err(|error| SchemaError::new("", error.to_string()))
}

fn dialect(schema: &Value) -> Result<Draft, SchemaError> {
    let Some(named) = schema.get("$schema") else { return Ok(Draft::Draft202012) };
    let plain = named.as_str().map(|uri| uri.strip_suffix('#').unwrap_or(uri));
    DIALECTS.iter().find(|(uri, _)| Some(*uri) == plain).map(|(_, draft)| *draft).ok_or_else(|| {
        let [(latest, _), (other, _)] = DIALECTS;
        let reason = format!("dialect {named} is not supported; use {latest:?} or {other:?}");
        SchemaError::new("/$schema", reason)
    })
}
