//! Frames that RFC 6455 does not allow, each with a call behind it: the connection ends with the
//! code that the RFC names, and nothing is carried out.

use std::io::{Read as _, Write as _};

use crate::{
    LIMIT,
    door::{Door, Era, frame, upgraded},
    target::{Name, Target},
};

/// What a tool would say that ran.
const ECHO: &str = "this was carried out";

/// Frames, and the code that ends the connection.
const FRAMES: [(&str, &[u8], u16); 20] = [
    ("text that is not masked", b"\x81\x02{}", 1002),
    ("a reserved bit", b"\xc1\x80\0\0\0\0", 1002),
    ("another reserved bit", b"\x91\x80\0\0\0\0", 1002),
    ("a reserved opcode", b"\x83\x80\0\0\0\0", 1002),
    ("a reserved opcode of control", b"\x8b\x80\0\0\0\0", 1002),
    ("a continuation of nothing", b"\x80\x80\0\0\0\0", 1002),
    ("a message inside a message", b"\x01\x80\0\0\0\0\x81\x80\0\0\0\0", 1002),
    ("a ping in pieces", b"\x09\x80\0\0\0\0", 1002),
    ("a ping that is long", b"\x89\xfe\0\x7e\0\0\0\0", 1002),
    ("a length in two bytes that fits one", b"\x81\xfe\0\x05\0\0\0\0", 1002),
    ("a length in eight bytes that fits two", b"\x81\xff\0\0\0\0\0\0\0\x05\0\0\0\0", 1002),
    ("a length beyond 63 bits", b"\x81\xff\xff\0\0\0\0\0\0\0\0\0\0\0", 1002),
    ("a length beyond all memory", b"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 1009),
    ("a message beyond the limit", b"\x81\xff\0\0\0\0\x01\0\0\x01\0\0\0\0", 1009),
    ("half a close code", b"\x88\x81\0\0\0\0\x03", 1002),
    ("a close code that nobody may send", b"\x88\x82\0\0\0\0\x03\xed", 1002),
    ("a close code beyond all", b"\x88\x82\0\0\0\0\xff\xff", 1002),
    ("a reason that is no UTF-8", b"\x88\x83\0\0\0\0\x03\xe8\xff", 1007),
    ("text that is no UTF-8", b"\x81\x81\0\0\0\0\xff", 1007),
    ("a binary message", b"\x82\x82\0\0\0\0{}", 1003),
];

/// How often something is tried.
pub const ATTEMPTS: usize = FRAMES.len() * Name::ALL.len();

#[test]
fn no_broken_frame_calls_a_tool() {
    for name in Name::ALL {
        let target = Target::start(name);
        let before = target.calls();
        let address = target.place(Door::WebSocket).address();
        let call = Era::Modern.call("call", ECHO).to_string();
        for (what, bytes, code) in FRAMES {
            let mut socket = upgraded(address, "/mcp");
            socket.set_read_timeout(Some(LIMIT)).unwrap();
            // What comes behind the breach may meet a connection that is gone.
            let _ = socket.write_all(&[bytes, &frame(0x81, call.as_bytes())].concat());
            let mut heard = Vec::new();
            let _ = socket.read_to_end(&mut heard);
            let said = format!("{what} at {name:?}: {:?}", String::from_utf8_lossy(&heard));
            let [0x88, _, high, low, ..] = heard[..] else { panic!("no close: {said}") };
            assert_eq!(u16::from_be_bytes([high, low]), code, "{said}");
            assert!(!said.contains(ECHO), "{said}");
        }
        assert_eq!(target.calls(), before, "{name:?}");
        let mut talk = target.talk(Door::WebSocket, Era::Modern);
        talk.say(call.as_bytes());
        assert!(talk.until(ECHO), "the same call from a client: {}", talk.heard());
    }
}
