//! A server behind an HTTP address that answers what a test says.

use std::sync::Arc;

use mcplane::proto::version::Revision;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::config::{Server, Speaks};

/// What it answers instead of doing what it is asked.
#[derive(Clone, Copy)]
pub(super) enum Instead {
    /// A status, a header and a body.
    Http(&'static str, &'static str, &'static str),
    /// It closes the connection.
    Nothing,
}

type Says = dyn Fn(&str) -> Option<Instead> + Send + Sync;

/// Starts it. It speaks 2026-07-28, offers the tool `echo`, and `says` something else when it is asked
/// for a method.
pub(super) async fn far(
    revision: Speaks,
    says: impl Fn(&str) -> Option<Instead> + Send + Sync + 'static,
) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp?key=hunter2", listener.local_addr().unwrap());
    let says: Arc<Says> = Arc::new(says);
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(serve(connection, Arc::clone(&says)));
        }
    });
    Server { url: Some(url), revision, ..Server::default() }
}

async fn serve(connection: TcpStream, says: Arc<Says>) -> Option<()> {
    let mut connection = BufReader::new(connection);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            connection.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
            let line = line.trim().to_ascii_lowercase();
            if let Some(bytes) = line.strip_prefix("content-length:") {
                length = bytes.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        connection.read_exact(&mut body).await.ok()?;
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let (status, header, body) = match says(message["method"].as_str().unwrap_or_default()) {
            None => ("200 OK", "content-type: application/json", reply(&message).to_string()),
            Some(Instead::Http(status, header, body)) => (status, header, body.to_owned()),
            Some(Instead::Nothing) => return None,
        };
        let length = body.len();
        let answer =
            format!("HTTP/1.1 {status}\r\n{header}\r\ncontent-length: {length}\r\n\r\n{body}");
        connection.write_all(answer.as_bytes()).await.ok()?;
    }
}

fn reply(request: &Value) -> Value {
    let result = match request["method"].as_str() {
        Some("server/discover") => json!({
            "resultType": "complete", "supportedVersions": [Revision::LATEST.as_str()],
            "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private",
        }),
        Some("tools/list") => json!({
            "resultType": "complete", "cacheScope": "private", "ttlMs": 3_600_000,
            "tools": [{"name": "echo", "inputSchema": {"type": "object"}}],
        }),
        Some("tools/call") => json!({"resultType": "complete", "content": []}),
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            return json!({"jsonrpc": "2.0", "id": request["id"], "error": error});
        }
    };
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
}
