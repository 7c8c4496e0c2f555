//! Names, pages, guests, HTTP/2 and TLS.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mcplane::transport::http::Work;
use mcplane::transport::http::server::{Authenticate, ConnectionLimits, Denied};
use mcplane::transport::listen::Listener;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::wire::{Io, LATEST_LEGACY, Request, Wire, text, wait};
use crate::world::{World, limits};

fn list() -> Request {
    Request::modern(1, "tools/list", json!({}))
}

#[tokio::test]
async fn names_of_this_machine_are_answered_to_and_others_are_misdirected() {
    let world = World::start().await;
    let port = world.address.rsplit(':').next().unwrap().to_owned();
    for host in ["localhost", "LocalHost", "127.0.0.1", "127.1.2.3:1", "[::1]", "[::1]:99"] {
        assert_eq!(world.send(&list().with("Host", host)).await.status(), 200, "{host}");
    }
    let ported = list().with("Host", format!("localhost:{port}"));
    assert_eq!(world.send(&ported).await.status(), 200);
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "0.0.0.0",
        "169.254.169.254",
        "[::]",
        "[fe80::1]",
    ] {
        world.send(&list().with("Host", host)).await.refuses_http(421);
    }
    for host in ["", "a b", "local\\host"] {
        world.send(&list().with("Host", host)).await.refuses_http(400);
    }
    world.send(&list().header("Host", "localhost")).await.refuses_http(400);
    world.send(&list().without("Host")).await.refuses_http(400);
    world.stop().await;
}

#[tokio::test]
async fn names_and_pages_can_be_added() {
    let world = World::with(|builder| {
        builder.hosts(["mcp.example.com"]).origins(["https://app.example.com"])
    })
    .await;
    let named = list().with("Host", "MCP.example.com:8080");
    assert_eq!(world.send(&named).await.status(), 200);
    world.send(&list().with("Host", "example.com")).await.refuses_http(421);
    let page = list().header("Origin", "https://app.example.com");
    assert_eq!(world.send(&page).await.status(), 200);
    world.stop().await;
    let world = World::with(mcplane::transport::http::server::Builder::any_host).await;
    assert_eq!(world.send(&list().with("Host", "anything.example")).await.status(), 200);
    let page = list().with("Host", "anything.example").header("Origin", "https://evil.example");
    world.send(&page).await.refuses_http(403);
    world.stop().await;
}

#[tokio::test]
async fn foreign_pages_are_forbidden_before_anything_else() {
    let world = World::with(|builder| builder.legacy_sse("/sse", "/messages")).await;
    let session = world.session(LATEST_LEGACY).await;
    for origin in [
        "https://evil.example",
        "null",
        "http://localhost.evil.example",
        "localhost",
        "file://localhost",
        "http://",
        "http://evil.example/http://localhost",
        "",
    ] {
        for request in [
            list(),
            Request::post("{"),
            Request::listen(&session),
            Request::new("DELETE", "/mcp").header("Mcp-Session-Id", &session),
            Request::new("OPTIONS", "/mcp"),
            Request::new("GET", "/sse"),
            Request::new("GET", "/elsewhere"),
        ] {
            let refused = world.send(&request.header("Origin", origin)).await;
            refused.refuses_http(403);
            assert_eq!(refused.head.get("access-control-allow-origin"), None, "{origin}");
        }
    }
    let stream = Request::new("GET", "/sse").header("Sec-Fetch-Mode", "no-cors");
    for (site, status) in [("cross-site", 403), ("same-origin", 200)] {
        let mut wire = world.wire().await;
        wire.write(&stream.clone().header("Sec-Fetch-Site", site).bytes()).await;
        assert_eq!(wire.head().await.status, status, "{site}");
    }
    let twice = list().header("Origin", "http://localhost").header("Origin", "http://localhost");
    world.send(&twice).await.refuses_http(403);
    assert!(world.endpoint.sessions() <= 2, "the two that were allowed");
    world.stop().await;
}

#[tokio::test]
async fn a_page_may_ask_first_and_then_read() {
    let world = World::start().await;
    let origin = "http://localhost:3000";
    let preflight = Request::new("OPTIONS", "/mcp")
        .header("Origin", origin)
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "mcp-protocol-version, mcp-param-region");
    let answer = world.send(&preflight).await;
    assert_eq!((answer.status(), answer.body.len()), (204, 0));
    assert_eq!(answer.head.get("access-control-allow-origin"), Some(origin));
    let methods = answer.head.get("access-control-allow-methods").unwrap();
    assert!(["GET", "POST", "DELETE"].iter().all(|method| methods.contains(method)), "{methods}");
    let headers = answer.head.get("access-control-allow-headers").unwrap();
    for name in ["authorization", "mcp-session-id", "mcp-protocol-version", "last-event-id"] {
        assert!(headers.contains(name), "{headers}");
    }
    for request in [list(), Request::post("{"), Request::listen("none")] {
        let answer = world.send(&request.header("Origin", origin)).await;
        assert_eq!(answer.head.get("access-control-allow-origin"), Some(origin));
        assert!(
            answer.head.get("access-control-expose-headers").unwrap().contains("mcp-session-id")
        );
        assert!(answer.head.get("vary").unwrap().eq_ignore_ascii_case("origin"));
        assert_eq!(answer.head.get("access-control-allow-credentials"), None);
    }
    assert_eq!(world.send(&list()).await.head.get("access-control-allow-origin"), None);
    world.stop().await;
}

