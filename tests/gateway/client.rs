//! Clients written by hand: HTTP and lines, as far as the tests need them. They share nothing with
//! what is tested.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
};

use serde_json::{Value, json};

use crate::LIMIT;

/// One connection of HTTP/1.1.
pub struct Http {
    stream: BufReader<TcpStream>,
    /// What has come of an open stream and was not asked for yet.
    text: String,
}

/// A whole response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl Http {
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream), text: String::new() }
    }

    pub fn get(address: SocketAddr, path: &str) -> Answer {
        let mut http = Self::open(address);
        http.send("GET", path, &[], "");
        http.answer()
    }

    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) {
        let host = headers.iter().find(|(name, _)| *name == "Host");
        let host = host.map_or("localhost", |(_, host)| host);
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n");
        for (name, value) in headers.iter().filter(|(name, _)| *name != "Host") {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        self.stream.get_mut().write_all(head.as_bytes()).unwrap();
    }

    /// The head of a POST whose body has this header of its length, and the beginning of that body.
    pub fn begin(&mut self, path: &str, length: &str, body: &[u8]) {
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n");
        let json = "Content-Type: application/json\r\n\r\n";
        self.stream.get_mut().write_all(&[(head + json).as_bytes(), body].concat()).unwrap();
    }

    /// The status and the headers of a response.
    pub fn head(&mut self) -> (u16, HashMap<String, String>) {
        let line = self.line();
        let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no status: {line:?}"));
        let status = status.parse().unwrap();
        let mut headers = HashMap::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(':') else { return (status, headers) };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
    }

    /// A whole response.
    pub fn answer(&mut self) -> Answer {
        let (status, headers) = self.head();
        let body = match headers.get("content-length") {
            Some(bytes) => {
                let mut body = vec![0; bytes.parse().unwrap()];
                self.stream.read_exact(&mut body).unwrap();
                String::from_utf8(body).unwrap()
            }
            None if headers.contains_key("transfer-encoding") => {
                let mut body = String::new();
                while let Some(chunk) = self.chunk() {
                    body += &chunk;
                }
                body
            }
            None => String::new(),
        };
        Answer { status, headers, body }
    }

    /// The next message of an open stream; `None` at its end.
    pub fn event(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let message = data(event);
                self.text = rest.to_owned();
                match message {
                    Some(message) => return Some(message),
                    None => continue,
                }
            }
            let chunk = self.chunk()?;
            self.text += &chunk;
        }
    }

    /// Where the stream of 2024-11-05 says to post: its first event.
    pub fn endpoint(&mut self) -> String {
        let event = self.chunk().unwrap();
        assert!(event.starts_with("event: endpoint"), "{event:?}");
        event.lines().find_map(|line| line.strip_prefix("data:")).unwrap().trim().to_owned()
    }

    fn chunk(&mut self) -> Option<String> {
        let bytes = usize::from_str_radix(self.line().trim(), 16).unwrap();
        let mut chunk = vec![0; bytes + 2];
        self.stream.read_exact(&mut chunk).unwrap();
        chunk.truncate(bytes);
        (bytes > 0).then(|| String::from_utf8(chunk).unwrap())
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the connection was closed");
        line.trim_end().to_owned()
    }
}

