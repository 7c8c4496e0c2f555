//! Messages on their way from the exchanges to the reader.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Buf, Bytes};
use mcplane_proto::frame::lines;
use mcplane_proto::id::Id;
use tokio::io::ReadBuf;

use crate::error::Failure;
use crate::transport::Loss;

/// Bytes that wait for the reader before exchanges are left alone for a while.
const INBOX_BYTES_MAX: usize = 256 * 1024;

/// Lines, each with its newline, and between them what was lost.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    queue: Mutex<Queue>,
    tells_losses: AtomicBool,
    /// Each begins with the request on whose stream it came: see
    /// [`Http::attributed`](super::Http::attributed).
    is_attributed: bool,
}

#[derive(Debug, Default)]
struct Queue {
    pieces: VecDeque<Piece>,
    bytes: usize,
    ended: bool,
}

#[derive(Debug)]
enum Piece {
    Text(Bytes),
    Lost(Loss),
}

impl From<Bytes> for Piece {
    fn from(text: Bytes) -> Self {
        Self::Text(text)
    }
}

impl Inbox {
    pub(super) fn new(is_attributed: bool) -> Self {
        Self { is_attributed, ..Self::default() }
    }

    /// Whoever reads it asks for [`Inbox::next_loss`] from now on, too.
    pub(super) fn heard(&self) {
        self.tells_losses.store(true, Ordering::Relaxed);
    }

    /// A request was lost. `false` if the reader would not hear of it.
    pub(super) fn lost(&self, id: &Id, failure: &Failure) -> bool {
        let Id::Integer(id) = id else { return false };
        let tells_losses = self.tells_losses.load(Ordering::Relaxed);
        if tells_losses {
            let loss = Loss { id: *id, failure: failure.clone() };
            self.lock().pieces.push_back(Piece::Lost(loss));
        }
        tells_losses
    }

    /// What was lost, if every line before it was read.
    pub(super) fn next_loss(&self) -> Option<Loss> {
        match self.lock().pieces.pop_front_if(|piece| matches!(piece, Piece::Lost(_)))? {
            Piece::Lost(loss) => Some(loss),
            Piece::Text(_) => None,
        }
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
            queue.pieces.push_back(Bytes::from(of).into());
        }
        if message.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            let mut line = Vec::with_capacity(message.len() + 1);
            lines::write(&mut line, &message);
            queue.bytes += line.len();
            queue.pieces.push_back(Bytes::from(line).into());
        } else {
            queue.bytes += message.len() + 1;
            queue.pieces.extend([message, Bytes::from_static(b"\n")].map(Piece::Text));
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
            && let Some(Piece::Text(piece)) = queue.pieces.front_mut()
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
        read > 0 || queue.ended && queue.pieces.is_empty()
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
    use crate::error::Lost;

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
    fn what_was_lost_is_told_behind_the_lines_before_it_and_only_where_it_is_heard() {
        let failure = Failure::new(Lost::Broken, "gone");
        assert!(!Inbox::default().lost(&Id::from(1), &failure), "nobody asks");
        let inbox = Inbox::new(false);
        inbox.heard();
        assert!(!inbox.lost(&Id::from("1"), &failure), "no id of ours");
        inbox.push(Bytes::from_static(b"1"));
        assert!(inbox.lost(&Id::from(7), &failure));
        inbox.push(Bytes::from_static(b"2"));
        inbox.end();
        let mut space = [0; 64];
        let mut buffer = ReadBuf::new(&mut space);
        assert!(inbox.next_loss().is_none() && inbox.read(&mut buffer));
        assert!(!inbox.read(&mut buffer) && inbox.has_news(), "the loss comes first");
        assert_eq!(inbox.next_loss().map(|loss| loss.id()), Some(7));
        assert!(inbox.read(&mut buffer) && inbox.next_loss().is_none());
        assert_eq!(buffer.filled(), b"1\n2\n");
        assert!(inbox.read(&mut buffer), "the end comes last");
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
