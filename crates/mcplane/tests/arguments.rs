//! Arguments that do not fit, with the validator (feature `schema`) and without: what a client is
//! told, and what a server that needs the validator is told when it starts.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use mcplane::client::EraChoice;
use mcplane::proto::version::Revision;
use mcplane::transport::memory;
use mcplane::{Client, Server, Tool, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Metre,
    Mile,
}

#[derive(Deserialize, JsonSchema)]
struct Point {
    x: i32,
    y: Option<i32>,
}

#[derive(Default, Deserialize, JsonSchema)]
struct Paging {
    #[serde(default)]
    skip: u8,
    count: Option<u8>,
}

#[derive(Deserialize, JsonSchema)]
struct Colour {
    colour: String,
}

/// Measures a way.
#[tool]
fn measure(
    points: Vec<Point>,
    #[arg(default = 1)] times: i64,
    unit: Option<Unit>,
    #[arg(rename = "asText")] as_text: Option<bool>,
    #[arg(flatten)] paging: Paging,
    #[arg(flatten)] colour: Option<Colour>,
) -> String {
    let sum: i32 = points.iter().map(|point| point.x + point.y.unwrap_or_default()).sum();
    let unit = match unit {
        Some(Unit::Metre) => "m",
        Some(Unit::Mile) => "mi",
        None => "",
    };
    let colour = colour.map(|colour| colour.colour).unwrap_or_default();
    let (skip, count) = (paging.skip, paging.count.unwrap_or_default());
    format!("{}{unit} {} {skip} {count} {colour}", i64::from(sum) * times, as_text.is_some())
}

async fn client(server: Server, revision: Revision) -> Client {
    let (ours, theirs) = memory::pair();
    tokio::spawn(server.serve(theirs));
    let client = Client::builder("test", "1").revision(EraChoice::Only(revision));
    client.connect(ours).await.unwrap()
}

/// Arguments, what is said of them without the validator, and with it.
fn misfits() -> Vec<(Value, &'static str, &'static str)> {
    vec![
        (json!({}), "missing field `points`", "/points: is required"),
        (json!({"point": []}), "missing field `points`", "/points: is required"),
        (
            json!({"points": "none"}),
            "`points`: invalid type: string \"none\", expected a sequence",
            "/points: \"none\" is not of type \"array\"",
        ),
        (json!({"points": [{}]}), "`points[0]`: missing field `x`", "/points/0/x: is required"),
        (
            json!({"points": [{"x": 1}, {"x": "2"}]}),
            "`points[1].x`: invalid type: string \"2\", expected i32",
            "/points/1/x: \"2\" is not of type \"integer\"",
        ),
        (
            json!({"points": [], "times": true}),
            "`times`: invalid type: boolean `true`, expected i64",
            "/times: true is not of type \"integer\"",
        ),
        (
            json!({"points": [], "unit": "foot"}),
            "`unit`: unknown variant `foot`, expected `metre` or `mile`",
            "/unit: ",
        ),
        (
            json!({"points": [], "asText": "yes"}),
            "`asText`: invalid type: string \"yes\", expected a boolean",
            "/asText: ",
        ),
        (
            json!({"points": [], "skip": 256}),
            "`skip`: invalid value: integer `256`, expected u8",
            "/skip: 256 is greater than the maximum of 255",
        ),
        (
            json!({"points": [], "count": "all"}),
            "`count`: invalid type: string \"all\", expected u8",
            "/count: ",
        ),
    ]
}

#[tokio::test]
async fn what_is_wrong_with_arguments_is_named_with_what_was_expected() {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let client = client(Server::new("arguments", "1").tool(measure), revision).await;
        for (arguments, by_type, by_schema) in misfits() {
            let result = client.call_tool("measure", &arguments).await.unwrap();
            assert!(result.is_error(), "{arguments}: {result:?}");
            let told = result.content[0].as_text().unwrap();
            let why = told.strip_prefix("invalid arguments").unwrap();
            let why = why.strip_prefix(" for tool `measure`").unwrap_or(why);
            let why = why.strip_prefix(": ").unwrap();
            if cfg!(feature = "schema") {
                assert!(why.contains(by_schema), "{arguments}: {told}");
            } else {
                assert_eq!(why, by_type, "{arguments}");
            }
        }
    }
}

#[tokio::test]
async fn before_the_model_reads_it_the_client_does() {
    let client = client(Server::new("arguments", "1").tool(measure), Revision::V2025_06_18).await;
    for (arguments, by_type, by_schema) in misfits() {
        let error = client.call_tool("measure", &arguments).await.unwrap_err();
        let rpc = error.rpc().unwrap();
        assert_eq!(rpc.code.0, -32602, "{rpc:?}");
        let said = if cfg!(feature = "schema") { by_schema } else { by_type };
        assert!(rpc.message.contains(said), "{arguments}: {rpc:?}");
    }
    let error = client.call_tool("weigh", &json!({})).await.unwrap_err();
    let rpc = error.rpc().unwrap();
    assert_eq!((rpc.code.0, &*rpc.message), (-32602, "unknown tool: weigh"));
}

