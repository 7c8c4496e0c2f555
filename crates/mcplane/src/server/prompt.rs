//! Prompts, and the completion of arguments.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use mcplane_proto::error::ErrorObject;
use mcplane_proto::types::{self, Entries, GetPromptResult, Icon, PromptArgument};

use super::context::Context;
use super::failure::Failure;
use super::handler::Handler;
use super::outcome::IntoPromptResult;
use super::state::Need;

/// The arguments of a prompt: text by name.
#[derive(Clone, Debug, Default)]
pub struct PromptArguments(Entries<String>);

impl PromptArguments {
    pub(crate) const fn new(entries: Entries<String>) -> Self {
        Self(entries)
    }

    /// The value of an argument, if it was given.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// A prompt.
#[derive(Clone)]
pub struct Prompt {
    pub(crate) definition: types::Prompt,
    pub(crate) handler: Handler<PromptArguments, Result<GetPromptResult, Failure>>,
    pub(crate) needs: Vec<Need>,
}

/// What can be registered as a prompt: a [`Prompt`], or a function under `#[prompt]`.
pub trait IntoPrompt {
    /// The prompt.
    fn into_prompt(self) -> Prompt;
}

impl IntoPrompt for Prompt {
    fn into_prompt(self) -> Prompt {
        self
    }
}

impl<F: FnOnce() -> Prompt> IntoPrompt for F {
    fn into_prompt(self) -> Prompt {
        self()
    }
}

impl Prompt {
    /// A prompt that neither blocks nor waits. It runs in the connection's own task.
    pub fn inline<R: IntoPromptResult>(
        name: &str,
        handler: impl Fn(&Context, PromptArguments) -> R + Send + Sync + 'static,
    ) -> Self {
        let run = move |context: &Context, arguments: PromptArguments| {
            handler(context, arguments).into_prompt_result()
        };
        let handler = Handler::Inline(Arc::new(run));
        Self::new(name, handler)
    }

    /// A prompt that waits: an async closure. It runs as a task, as one of the server's workers.
    pub fn waiting<R, F, Fut>(name: &str, handler: F) -> Self
    where
        R: IntoPromptResult,
        F: Fn(Context, PromptArguments) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let run = move |context: Context, arguments: PromptArguments| {
            let handler = Arc::clone(&handler);
            async move { handler(context, arguments).await.into_prompt_result() }
        };
        Self::new(name, Handler::waiting(run))
    }

    fn new(
        name: &str,
        handler: Handler<PromptArguments, Result<GetPromptResult, Failure>>,
    ) -> Self {
        Self { definition: types::Prompt::new(name), handler, needs: Vec::new() }
    }

    /// What it is for.
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

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, argument: PromptArgument) -> Self {
        self.definition.arguments.push(argument);
        self
    }

    /// Adds an icon.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.definition.icons.push(icon);
        self
    }

    /// Declares that the handler takes the server's state of type `T`, so that its absence is an
    /// error when the server starts. `#[prompt]` does this automatically.
    #[must_use]
    pub fn needs_state<T: Send + Sync + 'static>(mut self) -> Self {
        self.needs.push(Need::of::<T>());
        self
    }

    /// -32602 that names every required argument that is missing.
    pub(crate) fn check(
        definition: &types::Prompt,
        arguments: &PromptArguments,
    ) -> Result<(), ErrorObject> {
        let missing: Vec<_> = definition
            .arguments
            .iter()
            .filter(|argument| argument.required == Some(true))
            .filter(|argument| arguments.get(&argument.name).is_none())
            .map(|argument| format!("`{}`", argument.name))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let why = format!("prompt `{}` needs {}", definition.name, missing.join(", "));
        Err(ErrorObject::invalid_params(why))
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("name", &self.definition.name).finish_non_exhaustive()
    }
}
