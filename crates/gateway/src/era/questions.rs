//! What a legacy upstream asks in the middle of a call: passed on to the client whose call it is.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use mcplane::budget::{Budget, Charge};
use mcplane::proto::id::Id;
use mcplane::proto::message::{Message, Part};
use mcplane::proto::method::Method;
use mcplane::proto::translate;
use mcplane::proto::version::{Era, Revision};
use mcplane::server::relay::{Asking, Caller};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::oneshot;

use super::asked::{AllAsked, Asked, Of, Parking, Questions};
use super::declined::Declined;
use crate::clock;
use crate::upstream::call::Call;
use crate::upstream::client::Client;
use crate::upstream::model::{Command, Worker};

/// Most questions of one upstream that wait for an answer at once: people answer them.
const QUESTIONS_MAX: usize = 256;

/// The part of a gateway's memory that one upstream may take with what it says.
const UPSTREAM_SHARE: usize = 4;

impl Of {
    fn caller(&self) -> &Caller {
        match self {
            Self::Call(call) => &call.caller,
            Self::Client(client) => &client.caller,
        }
    }

    const fn call(&self) -> Option<&Arc<Call>> {
        match self {
            Self::Call(call) => Some(call),
            Self::Client(_) => None,
        }
    }

    /// The call was answered, which ends its questions.
    fn has_ended(&self) -> bool {
        self.call().is_some_and(|call| !call.is_open())
    }

    fn take_back(&self, reason: &str) {
        match self {
            Self::Call(call) => {
                if let Some(request) = call.life().request() {
                    request.take_back(reason);
                }
            }
            Self::Client(client) => client.line.take_back(reason),
        }
    }
}

impl Questions {
    /// Of an upstream whose clients may come back to these parked calls.
    pub(crate) fn with(parking: Arc<Parking>) -> Self {
        Self { parking, ..Self::default() }
    }

    /// Charges what the upstream says to this budget from here on.
    pub(crate) fn charge_to(&self, memory: &Budget) {
        self.memory.get_or_init(|| memory.share(memory.max() / UPSTREAM_SHARE));
    }

    /// Has a charge stand for so many bytes; `false` if there is no room for them.
    pub(crate) fn cover(&self, charge: &mut Charge, bytes: usize) -> bool {
        self.memory.get().is_none_or(|memory| charge.cover(memory, bytes))
    }

    /// A message that is kept for longer than what it came with, and its charge.
    ///
    /// # Errors
    /// There is no room for it.
    pub(crate) fn keep(&self, message: &Message) -> Result<(Message, Charge), Declined> {
        let (bytes, mut charge) = (message.bytes(), Charge::default());
        if !self.cover(&mut charge, bytes.len()) {
            return Err(Declined::NoRoom { what: "a message", bytes: bytes.len() });
        }
        // The rest of what was read with it is not kept.
        let own = Message::scan(Bytes::copy_from_slice(bytes));
        Ok((own.unwrap_or_else(|_| message.clone()), charge))
    }

    /// Passes a question on. `share` is how many calls of one client may wait for its answers.
    ///
    /// # Errors
    /// Why the client is not asked.
    pub(crate) fn ask(
        self: &Arc<Self>,
        worker: &Arc<Worker>,
        call: &Arc<Call>,
        id: &Id,
        method: Method,
        question: &Message,
        share: usize,
    ) -> Result<(), Declined> {
        let upstream = revision_of(worker);
        let mut asked = self.room()?;
        let others = asked.values().filter_map(|asked| asked.of.call());
        let others = others.filter(|other| other.is_beside(call)).map(Arc::as_ptr);
        let others = others.collect::<HashSet<_>>().len() + self.parking.count_of(call);
        if others >= share {
            return Err(Declined::Share { max: share });
        }
        let mut life = call.life();
        let lacking = life.request().and_then(|request| {
            let params = question.part(Part::Params);
            translate::can_answer(method, params, request.capabilities()).err()
        });
        if let Some(lacking) = lacking {
            let lacking = json!(lacking);
            if let Some(sent) = life.sent_mut() {
                sent.lacks = Some(lacking.clone());
            }
            return Err(Declined::Undeclared { client: call.revision, lacking });
        }
        if call.revision.era() == Era::Modern {
            drop(life);
            return self.park(worker, call, id, question, upstream);
        }
        let token = token_of(question);
        let number = token.as_ref().map(|(number, _)| *number);
        let params = translate::question(question, upstream, call.revision, number)
            .map_err(Declined::Params)?;
        let kept = self.keep(question)?;
        let asking = life.request().map(|request| {
            self.completions.asked(worker.number, &kept.0, &request.line());
            request.ask(method, params)
        });
        drop(life);
        let Some(Ok(asking)) = asking else {
            return Err(Declined::ClientGone);
        };
        asked.insert(
            (worker.number, id.clone()),
            wait(worker, id, asking, (Of::Call(Arc::clone(call)), token), (method, kept)),
        );
        Ok(())
    }