#[tokio::test]
async fn what_fits_is_called() {
    let client = client(Server::new("arguments", "1").tool(measure), Revision::V2026_07_28).await;
    for (arguments, answer) in [
        (json!({"points": []}), "0 false 0 0 "),
        (json!({"points": [{"x": 1, "y": 2}], "times": 2, "unit": "mile"}), "6mi false 0 0 "),
        (json!({"points": [], "unit": "metre", "skip": 1, "count": 2}), "0m false 1 2 "),
        (json!({"points": [], "asText": true, "colour": "red"}), "0 true 0 0 red"),
    ] {
        let result = client.call_tool("measure", &arguments).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some(answer), "{arguments}");
    }
}

/// Sorts a list.
#[tool]
fn sort(
    #[arg(length(min = 1, max = 3))] words: Vec<String>,
    #[arg(default = 1, range(min = 0, max = 1000))] most: i64,
    #[arg(regex(pattern = "^[a-z]+$"))] language: Option<String>,
) -> String {
    format!("{} {most} {language:?}", words.len())
}

/// A tool that shows a schema of its own.
fn own(input: bool) -> Tool {
    let schema = json!({"type": "object", "required": ["a"]});
    let schema = to_raw_value(&schema).unwrap();
    if input {
        Tool::inline("own", |_, arguments: Value| arguments.to_string()).input_schema(schema)
    } else {
        let answer = |_: &mcplane::Context, _: mcplane::NoArguments| mcplane::Json(json!({}));
        Tool::inline("own", answer).output_schema(schema)
    }
}

#[cfg(not(feature = "schema"))]
#[test]
fn a_tool_that_needs_the_validator_is_refused_and_the_feature_named() {
    /// Takes a few words.
    #[tool]
    fn few(#[arg(length(max = 3))] words: Vec<String>) -> String {
        words.concat()
    }
    /// Takes a number.
    #[tool]
    fn number(#[arg(range(max = 9))] number: u8) -> u8 {
        number
    }
    let remedy = "no type checks: switch on the validator, mcplane's feature `schema`: `cargo add \
                  mcplane --features schema`";
    let started = |tool: Tool| Server::new("arguments", "1").tool(tool).start();
    for (tool, why) in [
        (sort(), "tool `sort`: input schema: it says `pattern` of `language`, which"),
        (few(), "tool `few`: input schema: it says `maxItems` of `words`, which"),
        (number(), "tool `number`: input schema: it says `maximum` of `number`, which"),
        (own(true), "tool `own`: input schema: it is one of your own, which"),
        (own(false), "tool `own`: output schema: it is one of your own, which"),
    ] {
        let error = started(tool).unwrap_err();
        assert!(error.is_misuse(), "{error}");
        let told = error.to_string();
        assert!(told.ends_with(&format!("{why} {remedy}")), "{told}");
    }
    // What a program prints whose `main` returns the error.
    let printed = format!("{:?}", started(sort()).unwrap_err());
    assert!(printed.contains("`cargo add mcplane --features schema`"), "{printed}");
}

#[cfg(feature = "schema")]
#[tokio::test]
async fn bounds_patterns_and_schemas_of_ones_own_are_checked() {
    let listed = sort();
    let server = Server::new("arguments", "1").tool(listed).tool(own(true));
    let client = client(server, Revision::V2026_07_28).await;
    for (name, arguments, why) in [
        ("sort", json!({"words": []}), "/words: [] has less than 1 item"),
        ("sort", json!({"words": ["a"], "most": 1001}), "/most: 1001 is greater than"),
        ("sort", json!({"words": ["a"], "language": "DE"}), "/language: \"DE\" does not match"),
        ("own", json!({"b": 1}), "/a: is required"),
    ] {
        let result = client.call_tool(name, &arguments).await.unwrap();
        let told = result.content[0].as_text().unwrap();
        assert!(result.is_error() && told.contains(why), "{told}");
    }
    let two = json!({"words": [], "most": -1});
    let result = client.call_tool("sort", &two).await.unwrap();
    assert_eq!(result.content[0].as_text().unwrap().lines().count(), 2, "{result:?}");
    let broken =
        self::client(Server::new("own", "1").tool(own(false)), Revision::V2026_07_28).await;
    let error = broken.call_tool("own", &json!({})).await.unwrap_err();
    assert!(error.to_string().contains("/a: is required"), "{error}");
}
