//! `Lines`: however a stream is cut, the same lines come out, and they are those that a plain
//! split finds.

use bytes::{Bytes, BytesMut};
use mcplane_proto::frame::lines::{self, Lines};

/// Any bytes.
pub fn run(data: &[u8]) {
    let [max, cut, stream @ ..] = data else { return };
    let max = usize::from(*max);
    let expected = split(stream, max);
    assert_eq!(decode(stream, stream.len().max(1), max), expected, "in one piece");
    assert_eq!(decode(stream, 1, max), expected, "byte by byte");
    let size = usize::from(*cut).max(1);
    assert_eq!(decode(stream, size, max), expected, "in pieces of {size}");

    let mut written = Vec::new();
    lines::write(&mut written, stream);
    assert_eq!(written.len(), stream.len() + 1);
    let is_blank = stream.iter().all(u8::is_ascii_whitespace);
    let read = decode(&written, written.len(), stream.len());
    assert_eq!(read.len(), usize::from(!is_blank), "a message is one line");
}

/// Lines as the decoder finds them; `None` stands for one that is too long.
fn decode(stream: &[u8], size: usize, max: usize) -> Vec<Option<Bytes>> {
    let (mut lines, mut buffer) = (Lines::new(max), BytesMut::new());
    let mut found = Vec::new();
    for piece in stream.chunks(size) {
        buffer.extend_from_slice(piece);
        while let Some(line) = lines.next(&mut buffer) {
            found.push(line.ok());
        }
        assert!(buffer.len() <= max + 1, "what is kept is bounded");
    }
    found.extend(lines.finish(&mut buffer).map(Some));
    assert!(buffer.is_empty());
    found
}

/// The rules again, as plainly as they can be said.
fn split(stream: &[u8], max: usize) -> Vec<Option<Bytes>> {
    let mut pieces: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').collect();
    let last = pieces.pop().unwrap_or_default();
    let mut lines = Vec::new();
    for piece in pieces {
        let line = piece.strip_suffix(b"\r").unwrap_or(piece);
        if line.len() > max {
            lines.push(None);
        } else if !line.iter().all(u8::is_ascii_whitespace) {
            lines.push(Some(Bytes::copy_from_slice(line)));
        }
    }
    // A last line without a newline has a byte of grace, for a CR.
    if last.len() > max + 1 {
        lines.push(None);
    } else if !last.iter().all(u8::is_ascii_whitespace) {
        lines.push(Some(Bytes::copy_from_slice(last)));
    }
    lines
}
