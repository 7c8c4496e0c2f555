//! Batches whose answers are not complete. Only 2025-03-26 has them.

use std::collections::HashMap;

use mcplane_proto::frame::Output;
use mcplane_proto::limits::MESSAGE_BYTES_MAX;
use mcplane_proto::message::write;

use super::room;
use crate::budget::{Budget, Charge};

/// Bytes of the answers that the batches of one connection have gathered, at most: each is answered
/// as one message, and no peer takes a longer one.
const GATHERED_BYTES_MAX: usize = MESSAGE_BYTES_MAX;

/// The batches of one connection, by number.
pub(super) struct Batches {
    last: u64,
    reading: Option<u64>,
    open: HashMap<u64, Batch>,
    /// Bytes of all answers that are gathered.
    gathered: usize,
    held: Charge,
    gathered_max: usize,
}

impl Default for Batches {
    fn default() -> Self {
        Self {
            last: 0,
            reading: None,
            open: HashMap::new(),
            gathered: 0,
            held: Charge::default(),
            gathered_max: GATHERED_BYTES_MAX,
        }
    }
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

    /// Answers a request that is not carried out, if there is no place for its answer.
    pub(super) fn refuse(&self, id: Option<&[u8]>, out: &mut Output) {
        if self.gathered >= self.gathered_max {
            out.error(id, &room::batch_is_full(self.gathered_max));
        }
    }

    /// Gathers an answer, or an error in its place if there is no room.
    pub(super) fn reply(&mut self, batch: u64, reply: &[u8], budget: &Budget) {
        let gathered = self.gathered + reply.len() + 1;
        let error = if gathered > self.gathered_max && self.gathered > 0 {
            room::no_room_in_batch(self.gathered_max)
        } else if !self.held.cover(budget, gathered) {
            room::no_room_for_answer(reply.len())
        } else {
            return self.append(batch, reply);
        };
        let mut refusal = Vec::new();
        write::error(&mut refusal, room::id_of(reply), &error);
        // An error that is no shorter than what it stands for is of no use.
        self.append(batch, if refusal.len() < reply.len() { &refusal } else { reply });
    }

    fn append(&mut self, batch: u64, reply: &[u8]) {
        if let Some(batch) = self.open.get_mut(&batch) {
            batch.replies.push(if batch.replies.is_empty() { b'[' } else { b',' });
            batch.replies.extend_from_slice(reply);
            self.gathered += reply.len() + 1;
        }
    }

    /// An awaited answer, or none if the request was cancelled; the whole array if it was the last.
    pub(super) fn settle(
        &mut self,
        batch: u64,
        reply: Option<&[u8]>,
        budget: &Budget,
    ) -> Option<Vec<u8>> {
        if let Some(reply) = reply {
            self.reply(batch, reply, budget);
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
        self.gathered = self.gathered.saturating_sub(replies.len());
        self.held.shrink(self.gathered);
        if !replies.is_empty() {
            replies.push(b']');
        }
        Some(replies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(id: u32, len: usize) -> Vec<u8> {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"{}"}}"#, "x".repeat(len)).into_bytes()
    }

    fn errors(array: &[u8]) -> Vec<Option<i64>> {
        let answers: Vec<serde_json::Value> = serde_json::from_slice(array).unwrap();
        for (at, answer) in answers.iter().enumerate() {
            assert_eq!(answer["id"], at, "{answer}");
        }
        answers.iter().map(|answer| answer["error"]["code"].as_i64()).collect()
    }

    #[test]
    fn what_is_gathered_is_limited_over_all_batches() {
        let (process, mut batches) = (Budget::new(1 << 30), Batches::default());
        batches.gathered_max = 20_000;
        for _ in 0..2 {
            batches.begin();
            batches.expect(batches.last);
        }
        let (first, second) = (1, 2);
        batches.reading = None;
        for (batch, id) in [(first, 0), (second, 0), (first, 1), (second, 1)] {
            batches.reply(batch, &answer(id, 9000), &process);
        }
        assert!(batches.gathered - process.used() < 1000, "all but short errors is charged");
        let mut refused = Output::new();
        batches.gathered_max = batches.gathered;
        batches.refuse(Some(b"7"), &mut refused);
        let refused: serde_json::Value = serde_json::from_slice(&refused).unwrap();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&7.into(), &(-32600).into()));

        for batch in [first, second] {
            let array = batches.settle(batch, Some(&answer(2, 1)), &process).unwrap();
            assert_eq!(errors(&array), [None, Some(-31999), None]);
        }
        assert_eq!((batches.gathered, process.used()), (0, 0));
        let mut welcome = Output::new();
        batches.refuse(Some(b"8"), &mut welcome);
        assert!(welcome.is_empty());
    }

    #[test]
    fn a_first_answer_may_be_as_long_as_it_likes_if_there_is_memory() {
        let mut batches = Batches { gathered_max: 10, ..Batches::default() };
        for (process, expected) in [(1 << 20, None), (1 << 14, Some(-31999))] {
            batches.begin();
            let last = batches.last;
            batches.reply(last, &answer(0, 20_000), &Budget::new(process));
            assert_eq!(errors(&batches.end().unwrap()), [expected]);
        }
    }
}
