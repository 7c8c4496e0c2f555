//! What goes wrong ends its request, with an error that says what it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderValue, StatusCode};
use mcplane::proto::error::{Fault, Retry};
use mcplane::transport::http::Work;
use mcplane::transport::http::client::{Bearer, Credentials, Http, Refusal};
use mcplane::transport::{Dialer, Transport as _};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;

use crate::server::*;

/// A modern server that answers every call like this.
async fn failing(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> mcplane::Error {
    let server = Server::start(move |seen| {
        let reply =
            if seen.method() == "server/discover" { discovered(&seen) } else { answer(&seen) };
        async move { reply }
    })
    .await;
    let client = server.client().await.unwrap();
    client.call_tool("x", &()).await.unwrap_err()
}

#[tokio::test]
async fn statuses_are_told_apart() {
    let error = failing(|_| Reply::status(503).header("retry-after", "2")).await;
    assert!(error.is_unavailable() && !error.is_rpc(), "{error}");
    assert_eq!((error.retry_after(), error.retry()), (Some(Duration::from_secs(2)), Retry::Later));
    let error = failing(|_| {
        Reply::status(503)
            .header("date", "Sun, 06 Nov 1994 08:49:37 GMT")
            .header("retry-after", "Sun, 06 Nov 1994 08:50:00 GMT")
    })
    .await;
    assert_eq!(error.retry_after(), Some(Duration::from_secs(23)));
    let error = failing(|_| Reply::body(429, "slow down")).await;
    assert!(error.is_unavailable() && error.to_string().contains("slow down"), "{error}");
    let error = failing(|_| Reply::status(500)).await;
    assert_eq!(
        (error.status(), error.retry(), error.fault()),
        (Some(500), Retry::Perhaps, Fault::Peer)
    );
    let error = failing(|_| Reply::status(401)).await;
    assert!(error.is_unauthorized(), "{error}");
    assert_eq!((error.retry(), error.fault()), (Retry::Changed, Fault::Caller));
    // A status with an error of the protocol is that error.
    let error = failing(|seen| Reply::error(500, seen, -32603, Value::Null)).await;
    assert_eq!(error.rpc().unwrap().code.0, -32603);
    let error = failing(|_| {
        Reply::json(404, &json!({"jsonrpc": "2.0", "error": {"code": -32601, "message": "none"}}))
    })
    .await;
    assert_eq!(error.rpc().unwrap().code.0, -32601);
}

/// Whoever reads lines and asks for nothing else, as `mcplane connect` does.
#[tokio::test]
async fn lines_tell_of_what_was_lost_where_nobody_asks_for_it() {
    let server = Server::start(|_| async { Reply::status(503) }).await;
    let dialed = Dialer::new().dial(&server.url.parse().unwrap()).await.unwrap();
    let (reader, mut writer) = dialed.open().unwrap();
    let mut lines = BufReader::new(reader).lines();
    for id in [1, 2] {
        let ping = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        writer.write_all(format!("{ping}\n").as_bytes()).await.unwrap();
        let line = timeout(Duration::from_secs(10), lines.next_line()).await.unwrap();
        let answer: Value = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-31997)));
    }
}

