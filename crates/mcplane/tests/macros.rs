//! `#[tool]`, `#[prompt]` and `#[resource]` from the outside: functions, a server, and the lines
//! that a client sees. The lints that a careful user has switched on hold for the expansions too.

#![deny(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    unreachable_pub,
    unused_qualifications,
    unused,
    clippy::all,
    clippy::exhaustive_structs,
    clippy::use_self
)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::num::ParseIntError;
use std::thread;

use mcplane::transport::Transport;
use mcplane::transport::memory::{self, Memory};
use mcplane::{Context, Json, Server, prompt, resource, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// Adds two numbers.
///
/// Never overflows.
#[tool]
fn add(
    /// the first
    a: i64,
    /// the second
    #[arg(default = 1, example = 7)]
    b: i64,
) -> i64 {
    a.saturating_add(b)
}

/// Joins words.
#[tool(name = "text.join", title = "Join", read_only, destructive = false, idempotent)]
fn join(
    words: &[String],
    #[arg(default = ", ")] between: &str,
    /// put before it all
    before: Option<&str>,
    #[arg(rename = "afterAll")] after: Option<String>,
) -> String {
    format!("{}{}{}", before.unwrap_or_default(), words.join(between), after.unwrap_or_default())
}

/// A point in the plane.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Point {
    /// to the right
    x: i32,
    /// upwards
    y: i32,
}

#[tool(description = concat!("Mirrors ", "a point."))]
fn mirror(#[arg(flatten)] point: Point) -> Json<Point> {
    Json(Point { x: point.y, y: point.x })
}

/// Says on which thread and under which revision it runs.
#[tool(blocking)]
fn whereabouts(context: &Context, r#type: &str) -> String {
    format!("{} {} {:?}", r#type, context.revision(), thread::current().id())
}

/// Waits, then reads a number.
#[tool]
async fn read_number(context: &Context, text: &str) -> Result<u64, ParseIntError> {
    tokio::task::yield_now().await;
    assert!(!context.is_cancelled());
    text.parse()
}

/// Public things are documented once.
#[tool]
pub fn nothing() {}

/// Asks for a review.
#[prompt(title = "Review")]
fn review(
    /// what to review
    code: &str,
    /// how many remarks at most
    #[arg(title = "Remarks")]
    remarks_max: Option<u32>,
    #[arg(default = "terse", rename = "tone")] style: String,
) -> String {
    format!("{style} {remarks_max:?} {code}")
}

/// Asks nothing.
#[prompt]
async fn silence(context: Context) -> Result<String, std::fmt::Error> {
    Ok(format!("under {}", context.revision()))
}

/// How the service is configured.
#[resource("config://service", mime_type = "application/json")]
fn config() -> &'static str {
    "{}"
}

/// One user.
#[resource("users://{id}/posts/{post}", name = "user-post", title = "A post")]
async fn post(#[arg(rename = "post")] slug: &str, id: u64) -> String {
    format!("{id}: {slug}")
}

/// A resource that is named like its parameter, and blocks.
#[resource("files://{file}", blocking)]
fn file(context: Context, file: String) -> Result<String, std::io::Error> {
    match file.as_str() {
        "missing" => Err(std::io::Error::other("no such file")),
        _ => Ok(format!("{file} {}", context.revision())),
    }
}

