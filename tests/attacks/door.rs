//! The ways in, and a client at each that says whatever bytes it likes. What comes back is kept as
//! text: a client that is attacking does not parse.

use std::{
    any::Any,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    LIMIT,
    client::{initialize, legacy_call, modern},
};

/// A kind of listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    Stdio,
    Tcp,
    Unix,
    Http,
    Sse,
    WebSocket,
}

impl Door {
    pub const ALL: [Self; 6] =
        [Self::Stdio, Self::Tcp, Self::Unix, Self::Http, Self::Sse, Self::WebSocket];

    /// The eras that are spoken here.
    pub const fn eras(self) -> &'static [Era] {
        match self {
            Self::Sse => &[Era::Legacy],
            _ => &[Era::Legacy, Era::Modern],
        }
    }
}

/// How a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// Of 2025-11-25, its session open; at `/sse` of 2024-11-05.
    Legacy,
    /// Of 2026-07-28.
    Modern,
}

impl Era {
    /// A good call of the tool `echo`.
    pub fn call(self, id: &str, message: &str) -> Value {
        let arguments = json!({"message": message});
        match self {
            Self::Legacy => legacy_call(id, "echo", arguments),
            Self::Modern => {
                modern(id, "tools/call", json!({"name": "echo", "arguments": arguments}))
            }
        }
    }
}

/// Where a door is.
#[derive(Clone, Debug)]
pub enum Place {
    /// HTTP, or lines, by the door.
    At(SocketAddr),
    Socket(PathBuf),
}

impl Place {
    pub const fn address(&self) -> SocketAddr {
        match self {
            Self::At(address) => *address,
            Self::Socket(_) => panic!("a socket has no address"),
        }
    }
}

/// A client inside, its handshake behind it.
pub struct Talk {
    voice: Voice,
    ear: Receiver<Vec<u8>>,
    heard: Vec<u8>,
    #[allow(dead_code, reason = "ends with the conversation")]
    other: Option<Box<dyn Any>>,
}

enum Voice {
    Lines(Box<dyn Write + Send>),
    WebSocket(TcpStream),
    /// A connection for each message, with these headers.
    Posts {
        address: SocketAddr,
        path: String,
        headers: String,
    },
}

impl Talk {
    /// Through pipes.
    pub fn over(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) -> Self {
        Self::new(Voice::Lines(Box::new(writer)), reader)
    }

    /// Through one of the doors that have a place.
    pub fn through(door: Door, place: &Place, era: Era) -> Self {
        let mut talk = match (door, place) {
            (Door::Unix, Place::Socket(path)) => {
                let stream = UnixStream::connect(path).unwrap();
                Self::over(stream.try_clone().unwrap(), stream)
            }
            (Door::Tcp, Place::At(address)) => {
                let stream = TcpStream::connect(address).unwrap();
                Self::over(stream.try_clone().unwrap(), stream)
            }
            (Door::WebSocket, Place::At(address)) => Self::websocket(*address),
            (Door::Sse, Place::At(address)) => Self::sse(*address),
            (Door::Http, Place::At(address)) => Self::http(*address, era),
            (door, place) => panic!("{door:?} is not at {place:?}"),
        };
        if era == Era::Legacy {
            talk.shake_hands();
        }
        talk
    }

