//! The opening handshake, and a client that holds its server to the protocol.

use super::*;

#[tokio::test]
async fn the_server_refuses_what_is_no_handshake() {
    let server = Running::start().await;
    let good = server.request();
    let cases = [
        ("POST", good.replace("GET", "POST"), 405),
        ("HTTP/1.0", good.replace("HTTP/1.1", "HTTP/1.0"), 400),
        ("no upgrade", good.replace("upgrade: websocket\r\n", ""), 400),
        ("another upgrade", good.replace("websocket\r\n", "h2c\r\n"), 400),
        ("no connection", good.replace("connection: Upgrade\r\n", ""), 426),
        ("version 8", good.replace("version: 13", "version: 8"), 426),
        ("no version", good.replace("sec-websocket-version: 13\r\n", ""), 426),
        ("no key", good.replace("sec-websocket-key", "x-key"), 400),
        ("a short key", good.replace("bXBsZSBub25jZQ==", "bXBs"), 400),
        ("two keys", good.replace("\r\n\r\n", &format!("\r\n{KEY}\r\n\r\n")), 400),
        ("unknown subprotocols", offering("graphql, mqtt", &good), 400),
        ("a body", good.replace("\r\n\r\n", "\r\ncontent-length: 2\r\n\r\n{}"), 400),
        (
            "a foreign origin",
            good.replace("\r\n\r\n", "\r\norigin: https://evil.example\r\n\r\n"),
            403,
        ),
        ("an opaque origin", good.replace("\r\n\r\n", "\r\norigin: null\r\n\r\n"), 403),
        ("a foreign host", good.replace("host: 127.0.0.1", "host: rebound.example"), 421),
    ];
    for (case, request, status) in cases {
        let head = server.ask(&request).await.0;
        assert_eq!(head.split(' ').nth(1), Some(&*status.to_string()), "{case}: {head}");
        if status == 426 {
            assert!(head.contains("sec-websocket-version: 13"), "§4.4: {head}");
        }
    }
    server.serves().await;
    server.stop().await;
}

#[tokio::test]
async fn subprotocols_are_agreed_on() {
    let server = Running::start().await;
    let good = server.request();
    for (offered, chosen) in [("mcp", Some("mcp")), ("other, mcp", Some("mcp")), ("", None)] {
        let request = if offered.is_empty() { good.clone() } else { offering(offered, &good) };
        let (head, mut raw) = server.ask(&request).await;
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        assert!(head.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "§1.3");
        let line = chosen.map(|name| format!("sec-websocket-protocol: {name}\r\n"));
        assert_eq!(head.contains("sec-websocket-protocol"), line.is_some(), "{head}");
        assert!(head.contains(&line.unwrap_or_default()), "{head}");
        raw.send(FIN | TEXT, call(1, "echo").as_bytes()).await;
        assert_eq!(raw.message().await["id"], 1);
    }
    // A page of this machine is welcome.
    let local = good.replace("\r\n\r\n", "\r\norigin: http://localhost:5173\r\n\r\n");
    assert!(server.ask(&local).await.0.starts_with("HTTP/1.1 101"));
    server.stop().await;
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up() {
    let limits = limits().handshake(Duration::from_millis(100)).connections_max(1);
    let server = Running::with(service().0, limits, Config::default()).await;
    let mut slow = TcpStream::connect(&server.address).await.unwrap();
    slow.write_all(b"GET /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n").await.unwrap();
    wait(slow.read_to_end(&mut Vec::new())).await.unwrap();
    server.serves().await;
    server.stop().await;
}

#[tokio::test]
async fn a_full_server_says_when_to_come_back() {
    let server = Running::with(service().0, limits().connections_max(1), Config::default());
    let server = server.await;
    let first = server.raw().await;
    let error = server.connect(&Config::default()).await.unwrap_err();
    assert!(
        error.to_string().contains("503") && error.to_string().contains("after 1 s"),
        "{error}"
    );
    drop(first);
    server.serves().await;
    server.stop().await;
}

#[tokio::test]
async fn the_callers_check_and_headers_count() {
    struct Token;

    impl Authenticate for Token {
        fn authenticate<'a>(
            &'a self,
            head: &'a http::request::Parts,
        ) -> Work<'a, Result<std::sync::Arc<str>, Denied>> {
            let good = head.headers.get("authorization").is_some_and(|it| it == "Bearer good");
            let denied = Denied::unauthorized(HeaderValue::from_static("Bearer"));
            Box::pin(async move { if good { Ok("somebody".into()) } else { Err(denied) } })
        }
    }

    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), limits()).await.unwrap();
    let endpoint = Endpoint::builder(service().0).websocket(Config::default()).authenticate(Token);
    let server = Running::on(listener, endpoint);
    let error = server.connect(&Config::default()).await.unwrap_err().to_string();
    assert!(error.contains("401") && error.contains("valid credentials"), "{error}");
    let mut headers = HeaderMap::new();
    headers.insert("authorization", "Bearer good".parse().unwrap());
    let url = format!("ws://{}/mcp", server.address);
    websocket::connect_with(&url, &headers, &Config::default()).await.unwrap();

    headers.insert("sec-websocket-key", "mine".parse().unwrap());
    assert!(
        websocket::connect_with(&url, &headers, &Config::default()).await.unwrap_err().is_misuse()
    );
    for url in ["http://x/", "ws:///", "ws://user@x/", "nonsense"] {
        let error =
            websocket::connect_with(url, &HeaderMap::new(), &Config::default()).await.unwrap_err();
        assert!(error.is_misuse(), "{url}: {error}");
    }
    server.stop().await;
}

