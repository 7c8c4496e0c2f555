//! Servers and clients over TCP and Unix sockets, and what a listener lets in.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mcplane::proto::session::EraChoice;
use mcplane::proto::version::{Era, Revision};
use mcplane::transport::listen::{self, Admission, Limits, Listener};
use mcplane::transport::process::Command;
use mcplane::transport::{Address, Dialer, Transport};
use mcplane::transport::{tcp, unix};
use mcplane::{Client, NoArguments, Server, Service, Tool};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longest wait for anything that must happen.
const LIMIT: Duration = Duration::from_secs(20);

const ERAS: [EraChoice; 3] =
    [EraChoice::Auto, EraChoice::Only(Revision::V2026_07_28), EraChoice::Legacy];

#[tokio::test]
async fn both_eras_over_tcp() {
    let server = Running::start("127.0.0.1:0", limits(), service().0).await;
    for era in ERAS {
        let transport = tcp::connect(&server.address.to_string()).await.unwrap();
        echoes(&Client::builder("t", "1").revision(era).connect(transport).await.unwrap(), era)
            .await;
    }
    server.stop().await;
}

#[tokio::test]
async fn both_eras_over_a_unix_socket() {
    let path = Path::new("both");
    let server = Running::start(&path.address(), limits(), service().0).await;
    for era in ERAS {
        let transport = unix::connect(&path.0).await.unwrap();
        echoes(&Client::builder("t", "1").revision(era).connect(transport).await.unwrap(), era)
            .await;
    }
    server.stop().await;
    assert!(!path.0.exists(), "the file is removed with the listener");
}

#[tokio::test]
async fn one_dialer_for_every_address() {
    let path = Path::new("dialled");
    let mut servers = Vec::new();
    for listen in ["127.0.0.1:0", &path.address()] {
        servers.push(Running::start(listen, limits(), service().0).await);
    }
    let dialer = Dialer::new();
    for server in &servers {
        // What a listener says of itself leads to it.
        let address = Address::with_scheme(&server.address.url()).unwrap();
        let dialed = dialer.dial(&address).await.unwrap();
        assert!(dialed.running.is_none());
        let era = EraChoice::Legacy;
        let client = Client::builder("t", "1").revision(era).connect(dialed).await.unwrap();
        echoes(&client, era).await;
    }
    for server in servers {
        server.stop().await;
    }
    let mut cat = dialer.dial(&Command::new("cat").into()).await.unwrap();
    assert!(cat.running.as_ref().unwrap().pid() > 0);
    cat.writer.write_all(b"said\n").await.unwrap();
    let (reader, _writer) = cat.open().unwrap();
    let mut said = String::new();
    wait(BufReader::new(reader).read_line(&mut said)).await.unwrap();
    assert_eq!(said, "said\n");
    let error = dialer.dial(&"127.0.0.1:1".parse().unwrap()).await.unwrap_err();
    assert!(error.is_io() && error.to_string().contains("127.0.0.1:1"), "{error}");
}

#[cfg(feature = "http")]
#[tokio::test]
async fn what_goes_with_http_is_refused_elsewhere() {
    let dialer = Dialer::new().header("x-team", "blue").unwrap();
    assert!(!format!("{dialer:?}").contains("blue"), "{dialer:?}");
    let error = dialer.dial(&"tcp://127.0.0.1:1".parse().unwrap()).await.unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("have headers"), "{error}");
    assert!(Dialer::new().header("x team", "blue").unwrap_err().is_misuse());
    let http = Address::with_scheme("http://127.0.0.1:1/mcp").unwrap();
    assert!(dialer.dial(&http).await.unwrap().dropped_tools.is_some());
    let listener = Listener::bind(&"http://127.0.0.1:0/mcp".parse().unwrap(), limits()).await;
    assert!(matches!(listener.unwrap().local_address(), Address::Tcp { port: 1.., .. }));
}