#[tokio::test]
async fn answers_that_make_no_sense() {
    let answers: [fn(&Seen) -> Reply; 6] = [
        |_| Reply::body(200, "hello").header("content-type", "text/html"),
        |_| Reply::body(200, "{").header("content-type", "application/json"),
        |_| Reply::json(200, &json!({"jsonrpc": "2.0", "id": 999, "result": {}})),
        |_| Reply::status(202),
        |_| Reply::status(204),
        |_| Reply::json(200, &json!([])),
    ];
    for (row, answer) in answers.into_iter().enumerate() {
        let error = failing(answer).await;
        assert!(error.is_malformed(), "row {row}: {error}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_long_is_not_read() {
    let url = raw(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n{",
    )
    .await;
    let announced = connect(builder(), Http::new(&url).unwrap()).await.unwrap_err();
    assert!(announced.is_malformed(), "{announced}");
    assert!(announced.to_string().contains("more than"), "{announced}");
    let endless = failing(|_| {
        let (tap, reply) = Reply::stream();
        tokio::spawn(async move {
            tap.send("data: \"").await;
            let piece = "x".repeat(1024 * 1024);
            for _ in 0..40 {
                if timeout(PATIENCE, tap.send(&piece)).await.is_err() {
                    break;
                }
            }
        });
        reply
    })
    .await;
    assert!(endless.is_malformed(), "{endless}");
}

#[tokio::test]
async fn a_connection_that_is_refused_or_breaks() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let error = connect(builder(), Http::new(&url).unwrap()).await.unwrap_err();
    assert!(error.is_unreachable() && error.to_string().contains(&url[..url.len() - 1]), "{error}");

    let error = failing(|_| {
        let (tap, reply) = Reply::stream();
        tokio::spawn(async move { tap.cut().await });
        reply
    })
    .await;
    assert!(error.is_closed(), "{error}");
    let error = failing(|_| Reply::events(": nothing\n\n")).await;
    assert!(error.is_closed() && error.to_string().contains("tools/call"), "{error}");

    // A body that is shorter than it was said to be.
    let url = raw(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"json",
    )
    .await;
    let error = connect(builder(), Http::new(&url).unwrap()).await.unwrap_err();
    assert!(error.is_closed(), "{error}");
}

/// A server that says this to its first request and then goes away.
async fn raw(answer: &'static str) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4096];
        stream.readable().await.unwrap();
        let _ = stream.try_read(&mut buffer);
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    url
}

#[tokio::test]
async fn bad_addresses_and_headers_are_misuse() {
    for url in ["", "ftp://x/", "http://", "/mcp", "http://user:secret@localhost/"] {
        assert!(Http::new(url).unwrap_err().is_misuse(), "{url}");
    }
    let http = Http::new("http://localhost:1/").unwrap().header("no good", "x");
    assert!(connect(builder(), http).await.unwrap_err().is_misuse());
}

/// Gets a new token each time it is refused, up to `good`.
#[derive(Debug, Default)]
struct Renewing {
    token: AtomicUsize,
    refused: std::sync::Mutex<Vec<Refusal>>,
    slow: bool,
}

impl Credentials for Renewing {
    fn header(&self) -> Option<HeaderValue> {
        let token = self.token.load(Ordering::SeqCst);
        (token > 0).then(|| HeaderValue::try_from(format!("Bearer t{token}")).unwrap())
    }

    fn refused<'a>(&'a self, refusal: &'a Refusal) -> Work<'a, mcplane::Result<bool>> {
        Box::pin(async move {
            if self.slow {
                tokio::time::sleep(Duration::from_millis(900)).await;
            }
            self.refused.lock().unwrap().push(refusal.clone());
            self.token.fetch_add(1, Ordering::SeqCst);
            Ok(true)
        })
    }
}

fn guarded(good: &'static str) -> impl Fn(Seen) -> std::future::Ready<Reply> + Send + Sync {
    move |seen| {
        let challenge = "Bearer resource_metadata=\"http://localhost/x\"";
        std::future::ready(match seen.header("authorization") {
            Some(header) if header == good => match seen.method() {
                "server/discover" => discovered(&seen),
                _ => Reply::result(&seen, text("ok")),
            },
            _ => Reply::status(401).header("www-authenticate", challenge),
        })
    }
}

#[tokio::test]
async fn credentials_are_asked_again_and_the_request_sent_again() {
    let server = Server::start(guarded("Bearer t2")).await;
    let credentials = Arc::new(Renewing::default());
    let http = server.http().credentials(Arc::clone(&credentials) as Arc<dyn Credentials>);
    let client = connect(builder(), http).await.unwrap();
    let refused = credentials.refused.lock().unwrap().clone();
    assert_eq!(refused.len(), 2);
    assert_eq!((refused[0].status, &refused[0].sent), (StatusCode::UNAUTHORIZED, &None));
    assert_eq!(refused[0].method.as_deref(), Some("server/discover"));
    assert_eq!(refused[0].challenges, ["Bearer resource_metadata=\"http://localhost/x\""]);
    assert_eq!(refused[1].sent.as_ref().unwrap(), "Bearer t1");
    // The token expires under two calls at once: it is renewed once.
    credentials.token.store(1, Ordering::SeqCst);
    let (one, two) = tokio::join!(client.call_tool("a", &()), client.call_tool("b", &()));
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(credentials.refused.lock().unwrap().len(), 3);
}

/// A server's own answer is no news of the way to it, whatever code it has.
#[tokio::test]
async fn no_server_can_say_that_its_answer_was_lost() {
    for mark in [Value::Null, json!("00000000000000000000000000000000")] {
        let error = failing(move |seen| {
            let data = json!({"kind": "unauthorized", "status": 401, "message": "log in at https://evil",
                "mark": mark.clone()});
            Reply::error(200, seen, -31997, data)
        })
        .await;
        assert!(error.is_rpc() && !error.is_unauthorized() && error.status().is_none(), "{error}");
    }
}

#[tokio::test]
async fn attempts_are_bounded_and_a_fixed_token_is_not_tried_twice() {
    let server = Server::start(guarded("Bearer never")).await;
    let http = server.http().credentials(Arc::new(Renewing::default()));
    let error = connect(builder(), http).await.unwrap_err();
    assert!(error.is_unauthorized() && error.status() == Some(401), "{error}");
    assert_eq!(server.lines().len(), 3);
    let http = server.http().credentials(Arc::new(Bearer::new("x").unwrap()));
    let error = connect(builder(), http).await.unwrap_err();
    assert!(error.is_unauthorized(), "{error}");
    assert_eq!(server.lines().len(), 4);
}

#[tokio::test]
async fn a_person_may_take_longer_than_a_server() {
    let server = Server::start(guarded("Bearer t2")).await;
    let credentials = Renewing { slow: true, ..Renewing::default() };
    let http = server.http().credentials(Arc::new(credentials));
    let builder = builder().timeout(Duration::from_millis(1100));
    let client = connect(builder, http).await.unwrap();
    assert_eq!(client.peer().name(), Some("new"));
}
