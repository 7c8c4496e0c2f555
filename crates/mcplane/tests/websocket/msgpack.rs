//! The subprotocol `mcp.msgpack`.

use super::*;

#[tokio::test]
async fn calls_in_both_eras() {
    let server = Running::start().await;
    let config = Config::default().protocols([Protocol::MessagePack, Protocol::Json]);
    for era in [EraChoice::Auto, EraChoice::Legacy] {
        let socket = server.connect(&config).await.unwrap();
        assert_eq!(socket.protocol(), Protocol::MessagePack);
        let client = Client::builder("t", "1").revision(era).connect(socket).await.unwrap();
        for text in ["", "short", &"é\n".repeat(50_000)] {
            assert_eq!(echo(&client, text).await, text);
        }
        client.close().await;
    }
    server.stop().await;
}

#[tokio::test]
async fn the_client_chooses_and_falls_back() {
    let server = Running::start().await;
    let good = server.request();
    for (offered, chosen) in [("mcp.msgpack, mcp", "mcp.msgpack"), ("mcp, mcp.msgpack", "mcp")] {
        let head = server.ask(&offering(offered, &good)).await.0;
        assert!(head.contains(&format!("sec-websocket-protocol: {chosen}\r\n")), "{head}");
    }
    // A server that knows `mcp` alone.
    let answer = "HTTP/1.1 101 x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
                  sec-websocket-protocol: mcp\r\n{accept}";
    let url = fake(answer.to_owned(), Vec::new()).await.0;
    let config = Config::default().protocols([Protocol::MessagePack, Protocol::Json]);
    let socket = websocket::connect_with(&url, &HeaderMap::new(), &config).await.unwrap();
    assert_eq!(socket.protocol(), Protocol::Json);
    server.stop().await;
}

#[tokio::test]
async fn text_and_what_is_no_messagepack_are_refused() {
    let server = Running::start().await;
    let request = offering("mcp.msgpack", &server.request());
    for (wire, code) in [
        (frame(FIN | TEXT, b"{}"), 1003),
        (frame(FIN | BINARY, b"\xc1"), 1007),
        (frame(FIN | BINARY, b"\xc4\x01x"), 1007),
        (frame(FIN | BINARY, &[0x91; 1000]), 1007),
    ] {
        let mut raw = server.ask(&request).await.1;
        raw.0.write_all(&wire).await.unwrap();
        assert_eq!(raw.closed().await, Some(code));
    }
    server.serves().await;
    server.stop().await;
}
