//! Return types that become structured content by themselves.

use mcplane::proto::version::Revision;
use mcplane::server::IntoToolResult;
use mcplane::{Failure, Json, Server, resource, tool};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::client;

/// A place on a map.
#[derive(Serialize, JsonSchema)]
struct Place {
    name: String,
    height_m: Option<u32>,
}

fn place() -> Place {
    Place { name: "Ätna".into(), height_m: Some(3_403) }
}

#[tool]
fn one() -> Place {
    place()
}

#[tool]
fn some(there: bool) -> Option<Place> {
    there.then(place)
}

#[tool]
fn words(text: &str) -> Vec<String> {
    text.split(' ').map(Into::into).collect()
}

#[tool]
async fn fallible(there: bool) -> Result<Place, String> {
    tokio::task::yield_now().await;
    there.then(place).ok_or_else(|| "not there".to_owned())
}

#[tool(blocking)]
fn failing() -> Result<Vec<Place>, Failure> {
    Err(Failure::internal("the map is lost"))
}

#[tool]
fn wrapped() -> Json<Place> {
    Json(place())
}

#[tool]
fn text() -> Result<String, String> {
    Ok("text".into())
}

#[tool]
fn hidden() -> impl IntoToolResult {
    "hidden"
}

#[resource("places://etna")]
fn etna() -> Json<Place> {
    Json(place())
}

fn server() -> Server {
    let server = Server::new("results", "1").tool(one).tool(some).tool(words).tool(fallible);
    server.tool(failing).tool(wrapped).tool(text).tool(hidden).resource(etna)
}

#[tokio::test]
async fn what_is_data_is_structured_content_with_a_schema() {
    let client = client(server(), Revision::V2026_07_28).await;
    let etna = || json!({"name": "Ätna", "height_m": 3_403});
    for (name, arguments, content) in [
        ("one", json!({}), etna()),
        ("some", json!({"there": true}), etna()),
        ("some", json!({"there": false}), Value::Null),
        ("words", json!({"text": "a b"}), json!(["a", "b"])),
        ("fallible", json!({"there": true}), etna()),
        ("wrapped", json!({}), etna()),
    ] {
        let result = client.call_tool(name, &arguments).await.unwrap();
        let found: Value =
            serde_json::from_str(result.structured_content.as_deref().unwrap().get()).unwrap();
        assert_eq!(found, content, "{name}");
        let text: Value = serde_json::from_str(result.content[0].as_text().unwrap()).unwrap();
        assert_eq!(text, content, "{name}");
    }
    let failed = client.call_tool("fallible", &json!({"there": false})).await.unwrap();
    assert!(failed.is_error() && failed.content[0].as_text() == Some("not there"));
    assert!(client.call_tool("failing", &json!({})).await.unwrap_err().is_rpc());
    for plain in ["text", "hidden"] {
        let result = client.call_tool(plain, &json!({})).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some(plain));
        assert!(result.structured_content.is_none());
    }
    let contents = client.read_resource("places://etna").await.unwrap().contents;
    assert_eq!(contents[0].mime_type.as_deref(), Some("application/json"));
    assert_eq!(serde_json::from_str::<Value>(contents[0].as_text().unwrap()).unwrap(), etna());

    let tools = client.list_tools().await.unwrap();
    let declared = |name: &str| {
        let tool = tools.iter().find(|tool| tool.name == name).unwrap();
        tool.output_schema.as_deref().map(|schema| schema.get().to_owned())
    };
    assert!(declared("one").unwrap().contains("A place on a map."));
    assert!(declared("words").unwrap().contains(r#""type":"array""#));
    assert!(declared("failing").is_some() && declared("text").is_none());
}

#[tokio::test]
async fn what_is_no_object_is_wrapped_for_older_clients() {
    let client = client(server(), Revision::V2025_11_25).await;
    for (name, arguments, content) in [
        ("words", json!({"text": "a b"}), json!({"result": ["a", "b"]})),
        ("some", json!({"there": false}), json!({"result": null})),
        ("one", json!({}), json!({"name": "Ätna", "height_m": 3_403})),
    ] {
        let result = client.call_tool(name, &arguments).await.unwrap();
        let found: Value =
            serde_json::from_str(result.structured_content.as_deref().unwrap().get()).unwrap();
        assert_eq!(found, content, "{name}");
    }
}
