//! Batches whose answers are not complete. Only 2025-03-26 has them.

use std::collections::HashMap;

/// The batches of one connection, by number.
#[derive(Default)]
pub(super) struct Batches {
    last: u64,
    reading: Option<u64>,
    open: HashMap<u64, Batch>,
}

#[derive(Default)]
struct Batch {
    replies: Vec<u8>,
    /// Requests that run beside the connection's task.
    awaited: usize,
}

impl Batches {
    /// A batch is being read from here on.
    pub(super) fn begin(&mut self) {
        self.last += 1;
        self.reading = Some(self.last);
        self.open.insert(self.last, Batch::default());
    }

    /// The batch that is being read.
    pub(super) const fn current(&self) -> Option<u64> {
        self.reading
    }

    /// One more of its answers comes later.
    pub(super) fn expect(&mut self, batch: u64) {
        if let Some(batch) = self.open.get_mut(&batch) {
            batch.awaited += 1;
        }
    }

    pub(super) fn reply(&mut self, batch: u64, reply: &[u8]) {
        if let Some(batch) = self.open.get_mut(&batch) {
            batch.replies.push(if batch.replies.is_empty() { b'[' } else { b',' });
            batch.replies.extend_from_slice(reply);
        }
    }

    /// An awaited answer, or none if the request was cancelled; the whole array if it was the last.
    pub(super) fn settle(&mut self, batch: u64, reply: Option<&[u8]>) -> Option<Vec<u8>> {
        if let Some(reply) = reply {
            self.reply(batch, reply);
        }
        if let Some(batch) = self.open.get_mut(&batch) {
            batch.awaited = batch.awaited.saturating_sub(1);
        }
        self.complete(batch)
    }

    /// The batch is read: the whole array if every answer is there already.
    pub(super) fn end(&mut self) -> Option<Vec<u8>> {
        let batch = self.reading.take()?;
        self.complete(batch)
    }

    /// A batch whose answers are complete. One of notifications has none at all.
    fn complete(&mut self, id: u64) -> Option<Vec<u8>> {
        let complete =
            self.reading != Some(id) && self.open.get(&id).is_some_and(|batch| batch.awaited == 0);
        let mut replies = complete.then(|| self.open.remove(&id)).flatten()?.replies;
        if !replies.is_empty() {
            replies.push(b']');
        }
        Some(replies)
    }
}
