//! A small call over Streamable HTTP on one connection of the loopback.

use mcplane::transport::http::server::{ConnectionLimits, Endpoint, serve};
use mcplane::transport::listen::{Limits, Listener};
use tokio::net::TcpStream;

use crate::{CALL_MODERN, Done, exchange, run, server};

pub(crate) fn calls(times: u64) -> Done {
    run(async {
        let listener = Listener::bind(&"127.0.0.1:0".parse()?, Limits::default()).await?;
        let address = listener.local_address().to_string();
        let endpoint = Endpoint::new(server()?);
        let never = std::future::pending();
        tokio::spawn(serve(listener, endpoint, ConnectionLimits::default(), never));
        let address = address.trim_start_matches("tcp://");
        let mut stream = TcpStream::connect(address).await?;
        let mut request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: tools/call\r\nMcp-Name: echo\r\nContent-Length: {}\r\n\r\n",
            CALL_MODERN.len()
        )
        .into_bytes();
        request.extend_from_slice(CALL_MODERN);
        exchange(stream.split(), &request, (b"HTTP/1.1 200 ", b"}"), times).await
    })
}
