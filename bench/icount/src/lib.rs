//! What the scenarios share. `cargo xtask icount` counts their instructions.

use std::hint::black_box;

use mcplane::transport::{Transport, memory};
use mcplane::{Context, Server, Tool};
use mcplane_proto::Message as Line;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A small call of 2026-07-28, one line without its newline.
pub const CALL_MODERN: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"icount","version":"1"}},"name":"echo","arguments":{"message":"hello"}}}"#;

/// Payloads of the scenarios with large messages, in bytes.
pub const KIB_64: usize = 64 * 1024;
/// The same.
pub const MIB_1: usize = 1024 * 1024;

/// A piece of text without escapes.
pub const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz012345";
/// A piece of text of which every third character is escaped.
pub const ESCAPES: &str = r#"ab\"cd\nef\\gh\t"#;

/// The same call with a message of so many bytes, which repeats `piece`: JSON as it stands within a
/// string.
#[must_use]
pub fn call_of(piece: &str, len: usize) -> Vec<u8> {
    let small = String::from_utf8_lossy(CALL_MODERN);
    small.replace("hello", &piece.repeat(len / piece.len())).into_bytes()
}

/// The arguments of `echo`.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[non_exhaustive]
pub struct Message {
    /// What to give back.
    pub message: String,
}

/// How often the operation is to be done: the first argument.
///
/// # Panics
/// Without one; a scenario is started by `cargo xtask icount`.
#[must_use]
#[allow(clippy::expect_used, reason = "a scenario without its number has nothing to do")]
pub fn times() -> u64 {
    std::env::args().nth(1).and_then(|n| n.parse().ok()).expect("usage: SCENARIO N")
}

/// Finds the parts of a call, as often as was asked for.
///
/// # Panics
/// When it is no message.
pub fn scan(call: &'static [u8]) {
    for _ in 0..times() {
        let message = Line::scan(black_box(call));
        assert!(black_box(message).is_ok());
    }
}

/// Has an inline `echo` answer a call through the server and back, in memory, as often as was asked
/// for, one in flight.
///
/// # Errors
/// When the server cannot start, or the connection ends.
pub fn echo(call: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let echo = Tool::inline("echo", |_: &Context, arguments: Message| arguments.message);
        let service = Server::new("icount", "1").tool(echo).start()?;
        let (near, far) = memory::pair();
        tokio::spawn(async move { service.serve(far).await });
        let (mut reader, mut writer) = near.open()?;
        let mut answer = vec![0; memory::BUFFER_BYTES];
        for _ in 0..times() {
            writer.write_all(call).await?;
            writer.write_all(b"\n").await?;
            loop {
                let len = reader.read(&mut answer).await?;
                let end = answer.get(..len).unwrap_or_default();
                assert!(len > 0, "the server has ended");
                if end.ends_with(b"\n") {
                    assert!(end.ends_with(b"}\n"));
                    break;
                }
            }
        }
        Ok(())
    })
}