/// `Bearer alice` and `Bearer bob` are guests; `Bearer child` may not.
pub struct Guests;

impl Authenticate for Guests {
    fn authenticate<'a>(&'a self, head: &'a Parts) -> Work<'a, Result<Arc<str>, Denied>> {
        let token = head.headers.get("authorization").and_then(|token| token.to_str().ok());
        Box::pin(async move {
            tokio::task::yield_now().await;
            match token.and_then(|token| token.strip_prefix("Bearer ")) {
                Some(name @ ("alice" | "bob")) => Ok(name.into()),
                Some("child") => Err(Denied::forbidden(HeaderValue::from_static(
                    "Bearer error=\"insufficient_scope\", scope=\"adult\"",
                ))),
                _ => Err(Denied::unauthorized(HeaderValue::from_static(
                    "Bearer resource_metadata=\"https://x/.well-known/oauth-protected-resource\"",
                ))),
            }
        })
    }
}

async fn guarded() -> World {
    let document = json!({"resource": "https://x/mcp", "authorization_servers": ["https://as"]});
    World::with(|builder| builder.authenticate(Guests).resource_metadata(&document)).await
}

pub fn with_token(name: &'static str) -> impl Fn(Request) -> Request {
    move |request| request.header("Authorization", format!("Bearer {name}"))
}

#[tokio::test]
async fn guests_show_a_token_and_others_are_challenged() {
    let world = guarded().await;
    for request in
        [list(), Request::post("{"), Request::listen("x"), Request::new("DELETE", "/mcp")]
    {
        for stranger in [request.clone(), with_token("mallory")(request.clone())] {
            let refused = world.send(&stranger).await;
            refused.refuses_http(401);
            let challenge = refused.head.get("www-authenticate").unwrap();
            assert!(challenge.contains("resource_metadata="), "{challenge}");
        }
        let refused = world.send(&with_token("child")(request)).await;
        refused.refuses_http(403);
        assert!(refused.head.get("www-authenticate").unwrap().contains("insufficient_scope"));
    }
    let who = with_token("alice")(Request::call(1, "whoami", json!({})));
    assert_eq!(world.send(&who).await.text(), "alice");
    // On every request: the connection vouches for nobody.
    let mut wire = world.wire().await;
    assert_eq!(wire.send(&who).await.text(), "alice");
    wire.send(&Request::call(1, "whoami", json!({}))).await.refuses_http(401);
    world.stop().await;
}

#[tokio::test]
async fn nothing_of_one_request_reaches_the_next() {
    let world = guarded().await;
    let mut wire = world.wire().await;
    for round in 0..4 {
        for name in ["alice", "bob"] {
            let dress = with_token(name);
            let note = dress(Request::call(round, "note", json!({})));
            let mut noted = world.stream(&note).await;
            assert_eq!(noted.rest().await.len(), 2);
            let who = dress(Request::call(round, "whoami", json!({})));
            assert_eq!(wire.send(&who).await.text(), name);
            let unknown = dress(Request::call(round, "nothing", json!({})));
            assert_eq!(wire.send(&unknown).await.status(), 400);
            let echo = dress(Request::call(round, "echo", json!({"text": "x".repeat(9000)})));
            assert_eq!(wire.send(&echo).await.text().len(), 9000);
        }
    }
    world.stop().await;
}

#[tokio::test]
async fn everybody_may_read_whom_to_ask_for_a_token() {
    let world = guarded().await;
    for path in
        ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"]
    {
        let answer = world.send(&Request::new("GET", path)).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.json()["authorization_servers"][0], "https://as");
    }
    let path = "/.well-known/oauth-protected-resource/other";
    world.send(&Request::new("GET", path)).await.refuses_http(404);
    world.stop().await;
}

#[tokio::test]
async fn a_session_is_its_principals_alone() {
    let world = guarded().await;
    let session = world.session_of(LATEST_LEGACY, with_token("alice")).await;
    let who = Request::legacy_call(&session, 1, "whoami", json!({}));
    assert_eq!(world.send(&with_token("alice")(who.clone())).await.text(), "alice");
    for request in [
        who.clone(),
        Request::listen(&session),
        Request::listen(&session).header("Last-Event-ID", "0-0"),
        Request::new("DELETE", "/mcp").header("Mcp-Session-Id", &session),
    ] {
        world.send(&with_token("bob")(request)).await.refuses_http(404);
    }
    assert_eq!(world.send(&with_token("alice")(who)).await.status(), 200, "and it lives");
    world.stop().await;
}

