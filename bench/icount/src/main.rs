//! Scenarios whose instructions `cargo xtask icount` counts: `SCENARIO N` does an operation N times, and
//! without arguments their names are told.
#![allow(clippy::print_stdout, reason = "it talks to the one who started it")]

mod gateway;
mod http;

use std::hint::black_box;

use mcplane::transport::{Transport, memory};
use mcplane::{Context, Server, Service, Tool};
use mcplane_proto::Message as Line;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How a scenario ends.
type Done = Result<(), Box<dyn std::error::Error>>;

/// Does an operation so many times.
type Scenario = fn(u64) -> Done;

const SCENARIOS: [(&str, Scenario); 10] = [
    ("echo", |times| echo(CALL_MODERN, times)),
    ("echo-64k", |times| echo(&call_of(LETTERS, KIB_64), times)),
    ("echo-64k-escapes", |times| echo(&call_of(ESCAPES, KIB_64), times)),
    ("echo-1m", |times| echo(&call_of(LETTERS, MIB_1), times)),
    ("gateway", gateway::calls),
    ("http", http::calls),
    ("scan", |times| scan(CALL_MODERN, times)),
    ("scan-64k", |times| scan(call_of(LETTERS, KIB_64).leak(), times)),
    ("scan-64k-escapes", |times| scan(call_of(ESCAPES, KIB_64).leak(), times)),
    ("scan-1m", |times| scan(call_of(LETTERS, MIB_1).leak(), times)),
];

fn main() -> Done {
    let mut words = std::env::args().skip(1);
    let Some(name) = words.next() else {
        SCENARIOS.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    };
    let (_, scenario) =
        SCENARIOS.iter().find(|(known, _)| *known == name).ok_or("no such scenario")?;
    scenario(words.next().ok_or("usage: SCENARIO N")?.parse()?)
}

/// A small call of 2026-07-28, one line without its newline.
const CALL_MODERN: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"icount","version":"1"}},"name":"echo","arguments":{"message":"hello"}}}"#;

/// Payloads of the scenarios with large messages, in bytes.
const KIB_64: usize = 64 * 1024;
/// The same.
const MIB_1: usize = 1024 * 1024;

/// A piece of text without escapes.
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz012345";
/// A piece of text of which every third character is escaped.
const ESCAPES: &str = r#"ab\"cd\nef\\gh\t"#;

/// The same call with a message of so many bytes, which repeats `piece`: JSON as it stands within a
/// string.
fn call_of(piece: &str, len: usize) -> Vec<u8> {
    let small = String::from_utf8_lossy(CALL_MODERN);
    small.replace("hello", &piece.repeat(len / piece.len())).into_bytes()
}

/// The arguments of `echo`.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Message {
    /// What to give back.
    message: String,
}

/// Finds the parts of a call, as often as was asked for.
fn scan(call: &'static [u8], times: u64) -> Done {
    for _ in 0..times {
        let message = Line::scan(black_box(call));
        assert!(black_box(message).is_ok());
    }
    Ok(())
}

/// A server with an inline `echo`.
fn server() -> mcplane::Result<Service> {
    let echo = Tool::inline("echo", |_: &Context, arguments: Message| arguments.message);
    Server::new("icount", "1").tool(echo).start()
}

/// Does it on a runtime of one thread.
fn run(what: impl Future<Output = Done>) -> Done {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(what)
}

/// Has a service answer a call and back, in memory, as often as was asked for.
async fn call(service: Service, call: &[u8], times: u64) -> Done {
    let (near, far) = memory::pair();
    tokio::spawn(async move { service.serve(far).await });
    exchange(near.open()?, &[call, b"\n"].concat(), (b"{", b"}\n"), times).await
}

/// Sends a request and reads the answer, which begins and ends so, as often as was asked for, one in
/// flight.
async fn exchange(
    (mut reader, mut writer): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    request: &[u8],
    (begin, end): (&[u8], &[u8]),
    times: u64,
) -> Done {
    let mut answer = vec![0; memory::BUFFER_BYTES];
    for _ in 0..times {
        writer.write_all(request).await?;
        let (mut is_first, mut is_last) = (true, false);
        while !is_last {
            let len = reader.read(&mut answer).await?;
            let part = answer.get(..len).unwrap_or_default();
            assert!(len > 0, "the server has ended");
            assert!(!is_first || part.starts_with(begin), "{}", String::from_utf8_lossy(part));
            (is_first, is_last) = (false, part.ends_with(end));
        }
    }
    Ok(())
}

/// The same with the server that [`server`] makes.
fn echo(line: &[u8], times: u64) -> Done {
    run(async { call(server()?, line, times).await })
}
