//! Upstreams that do not read, or never stop talking.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use mcplane::transport::Transport;
use mcplane::transport::memory::{Memory, pair};
use mcplane::{Client, NoArguments, Server as Mcp, Service, Tool};
use mcplane_gateway::config::{Config, Server};
use mcplane_gateway::{Connect, Connected, Connecting, Gateway};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines, ReadBuf};
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::timeout;

/// How long something may take that has to come.
const LIMIT: Duration = Duration::from_secs(120);

/// One end of a connection, with a will of its own.
struct Ours {
    memory: Memory,
    mood: Arc<Mood>,
}

/// What is wrong with an end.
#[derive(Default)]
struct Mood {
    /// What is written is never flushed.
    holds: AtomicBool,
    /// Reading gives these lines, before anything else.
    flood: AtomicUsize,
}

impl Transport for Ours {
    type Reader = Reading;
    type Writer = Writing;

    fn open(self) -> mcplane::Result<(Reading, Writing)> {
        let (reader, writer) = self.memory.open()?;
        Ok((Reading(reader, Arc::clone(&self.mood)), Writing(writer, self.mood)))
    }
}

struct Reading(<Memory as Transport>::Reader, Arc<Mood>);

impl AsyncRead for Reading {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        const LINE: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n";
        let left = self.1.flood.load(Ordering::Relaxed);
        if left == 0 {
            return Pin::new(&mut self.0).poll_read(cx, buffer);
        }
        let count = left.min(buffer.remaining() / LINE.len());
        buffer.put_slice(&LINE.repeat(count));
        self.1.flood.fetch_sub(count, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

struct Writing(<Memory as Transport>::Writer, Arc<Mood>);

impl AsyncWrite for Writing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.1.holds.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Upstreams of this process: their ends of the connections come out of a channel. All have one
/// mood, but for `calm`.
struct Ends(mpsc::Sender<(String, Memory)>, Arc<Mood>);

impl Connect for Ends {
    fn connect<'a>(&'a self, name: &'a str, _: &'a Server) -> Connecting<'a> {
        let (ours, theirs) = pair();
        let sent = self.0.try_send((name.to_owned(), theirs));
        let mood = if name == "calm" { Arc::default() } else { Arc::clone(&self.1) };
        Box::pin(async move {
            sent.unwrap();
            Connected::to(Ours { memory: ours, mood })
        })
    }
}

type Opened = mpsc::Receiver<(String, Memory)>;

/// A gateway with these servers, and the mood and the ends of their upstreams by name.
async fn gateway<const N: usize>(names: [&str; N]) -> (Gateway, Arc<Mood>, [End; N], Opened) {
    let ((ends, mut opened), mood) = (mpsc::channel(16), Arc::<Mood>::default());
    let connect = Ends(ends, Arc::clone(&mood));
    let gateway = Gateway::start_with(settings(&names), Arc::new(connect)).unwrap();
    let mut ends = Vec::new();
    for _ in names {
        let (name, memory) = opened.recv().await.unwrap();
        ends.push((name, End::greeted(memory).await));
    }
    ends.sort_by_key(|(name, _)| names.iter().position(|known| known == name));
    gateway.ready().await;
    let ends: Vec<End> = ends.into_iter().map(|(_, end)| end).collect();
    (gateway, mood, ends.try_into().ok().unwrap(), opened)
}

async fn client(service: Service) -> Client {
    let (ours, theirs) = pair();
    tokio::spawn(async move { service.serve(theirs).await });
    Client::builder("c", "1").connect(ours).await.unwrap()
}

fn settings(names: &[&str]) -> Config {
    let mut config = Config::default();
    // Nothing is kept on the disk.
    config.gateway.state_dir = Some("/dev/null/nowhere".into());
    for name in names {
        let revision = serde_json::from_value(json!("2025-11-25")).unwrap();
        let server = Server { command: Some("none".into()), revision, ..Server::default() };
        config.servers.insert(*name, server);
    }
    config
}

/// An upstream's end, line by line.
struct End {
    lines: Lines<BufReader<<Memory as Transport>::Reader>>,
    writer: <Memory as Transport>::Writer,
}

impl End {
    /// Answers until the gateway has asked for the tools.
    async fn greeted(memory: Memory) -> Self {
        let (reader, writer) = memory.open().unwrap();
        let mut end = Self { lines: BufReader::new(reader).lines(), writer };
        loop {
            let line: Value =
                serde_json::from_str(&end.lines.next_line().await.unwrap().unwrap()).unwrap();
            let result = match line["method"].as_str() {
                Some("initialize") => json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "deaf", "version": "1"},
                }),
                Some("tools/list") => {
                    json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
                }
                _ => continue,
            };
            let answer = json!({"jsonrpc": "2.0", "id": line["id"], "result": result});
            end.writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            if line["method"] == "tools/list" {
                return end;
            }
        }
    }

    /// Answers one call with a text.
    async fn answer(&mut self) {
        loop {
            let line: Value =
                serde_json::from_str(&self.lines.next_line().await.unwrap().unwrap()).unwrap();
            if line["method"] != "tools/call" {
                continue;
            }
            let result = json!({"content": [{"type": "text", "text": "heard"}]});
            let answer = json!({"jsonrpc": "2.0", "id": line["id"], "result": result});
            return self.writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        }
    }
}

