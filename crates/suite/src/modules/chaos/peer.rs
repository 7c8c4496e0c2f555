//! A small client that shares no code with what it tests: Streamable HTTP of 2026-07-28 over plain
//! sockets, so that every byte of it can be wrong.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

/// How long a call of a well-behaved client may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Most bytes of an answer.
const ANSWER_MAX: usize = 16 << 20;

/// Where the subject listens.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) address: SocketAddr,
    pub(super) path: String,
}

/// An answer, as far as it came.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

impl Place {
    /// Reads `http://HOST:PORT/PATH`.
    pub(super) fn parse(url: &str) -> Option<Self> {
        let (address, path) = url.trim().strip_prefix("http://")?.split_once('/')?;
        Some(Self { address: address.parse().ok()?, path: format!("/{path}") })
    }

    pub(super) fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// A request with this body, whatever that is.
    pub(super) fn request(&self, body: &[u8], name: &str) -> Vec<u8> {
        let mut out = self.head(body.len(), name).into_bytes();
        out.extend_from_slice(body);
        out
    }

    /// The head of a request whose body has so many bytes.
    pub(super) fn head(&self, bytes: usize, name: &str) -> String {
        format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: \
             application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: \
             tools/call\r\nMcp-Name: {name}\r\nContent-Length: {bytes}\r\n\r\n",
            self.path, self.address
        )
    }

    /// A call of a tool as a request.
    pub(super) fn call(&self, id: u64, tool: &str, arguments: &Value) -> Vec<u8> {
        self.request(call(id, tool, arguments).to_string().as_bytes(), tool)
    }

    /// One call of `echo` on a connection of its own: whether its own answer came.
    ///
    /// # Errors
    /// What came instead.
    pub(super) fn echo(&self, id: u64) -> Result<(), String> {
        let mut stream = self.connect().map_err(|error| format!("cannot connect: {error}"))?;
        echo(self, &mut stream, id)
    }
}

/// A call of a tool as a message.
pub(super) fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "chaos", "version": "1"},
        },
        "name": tool, "arguments": arguments}})
}

/// One call of `echo` on an open connection.
///
/// # Errors
/// What came in the place of its answer.
pub(super) fn echo(place: &Place, stream: &mut TcpStream, id: u64) -> Result<(), String> {
    let text = format!("number {id}");
    let request = place.call(id, "echo", &json!({"message": text}));
    stream.write_all(&request).map_err(|error| format!("cannot write: {error}"))?;
    let answer = read(&mut BufReader::new(&*stream)).map_err(|error| unanswered(&error))?;
    is_answer(&answer, id, &text)
}

/// Why no answer came.
pub(super) fn unanswered(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("no answer within {PATIENCE:?}")
        }
        _ => format!("no answer: {error}"),
    }
}

/// Whether this answers the call of that number with that text, once.
fn is_answer(answer: &Answer, id: u64, text: &str) -> Result<(), String> {
    let wrong = || Err(format!("status {}: {}", answer.status, short(&answer.body)));
    let messages: Vec<Value> = match answer.body.starts_with('{') {
        true => serde_json::from_str(&answer.body).into_iter().collect(),
        false => {
            let data = answer.body.lines().filter_map(|line| line.strip_prefix("data:"));
            data.filter_map(|data| serde_json::from_str(data).ok()).collect()
        }
    };
    let mut own = messages.iter().filter(|message| message.get("id").is_some());
    let (Some(first), None) = (own.next(), own.next()) else { return wrong() };
    let said = first.pointer("/result/content/0/text").and_then(Value::as_str);
    match first.get("id").and_then(Value::as_u64) == Some(id) && said == Some(text) {
        true => Ok(()),
        false => wrong(),
    }
}

/// Reads one answer of HTTP/1.1: of a known length, in chunks, or up to the end.
pub(super) fn read(reader: &mut impl BufRead) -> io::Result<Answer> {
    let bad = || io::Error::from(io::ErrorKind::InvalidData);
    let mut line = String::new();
    let mut next = |reader: &mut _| {
        let reader: &mut dyn BufRead = reader;
        line.clear();
        match reader.read_line(&mut line)? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            _ => Ok(line.trim_end().to_owned()),
        }
    };
    let status = next(reader)?.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status: u16 = status.ok_or_else(bad)?;
    let (mut length, mut is_chunked) = (None, false);
    loop {
        let header = next(reader)?.to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        match header.split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse::<usize>().ok(),
            Some(("transfer-encoding", value)) => is_chunked = value.trim() == "chunked",
            _ => {}
        }
    }
    let mut body = Vec::new();
    match length {
        _ if is_chunked => loop {
            let size = usize::from_str_radix(&next(reader)?, 16).map_err(|_| bad())?;
            let begin = body.len();
            body.resize((begin + size).min(ANSWER_MAX), 0);
            reader.read_exact(body.get_mut(begin..).unwrap_or_default())?;
            next(reader)?;
            if size == 0 {
                break;
            }
        },
        Some(length) => {
            body.resize(length.min(ANSWER_MAX), 0);
            reader.read_exact(&mut body)?;
        }
        None => {
            reader.read_to_end(&mut body)?;
        }
    }
    Ok(Answer { status, body: String::from_utf8_lossy(&body).into_owned() })
}

/// As much of a text as a person reads.
pub(super) fn short(text: &str) -> String {
    let mut short: String = text.chars().take(120).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
