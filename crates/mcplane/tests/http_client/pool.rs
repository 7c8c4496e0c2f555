//! Connections are kept, shared and bounded.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use mcplane::transport::http::client::{Pool, PoolLimits};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::*;

fn get(url: &str) -> Request<Bytes> {
    Request::get(url).body(Bytes::new()).unwrap()
}

#[tokio::test]
async fn calls_one_after_the_other_take_one_connection() {
    let server = Server::start(|seen| async move {
        match seen.method() {
            "server/discover" => discovered(&seen),
            "tools/call" if seen.body["params"]["name"] == "s" => {
                let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": text("ok")});
                Reply::events(&format!("data: {answer}\n\n"))
            }
            _ => Reply::result(&seen, text("ok")),
        }
    })
    .await;
    let pool = Pool::new();
    let client = connect(builder(), server.http().pool(pool.clone())).await.unwrap();
    for call in 0..20 {
        client.call_tool(if call % 2 == 0 { "j" } else { "s" }, &()).await.unwrap();
    }
    assert!(server.seen().iter().all(|seen| seen.connection <= 2));
    assert!(server.connections.load(Ordering::SeqCst) <= 2, "{pool:?}");
}

#[tokio::test]
async fn json_calls_take_exactly_one_connection() {
    let server = Server::start(|seen| async move {
        if seen.method() == "server/discover" {
            discovered(&seen)
        } else {
            Reply::result(&seen, text("ok"))
        }
    })
    .await;
    let client = server.client().await.unwrap();
    for _ in 0..20 {
        client.call_tool("j", &()).await.unwrap();
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn http2_carries_many_calls_on_one_connection() {
    let server = Server::listen(true, |seen| async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if seen.method() == "server/discover" {
            discovered(&seen)
        } else {
            Reply::result(&seen, text("ok"))
        }
    })
    .await;
    let http = server.http().pool(Pool::new().http2());
    let client = connect(builder(), http).await.unwrap();
    let calls: Vec<_> = (0..30)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.call_tool("j", &()).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_number_of_connections_is_bounded_and_who_waits_gets_one() {
    let server = Server::start(|_| async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Reply::body(200, "x")
    })
    .await;
    let pool = Pool::with(PoolLimits { connections_max: 3, idle_max: 2, ..PoolLimits::default() });
    let fetches: Vec<_> = (0..20)
        .map(|_| {
            let (pool, request) = (pool.clone(), get(&server.url));
            tokio::spawn(async move { pool.fetch(request, 10, PATIENCE).await })
        })
        .collect();
    for fetch in fetches {
        assert_eq!(fetch.await.unwrap().unwrap().body(), "x");
    }
    let connections = server.connections.load(Ordering::SeqCst);
    assert!(connections < 20, "{connections}");
    assert!(format!("{pool:?}").contains("connections: 2, idle: 2"), "{pool:?}");
    // Room for another server is made by closing what is idle.
    let other = Server::start(|_| async { Reply::body(200, "y") }).await;
    for _ in 0..3 {
        assert_eq!(pool.fetch(get(&other.url), 10, PATIENCE).await.unwrap().body(), "y");
    }
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let server = Server::start(|_| async { Reply::body(200, "x") }).await;
    let limits = PoolLimits { idle_time_max: Duration::from_millis(50), ..PoolLimits::default() };
    let pool = Pool::with(limits);
    pool.fetch(get(&server.url), 10, PATIENCE).await.unwrap();
    assert!(format!("{pool:?}").contains("connections: 1"), "{pool:?}");
    let closed = async {
        while !format!("{pool:?}").contains("connections: 0") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, closed).await.expect("the connection stays");
}

#[tokio::test]
async fn a_kept_connection_that_has_died_costs_nothing() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    // Each connection answers once; the second request on it is met by the end of it.
    let served = tokio::spawn(async move {
        let mut count = 0;
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            count += 1;
            let mut buffer = [0; 4096];
            assert!(stream.read(&mut buffer).await.unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx").await.unwrap();
            if count == 2 {
                return count;
            }
            assert!(stream.read(&mut buffer).await.unwrap() > 0);
            drop(stream);
        }
    });
    let pool = Pool::new();
    for _ in 0..2 {
        assert_eq!(pool.fetch(get(&url), 10, PATIENCE).await.unwrap().body(), "x");
    }
    assert_eq!(served.await.unwrap(), 2);
}

#[tokio::test]
async fn a_fetch_is_bounded_in_size_and_time() {
    let server = Server::start(|seen| async move {
        if seen.path == "/slow" {
            std::future::pending::<()>().await;
        }
        Reply::body(302, "0123456789").header("location", "/elsewhere")
    })
    .await;
    let pool = Pool::new();
    let answer = pool.fetch(get(&server.url), 10, PATIENCE).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.body().len()), (302, 10));
    let error = pool.fetch(get(&server.url), 9, PATIENCE).await.unwrap_err();
    assert!(error.is_malformed(), "{error}");
    let slow = server.url.replace("/mcp", "/slow");
    let error = pool.fetch(get(&slow), 9, Duration::from_millis(50)).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    let error = pool.fetch(get("/relative"), 9, PATIENCE).await.unwrap_err();
    assert!(error.is_unreachable(), "{error}");
}