#[tokio::test]
async fn the_answer_to_a_question_is_its_principals_alone() {
    let world = guarded().await;
    let first = world.send(&with_token("alice")(Request::call(1, "ask", json!({})))).await.json();
    let params = json!({"name": "ask", "arguments": {},
        "inputResponses": {"elicitation": {"action": "decline"}},
        "requestState": first["result"]["requestState"]});
    let second = Request::modern(2, "tools/call", params);
    let stolen = world.send(&with_token("bob")(second.clone())).await;
    assert_eq!((stolen.status(), stolen.code()), (400, -32602), "{}", stolen.json());
    assert_eq!(world.send(&with_token("alice")(second)).await.text(), "Decline");
    world.stop().await;
}

#[tokio::test]
async fn http_2_by_prior_knowledge() {
    let world = World::start().await;
    let stream = TcpStream::connect(&world.address).await.unwrap();
    many_at_once(stream, &world.address).await;
    world.stop().await;
}

/// Many calls, a stream and a cancellation on one connection of HTTP/2.
async fn many_at_once(io: impl Io + 'static, authority: &str) {
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(io))
            .await
            .unwrap();
    tokio::spawn(connection);
    let send = |request: Request| {
        let mut sender = sender.clone();
        let request = request.http(authority);
        async move { wait(sender.send_request(request)).await.unwrap() }
    };
    let calls = (0..50).map(|n| {
        let call = if n % 2 == 0 { "echo" } else { "later" };
        let response = send(Request::call(n, call, json!({"text": n.to_string()})));
        async move {
            let response = response.await;
            assert_eq!(response.status(), StatusCode::OK);
            let body = wait(response.collect()).await.unwrap().to_bytes();
            let answer: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!((text(&answer), answer["id"].clone()), (n.to_string(), json!(n)));
        }
    });
    let calls: Vec<_> = calls.map(tokio::spawn).collect();
    for call in calls {
        call.await.unwrap();
    }
    let streamed = wait(send(Request::call(1, "note", json!({}))).await.collect()).await.unwrap();
    let streamed = String::from_utf8(streamed.to_bytes().to_vec()).unwrap();
    assert_eq!(streamed.matches("data:").count(), 2, "{streamed}");
    let foreign = send(list().with("Host", "evil.example")).await;
    assert_eq!(foreign.status(), StatusCode::MISDIRECTED_REQUEST);
}

impl Request {
    /// The same as hyper's client wants it; over HTTP/2 the host is the authority.
    pub fn http(&self, authority: &str) -> http::Request<Full<Bytes>> {
        let bytes = self.bytes();
        let at = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&bytes[..at]).unwrap().to_owned();
        let path = head.split(' ').nth(1).unwrap();
        let host = head.lines().find_map(|line| line.strip_prefix("Host: "));
        let host = host.filter(|host| *host != "localhost").unwrap_or(authority);
        let mut built =
            http::Request::builder().method(Method::POST).uri(format!("http://{host}{path}"));
        for line in head.lines().skip(1).filter(|line| !line.starts_with("Host")) {
            let (name, value) = line.split_once(": ").unwrap();
            built = built.header(name, value);
        }
        built.body(Full::new(Bytes::copy_from_slice(&bytes[at + 4..]))).unwrap()
    }
}

#[tokio::test]
async fn a_reset_stream_of_http_2_cancels_alone() {
    let mut world = World::start().await;
    let stream = TcpStream::connect(&world.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let request = |id: u32| Request::call(id, "hold", json!({})).http("localhost");
    let first = tokio::spawn(sender.send_request(request(1)));
    let dropped = world.stage.hold().await;
    let _second = tokio::spawn(sender.send_request(request(2)));
    let mut other = world.stage.hold().await;
    first.abort();
    wait(dropped).await.unwrap_err();
    assert!(other.try_recv().is_err_and(|error| error.to_string().contains("empty")));
    world.stop().await;
}

#[cfg(feature = "tls")]
mod tls {
    use std::path::{Path, PathBuf};

    use mcplane::transport::tls::{ClientTls, ServerTls};

    use super::*;

    fn data(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(format!("test-only-{name}"))
    }

    async fn world() -> World {
        let tls = ServerTls::from_pem_files(data("first.pem"), data("first.key.pem")).unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(&address, limits()).await.unwrap();
        let listener = listener.with_tls(tls.alpn(&["h2", "http/1.1"]));
        World::behind(listener, |builder| builder, ConnectionLimits::default())
    }

    #[tokio::test]
    async fn alpn_picks_the_version_of_http() {
        let world = world().await;
        let client = || ClientTls::new().unwrap().ca_pem_file(data("ca.pem")).unwrap();
        let dial = || TcpStream::connect(&world.address);

        let one = client().alpn(&["http/1.1"]);
        let stream = one.connect("localhost", dial().await.unwrap()).await.unwrap();
        let answer =
            Wire::over(stream).send(&Request::call(1, "echo", json!({"text": "one"}))).await;
        assert_eq!(answer.text(), "one");

        let two = client().alpn(&["h2"]);
        let stream = two.connect("localhost", dial().await.unwrap()).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        many_at_once(stream, "localhost").await;

        // Plain HTTP where TLS is spoken is hung up on.
        let mut plain = world.wire().await;
        plain.write(&list().bytes()).await;
        assert!(!String::from_utf8_lossy(&plain.closed().await).contains("jsonrpc"));
        world.stop().await;
    }
}
