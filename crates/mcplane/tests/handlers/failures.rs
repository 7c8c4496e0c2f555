//! Handlers that fail: what is told, and under which code.

use std::error::Error as StdError;
use std::io;

use mcplane::proto::error::ErrorObject;
use mcplane::proto::version::Revision;
use mcplane::{Client, Failure, Server, prompt, resource, tool};
use serde_json::json;

use super::{ERAS, client};

/// Where an HTTP client would say only that sending failed.
fn unreachable() -> anyhow::Error {
    anyhow::Error::from(io::Error::other("connection refused")).context("error sending request")
}

#[tool]
fn fetch(how: &str) -> Result<String, Failure> {
    match how {
        "anyhow" => Err(unreachable().into()),
        "boxed" => Err(Box::<dyn StdError + Send + Sync>::from(unreachable()).into()),
        "text" => Err("no such ticket")?,
        "missing" => Err(Failure::not_found("no such ticket")),
        "invalid" => Err(Failure::invalid("`how` is odd")),
        _ => Err(Failure::internal(unreachable())),
    }
}

#[resource("tickets://{id}")]
fn ticket(id: u64) -> Result<Option<String>, Failure> {
    match id {
        0 => Err(Failure::not_found("tickets are counted from 1")),
        1 => Ok(Some("one".into())),
        2 => Err(unreachable().into()),
        _ => Ok(None),
    }
}

#[prompt]
fn triage(id: u64) -> Result<String, Failure> {
    Err(Failure::not_found(format!("there is no ticket {id}")))
}

async fn connect(revision: Revision) -> Client {
    let server = Server::new("failing", "1").tool(fetch).resource_template(ticket).prompt(triage);
    client(server, revision).await
}

async fn read(client: &Client, uri: &str) -> ErrorObject {
    client.read_resource(uri).await.unwrap_err().rpc().unwrap().clone()
}

#[tokio::test]
async fn a_tools_failure_is_told_with_its_causes() {
    let client = connect(Revision::V2025_11_25).await;
    for (how, told) in [
        ("anyhow", "error sending request: connection refused"),
        ("boxed", "error sending request: connection refused"),
        ("text", "no such ticket"),
        ("missing", "no such ticket"),
        ("invalid", "`how` is odd"),
    ] {
        let result = client.call_tool("fetch", &json!({"how": how})).await.unwrap();
        assert!(result.is_error());
        assert_eq!(result.content[0].as_text(), Some(told));
    }
    let error = client.call_tool("fetch", &json!({"how": "internal"})).await.unwrap_err();
    let error = error.rpc().unwrap();
    assert_eq!(error.code.0, -32603);
    assert_eq!(error.message, "error sending request: connection refused");

    // Before, it is the client that hears of wrong arguments.
    let client = connect(Revision::V2025_06_18).await;
    let error = client.call_tool("fetch", &json!({"how": "invalid"})).await.unwrap_err();
    assert_eq!(error.rpc().unwrap().code.0, -32602);
}

#[tokio::test]
async fn a_resource_that_is_not_there_has_the_code_of_the_revision() {
    for (revision, code) in ERAS.into_iter().zip([-32002, -32602]) {
        let client = connect(revision).await;
        for (uri, message) in [
            ("tickets://0", "tickets are counted from 1"),
            ("tickets://7", "resource not found: tickets://7"),
        ] {
            let error = read(&client, uri).await;
            assert_eq!((error.code.0, &*error.message), (code, message), "{revision}");
            let data: serde_json::Value =
                serde_json::from_str(error.data.as_deref().unwrap().get()).unwrap();
            assert_eq!(data, json!({"uri": uri}));
        }
        let error = read(&client, "tickets://2").await;
        assert_eq!(error.code.0, -32603);
        assert_eq!(error.message, "error sending request: connection refused");
        let error = client.get_prompt("triage", [("id", "3")]).await.unwrap_err();
        let error = error.rpc().unwrap();
        assert_eq!((error.code.0, &*error.message), (-32602, "there is no ticket 3"));
    }
}