/// What waits to be sent to it is bounded, and it is given up when it takes nothing of that.
#[tokio::test(start_paused = true)]
async fn an_upstream_that_asks_and_never_reads_is_not_read_for_ever() {
    const PINGS_MAX: usize = 200;
    let (gateway, _, [mut end], mut opened) = gateway(["deaf"]).await;
    let id = "x".repeat(1024 * 1024);
    let ping = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"ping\"}}\n");
    let mut taken = 0;
    while end.writer.write_all(ping.as_bytes()).await.is_ok() {
        taken += 1;
        assert!(taken < PINGS_MAX, "{taken} MiB of answers wait to be read");
    }
    // Another one takes its place, and the trouble is told.
    let again = timeout(LIMIT, opened.recv()).await.unwrap();
    assert!(again.is_some());
    let status = gateway.status().servers.remove(0);
    let trouble = status.trouble.unwrap_or_default();
    assert!(trouble.contains("does not read what it is sent"), "{trouble}");
    gateway.close().await;
}

/// A WebSocket takes what is written, and flushes when the peer has room.
#[tokio::test(start_paused = true)]
async fn an_upstream_that_is_never_flushed_is_read_and_can_be_left() {
    let (gateway, mood, [mut end], _opened) = gateway(["held"]).await;
    let client = client(gateway.service()).await;
    mood.holds.store(true, Ordering::Relaxed);
    let nothing = json!({});
    for _ in 0..2 {
        let (answer, ()) = tokio::join!(client.call_tool("echo", &nothing), end.answer());
        assert_eq!(answer.unwrap().content[0].as_text(), Some("heard"));
    }
    // An answer that never comes is waited for no longer than is said.
    let unanswered = client.call("echo", &nothing).timeout(Duration::from_secs(600)).await;
    unanswered.unwrap_err();
    timeout(LIMIT, gateway.close()).await.unwrap();
}

fn calm() -> Service {
    Mcp::new("calm", "1").tool(Tool::inline("echo", |_, _: NoArguments| "heard")).start().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_never_flushed_is_read_by_the_server() {
    let ((memory, theirs), mood) = (pair(), Arc::<Mood>::default());
    let ours = Ours { memory, mood: Arc::clone(&mood) };
    tokio::spawn(async move { calm().serve(ours).await });
    let client = Client::builder("c", "1").connect(theirs).await.unwrap();
    mood.holds.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        client.call_tool("echo", &json!({})).await.unwrap();
    }
}

/// Lines of a flood: far more than are read in the turns that a call takes.
const FLOOD: usize = 50_000;

/// A call beside a flood is answered before the flood is over. All run on one thread, where a loop
/// that reads on for as long as there is something would let nobody else in.
async fn is_answered_beside(mood: &Mood, client: &Client, tool: &str) {
    while mood.flood.load(Ordering::Relaxed) == FLOOD {
        yield_now().await;
    }
    client.call_tool(tool, &json!({})).await.unwrap();
    assert!(mood.flood.load(Ordering::Relaxed) > 0, "the flood came first");
}

#[tokio::test]
async fn an_upstream_that_floods_leaves_the_others_their_turns() {
    let (gateway, mood, [mut loud, mut calm], _opened) = gateway(["loud", "calm"]).await;
    let client = client(gateway.service()).await;
    let answer = tokio::spawn(async move {
        calm.answer().await;
        calm
    });
    mood.flood.store(FLOOD, Ordering::Relaxed);
    loud.writer.write_all(b"\n").await.unwrap();
    is_answered_beside(&mood, &client, "calm__echo").await;
    drop(answer.await.unwrap());
    gateway.close().await;
}

#[tokio::test]
async fn a_client_that_floods_leaves_the_others_their_turns() {
    let neighbour = client(calm()).await;
    let ((memory, theirs), mood) = (pair(), Arc::<Mood>::default());
    mood.flood.store(FLOOD, Ordering::Relaxed);
    let ours = Ours { memory, mood: Arc::clone(&mood) };
    tokio::spawn(async move { calm().serve(ours).await });
    is_answered_beside(&mood, &neighbour, "echo").await;
    drop(theirs);
}

#[tokio::test]
async fn a_server_that_floods_leaves_the_others_their_turns() {
    let neighbour = client(calm()).await;
    let ((memory, theirs), mood) = (pair(), Arc::<Mood>::default());
    tokio::spawn(async move { calm().serve(theirs).await });
    let ours = Ours { memory, mood: Arc::clone(&mood) };
    let client = Client::builder("c", "1").connect(ours).await.unwrap();
    mood.flood.store(FLOOD, Ordering::Relaxed);
    let other = client.clone();
    tokio::spawn(async move { other.ping().await });
    is_answered_beside(&mood, &neighbour, "echo").await;
    client.close().await;
}
