//! A client: starts the server that its arguments name, lists its tools, and calls one.
//!
//! `cargo run -p mcplane --example client -- npx -y @modelcontextprotocol/server-everything`

#![allow(clippy::print_stdout, reason = "standard output is for people here")]

use mcplane::Client;
use mcplane::proto::types::ElicitResult;
use mcplane::transport::process::Command;
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let program = words.next().ok_or("say which server to start: client COMMAND [ARGUMENT]…")?;
    let client = Client::builder("example", "1.0.0")
        .on_elicit_form(|form| async move {
            println!("The server asks: {}", form.message);
            ElicitResult::decline()
        })
        .spawn(Command::new(program).args(words))
        .await?;
    let tools = client.list_tools().await?;
    for tool in &tools {
        println!("{}: {}", tool.name, tool.description.as_deref().unwrap_or("?"));
    }
    if tools.iter().any(|tool| tool.name == "echo") {
        let result = client.call_tool("echo", &json!({"message": "hi"})).await?;
        println!("{:?}", result.content);
    }
    client.close().await;
    Ok(())
}
