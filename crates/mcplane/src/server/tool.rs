//! Tools: a definition for the client, and a handler.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use mcplane_proto::headers::{self, ParamHeader};
use mcplane_proto::types::{self, CallToolResult, Icon, ToolAnnotations};
use mcplane_proto::version::Revision;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use super::context::Context;
use super::failure::Failure;
use super::handler::Handler;
use super::misfit;
use super::outcome::IntoToolResult;
use super::state::Need;
#[cfg(not(feature = "schema"))]
use super::typed::{Root, Schema};
use crate::error::{Error, Result};
#[cfg(feature = "schema")]
use crate::schema::{Root, Schema};

/// A tool. Make one with `#[tool]`, or with [`Tool::inline`], [`Tool::blocking`] or
/// [`Tool::waiting`] from a closure.
#[derive(Clone)]
pub struct Tool {
    pub(crate) definition: types::Tool,
    pub(crate) handler: Handler<Arguments, Result<CallToolResult, Failure>>,
    input: Option<Box<RawValue>>,
    output: Option<Box<RawValue>>,
    /// Whether the handler's own type describes an object, as arguments must be.
    takes_object: bool,
    pub(crate) needs: Vec<Need>,
}

/// The argument type of a tool that takes none.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct NoArguments {}

/// What can be registered as a tool: a [`Tool`], or a function under `#[tool]`.
pub trait IntoTool {
    /// The tool.
    fn into_tool(self) -> Tool;
}

impl IntoTool for Tool {
    fn into_tool(self) -> Tool {
        self
    }
}

impl<F: FnOnce() -> Tool> IntoTool for F {
    fn into_tool(self) -> Tool {
        self()
    }
}

impl Tool {
    /// A tool that neither blocks nor waits. It runs in the connection's own task. This is the
    /// fastest way, but a slow call delays the whole connection.
    pub fn inline<A, R>(
        name: &str,
        handler: impl Fn(&Context, A) -> R + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        R: IntoToolResult,
    {
        let run = move |context: &Context, arguments: Arguments| {
            handler(context, arguments.parse()?).into_tool_result()
        };
        Self::new::<A, R>(name, Handler::Inline(Arc::new(run)))
    }

    /// A tool that computes for long or calls blocking functions. It runs on a thread, as one of
    /// the server's workers.
    pub fn blocking<A, R>(
        name: &str,
        handler: impl Fn(&Context, A) -> R + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        R: IntoToolResult,
    {
        let run = move |context: &Context, arguments: Arguments| {
            handler(context, arguments.parse()?).into_tool_result()
        };
        Self::new::<A, R>(name, Handler::Blocking(Arc::new(run)))
    }

    /// A tool that waits: an async closure. It runs as a task, as one of the server's workers.
    pub fn waiting<A, R, F, Fut>(name: &str, handler: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send,
        R: IntoToolResult,
        F: Fn(Context, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let run = move |context: Context, arguments: Arguments| {
            let handler = Arc::clone(&handler);
            async move { handler(context, arguments.parse()?).await.into_tool_result() }
        };
        Self::new::<A, R>(name, Handler::waiting(run))
    }

    fn new<A: JsonSchema, R: IntoToolResult>(
        name: &str,
        handler: Handler<Arguments, Result<CallToolResult, Failure>>,
    ) -> Self {
        let input = object_schema::<A>();
        let takes_object = input.is_some();
        // What is not an object is replaced or refused before anybody sees it.
        let input = input.unwrap_or_else(|| RawValue::NULL.to_owned());
        let mut definition = types::Tool::new(name, input);
        definition.output_schema = R::output_schema().and_then(|schema| to_raw_value(&schema).ok());
        Self { definition, handler, input: None, output: None, takes_object, needs: Vec::new() }
    }

    /// What the tool does, for the model.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.definition.description = Some(description.into());
        self
    }

    /// A name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// Hints about the effects of the tool.
    #[must_use]
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.definition.annotations = Some(annotations);
        self
    }

    /// Adds an icon.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.definition.icons.push(icon);
        self
    }

    /// The tool's `_meta`.
    #[must_use]
    pub fn meta(mut self, meta: Box<RawValue>) -> Self {
        self.definition.meta = Some(meta);
        self
    }

    /// An input schema in place of that of the handler's type: JSON Schema 2020-12, as JSON text
    /// that is listed byte for byte. Needs the feature `schema`: without it the server does not
    /// start.
    #[must_use]
    pub fn input_schema(mut self, schema: Box<RawValue>) -> Self {
        self.input = Some(schema);
        self
    }

    /// An output schema in place of that of the handler's type. Needs the feature `schema`: without
    /// it the server does not start.
    #[must_use]
    pub fn output_schema(mut self, schema: Box<RawValue>) -> Self {
        self.output = Some(schema);
        self
    }

