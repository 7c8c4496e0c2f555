//! The server that the transcripts talk to.

use std::num::NonZeroUsize;
use std::time::Duration;

use mcplane::proto::types::{
    CacheScope, CompleteResult, CompletionReference, ElicitAction, ElicitForm, ElicitUrl, LogLevel,
    PromptArgument, ResourceContents,
};
use mcplane::types::CompleteParams;
use mcplane::{
    Context, Error, Failure, Prompt, PromptArguments, Resource, ResourceTemplate, Server, Tool,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Name `wire`, version 1; four entries on a page; a minute of caching for everybody.
pub(crate) fn wire() -> Server {
    let server = Server::new("wire", "1")
        .title("Wire")
        .instructions("Be exact.")
        .page_size(NonZeroUsize::new(4).unwrap())
        .cache(Duration::from_secs(60), CacheScope::Public);
    let server = changes(asking(talking(plain(server))));
    let greet = Prompt::inline("greet", |_, arguments: PromptArguments| {
        format!("Greet {}.", arguments.get("who").unwrap_or("nobody"))
    });
    server
        .resource(
            Resource::inline("test://text", "text", |_, _| "some text")
                .description("Some text.")
                .mime_type("text/plain"),
        )
        .resource(
            Resource::inline("test://blob", "blob", |_, request| {
                ResourceContents::blob(request.uri, "AAEC")
            })
            .title("Three bytes")
            .mime_type("application/octet-stream"),
        )
        .resource_template(ResourceTemplate::inline("test://item/{id}", "item", |_, request| {
            format!("item {}", request.variable("id").unwrap_or_default())
        }))
        .prompt(
            greet
                .description("Greets.")
                .title("Greeting")
                .argument(PromptArgument::required("who")),
        )
        .completion(complete)
}

async fn complete(_: Context, params: CompleteParams) -> Result<CompleteResult, Failure> {
    let names = match params.reference {
        CompletionReference::Prompt { .. } => ["ada", "alan", "grace"],
        _ => ["1", "2", "10"],
    };
    let value = params.argument.value;
    Ok(CompleteResult::new(names.into_iter().filter(|name| name.starts_with(&value))))
}

/// Tools that answer.
fn plain(server: Server) -> Server {
    let sum = json!({"type": "object", "properties": {"sum": {"type": "integer"}},
        "required": ["sum"]});
    server
        .tool(
            Tool::inline("echo", |_, arguments: Value| text(&arguments, "message"))
                .description("Says it again.")
                .input_schema(raw(&json!({"type": "object",
                    "properties": {"message": {"type": "string"}}, "required": ["message"]}))),
        )
        .tool(
            Tool::inline("add", |_, arguments: Value| {
                let sum = arguments["a"].as_i64().zip(arguments["b"].as_i64()).map(|(a, b)| a + b);
                mcplane::types::CallToolResult::structured(&json!({"sum": sum}))
            })
            .title("Add")
            .input_schema(raw(&json!({"type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["a", "b"]})))
            .output_schema(raw(&sum)),
        )
        .tool(nothing(Tool::inline("fail", |_, _: Value| Err::<(), _>("it broke"))))
        .tool(nothing(Tool::inline("panic", |_, _: Value| -> String {
            std::panic::resume_unwind(Box::new("on purpose"))
        })))
}

/// Tools that say something on the way, or never end.
fn talking(server: Server) -> Server {
    server
        .tool(nothing(Tool::waiting("steps", async |context: Context, _: Value| {
            context.progress(1.0, Some(2.0), Some("half"));
            context.progress(2.0, Some(2.0), None);
            "done"
        })))
        .tool(nothing(Tool::inline("log", |context, _: Value| {
            context.log(LogLevel::Debug, "fine");
            context.log(LogLevel::Info, "as usual");
            context.log(LogLevel::Warning, &json!({"disk": "full"}));
            "logged"
        })))
        .tool(nothing(Tool::waiting("wait", async |_: Context, _: Value| {
            std::future::pending::<String>().await
        })))
}

/// Tools that ask the client.
fn asking(server: Server) -> Server {
    server
        .tool(nothing(Tool::waiting("ask", async |context: Context, _: Value| {
            let form = json!({"type": "object", "properties": {"name": {"type": "string"}},
                "required": ["name"]});
            let answer =
                context.elicit_as("who", ElicitForm::new("Who are you?", raw(&form))).await?;
            Ok::<_, Error>(match answer.action {
                ElicitAction::Accept => {
                    let content = json!(answer.content);
                    format!("Hello, {}.", content["name"].as_str().unwrap_or("whoever"))
                }
                action => format!("No name: {}.", action.as_str()),
            })
        })))
        .tool(nothing(Tool::waiting("visit", async |context: Context, _: Value| {
            let url = ElicitUrl::new("Please sign in.", "https://example.com/sign-in");
            let answer = context.elicit_as("where", url).await?;
            Ok::<_, Error>(format!("The answer is {}.", answer.action.as_str()))
        })))
        .tool(nothing(Tool::waiting("roots", async |context: Context, _: Value| {
            let roots = context.roots_as("where").await?;
            let uris: Vec<_> = roots.into_iter().map(|root| root.uri).collect();
            Ok::<_, Error>(uris.join(" "))
        })))
}

/// Tools that change what is offered.
fn changes(server: Server) -> Server {
    server
        .tool(nothing(Tool::inline("grow", |context, _: Value| {
            context
                .service()
                .add_tool(nothing(Tool::inline("late", |_, _: Value| "better than never")))
        })))
        .tool(nothing(Tool::inline("touch", |context, _: Value| {
            context.service().resource_updated("test://text");
            "touched"
        })))
}

fn nothing(tool: Tool) -> Tool {
    tool.input_schema(raw(&json!({"type": "object"})))
}

fn text(arguments: &Value, key: &str) -> String {
    arguments[key].as_str().unwrap_or_default().to_owned()
}

fn raw(schema: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(schema).unwrap()
}