    /// Puts a question that belongs to no call to the client that has the worker to itself.
    ///
    /// # Errors
    /// Why the client is not asked.
    pub(crate) fn ask_client(
        &self,
        worker: &Arc<Worker>,
        client: &Arc<Client>,
        id: &Id,
        method: Method,
        question: &Message,
    ) -> Result<(), Declined> {
        let mut asked = self.room()?;
        let able = client.capabilities.raw().get().as_bytes();
        if let Err(lacking) = translate::can_answer(method, question.part(Part::Params), able) {
            let lacking = json!(lacking);
            return Err(Declined::Undeclared { client: client.revision, lacking });
        }
        let token = token_of(question);
        let number = token.as_ref().map(|(number, _)| *number);
        let params = translate::question(question, revision_of(worker), client.revision, number)
            .map_err(Declined::Params)?;
        let kept = self.keep(question)?;
        self.completions.asked(worker.number, &kept.0, &client.line);
        let Ok(asking) = client.line.ask(method, params) else {
            return Err(Declined::ClientGone);
        };
        asked.insert(
            (worker.number, id.clone()),
            wait(worker, id, asking, (Of::Client(Arc::clone(client)), token), (method, kept)),
        );
        Ok(())
    }

    /// The questions that wait, if one more may.
    fn room(&self) -> Result<MutexGuard<'_, AllAsked>, Declined> {
        let mut asked = self.asked();
        asked.retain(|_, asked| !asked.take_back.is_closed());
        if asked.len() + self.parking.count() >= QUESTIONS_MAX {
            return Err(Declined::Full { max: QUESTIONS_MAX });
        }
        Ok(asked)
    }

    /// Passes on a client's progress with a question.
    pub(crate) fn progress(&self, caller: &Caller, note: &Message) {
        let number = note.part(Part::ProgressOf).and_then(|json| serde_json::from_slice(json).ok());
        let asked = self.asked();
        let found = asked.values().find_map(|asked| match &asked.token {
            Some((token, own)) if Some(*token) == number => Some((asked, own)),
            _ => None,
        });
        if let Some((asked, own)) = found.filter(|(asked, _)| asked.of.caller() == caller) {
            let mut out = Vec::with_capacity(note.bytes().len());
            translate::progress(note, own, &mut out);
            let _ = asked.worker.send(Command::Note(asked.life, out));
        }
    }

    /// Puts a question to a client of 2026-07-28, which has to come back with the answer.
    fn park(
        &self,
        worker: &Arc<Worker>,
        call: &Arc<Call>,
        id: &Id,
        question: &Message,
        upstream: Revision,
    ) -> Result<(), Declined> {
        let len = question.bytes().len();
        let (question, mut charge) = self.keep(question)?;
        // What the client is told of it is as long.
        if !self.cover(&mut charge, 2 * len) {
            return Err(Declined::NoRoom { what: "a question", bytes: len });
        }
        self.parking.ask(worker, call, id, (question, charge), upstream)
    }

    /// Withdraws the questions whose clients did not answer, while others wait for the place.
    pub(crate) fn expire(&self, patience: Duration) {
        let now = clock::now();
        let late = |_: &(usize, Id), asked: &mut Asked| {
            let is_late = now.duration_since(asked.since) >= patience;
            is_late && asked.worker.is_wanted() && !asked.take_back.is_closed()
        };
        for ((_, id), late) in self.asked().extract_if(late) {
            let _ = late.take_back.send(Declined::TimedOut.to_string());
            let answer = Err(Declined::TimedOut.into());
            let _ = late.worker.send(Command::Reply(late.life, id, answer));
        }
        self.parking.expire(patience);
    }

    /// The upstream withdraws a question. A client that was asked already is told so; an answer that
    /// still comes is dropped.
    pub(crate) fn withdrawn(&self, worker: &Worker, id: &Id, note: &Message) {
        if let Some(asked) = self.asked().remove(&(worker.number, id.clone())) {
            // It was answered a moment ago.
            let _ = asked.take_back.send(reason(note));
        }
        self.parking.withdrawn(worker, id);
    }

    fn asked(&self) -> MutexGuard<'_, AllAsked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the answer to a question that was put to a client, or until it is withdrawn.
fn wait(
    worker: &Arc<Worker>,
    id: &Id,
    asking: Asking,
    (of, token): (Of, Option<(u64, Vec<u8>)>),
    (method, (question, charge)): (Method, (Message, Charge)),
) -> Asked {
    let (take_back, taken_back) = oneshot::channel::<String>();
    let (worker, life) = (Arc::clone(worker), worker.life());
    let asked = Asked {
        take_back,
        of: of.clone(),
        worker: Arc::clone(&worker),
        life,
        since: clock::now(),
        token,
    };
    let id = id.clone();
    tokio::spawn(async move {
        let _charge = charge;
        let answer = tokio::select! {
            answer = asking.answer() => answer,
            Ok(reason) = taken_back => return of.take_back(&reason),
        };
        let command = match answer {
            // A call that ends takes its questions along. Its upstream still asks: it was
            // another call's.
            Err(_) if of.has_ended() => {
                Command::Asked(life, of.caller().clone(), method, Box::new(question))
            }
            answer => Command::Reply(life, id, answer),
        };
        let _ = worker.send(command);
    });
    asked
}

/// A token for a question of which its upstream wants progress, and the upstream's own.
fn token_of(question: &Message) -> Option<(u64, Vec<u8>)> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let own = question.part(Part::ProgressToken)?;
    Some((LAST.fetch_add(1, Ordering::Relaxed) + 1, own.to_vec()))
}

fn revision_of(worker: &Worker) -> Revision {
    worker.peer.load().as_ref().map_or(Revision::LATEST_LEGACY, |peer| peer.revision)
}

/// The reason that an upstream gives for withdrawing something.
fn reason(note: &Message) -> String {
    #[derive(Deserialize)]
    struct Params {
        reason: Option<String>,
    }
    let params = note.part(Part::Params).and_then(|json| serde_json::from_slice(json).ok());
    let reason = params.and_then(|Params { reason }| reason);
    reason.unwrap_or_else(|| "the server took the question back".into())
}