    /// Declares that the handler takes the server's state of type `T`, so that its absence is an
    /// error when the server starts. `#[tool]` does this automatically.
    #[must_use]
    pub fn needs_state<T: Send + Sync + 'static>(mut self) -> Self {
        self.needs.push(Need::of::<T>());
        self
    }

    /// The tool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Compiles the schemas; from here on the tool can be called.
    pub(crate) fn compile(mut self) -> Result<CompiledTool> {
        #[cfg(not(feature = "schema"))]
        if self.input.is_some() || self.output.is_some() {
            let which = if self.input.is_some() { "input schema" } else { "output schema" };
            let why = format!("tool `{}`: {which}: {}", self.definition.name, Schema::refused());
            return Err(Error::misuse(why));
        }
        match self.input {
            Some(schema) => self.definition.input_schema = schema,
            None if self.takes_object => {}
            None => {
                let why = "its argument type is not an object: use `NoArguments` for none, a struct \
                           for some, or give an `input_schema` (feature `schema`)";
                return Err(Error::misuse(format!("tool `{}`: {why}", self.definition.name)));
            }
        }
        if let Some(schema) = self.output {
            self.definition.output_schema = Some(schema);
        }
        let name = &self.definition.name;
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            let why = format!("tool name {name:?}: 1 to {NAME_BYTES_MAX} printable characters");
            return Err(Error::misuse(why));
        }
        let bad = |which: &str, error| Error::misuse(format!("tool `{name}`: {which}: {error}"));
        let input = Schema::compile(&self.definition.input_schema, Root::Object)
            .map_err(|error| bad("input schema", error))?;
        let output = match &self.definition.output_schema {
            Some(schema) => {
                let compiled = Schema::compile(schema, Root::Any);
                Some(compiled.map_err(|error| bad("output schema", error))?)
            }
            None => None,
        };
        // The answer is the same for both revisions that have to wrap.
        let wraps = self.definition.wraps_output(Revision::V2025_11_25);
        let mirrored = headers::param_headers(self.definition.input_schema.get())
            .map_err(|error| Error::misuse(format!("tool `{name}`: {error}")))?
            .into();
        let (definition, handler) = (Arc::new(self.definition), self.handler);
        Ok(CompiledTool { definition, handler, input, output, wraps, mirrored })
    }
}

/// Longest tool name, in bytes (2025-11-25 tools §Tool names: 1 to 128 characters).
const NAME_BYTES_MAX: usize = 128;

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.definition.name).finish_non_exhaustive()
    }
}

/// A tool whose schemas are compiled.
#[derive(Clone)]
pub(crate) struct CompiledTool {
    pub(crate) definition: Arc<types::Tool>,
    pub(crate) handler: Handler<Arguments, Result<CallToolResult, Failure>>,
    pub(crate) input: Schema,
    pub(crate) output: Option<Schema>,
    /// Whether 2025-06-18 and 2025-11-25 see structured content as `{"result": …}`.
    pub(crate) wraps: bool,
    /// The arguments that clients mirror in headers (2026-07-28 on HTTP).
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only HTTP has headers"))]
    pub(crate) mirrored: Arc<[ParamHeader]>,
}

impl CompiledTool {
    /// Holds a result against the output schema: what a server promises, it keeps (2025-06-18
    /// tools §Output schema: structured results MUST conform).
    pub(crate) fn check(
        output: Option<&Schema>,
        name: &str,
        result: Result<CallToolResult, Failure>,
    ) -> Result<CallToolResult, Failure> {
        let result = result?;
        let (Some(schema), false) = (output, result.is_error()) else { return Ok(result) };
        let why = match &result.structured_content {
            Some(content) => match schema.check(content.get().as_bytes()) {
                Ok(()) => return Ok(result),
                Err(violations) => violations.to_string(),
            },
            None => "there is no structured content".to_owned(),
        };
        Err(Failure::internal(format!("tool `{name}` broke its own output schema: {why}")))
    }
}

/// The arguments of a call: JSON text until it is parsed.
#[derive(Clone, Debug)]
pub struct Arguments(Bytes);

impl Arguments {
    pub(crate) fn new(json: Option<Bytes>) -> Self {
        Self(json.unwrap_or_else(|| Bytes::from_static(b"{}")))
    }

    /// The arguments as a type.
    ///
    /// # Errors
    /// Says which member has the wrong form, and what was expected. Rare after validation (feature
    /// `schema`): a type can be stricter than its schema.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.0).map_err(|_| {
            Failure::Invalid(format!("invalid arguments: {}", misfit::why::<T>(&self.0)))
        })
    }

    /// The arguments as a tree.
    ///
    /// # Errors
    /// As [`Arguments::parse`].
    pub fn to_value(&self) -> Result<serde_json::Value, Failure> {
        self.parse()
    }

    /// The JSON text as it came.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The schema of an argument type, which must be an object: `()` and the like become one.
/// A `$schema` is the type's own, if it has one.
fn object_schema<A: JsonSchema>() -> Option<Box<RawValue>> {
    let mut settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    let is_object = schema.get("type").is_some_and(|kind| kind == "object");
    let is_open = schema.as_object().is_some_and(|object| !object.contains_key("type"))
        && (schema.get("properties").is_some() || schema.get("$ref").is_some());
    if !is_object && !is_open {
        return None;
    }
    schema.remove("title");
    schema.insert("type".into(), "object".into());
    to_raw_value(&schema).ok()
}
