//! What handlers return, and how it becomes an answer.

use mcplane_proto::error::shorten;
use mcplane_proto::types::{
    CallToolResult, Content, GetPromptResult, PromptMessage, ReadResourceResult, ResourceContents,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::failure::Failure;

/// What a tool may return: text, numbers, [`Content`], nothing, [`Json`], and `Result`s of these.
/// Under `#[tool]` also whatever is `Serialize` and `JsonSchema`, as if it were wrapped in [`Json`].
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "neither text nor structured content",
    note = "for structured content derive `serde::Serialize` and `schemars::JsonSchema`, and \
            outside of `#[tool]` wrap the value: `Json(value)`",
    note = "for text return a `String`; a `Result` may have any error type that converts into \
            `Box<dyn Error + Send + Sync>`"
)]
pub trait IntoToolResult {
    /// The schema of the structured content, if the type has one.
    #[must_use]
    fn output_schema() -> Option<schemars::Schema> {
        None
    }

    /// The answer to the call.
    ///
    /// # Errors
    /// The tool's own failure.
    fn into_tool_result(self) -> Result<CallToolResult, Failure>;
}

/// Structured output: the value as `structuredContent` with its schema as `outputSchema`, and as
/// JSON text for clients that do not read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a wrapper is its content")]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema> IntoToolResult for Json<T> {
    fn output_schema() -> Option<schemars::Schema> {
        Some(schemars::schema_for!(T))
    }

    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        Ok(CallToolResult::structured(&self.0)?)
    }
}

impl IntoToolResult for CallToolResult {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        Ok(self)
    }
}

impl IntoToolResult for () {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        Ok(CallToolResult::new(Vec::new()))
    }
}

impl IntoToolResult for Content {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        Ok(CallToolResult::new(vec![self]))
    }
}

impl IntoToolResult for Vec<Content> {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        Ok(CallToolResult::new(self))
    }
}

impl<T: IntoToolResult, E: Into<Failure>> IntoToolResult for Result<T, E> {
    fn output_schema() -> Option<schemars::Schema> {
        T::output_schema()
    }

    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        self.map_err(Into::into)?.into_tool_result()
    }
}

macro_rules! text_results {
    ($($type:ty)*) => {$(
        impl IntoToolResult for $type {
            fn into_tool_result(self) -> Result<CallToolResult, Failure> {
                Ok(CallToolResult::text(self.to_string()))
            }
        }
    )*};
}
text_results!(&str bool char i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64);

impl IntoToolResult for String {
    fn into_tool_result(self) -> Result<CallToolResult, Failure> {
        Ok(CallToolResult::text(self))
    }
}

/// What a resource may return. `uri` is the one that was asked for.
#[diagnostic::on_unimplemented(
    message = "a resource cannot return `{Self}`",
    label = "no contents of a resource",
    note = "return text, `ResourceContents`, `Json(value)` for JSON, or an `Option` or a `Result` \
            of these"
)]
pub trait IntoResourceResult {
    /// The answer to the read.
    ///
    /// # Errors
    /// The resource's own failure.
    fn into_resource_result(self, uri: &str) -> Result<ReadResourceResult, Failure>;
}

impl IntoResourceResult for ReadResourceResult {
    fn into_resource_result(self, _: &str) -> Result<Self, Failure> {
        Ok(self)
    }
}

impl IntoResourceResult for ResourceContents {
    fn into_resource_result(self, _: &str) -> Result<ReadResourceResult, Failure> {
        Ok(ReadResourceResult::new(vec![self]))
    }
}

impl IntoResourceResult for String {
    fn into_resource_result(self, uri: &str) -> Result<ReadResourceResult, Failure> {
        ResourceContents::text(uri, self).into_resource_result(uri)
    }
}

impl IntoResourceResult for &str {
    fn into_resource_result(self, uri: &str) -> Result<ReadResourceResult, Failure> {
        self.to_owned().into_resource_result(uri)
    }
}

impl<T: IntoResourceResult, E: Into<Failure>> IntoResourceResult for Result<T, E> {
    fn into_resource_result(self, uri: &str) -> Result<ReadResourceResult, Failure> {
        self.map_err(Into::into)?.into_resource_result(uri)
    }
}

/// JSON text, of the media type `application/json` unless the resource names another.
impl<T: Serialize> IntoResourceResult for Json<T> {
    fn into_resource_result(self, uri: &str) -> Result<ReadResourceResult, Failure> {
        let text = serde_json::to_string(&self.0)?;
        ResourceContents::text(uri, text).mime_type("application/json").into_resource_result(uri)
    }
}

/// `None` is *resource not found*, with the code of the revision.
impl<T: IntoResourceResult> IntoResourceResult for Option<T> {
    fn into_resource_result(self, uri: &str) -> Result<ReadResourceResult, Failure> {
        let missing = || Failure::NotFound(format!("resource not found: {}", shorten(uri)));
        self.ok_or_else(missing)?.into_resource_result(uri)
    }
}

/// What a prompt may return.
#[diagnostic::on_unimplemented(
    message = "a prompt cannot return `{Self}`",
    label = "no messages of a prompt",
    note = "return text, a `PromptMessage`, a `Vec` of them, or a `Result` of these"
)]
pub trait IntoPromptResult {
    /// The answer to `prompts/get`.
    ///
    /// # Errors
    /// The prompt's own failure.
    fn into_prompt_result(self) -> Result<GetPromptResult, Failure>;
}

impl IntoPromptResult for GetPromptResult {
    fn into_prompt_result(self) -> Result<GetPromptResult, Failure> {
        Ok(self)
    }
}

impl IntoPromptResult for Vec<PromptMessage> {
    fn into_prompt_result(self) -> Result<GetPromptResult, Failure> {
        Ok(GetPromptResult::new(self))
    }
}

impl IntoPromptResult for PromptMessage {
    fn into_prompt_result(self) -> Result<GetPromptResult, Failure> {
        Ok(GetPromptResult::new(vec![self]))
    }
}

impl IntoPromptResult for String {
    fn into_prompt_result(self) -> Result<GetPromptResult, Failure> {
        PromptMessage::user(Content::text(self)).into_prompt_result()
    }
}

impl IntoPromptResult for &str {
    fn into_prompt_result(self) -> Result<GetPromptResult, Failure> {
        self.to_owned().into_prompt_result()
    }
}

impl<T: IntoPromptResult, E: Into<Failure>> IntoPromptResult for Result<T, E> {
    fn into_prompt_result(self) -> Result<GetPromptResult, Failure> {
        self.map_err(Into::into)?.into_prompt_result()
    }
}