#[tokio::test]
async fn the_client_refuses_a_server_that_breaks_the_handshake() {
    const ANSWER: &str = "HTTP/1.1 101 x\r\nupgrade: websocket\r\nconnection: Upgrade\r\n";
    for (answer, why) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n".to_owned(), "200"),
        (ANSWER.to_owned() + "sec-websocket-accept: wrong\r\n", "does not answer our key"),
        (ANSWER.replace("websocket", "h2c"), "other than WebSocket"),
        (ANSWER.to_owned() + "{accept}sec-websocket-extensions: x\r\n", "extension"),
        (ANSWER.to_owned() + "{accept}sec-websocket-protocol: soap\r\n", "subprotocol"),
    ] {
        let url = fake(answer, Vec::new()).await.0;
        let error =
            websocket::connect_with(&url, &HeaderMap::new(), &Config::default()).await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[tokio::test]
async fn the_client_holds_the_server_to_the_protocol() {
    for (wire, code, why) in [
        (frame(FIN | TEXT, b"{}"), 1002, "masked"),
        (b"\x82\x02{}".to_vec(), 1003, "text frames"),
        (b"\x81\x01\xFF".to_vec(), 1007, "UTF-8"),
        (b"\x81\x7f\x00\x00\x00\x00\x7f\xff\xff\xff".to_vec(), 1009, "at most"),
        (b"\x88\x06\x03\xf3oops".to_vec(), 1011, "1011 oops"),
    ] {
        let answer = "HTTP/1.1 101 x\r\nupgrade: websocket\r\nconnection: upgrade\r\n{accept}";
        let (url, said) = fake(answer.to_owned(), wire).await;
        let mut socket =
            websocket::connect_with(&url, &HeaderMap::new(), &Config::default()).await.unwrap();
        let error = wait(socket.read(&mut [0; 64])).await.unwrap_err();
        assert!(error.to_string().contains(why), "{code}: {error}");
        let said = wait(said).await.unwrap();
        // A masked close frame: its first six bytes are head and mask.
        assert_eq!((said[0], said[1] & 0x80), (FIN | CLOSE, 0x80), "{code}");
        assert_eq!(u16::from_be_bytes([said[6] ^ said[2], said[7] ^ said[3]]), code);
    }
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn over_tls() {
    use mcplane::transport::tls::{ClientTls, ServerTls};
    let data = |name: &str| format!("{}/tests/data/test-only-{name}", env!("CARGO_MANIFEST_DIR"));
    let tls = ServerTls::from_pem_files(data("first.pem"), data("first.key.pem")).unwrap();
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), limits()).await.unwrap();
    let server = Running::on(
        listener.with_tls(tls),
        Endpoint::builder(service().0).websocket(Config::default()),
    );
    let tls = ClientTls::new().unwrap().ca_pem_file(data("ca.pem")).unwrap();
    let url = format!("wss://{}/mcp?x=1", server.address.replace("127.0.0.1", "localhost"));
    let socket = websocket::connect_with(&url, &HeaderMap::new(), &Config::default().tls(tls))
        .await
        .unwrap();
    let client = Client::builder("t", "1").connect(socket).await.unwrap();
    assert_eq!(echo(&client, "secret").await, "secret");
    let error = websocket::connect(&url, &HeaderMap::new()).await.unwrap_err();
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
    client.close().await;
    server.stop().await;
}
