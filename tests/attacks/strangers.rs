//! What speaks something else at a line listener, with a call inside: a browser that a page has sent,
//! or a program that has the wrong port. It is hung up on, and nothing is carried out.

use std::{io::Write as _, net::TcpStream, os::unix::net::UnixStream, thread, time::Duration};

use crate::{
    door::{Door, Era, Place, Talk},
    target::{Name, Target},
};

/// What a tool would say that ran.
const ECHO: &str = "this was carried out";

const DOORS: [Door; 2] = [Door::Tcp, Door::Unix];

/// What is said before the call, and whether the call comes in a piece of its own.
const WORDS: [(&str, &[u8], bool); 16] = [
    ("a browser's POST", POST, true),
    ("a browser's POST in one piece", POST, false),
    ("a form", FORM, true),
    ("a GET", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", true),
    ("a WebSocket", UPGRADE, true),
    ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false),
    ("a proxy's line", b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n", false),
    ("TLS, a line end in its randomness", b"\x16\x03\x01\x02\0\x01\n", false),
    ("STUN, its length two line ends", b"\n\n\0\x01\0\x10!\x12\xa4B\n", false),
    ("a greeting of mail", b"EHLO evil.example\r\n", false),
    ("a command of Redis", b"*1\r\n$4\r\nPING\r\n", false),
    ("words", b"hello\n", false),
    ("a text", b"\"hello\"\n", false),
    ("a number", b"7\n", false),
    ("half a call", b"{\"jsonrpc\":\"2.0\"\n", false),
    ("a mark of byte order", b"\xef\xbb\xbf", false),
];

const POST: &[u8] = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: keep-alive\r\n\
    Origin: http://evil.example\r\nContent-Type: text/plain;charset=UTF-8\r\n\
    Content-Length: 999\r\n\r\n";
const FORM: &[u8] = b"POST /form HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: null\r\n\
    Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 999\r\n\r\n--x\r\n\
    Content-Disposition: form-data; name=\"x\"\r\n\r\n";
const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
    Sec-WebSocket-Version: 13\r\n\r\n";

/// How often something is tried: at a new connection, and at one that has been of use.
pub const ATTEMPTS: usize = WORDS.len() * DOORS.len() * Name::ALL.len() * 2;

#[test]
fn what_speaks_something_else_calls_no_tool() {
    for name in Name::ALL {
        let target = Target::start(name);
        let before = target.calls();
        let mut calls = 0;
        for door in DOORS {
            for spoken in [false, true] {
                for words in WORDS {
                    says(&target, door, words, spoken);
                    calls += u64::from(spoken);
                }
            }
            let mut talk = target.talk(door, Era::Modern);
            talk.say(Era::Modern.call("call", ECHO).to_string().as_bytes());
            assert!(talk.until(ECHO), "the same call from a client: {}", talk.heard());
            calls += 1;
        }
        assert_eq!(target.calls(), before.map(|before| before + calls), "{name:?}");
    }
}

fn says(target: &Target, door: Door, words: (&str, &[u8], bool), spoken: bool) {
    let (name, bytes, apart) = words;
    let mut talk = Stranger::at(target.place(door));
    if spoken {
        let well = Era::Modern.call("well", "well").to_string() + "\n";
        talk.write(well.as_bytes());
        assert!(talk.talk.until("\"text\":\"well\""), "{name}: {}", talk.talk.heard());
        talk.talk.forget();
    }
    let call = Era::Modern.call("call", ECHO).to_string() + "\n";
    if apart {
        talk.write(bytes);
        thread::sleep(Duration::from_millis(5));
        talk.write(call.as_bytes());
    } else {
        talk.write(&[bytes, call.as_bytes()].concat());
    }
    talk.talk.until_the_end();
    let heard = talk.talk.heard();
    assert!(!heard.contains("\"result\"") && !heard.contains(ECHO), "{name}: {heard}");
}

/// A connection that nobody has shaken hands on.
struct Stranger {
    talk: Talk,
    stream: Box<dyn std::io::Write>,
}

impl Stranger {
    fn at(place: &Place) -> Self {
        match place {
            Place::At(address) => {
                let stream = TcpStream::connect(address).unwrap();
                let talk = Talk::over(stream.try_clone().unwrap(), std::io::sink());
                Self { talk, stream: Box::new(stream) }
            }
            Place::Socket(path) => {
                let stream = UnixStream::connect(path).unwrap();
                let talk = Talk::over(stream.try_clone().unwrap(), std::io::sink());
                Self { talk, stream: Box::new(stream) }
            }
        }
    }

    /// It may have been hung up on already.
    fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }
}