    /// The handshake of 2025-11-25.
    pub fn shake_hands(&mut self) {
        self.say(initialize(0).to_string().as_bytes());
        assert!(self.until("\"protocolVersion\""), "no handshake: {}", self.heard());
        if let Voice::Posts { headers, .. } = &mut self.voice {
            let text = String::from_utf8_lossy(&self.heard);
            let session = text.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
            if let Some(session) = session {
                *headers =
                    format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
            }
        }
        self.say(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        self.forget();
    }

    fn new(voice: Voice, reader: impl Read + Send + 'static) -> Self {
        Self { voice, ear: listen(reader), heard: Vec::new(), other: None }
    }

    /// With what ends when the conversation does.
    pub fn holding(self, other: impl Any) -> Self {
        Self { other: Some(Box::new(other)), ..self }
    }

    fn http(address: SocketAddr, era: Era) -> Self {
        let headers = match era {
            Era::Legacy => String::new(),
            Era::Modern => {
                "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"
                    .to_owned()
            }
        };
        let voice = Voice::Posts { address, path: "/mcp".to_owned(), headers };
        Self::new(voice, std::io::empty())
    }

    /// A stream first, which says where to post.
    fn sse(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = "GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let voice = Voice::Posts { address, path: String::new(), headers: String::new() };
        let mut talk = Self::new(voice, stream);
        assert!(talk.until("\n\n"), "no stream: {}", talk.heard());
        let text = talk.heard();
        let place = text.lines().find_map(|line| line.strip_prefix("data:")).unwrap();
        if let Voice::Posts { path, .. } = &mut talk.voice {
            *path = place.trim().to_owned();
        }
        talk.forget();
        talk
    }

    fn websocket(address: SocketAddr) -> Self {
        let stream = upgraded(address, "/mcp");
        Self::new(Voice::WebSocket(stream.try_clone().unwrap()), stream)
    }

    /// Sends this as one message. That nobody listens any more is no failure here.
    pub fn say(&mut self, message: &[u8]) {
        match &mut self.voice {
            Voice::Lines(writer) => {
                let _ = writer.write_all(&[message, b"\n"].concat()).and_then(|()| writer.flush());
            }
            Voice::WebSocket(stream) => {
                let _ = stream.write_all(&frame(0x81, message));
            }
            Voice::Posts { address, path, headers } => {
                let head = format!(
                    "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                     Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
                     Content-Length: {}\r\n{headers}\r\n",
                    message.len()
                );
                let answer = said(*address, &[head.as_bytes(), message].concat());
                self.heard.extend(answer.as_bytes());
            }
        }
    }

    /// Listens until these words have come; `false` if the other side has hung up before.
    pub fn until(&mut self, words: &str) -> bool {
        loop {
            if self.heard().contains(words) {
                return true;
            }
            match self.ear.recv_timeout(LIMIT) {
                Ok(piece) => self.heard.extend(piece),
                Err(mpsc::RecvTimeoutError::Disconnected) => return false,
                Err(error) => panic!("{error}: {words} never came, but {}", self.heard()),
            }
        }
    }

    /// Listens until the other side hangs up.
    pub fn until_the_end(&mut self) {
        while let Ok(piece) = self.ear.recv_timeout(LIMIT) {
            self.heard.extend(piece);
        }
    }

    /// Everything that has been said here, and was not forgotten.
    pub fn heard(&self) -> String {
        String::from_utf8_lossy(&self.heard).into_owned()
    }

    pub fn forget(&mut self) {
        self.heard.clear();
    }
}

/// Whatever a stream says, until it ends.
fn listen(mut reader: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut piece = [0; 16 * 1024];
        while let Ok(count @ 1..) = reader.read(&mut piece) {
            if tell.send(piece[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    told
}

/// What a server says to these bytes until it hangs up, or has said nothing for as long as nothing
/// here takes.
pub fn said(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut reader = stream.try_clone().unwrap();
    reader.set_read_timeout(Some(LIMIT)).unwrap();
    // Whoever refuses a long body does not read it: both ways at once.
    let heard = thread::spawn(move || {
        let mut heard = Vec::new();
        let _ = reader.read_to_end(&mut heard);
        String::from_utf8_lossy(&heard).into_owned()
    });
    let _ = stream.write_all(bytes);
    heard.join().unwrap()
}

/// The head of a response to a request whose body does not come.
pub fn answered(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
    while !heard.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut piece) {
            Ok(count @ 1..) => heard.extend(&piece[..count]),
            Ok(_) | Err(_) => break,
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
    String::from_utf8_lossy(&heard).into_owned()
}

/// A connection that has become a WebSocket.
pub fn upgraded(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(upgrade(path, "").as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
    stream
}

/// The request for a WebSocket, with these headers beside its own.
pub fn upgrade(path: &str, headers: &str) -> String {
    let host = if headers.contains("Host:") { "" } else { "Host: localhost\r\n" };
    format!(
        "GET {path} HTTP/1.1\r\n{host}{headers}Connection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
}

/// A frame of a client, under a mask of zeros.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(short @ ..126), _) => frame.push(0x80 | short),
        (_, Ok(length)) => {
            frame.push(0x80 | 126);
            frame.extend(length.to_be_bytes());
        }
        _ => {
            frame.push(0x80 | 127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}
