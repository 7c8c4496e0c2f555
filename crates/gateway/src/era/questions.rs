//! What a legacy upstream asks in the middle of a call: passed on to the client whose call it is.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcplane::budget::{Budget, Charge};
use mcplane::proto::error::{Code, ErrorObject};
use mcplane::proto::id::Id;
use mcplane::proto::message::{Message, Part};
use mcplane::proto::method::Method;
use mcplane::proto::translate;
use mcplane::proto::version::{Era, Revision};
use mcplane::server::relay::{Asking, Caller};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::completions::Completions;
use super::park;
use crate::clock;
use crate::upstream::call::Call;
use crate::upstream::greeting::Client;
use crate::upstream::worker::{Command, Worker};

/// Most questions of one upstream that wait for an answer at once: people answer them.
const QUESTIONS_MAX: usize = 256;

/// The questions of one upstream that wait for an answer.
#[derive(Default)]
pub(crate) struct Questions {
    /// Those to legacy clients: a task waits for each, or for why it was taken back.
    asked: Mutex<AllAsked>,
    pub(crate) parking: Arc<park::Parking>,
    pub(crate) completions: Completions,
    /// For what its upstream has said, and nobody has taken over yet.
    memory: OnceLock<Budget>,
}

/// The part of a gateway's memory that one upstream may take with what it says.
const UPSTREAM_SHARE: usize = 4;

/// One of them.
struct Asked {
    take_back: oneshot::Sender<String>,
    of: Of,
    worker: Arc<Worker>,
    life: u32,
    since: Instant,
    /// What the client's progress names, and what that is for the upstream, as JSON.
    token: Option<(u64, Vec<u8>)>,
}

/// By the worker that asked, and its id there.
type AllAsked = HashMap<(usize, Id), Asked>;