async fn echoes(client: &Client, era: EraChoice) {
    let expected = if era == EraChoice::Legacy { Era::Legacy } else { Era::Modern };
    assert_eq!(client.peer().revision.era(), expected);
    for text in ["short", &"long ".repeat(100_000), "új\nsor"] {
        let result = client.call_tool("echo", &json!({"text": text})).await.unwrap();
        assert_eq!(result.content.first().unwrap().as_text().unwrap(), text);
    }
    let calls = (0..50).map(|n| {
        let client = client.clone();
        tokio::spawn(async move {
            let text = n.to_string();
            let result = client.call_tool("echo", &json!({"text": text})).await.unwrap();
            assert_eq!(result.content.first().unwrap().as_text().unwrap(), text);
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    client.close().await;
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_what_it_has_in_flight() {
    let (service, mut held) = service();
    let limits = limits().half_closed(Duration::from_millis(50));
    let server = Running::start("127.0.0.1:0", limits, service).await;
    let mut stream = server.raw().await;
    stream.write_all(call(1, "hold").as_bytes()).await.unwrap();
    let dropped = wait(held.recv()).await.unwrap();
    let before = Instant::now();
    drop(stream);
    wait(dropped).await.unwrap_err();
    assert!(before.elapsed() < Duration::from_secs(4), "long before the loop's own limit");
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_has_nothing_more_to_say_still_gets_its_answer() {
    let server = Running::start("127.0.0.1:0", limits(), service().0).await;
    let mut stream = server.raw().await;
    stream.write_all(call(1, "slow").as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    wait(stream.read_to_string(&mut answer)).await.unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "at last");
    server.stop().await;
}

#[tokio::test]
async fn a_call_written_byte_by_byte_is_a_call() {
    let server = Running::start("127.0.0.1:0", limits(), service().0).await;
    let mut stream = server.raw().await;
    for byte in call(7, "echo").as_bytes() {
        stream.write_all(&[*byte]).await.unwrap();
    }
    assert_eq!(line(&mut BufReader::new(stream)).await["id"], 7);
    server.stop().await;
}

/// What programs send that speak something else, with a call inside: the first line or the first
/// byte gives each away.
fn foreign() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let call = call(1, "hold");
    let head = format!(
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: keep-alive\r\nContent-Length: {}\r\n\
         Origin: http://evil.example\r\nContent-Type: text/plain;charset=UTF-8\r\n\r\n",
        call.len()
    );
    let upgrade = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                   Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    let with_call = |bytes: &[u8]| [bytes, b"\n", call.as_bytes()].concat();
    vec![
        ("a POST of a page", vec![head.clone().into_bytes(), call.clone().into_bytes()]),
        ("the same in one piece", vec![(head + &call).into_bytes()]),
        ("a WebSocket", vec![upgrade.into(), call.clone().into_bytes()]),
        ("the preface of HTTP/2", vec![with_call(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")]),
        (
            "a hello of TLS, without a line end",
            vec![b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03".into()],
        ),
        ("TLS, a line end in its randomness", vec![with_call(b"\x16\x03\x01\x02\0\x01")]),
        ("STUN, its length two line ends", vec![with_call(b"\n\n\0\x01\0\x10!\x12\xa4B")]),
        ("STUN, its length a line end and a brace", vec![with_call(b"\n{\0\x01\0\x10!\x12\xa4B")]),
        ("words", vec![with_call(b"hello")]),
        ("a text", vec![with_call(b"\"hello\"")]),
        ("half a call", vec![with_call(b"{\"jsonrpc\":\"2.0\"")]),
        ("an array that is none", vec![with_call(b"[1,")]),
    ]
}

#[tokio::test]
async fn what_no_client_sends_calls_no_tool() {
    let (service, mut held) = service();
    let tcp = Running::start("127.0.0.1:0", limits(), service.clone()).await;
    let path = Path::new("foreign");
    let unix = Running::start(&path.address(), limits(), service).await;
    for spoken in [false, true] {
        for (name, pieces) in foreign() {
            let mut over_unix = UnixStream::connect(&path.0).await.unwrap();
            hung_up_on(name, tcp.raw().await, &pieces, spoken).await;
            if !spoken {
                over_unix.write_all(&pieces.concat()).await.unwrap();
                ends(&mut over_unix).await;
            }
            assert!(held.try_recv().is_err(), "{name}: the tool ran");
        }
    }
    let mut client = tcp.raw().await;
    client.write_all(call(1, "hold").as_bytes()).await.unwrap();
    wait(held.recv()).await.expect("the same call on a connection of its own");
    drop(client);
    tcp.stop().await;
    unix.stop().await;
}

/// Sends something foreign, if need be on a connection that has been of use, and waits until the
/// server has hung up.
async fn hung_up_on(name: &str, stream: TcpStream, pieces: &[Vec<u8>], spoken: bool) {
    let mut stream = BufReader::new(stream);
    if spoken {
        stream.get_mut().write_all(call(7, "echo").as_bytes()).await.unwrap();
        assert_eq!(line(&mut stream).await.get("id"), Some(&json!(7)), "{name}");
    }
    for piece in pieces {
        // The server may have hung up already.
        let _ = stream.get_mut().write_all(piece).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ends(&mut stream).await;
}

async fn ends(stream: &mut (impl AsyncReadExt + Unpin)) {
    // A reset, too, is an end.
    let _ = wait(stream.read_to_end(&mut Vec::new())).await;
}

#[tokio::test]
async fn a_message_that_is_only_wrong_is_refused_and_the_connection_goes_on() {
    let server = Running::start("127.0.0.1:0", limits(), service().0).await;
    let mut stream = BufReader::new(server.raw().await);
    for wrong in ["{}", "[]", "[{\"x\":1}]", "  {\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}"]
    {
        stream.get_mut().write_all(format!("{wrong}\n\n\r\n").as_bytes()).await.unwrap();
        assert!(line(&mut stream).await["error"].is_object(), "{wrong}");
    }
    stream.get_mut().write_all(call(7, "echo").as_bytes()).await.unwrap();
    assert_eq!(line(&mut stream).await["id"], 7);
    server.stop().await;
}

#[tokio::test]
async fn a_peer_that_never_speaks_is_hung_up_on() {
    let limits = limits().first_byte(Duration::from_millis(50)).connections_max(1);
    let server = Running::start("127.0.0.1:0", limits, service().0).await;
    let mut silent = server.raw().await;
    assert_eq!(wait(silent.read(&mut [0; 8])).await.unwrap(), 0);
    server.serves().await; // its place is free
    server.stop().await;
}

#[tokio::test]
async fn the_gate_refuses_and_recovers() {
    let limits = limits().accepts_per_s(20).accepts_burst(3);
    let server = Running::start("127.0.0.1:0", limits, service().0).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(server.served().await.expect("the burst"));
    }
    let mut refused = 0;
    for _ in 0..20 {
        refused += usize::from(server.served().await.is_none());
    }
    assert!(refused >= 10, "{refused} of 20");
    for stream in &mut open {
        stream.get_mut().write_all(call(2, "echo").as_bytes()).await.unwrap();
        assert_eq!(line(stream).await["id"], 2, "who is in stays in");
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.served().await.expect("there are tokens again");
    server.stop().await;
}

#[tokio::test]
async fn who_says_nothing_is_not_counted_and_makes_room() {
    let limits = limits().accepts_per_s(1).accepts_burst(3).connections_max(3);
    let server = Running::start("127.0.0.1:0", limits, service().0).await;
    let mut known = server.served().await.expect("the burst");
    let mut silent = Vec::new();
    for n in 0..50 {
        let mut stream = server.raw().await;
        if n == 0 {
            stream.write_all(b"{").await.unwrap();
        }
        silent.push(stream);
    }
    server.served().await.expect("there is a place, and a token");
    for stream in &mut silent[..40] {
        ends(stream).await;
    }
    known.get_mut().write_all(call(2, "echo").as_bytes()).await.unwrap();
    assert_eq!(line(&mut known).await["id"], 2, "who is known stays");
    server.stop().await;
}

#[tokio::test]
async fn a_full_server_refuses_until_a_place_is_free() {
    let server = Running::start("127.0.0.1:0", limits().connections_max(2), service().0).await;
    let first = server.served().await.expect("a place");
    let second = server.served().await.expect("a place");
    assert!(server.served().await.is_none());
    drop(first);
    server.serves().await;
    drop(second);
    server.stop().await;
}

#[tokio::test]
async fn permits_count_connections_and_refusals_say_when() {
    let limits = limits().connections_max(1);
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), limits).await.unwrap();
    let address = listener.local_address().to_string();
    let mut client = TcpStream::connect(&address).await.unwrap();
    client.write_all(b"x").await.unwrap();
    let first = listener.accept().await;
    assert_eq!((first.admission(), listener.connections()), (Admission::Admitted, 1));
    let (stream, permit) = first.handshake().await.unwrap();
    let _other = TcpStream::connect(&address).await.unwrap();
    let second = listener.accept().await;
    let Admission::Refused { retry_after } = second.admission() else { panic!("no place") };
    assert!(retry_after > Duration::ZERO);
    drop(stream);
    assert_eq!(listener.connections(), 1, "the permit is still held");
    drop(permit);
    assert_eq!(listener.connections(), 0);
}

#[tokio::test]
async fn at_shutdown_what_is_in_flight_is_finished() {
    let server = Running::start("127.0.0.1:0", limits(), service().0).await;
    let mut stream = BufReader::new(server.raw().await);
    stream.get_mut().write_all(call(1, "slow").as_bytes()).await.unwrap();
    stream.get_mut().write_all(call(2, "echo").as_bytes()).await.unwrap();
    assert_eq!(line(&mut stream).await["id"], 2, "the server has read both");
    let address = server.address.to_string();
    tokio::join!(wait(server.stop()), async {
        assert_eq!(line(&mut stream).await["id"], 1);
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
    });
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn at_shutdown_what_does_not_finish_is_cancelled() {
    let (service, mut held) = service();
    let limits = limits().drain(Duration::from_millis(50));
    let server = Running::start("127.0.0.1:0", limits, service).await;
    let mut stream = server.raw().await;
    stream.write_all(call(1, "hold").as_bytes()).await.unwrap();
    let dropped = wait(held.recv()).await.unwrap();
    wait(server.stop()).await;
    wait(dropped).await.unwrap_err();
}

#[tokio::test]
async fn only_loopback_unless_asked() {
    for open in ["0.0.0.0:0", "[::]:0"] {
        let error = Listener::bind(&open.parse().unwrap(), Limits::default()).await.unwrap_err();
        assert!(error.is_misuse() && error.to_string().contains("`public`"), "{error}");
    }
    let limits = Limits::default().public(true);
    Listener::bind(&"0.0.0.0:0".parse().unwrap(), limits).await.unwrap();
    Listener::bind(&"localhost:0".parse().unwrap(), Limits::default()).await.unwrap();
}

#[tokio::test]
async fn an_address_in_use_is_an_error_that_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: Address = taken.local_addr().unwrap().into();
    let error = Listener::bind(&address, Limits::default()).await.unwrap_err();
    assert!(error.is_io() && error.to_string().contains(&address.to_string()), "{error}");
    drop(taken);
    let error = tcp::connect(&address.to_string()).await.unwrap_err();
    assert!(error.is_io() && error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn a_unix_socket_is_its_owners_and_replaces_only_a_dead_one() {
    let path = Path::new("stale");
    let address: Address = path.address().parse().unwrap();
    let bind = || Listener::bind(&address, Limits::default());

    drop(UnixListener::bind(&path.0).unwrap());
    assert!(path.0.exists(), "left behind, as by a crash");
    let listener = bind().await.unwrap();
    assert_eq!(path.0.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    let error = bind().await.unwrap_err();
    assert!(error.to_string().contains("another server is listening"), "{error}");
    unix::connect(&path.0).await.expect("and the one that lives was not disturbed");

    std::fs::remove_file(&path.0).unwrap();
    let successor = bind().await.unwrap();
    drop(listener);
    assert!(path.0.exists(), "the file is another listener's by now");
    drop(successor);
    assert!(!path.0.exists());

    std::fs::write(&path.0, "precious").unwrap();
    let error = bind().await.unwrap_err();
    assert!(error.to_string().contains("not a socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&path.0).unwrap(), "precious");
}

fn limits() -> Limits {
    Limits::default().accepts_per_s(0)
}

/// Held calls: each comes with what fails once its handler is dropped.
type Held = mpsc::Receiver<oneshot::Receiver<()>>;

fn service() -> (Service, Held) {
    let (hold, held) = mpsc::channel(8);
    let echo = |_: &_, text: EchoArguments| text.text.unwrap_or_default();
    let server = Server::new("sockets", "1")
        .tool(Tool::inline("echo", echo))
        .tool(Tool::waiting("slow", |_, _: NoArguments| async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            "at last"
        }))
        .tool(Tool::waiting("hold", move |_, _: NoArguments| {
            let hold = hold.clone();
            async move {
                let (_alive, dropped) = oneshot::channel();
                hold.send(dropped).await.unwrap();
                std::future::pending::<()>().await;
                "never"
            }
        }));
    (server.start().unwrap(), held)
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct EchoArguments {
    text: Option<String>,
}

struct Running {
    address: Address,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(address: &str, limits: Limits, service: Service) -> Self {
        let listener = Listener::bind(&address.parse().unwrap(), limits).await.unwrap();
        let address = listener.local_address().clone();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async { stopped.await.unwrap() };
        Self { address, stop, task: tokio::spawn(listen::serve(listener, service, shutdown)) }
    }

    async fn raw(&self) -> TcpStream {
        TcpStream::connect(self.address.to_string()).await.unwrap()
    }

    /// A connection that was answered once; `None` if it was refused.
    async fn served(&self) -> Option<BufReader<TcpStream>> {
        let mut stream = BufReader::new(self.raw().await);
        stream.get_mut().write_all(call(1, "echo").as_bytes()).await.ok()?;
        let mut answer = String::new();
        let read = wait(stream.read_line(&mut answer)).await.unwrap_or(0);
        (read > 0).then_some(stream)
    }

    async fn serves(&self) {
        wait(async { while self.served().await.is_none() {} }).await;
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        wait(self.task).await.unwrap();
    }
}

/// A call in the era of 2026-07-28, as one line.
fn call(id: u32, tool: &str) -> String {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": tool, "arguments": {}, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string() + "\n"
}

async fn line(stream: &mut BufReader<TcpStream>) -> Value {
    let mut line = String::new();
    wait(stream.read_line(&mut line)).await.unwrap();
    serde_json::from_str(&line).unwrap()
}

async fn wait<T>(what: impl Future<Output = T>) -> T {
    timeout(LIMIT, what).await.expect("it took too long")
}

/// A path for a socket, whose file is removed in the end.
struct Path(PathBuf);

impl Path {
    fn new(name: &str) -> Self {
        let name = format!("mcplane-{}-{name}.sock", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn address(&self) -> String {
        format!("unix:{}", self.0.display())
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
