//! Which client is told that an elicitation at a URL is complete: `notifications/elicitation/complete`
//! names the elicitation, but no call (2025-11-25 elicitation §Completion notifications).

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcplane::proto::message::{Message, Part};
use mcplane::server::relay::Line;
use serde::Deserialize;

/// Most elicitations that are remembered: the oldest is forgotten first.
const QUESTIONS_MAX: usize = 1024;

/// The longest `elicitationId` that is remembered, in bytes.
const NAME_BYTES_MAX: usize = 1024;

/// The elicitations at URLs of one upstream: the worker that asked, their id there, and the client.
#[derive(Default)]
pub(crate) struct Completions(Mutex<VecDeque<(usize, String, Line)>>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    elicitation_id: String,
}

impl Completions {
    /// Remembers a question that is put to a client, if it is at a URL.
    pub(super) fn asked(&self, worker: usize, question: &Message, line: &Line) {
        self.expect(worker, question.part(Part::Params).unwrap_or_default(), line);
    }

    fn expect(&self, worker: usize, params: &[u8], line: &Line) {
        if let Ok(Named { elicitation_id }) = serde_json::from_slice(params)
            && elicitation_id.len() <= NAME_BYTES_MAX
        {
            let mut asked = self.lock();
            if asked.len() >= QUESTIONS_MAX {
                asked.pop_front();
            }
            asked.push_back((worker, elicitation_id, line.clone()));
        }
    }

    /// The same for all elicitations of a -32042.
    pub(super) fn required(&self, worker: usize, elicitations: &[u8], line: &Line) {
        let all = serde_json::from_slice::<Vec<&serde_json::value::RawValue>>(elicitations);
        for one in all.unwrap_or_default() {
            self.expect(worker, one.get().as_bytes(), line);
        }
    }

    /// Tells the client that was asked that its elicitation is complete.
    pub(crate) fn done(&self, worker: usize, note: &Message) {
        let named = note.part(Part::Params).and_then(|json| serde_json::from_slice(json).ok());
        let Some(Named { elicitation_id }) = named else { return };
        let is_it = |(of, id, _): &(usize, String, Line)| *of == worker && *id == elicitation_id;
        let mut asked = self.lock();
        if let Some(at) = asked.iter().position(is_it)
            && let Some((_, _, line)) = asked.remove(at)
        {
            line.note(note.bytes().to_vec());
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(usize, String, Line)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
