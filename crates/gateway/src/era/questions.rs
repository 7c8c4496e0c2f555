//! What a legacy upstream asks in the middle of a call: passed on to the client whose call it is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcplane::proto::error::{Code, ErrorObject};
use mcplane::proto::id::Id;
use mcplane::proto::message::{Message, Part};
use mcplane::proto::method::Method;
use mcplane::proto::translate;
use mcplane::proto::version::{Era, Revision};
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use super::park;
use crate::upstream::call::Call;
use crate::upstream::worker::{Command, Worker};

/// Most questions of one upstream that wait for an answer at once: people answer them.
const QUESTIONS_MAX: usize = 256;

/// The questions of one upstream that wait for an answer.
#[derive(Default)]
pub(crate) struct Questions {
    /// Those to legacy clients: a task waits for each.
    asked: Mutex<HashMap<(usize, Id), AbortHandle>>,
    pub(crate) parking: park::Parking,
}

impl Questions {
    /// Passes a question on.
    ///
    /// `Some`: what to answer the upstream at once, since the client cannot be asked that.
    pub(crate) fn ask(
        self: &Arc<Self>,
        worker: &Arc<Worker>,
        call: &Arc<Call>,
        id: &Id,
        method: Method,
        question: &Message,
        upstream: Revision,
    ) -> Option<ErrorObject> {
        let mut asked = self.asked();
        asked.retain(|_, waiting| !waiting.is_finished());
        if asked.len() + self.parking.count() >= QUESTIONS_MAX {
            let why = format!("{QUESTIONS_MAX} questions wait for an answer already");
            return Some(ErrorObject::new(Code::OVERLOADED, why));
        }
        let mut seat = call.seat();
        let lacking = seat.request.as_ref().and_then(|request| {
            let params = question.part(Part::Params);
            translate::can_answer(method, params, request.capabilities()).err()
        });
        if let Some(lacking) = lacking {
            let lacking = json!(lacking);
            let refusal = undeclared(call.revision, &lacking);
            seat.lacks = Some(lacking);
            return Some(refusal);
        }
        if call.revision.era() == Era::Modern {
            drop(seat);
            return self.parking.ask(worker, call, id, question, upstream).err();
        }
        let params = match translate::question(question, upstream, call.revision) {
            Ok(params) => params,
            Err(why) => return Some(ErrorObject::invalid_params(why)),
        };
        let asking = seat.request.as_ref().map(|request| request.ask(method, params));
        drop(seat);
        let Some(Ok(asking)) = asking else {
            return Some(ErrorObject::new(Code::INTERNAL_ERROR, "the client is gone"));
        };
        let (worker_of, life, of) = (Arc::clone(worker), worker.life(), id.clone());
        let (call, question) = (Arc::clone(call), question.clone());
        let waiting = tokio::spawn(async move {
            let command = match asking.answer().await {
                // A call that ends takes its questions along. Its upstream still asks: it was
                // another call's.
                Err(_) if call.seat().request.is_none() => {
                    Command::Asked(life, call.caller.clone(), method, Box::new(question))
                }
                answer => Command::Reply(life, of, answer),
            };
            let _ = worker_of.send(command);
        });
        asked.insert((worker.number, id.clone()), waiting.abort_handle());
        None
    }

    /// The upstream takes a question back. A client that was asked already may still answer it; the
    /// answer is dropped.
    pub(crate) fn withdrawn(&self, worker: &Worker, id: &Id) {
        if let Some(waiting) = self.asked().remove(&(worker.number, id.clone())) {
            waiting.abort();
        }
        self.parking.withdrawn(worker, id);
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<(usize, Id), AbortHandle>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an upstream hears whose question the client cannot answer.
fn undeclared(client: Revision, lacking: &Value) -> ErrorObject {
    let why = format!("the client of this call ({client}) does not declare {lacking}");
    ErrorObject::new(Code::METHOD_NOT_FOUND, why)
        .with_data(&json!({"requiredCapabilities": lacking}))
}
