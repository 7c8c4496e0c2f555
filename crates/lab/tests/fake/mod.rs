//! A server over memory whose faults are programmed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcplane_lab::{MEMORY_BYTES, Stream, Target};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, WriteHalf, duplex, split,
};
use tokio::time::sleep;

/// What the server does with a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Act {
    Answer,
    AnswerWith(&'static str),
    /// Answers after so many milliseconds, while it goes on with other calls.
    Late(u64),
    Twice,
    WrongId,
    IsError,
    Error,
    Never,
    Banner,
    Ping,
    Die,
}

/// A server that does `script(n)` with its n-th call, counted from 0 over all sessions.
pub(crate) fn target(script: fn(u64) -> Act) -> Target {
    let calls = Arc::new(AtomicU64::new(0));
    Target::memory("fake", move || {
        let (near, far) = duplex(MEMORY_BYTES);
        tokio::spawn(serve(far, script, Arc::clone(&calls)));
        Ok(Stream::from_duplex(near))
    })
}

type Out = Arc<tokio::sync::Mutex<WriteHalf<DuplexStream>>>;

async fn serve(
    stream: DuplexStream,
    script: fn(u64) -> Act,
    calls: Arc<AtomicU64>,
) -> io::Result<()> {
    let (input, output) = split(stream);
    let out: Out = Arc::new(tokio::sync::Mutex::new(output));
    let mut lines = BufReader::new(input).lines();
    while let Some(line) = lines.next_line().await? {
        let message: Value = serde_json::from_str(&line)?;
        let Some(id) = message.get("id").cloned() else { continue };
        let plain = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
        let Some(method) = message["method"].as_str() else { continue };
        match method {
            "initialize" => {
                let info = json!({"name": "fake", "version": "1"});
                let version = message["params"]["protocolVersion"].clone();
                let result = json!({"protocolVersion": version, "serverInfo": info});
                send(&out, plain(result)).await?;
            }
            "tools/list" => {
                let schema = json!({"type": "object", "required": ["message"]});
                let tool = |name: &str| json!({"name": name, "inputSchema": schema});
                // Two pages.
                let result = match message["params"].get("cursor") {
                    None => json!({"tools": [tool("delete_all")], "nextCursor": "2"}),
                    Some(_) => json!({"tools": [tool("echo")]}),
                };
                send(&out, plain(result)).await?;
            }
            "tools/call" => {
                let act = script(calls.fetch_add(1, Ordering::Relaxed));
                if act == Act::Die {
                    return Ok(());
                }
                call(&out, id, act).await?;
            }
            _ => {
                let error = json!({"code": -32601, "message": format!("no {method}")});
                send(&out, json!({"jsonrpc": "2.0", "id": id, "error": error})).await?;
            }
        }
    }
    Ok(())
}

async fn call(out: &Out, id: Value, act: Act) -> io::Result<()> {
    let answer = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    let right = answer(json!({"content": [{"type": "text", "text": "hello"}]}));
    match act {
        Act::Answer => send(out, right).await,
        Act::AnswerWith(text) => send(out, answer(json!({"text": text}))).await,
        Act::Late(ms) => {
            let out = Arc::clone(out);
            tokio::spawn(async move {
                sleep(Duration::from_millis(ms)).await;
                let _ = send(&out, right).await;
            });
            Ok(())
        }
        Act::Twice => {
            send(out, right.clone()).await?;
            send(out, right).await
        }
        Act::WrongId => send(out, json!({"jsonrpc": "2.0", "id": 987_654_321, "result": {}})).await,
        Act::IsError => send(out, answer(json!({"isError": true, "content": []}))).await,
        Act::Error => {
            let error = json!({"code": -32602, "message": "no such argument"});
            send(out, json!({"jsonrpc": "2.0", "id": id, "error": error})).await
        }
        Act::Never | Act::Die => Ok(()),
        Act::Banner => {
            write(out, "hello, this is no message\n").await?;
            send(out, right).await
        }
        Act::Ping => {
            send(out, json!({"jsonrpc": "2.0", "id": "p", "method": "ping"})).await?;
            send(out, right).await
        }
    }
}

async fn send(out: &Out, message: Value) -> io::Result<()> {
    write(out, &format!("{message}\n")).await
}

async fn write(out: &Out, text: &str) -> io::Result<()> {
    out.lock().await.write_all(text.as_bytes()).await
}