#[tokio::test]
async fn tools_are_listed_with_what_the_function_says() {
    let mut client = Client::connect().await;
    let tools = client.result("tools/list", json!({})).await;
    let named = |name: &str| {
        let tools = tools["tools"].as_array().unwrap();
        tools.iter().find(|tool| tool["name"] == name).unwrap().clone()
    };

    let add = named("add");
    assert_eq!(add["description"], "Adds two numbers.\n\nNever overflows.");
    let schema = &add["inputSchema"];
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["required"], json!(["a"]));
    assert_eq!(schema["properties"]["a"]["description"], "the first");
    let second = &schema["properties"]["b"];
    assert_eq!(second["description"], "the second");
    assert_eq!(second["default"], 1);
    assert_eq!(second["examples"], json!([7]));
    assert_eq!(add.get("annotations"), None);

    let join = named("text.join");
    assert_eq!(join["title"], "Join");
    let hints = json!({"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true});
    assert_eq!(join["annotations"], hints);
    assert_eq!(join["inputSchema"]["required"], json!(["words"]));
    let properties = join["inputSchema"]["properties"].as_object().unwrap();
    let mut names: Vec<_> = properties.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["afterAll", "before", "between", "words"]);
    assert_eq!(properties["between"]["default"], ", ");

    let mirror = named("mirror");
    assert_eq!(mirror["description"], "Mirrors a point.");
    assert_eq!(mirror["inputSchema"]["required"], json!(["x", "y"]));
    assert_eq!(mirror["outputSchema"]["properties"]["y"]["description"], "upwards");

    let whereabouts = named("whereabouts");
    assert_eq!(whereabouts["inputSchema"]["required"], json!(["type"]));
    assert_eq!(named("nothing")["inputSchema"]["type"], "object");
}

#[tokio::test]
async fn tools_are_called_with_typed_arguments() {
    let mut client = Client::connect().await;
    assert_eq!(client.call("add", json!({"a": 2, "b": 3})).await, "5");
    assert_eq!(client.call("add", json!({"a": 2})).await, "3");
    assert_eq!(client.call("text.join", json!({"words": ["a", "b"]})).await, "a, b");
    let all = json!({"words": ["a", "b"], "between": "-", "before": "<", "afterAll": ">"});
    assert_eq!(client.call("text.join", all).await, "<a-b>");
    let null = json!({"words": ["a"], "before": null});
    assert_eq!(client.call("text.join", null).await, "a");
    let asked = json!({"name": "mirror", "arguments": {"x": 1, "y": 2}});
    let mirrored = client.result("tools/call", asked).await;
    assert_eq!(mirrored["structuredContent"], json!({"x": 2, "y": 1}));
    let answer = client.call("whereabouts", json!({"type": "T"})).await;
    assert!(answer.starts_with("T 2025-11-25 ThreadId"), "{answer}");
    assert!(!answer.ends_with(&format!("{:?}", thread::current().id())), "{answer}");
    assert_eq!(client.call("read_number", json!({"text": "42"})).await, "42");
    let empty = client.result("tools/call", json!({"name": "nothing"})).await;
    assert_eq!(empty["content"], json!([]));
}

#[tokio::test]
async fn bad_arguments_and_failures_are_answers() {
    let mut client = Client::connect().await;
    let bad = [
        ("add", json!({"b": 2}), "a"),
        ("add", json!({"a": "2"}), "a"),
        ("add", json!([2, 3]), "object"),
        ("text.join", json!({"words": [], "afterAll": 1}), "afterAll"),
        ("mirror", json!({"x": 1}), "y"),
        ("read_number", json!({"text": "many"}), "invalid digit"),
    ];
    for (name, arguments, why) in bad {
        let asked = json!({"name": name, "arguments": arguments});
        let answer = client.result("tools/call", asked).await;
        assert_eq!(answer["isError"], true, "{answer}");
        let text = answer["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(why), "{name}: {text}");
    }
}

#[tokio::test]
async fn prompts_list_their_arguments_and_fill_them_in() {
    let mut client = Client::connect().await;
    let prompts = client.result("prompts/list", json!({})).await;
    let listed = prompts["prompts"].as_array().unwrap();
    let review = listed.iter().find(|prompt| prompt["name"] == "review").unwrap();
    assert_eq!(
        (&review["title"], &review["description"]),
        (&"Review".into(), &"Asks for a review.".into())
    );
    let arguments = json!([
        {"name": "code", "description": "what to review", "required": true},
        {"name": "remarks_max", "title": "Remarks", "description": "how many remarks at most"},
        {"name": "tone"},
    ]);
    assert_eq!(review["arguments"], arguments);

    let filled = client.prompt("review", json!({"code": "x"})).await;
    assert_eq!(filled, "terse None x");
    let all = json!({"code": "x", "remarks_max": "3", "tone": "kind"});
    assert_eq!(client.prompt("review", all).await, "kind Some(3) x");
    assert_eq!(client.prompt("silence", json!({})).await, "under 2025-11-25");

    for (arguments, why) in [
        (json!({"code": "x", "remarks_max": "few"}), "argument `remarks_max`: invalid digit"),
        (json!({}), "code"),
    ] {
        let asked = json!({"name": "review", "arguments": arguments});
        let answer = client.ask("prompts/get", asked).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(why), "{answer}");
    }
}

