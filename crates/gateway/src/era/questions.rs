//! What a legacy upstream asks in the middle of a call: passed on to the client whose call it is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcplane::proto::error::{Code, ErrorObject};
use mcplane::proto::id::Id;
use mcplane::proto::message::{Message, Part};
use mcplane::proto::method::Method;
use mcplane::proto::translate;
use mcplane::proto::version::{Era, Revision};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::park;
use crate::upstream::call::Call;
use crate::upstream::worker::{Command, Worker};

/// Most questions of one upstream that wait for an answer at once: people answer them.
const QUESTIONS_MAX: usize = 256;

/// The questions of one upstream that wait for an answer.
#[derive(Default)]
pub(crate) struct Questions {
    /// Those to legacy clients: a task waits for each, or for why it was taken back.
    asked: Mutex<HashMap<(usize, Id), oneshot::Sender<String>>>,
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
        asked.retain(|_, waiting| !waiting.is_closed());
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
        let (take_back, taken_back) = oneshot::channel::<String>();
        tokio::spawn(async move {
            let answer = tokio::select! {
                answer = asking.answer() => answer,
                Ok(reason) = taken_back => {
                    if let Some(request) = &call.seat().request {
                        request.take_back(&reason);
                    }
                    return;
                }
            };
            let command = match answer {
                // A call that ends takes its questions along. Its upstream still asks: it was
                // another call's.
                Err(_) if call.seat().request.is_none() => {
                    Command::Asked(life, call.caller.clone(), method, Box::new(question))
                }
                answer => Command::Reply(life, of, answer),
            };
            let _ = worker_of.send(command);
        });
        asked.insert((worker.number, id.clone()), take_back);
        None
    }

    /// The upstream takes a question back. A client that was asked already is told so; what it
    /// answers all the same is dropped.
    pub(crate) fn withdrawn(&self, worker: &Worker, id: &Id, note: &Message) {
        if let Some(waiting) = self.asked().remove(&(worker.number, id.clone())) {
            // It was answered a moment ago.
            let _ = waiting.send(reason(note));
        }
        self.parking.withdrawn(worker, id);
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<(usize, Id), oneshot::Sender<String>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why an upstream takes something back.
fn reason(note: &Message) -> String {
    #[derive(Deserialize)]
    struct Params {
        reason: Option<String>,
    }
    let params = note.part(Part::Params).and_then(|json| serde_json::from_slice(json).ok());
    let reason = params.and_then(|Params { reason }| reason);
    reason.unwrap_or_else(|| "the server took the question back".into())
}

/// What an upstream hears whose question the client cannot answer.
fn undeclared(client: Revision, lacking: &Value) -> ErrorObject {
    let why = format!("the client of this call ({client}) does not declare {lacking}");
    ErrorObject::new(Code::METHOD_NOT_FOUND, why)
        .with_data(&json!({"requiredCapabilities": lacking}))
}