/// Whose it is.
#[derive(Clone)]
enum Of {
    Call(Arc<Call>),
    /// Of the client that has the worker to itself: it was asked outside of any call.
    Client(Arc<Client>),
}

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

    /// Its answer has gone to the client, and questions with it.
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
    pub(crate) fn with(parking: Arc<park::Parking>) -> Self {
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
    pub(crate) fn keep(&self, message: &Message) -> Result<(Message, Charge), ErrorObject> {
        let (bytes, mut charge) = (message.bytes(), Charge::default());
        if !self.cover(&mut charge, bytes.len()) {
            return Err(no_room(&format!("a message of {} bytes", bytes.len())));
        }
        // The rest of what was read with it is not kept.
        let own = Message::scan(Bytes::copy_from_slice(bytes));
        Ok((own.unwrap_or_else(|_| message.clone()), charge))
    }

    /// Passes a question on. `share` is how many calls of one client may wait for its answers.
    ///
    /// `Some`: what to answer the upstream at once, since the client cannot be asked that.
    pub(crate) fn ask(
        self: &Arc<Self>,
        worker: &Arc<Worker>,
        call: &Arc<Call>,
        id: &Id,
        method: Method,
        question: &Message,
        share: usize,
    ) -> Option<ErrorObject> {
        let upstream = revision_of(worker);
        let mut asked = match self.room() {
            Ok(asked) => asked,
            Err(error) => return Some(error),
        };
        let others = asked.values().filter_map(|asked| asked.of.call());
        let others = others.filter(|other| is_one_client(other, call)).map(Arc::as_ptr);
        let others = others.collect::<HashSet<_>>().len() + self.parking.count_of(call);
        if others >= share {
            let why = format!("{share} calls of this client wait for an answer of it already");
            return Some(ErrorObject::new(Code::OVERLOADED, why));
        }
        let mut life = call.life();
        let lacking = life.request().and_then(|request| {
            let params = question.part(Part::Params);
            translate::can_answer(method, params, request.capabilities()).err()
        });
        if let Some(lacking) = lacking {
            let lacking = json!(lacking);
            let refusal = undeclared(call.revision, &lacking);
            if let Some(sent) = life.sent_mut() {
                sent.lacks = Some(lacking);
            }
            return Some(refusal);
        }
        if call.revision.era() == Era::Modern {
            drop(life);
            return self.park(worker, call, id, question, upstream).err();
        }
        let token = token_of(question);
        let number = token.as_ref().map(|(number, _)| *number);
        let params = match translate::question(question, upstream, call.revision, number) {
            Ok(params) => params,
            Err(why) => return Some(ErrorObject::invalid_params(why)),
        };
        let kept = match self.keep(question) {
            Ok(kept) => kept,
            Err(error) => return Some(error),
        };
        let asking = life.request().map(|request| {
            self.completions.asked(worker.number, &kept.0, &request.line());
            request.ask(method, params)
        });
        drop(life);
        let Some(Ok(asking)) = asking else {
            return Some(client_gone());
        };
        asked.insert(
            (worker.number, id.clone()),
            wait(worker, id, asking, (Of::Call(Arc::clone(call)), token), (method, kept)),
        );
        None
    }

    /// Puts a question that belongs to no call to the client that has the worker to itself.
    ///
    /// `Some`: what to answer the upstream at once, since the client cannot be asked that.
    pub(crate) fn ask_client(
        &self,
        worker: &Arc<Worker>,
        client: &Arc<Client>,
        id: &Id,
        method: Method,
        question: &Message,
    ) -> Option<ErrorObject> {
        let mut asked = match self.room() {
            Ok(asked) => asked,
            Err(error) => return Some(error),
        };
        let able = client.capabilities.raw().get().as_bytes();
        if let Err(lacking) = translate::can_answer(method, question.part(Part::Params), able) {
            return Some(undeclared(client.revision, &json!(lacking)));
        }
        let token = token_of(question);
        let number = token.as_ref().map(|(number, _)| *number);
        let params = translate::question(question, revision_of(worker), client.revision, number);
        let params = match params {
            Ok(params) => params,
            Err(why) => return Some(ErrorObject::invalid_params(why)),
        };
        let kept = match self.keep(question) {
            Ok(kept) => kept,
            Err(error) => return Some(error),
        };
        self.completions.asked(worker.number, &kept.0, &client.line);
        let Ok(asking) = client.line.ask(method, params) else {
            return Some(client_gone());
        };
        asked.insert(
            (worker.number, id.clone()),
            wait(worker, id, asking, (Of::Client(Arc::clone(client)), token), (method, kept)),
        );
        None
    }

    /// The questions that wait, if one more may.
    fn room(&self) -> Result<MutexGuard<'_, AllAsked>, ErrorObject> {
        let mut asked = self.asked();
        asked.retain(|_, asked| !asked.take_back.is_closed());
        if asked.len() + self.parking.count() >= QUESTIONS_MAX {
            let why = format!("{QUESTIONS_MAX} questions wait for an answer already");
            return Err(ErrorObject::new(Code::OVERLOADED, why));
        }
        Ok(asked)
    }

    /// A client tells how far it is with a question.
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
    ) -> Result<(), ErrorObject> {
        let len = question.bytes().len();
        let (question, mut charge) = self.keep(question)?;
        // What the client is told of it is as long.
        if !self.cover(&mut charge, 2 * len) {
            return Err(no_room(&format!("a question of {len} bytes")));
        }
        self.parking.ask(worker, call, id, (question, charge), upstream)
    }

    /// Gives up the questions whose clients did not answer, while others wait for the place.
    pub(crate) fn expire(&self, patience: Duration) {
        let now = clock::now();
        let late = |_: &(usize, Id), asked: &mut Asked| {
            let is_late = now.duration_since(asked.since) >= patience;
            is_late && asked.worker.is_wanted() && !asked.take_back.is_closed()
        };
        for ((_, id), late) in self.asked().extract_if(late) {
            let why = "the client did not answer, and others wait";
            let _ = late.take_back.send(why.into());
            let error = ErrorObject::new(Code::HANDLER_TIMEOUT, why);
            let _ = late.worker.send(Command::Reply(late.life, id, Err(error)));
        }
        self.parking.expire(patience);
    }

    /// The upstream takes a question back. A client that was asked already is told so; what it
    /// answers all the same is dropped.
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

/// Waits for the answer to a question that was put to a client, or until it is taken back.
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

/// What an upstream hears whose question nobody is there to answer.
pub(super) fn client_gone() -> ErrorObject {
    ErrorObject::new(Code::INTERNAL_ERROR, "the client is gone")
}

/// What is said instead of what there is no room for.
pub(crate) fn no_room(what: &str) -> ErrorObject {
    let why = format!("there is no room for {what} of the server, while others wait");
    ErrorObject::new(Code::OVERLOADED, why).with_data(&json!({"retry": true}))
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

/// Whether two calls are two of one client: of one principal, or else of one connection.
pub(super) fn is_one_client(one: &Arc<Call>, other: &Arc<Call>) -> bool {
    let (a, b) = (&one.caller, &other.caller);
    let is_same =
        a.principal == b.principal && (a.principal.is_some() || a.connection == b.connection);
    is_same && !Arc::ptr_eq(one, other)
}

/// What an upstream hears whose question the client cannot answer.
fn undeclared(client: Revision, lacking: &Value) -> ErrorObject {
    let why = format!("the client of this call ({client}) does not declare {lacking}");
    ErrorObject::new(Code::METHOD_NOT_FOUND, why)
        .with_data(&json!({"requiredCapabilities": lacking}))
}