#[tokio::test]
async fn resources_and_templates_are_listed_and_read() {
    let mut client = Client::connect().await;
    let listed = client.result("resources/list", json!({})).await;
    let config = json!({
        "uri": "config://service", "name": "config", "mimeType": "application/json",
        "description": "How the service is configured.",
    });
    assert_eq!(listed["resources"], json!([config]));
    let listed = client.result("resources/templates/list", json!({})).await;
    let first = json!({
        "uriTemplate": "users://{id}/posts/{post}", "name": "user-post", "title": "A post",
        "description": "One user.",
    });
    assert_eq!(listed["resourceTemplates"][0], first);

    let read = client.result("resources/read", json!({"uri": "config://service"})).await;
    assert_eq!(read["contents"][0]["text"], "{}");
    for (uri, text) in
        [("users://7/posts/a%20b", "7: a b"), ("files://notes.txt", "notes.txt 2025-11-25")]
    {
        let read = client.result("resources/read", json!({"uri": uri})).await;
        assert_eq!(read["contents"][0], json!({"uri": uri, "text": text}));
    }
    let bad = client.ask("resources/read", json!({"uri": "users://me/posts/a"})).await;
    assert_eq!(bad["error"]["code"], -32602, "{bad}");
    let why = "variable `id`: invalid digit found in string";
    assert_eq!(bad["error"]["message"], why);
    let failed = client.ask("resources/read", json!({"uri": "files://missing"})).await;
    assert!(failed["error"]["message"].as_str().unwrap().contains("no such file"), "{failed}");
}

#[tokio::test]
async fn functions_stay_callable() {
    assert_eq!(add::call(1, 2), 3);
    assert_eq!(join::call(&["a".into()], "-", Some("<"), None), "<a");
    assert_eq!(review::call("x", None, "kind".into()), "kind None x");
    assert_eq!(post::call("a", 1).await, "1: a");
    nothing::call();
}

/// A client that speaks in lines, on 2025-11-25.
struct Client {
    lines: tokio::io::Lines<BufReader<<Memory as Transport>::Reader>>,
    writer: <Memory as Transport>::Writer,
    next_id: u32,
}

impl Client {
    /// Starts a server of everything in this file, and shakes hands with it.
    async fn connect() -> Self {
        let server = Server::new("macros", "1.0.0")
            .tool(add)
            .tool(join)
            .tool(mirror)
            .tool(whereabouts)
            .tool(read_number)
            .tool(nothing)
            .prompt(review)
            .prompt(silence)
            .resource(config)
            .resource_template(post)
            .resource_template(file);
        let (ours, theirs) = memory::pair();
        tokio::spawn(server.serve(theirs));
        let (reader, writer) = ours.open().unwrap();
        let mut client = Self { lines: BufReader::new(reader).lines(), writer, next_id: 0 };
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "lines", "version": "1"},
        });
        client.result("initialize", hello).await;
        client.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        client
    }

    async fn call(&mut self, name: &str, arguments: Value) -> String {
        let asked = json!({"name": name, "arguments": arguments});
        let result = self.result("tools/call", asked).await;
        assert_ne!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    async fn prompt(&mut self, name: &str, arguments: Value) -> String {
        let asked = json!({"name": name, "arguments": arguments});
        let result = self.result("prompts/get", asked).await;
        result["messages"][0]["content"]["text"].as_str().unwrap().to_owned()
    }

    async fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params).await;
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].clone()
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        let line = self.lines.next_line().await.unwrap().unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    async fn write(&mut self, message: &Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
}