impl Answer {
    /// Every message in the body, JSON or events.
    pub fn messages(&self) -> Vec<Value> {
        match self.headers.get("content-type").map(String::as_str) {
            Some("text/event-stream") => self.body.split("\n\n").filter_map(data).collect(),
            Some("application/json") => vec![self.json()],
            _ => Vec::new(),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The message of an event. A priming event has none.
fn data(event: &str) -> Option<Value> {
    let line = event.lines().find_map(|line| line.strip_prefix("data:"))?.trim();
    (!line.is_empty()).then(|| serde_json::from_str(line).unwrap())
}

/// A client of one endpoint, of either era.
pub struct Client {
    http: Http,
    path: String,
    pub session: Option<String>,
    token: Option<String>,
    last_id: i64,
}

impl Client {
    /// A client of 2026-07-28.
    pub fn modern(address: SocketAddr, path: &str) -> Self {
        Self {
            http: Http::open(address),
            path: path.to_owned(),
            session: None,
            token: None,
            last_id: 0,
        }
    }

    /// A client of 2025-11-25, its session open.
    pub fn legacy(address: SocketAddr, path: &str) -> Self {
        Self::modern(address, path).initialized()
    }

    /// One that says who it is, of 2026-07-28.
    pub fn known(address: SocketAddr, path: &str, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..Self::modern(address, path) }
    }

    /// The same client with a session of 2025-11-25.
    pub fn initialized(mut self) -> Self {
        let answer = self.post(&initialize(1));
        assert_eq!(answer.status, 200, "{answer:?}");
        self.session = Some(answer.headers["mcp-session-id"].clone());
        self.last_id = 1;
        let answer = self.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(answer.status, 202, "{answer:?}");
        self
    }

    /// As [`Client::post`], in a session of this revision.
    #[allow(dead_code, reason = "for `attacks`")]
    pub fn post_as(&mut self, revision: &str, message: &Value) -> Answer {
        let session = self.session.clone().unwrap();
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("Mcp-Session-Id", &session),
            ("MCP-Protocol-Version", revision),
        ];
        self.http.send("POST", &self.path, &headers, &message.to_string());
        self.http.answer()
    }

    /// Sends a message and takes the whole response.
    pub fn post(&mut self, message: &Value) -> Answer {
        self.begin(message);
        self.http.answer()
    }

    /// Sends a message.
    pub fn begin(&mut self, message: &Value) {
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let mut headers = vec![
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
        let params = &message["params"];
        if let Some(session) = &self.session {
            headers.push(("Mcp-Session-Id", session));
            headers.push(("MCP-Protocol-Version", "2025-11-25"));
        } else if params["_meta"].is_object() {
            headers.push(("MCP-Protocol-Version", "2026-07-28"));
            headers.push(("Mcp-Method", message["method"].as_str().unwrap()));
            let name = params["name"].as_str().or_else(|| params["uri"].as_str());
            headers.extend(name.map(|name| ("Mcp-Name", name)));
        }
        self.http.send("POST", &self.path, &headers, &message.to_string());
    }

    /// The stream of what belongs to no request (legacy).
    pub fn listen(&self, address: SocketAddr) -> Http {
        let mut http = Http::open(address);
        let session = self.session.as_deref().unwrap();
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let mut headers = vec![("Accept", "text/event-stream"), ("Mcp-Session-Id", session)];
        headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
        http.send("GET", &self.path, &headers, "");
        assert_eq!(http.head().0, 200);
        http
    }

    /// The request that [`Client::request`] would send.
    pub fn message(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        match self.session {
            Some(_) => {
                json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
            }
            None => modern(self.last_id, method, params),
        }
    }

    /// The response to a request.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let message = self.message(method, params);
        let answer = self.post(&message);
        let response = answer.messages().pop();
        let response = response.unwrap_or_else(|| panic!("no response: {answer:?}"));
        assert_eq!(response["id"], message["id"], "{response}");
        response
    }

    /// The response to the call of a tool.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The names in a list of tools, and the cursor of the next page.
    pub fn tools(&mut self) -> Vec<String> {
        let response = self.request("tools/list", json!({}));
        let tools = response["result"]["tools"].as_array().unwrap_or_else(|| panic!("{response}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// Messages in lines, over whatever.
pub struct Lines {
    reader: Box<dyn BufRead + Send>,
    writer: Box<dyn Write + Send>,
}

impl Lines {
    pub fn new(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) -> Self {
        Self { reader: Box::new(BufReader::new(reader)), writer: Box::new(writer) }
    }

    pub fn tcp(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Self::new(stream.try_clone().unwrap(), stream)
    }

    pub fn send(&mut self, message: &Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    pub fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    pub fn ask(&mut self, message: &Value) -> Value {
        self.send(message);
        self.receive()
    }

    /// With the handshake of 2025-11-25 behind it.
    pub fn initialized(mut self) -> Self {
        let response = self.ask(&initialize(0));
        assert_eq!(response["result"]["protocolVersion"], "2025-11-25", "{response}");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        self
    }
}

/// A request of 2026-07-28, of a client that can be asked.
pub fn modern(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

/// The call of a tool in the legacy era.
pub fn legacy_call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params})
}

pub fn initialize(id: i64) -> Value {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params})
}

/// The text that a tool gave back.
#[track_caller]
pub fn text(response: &Value) -> &str {
    let text = response["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text in {response}"))
}

/// The code and the text of an error.
#[track_caller]
pub fn error(response: &Value) -> (i64, &str) {
    let error = &response["error"];
    let code = error["code"].as_i64().unwrap_or_else(|| panic!("no error in {response}"));
    (code, error["message"].as_str().unwrap())
}
