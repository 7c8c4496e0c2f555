//! Messages on their way from the exchanges to the reader.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Buf, Bytes};
use mcplane_proto::frame::lines;
use mcplane_proto::id::Id;
use tokio::io::ReadBuf;

/// Bytes that wait for the reader before exchanges are left alone for a while.
const INBOX_BYTES_MAX: usize = 256 * 1024;

/// Lines, each with its newline.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    queue: Mutex<Queue>,
    /// Each begins with the request on whose stream it came: see
    /// [`Http::attributed`](super::Http::attributed).
    is_attributed: bool,
}

#[derive(Debug, Default)]
struct Queue {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    ended: bool,
}

impl Inbox {
    pub(super) fn new(is_attributed: bool) -> Self {
        Self { is_attributed, ..Self::default() }
    }

    /// Adds a message. Its raw newlines, which are white space, become spaces.
    pub(super) fn push(&self, message: Bytes) {
        self.push_of(None, message);
    }

    /// The same of a message that came on the stream of this request.
    pub(super) fn push_of(&self, request: Option<&Id>, message: Bytes) {
        let mut queue = self.lock();
        if self.is_attributed {
            let of = match request {
                Some(Id::Integer(id)) => format!("{id} "),
                _ => "- ".to_owned(),
            };
            queue.bytes += of.len();
            queue.pieces.push_back(of.into());
        }
        if message.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            let mut line = Vec::with_capacity(message.len() + 1);
            lines::write(&mut line, &message);
            queue.bytes += line.len();
            queue.pieces.push_back(line.into());
        } else {
            queue.bytes += message.len() + 1;
            queue.pieces.extend([message, Bytes::from_static(b"\n")]);
        }
    }

    /// No more messages come after those that are there.
    pub(super) fn end(&self) {
        self.lock().ended = true;
    }

    /// Moves what fits into `buffer`. `true` if the reader has something to look at: bytes or the
    /// end.
    pub(super) fn read(&self, buffer: &mut ReadBuf<'_>) -> bool {
        let mut queue = self.lock();
        let before = buffer.filled().len();
        while buffer.remaining() > 0
            && let Some(piece) = queue.pieces.front_mut()
        {
            let len = piece.len().min(buffer.remaining());
            buffer.put_slice(piece.get(..len).unwrap_or_default());
            piece.advance(len);
            if piece.is_empty() {
                queue.pieces.pop_front();
            }
        }
        let read = buffer.filled().len() - before;
        queue.bytes -= read;
        read > 0 || queue.ended
    }

    pub(super) fn has_news(&self) -> bool {
        let queue = self.lock();
        !queue.pieces.is_empty() || queue.ended
    }

    /// Whether more messages may come before the reader has taken some.
    pub(super) fn has_room(&self) -> bool {
        self.lock().bytes < INBOX_BYTES_MAX
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_on_whose_stream_they_came_where_that_is_wanted() {
        let inbox = Inbox::new(true);
        inbox.push_of(Some(&Id::from(7)), Bytes::from_static(b"{}"));
        inbox.push_of(Some(&Id::from("8 ")), Bytes::from_static(b"[\n]"));
        inbox.push(Bytes::from_static(b"{}"));
        let mut space = [0; 64];
        let mut buffer = ReadBuf::new(&mut space);
        assert!(inbox.read(&mut buffer) && inbox.has_room());
        assert_eq!(buffer.filled(), b"7 {}\n- [ ]\n- {}\n");
        assert_eq!(inbox.lock().bytes, 0);
    }

    #[test]
    fn lines_come_out_whole_through_a_small_buffer() {
        let inbox = Inbox::default();
        inbox.push(Bytes::from_static(b"{\"a\":\r\n1}"));
        inbox.push(Bytes::from_static(b"{}"));
        let (mut out, mut space) = (Vec::new(), [0; 3]);
        loop {
            let mut buffer = ReadBuf::new(&mut space);
            if !inbox.read(&mut buffer) {
                break;
            }
            out.extend_from_slice(buffer.filled());
        }
        assert_eq!(out, b"{\"a\":  1}\n{}\n");
        assert!(inbox.has_room() && !inbox.has_news());
        inbox.end();
        assert!(inbox.has_news() && inbox.read(&mut ReadBuf::new(&mut space)));
    }
}
