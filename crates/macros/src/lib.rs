//! `#[tool]`, `#[prompt]` and `#[resource]`: functions with a doc comment and typed parameters
//! become described, checked parts of an mcplane server. Use them through `mcplane`.
//!
//! Each expands to the public API of `mcplane` and to nothing else:
//!
//! * `function`: what the three have in common: the function, and the item that it becomes
//! * `parameter`: one parameter, `#[arg(…)]`, and how an owned argument is lent to it
//! * `options`: what stands in the parentheses of the attribute
//! * [`tool`], [`prompt`], [`resource`]: one expansion each
//! * `text`: arguments that travel as text

mod function;
mod options;
mod parameter;
mod prompt;
mod resource;
mod text;
mod tool;

#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

use function::expand;

/// Makes a tool of a function.
///
/// ```text
/// /// Adds two numbers.
/// #[tool]
/// fn add(
///     /// the first
///     a: i64,
///     /// the second
///     #[arg(default = 1, range(min = 0))]
///     b: i64,
/// ) -> i64 {
///     a + b
/// }
///
/// server.tool(add)
/// ```
///
/// The doc comment describes the tool, those of the parameters describe its arguments. `add()` is the
/// tool, for more to be said of it, and the function itself stays callable as `add::call(1, 2)`.
///
/// * **Where it runs.** A plain function runs inline, in the connection's own task: right for work
///   that neither blocks nor waits. `#[tool(blocking)]` runs it on a thread. An `async fn` runs as a
///   task.
/// * **Parameters** are arguments by name, of any type that is `Deserialize` and `JsonSchema`.
///   `Option<T>` may be left out. `&str` and `&[T]` borrow from the call. A `&Context` or
///   `Context` is not an argument but the request itself, and a `&State<T>` or `State<T>` is what the
///   server was given with `Server::state`.
/// * **The result** is anything that is `IntoToolResult`, and `Result`s of it.
///
/// In the parentheses: `name = "…"`, `title = "…"`, `description = "…"` (any expression, in place
/// of the doc comment), `blocking`, the hints `read_only`, `destructive`, `idempotent` and
/// `open_world` (each alone or `= false`), and `crate = path` if `mcplane` has another name.
///
/// On a parameter, `#[arg(…)]`: `default` or `default = value`, `rename = "…"`, `flatten` (the
/// fields of a struct are arguments of their own), and what goes into the schema: `example = value`,
/// `range(min = …, max = …)`, `length(min = …, max = …)`, `regex(pattern = "…")`.
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand(item.into(), |function| tool::make(attribute.into(), &function)).into()
}

/// Makes a prompt of a function.
///
/// ```text
/// /// Asks for a review.
/// #[prompt]
/// fn review(
///     /// what to review
///     code: &str,
///     /// how many remarks at most
///     remarks_max: Option<u32>,
/// ) -> String {
///     format!("Review this, with {} remarks at most:\n{code}", remarks_max.unwrap_or(3))
/// }
/// ```
///
/// Parameters are arguments by name. They travel as strings, so each is a `String`, a `&str` or any
/// type that is `FromStr`; `Option` makes it one that may be left out. A `&Context` or `Context` is
/// the request, a `&State<T>` or `State<T>` the server's state. An `async fn` may wait. The result is anything that is `IntoPromptResult`.
///
/// In the parentheses: `name`, `title`, `description` and `crate`, as for `#[tool]`. On a
/// parameter: `#[arg(rename = "…", title = "…", default = value)]`.
#[proc_macro_attribute]
pub fn prompt(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand(item.into(), |function| prompt::make(attribute.into(), &function)).into()
}

/// Makes a resource, or a template of resources, of a function.
///
/// ```text
/// /// How the service is configured.
/// #[resource("config://service", mime_type = "application/json")]
/// fn config() -> String { … }
///
/// /// One user.
/// #[resource("users://{id}/profile")]
/// async fn profile(id: u64) -> Result<String, NotFound> { … }
/// ```
///
/// A URI with `{variables}` is a template, and has one parameter for each variable: a `String`, a
/// `&str` or any type that is `FromStr`, called like the variable or `#[arg(rename = "…")]`. A
/// `&Context` or `Context` is the request, a `&State<T>` or `State<T>` the server's state. An
/// `async fn` may wait, one under
/// `#[resource("…", blocking)]` may block. The result is anything that is `IntoResourceResult`.
///
/// In the parentheses: the URI, then `mime_type = "…"`, and `name`, `title`, `description`,
/// `blocking` and `crate` as for `#[tool]`.
#[proc_macro_attribute]
pub fn resource(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand(item.into(), |function| resource::make(attribute.into(), &function)).into()
}
