//! Questions to clients of 2026-07-28, which cannot be asked while they wait.
//!
//! The upstream's call goes on; the client's ends with `input_required` and a state that names the
//! parked call. When the client comes back with the answers, they go to the upstream, and the client
//! waits for the parked call again. A client that never comes back costs one call until its time is
//! over.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use mcplane::budget::Charge;
use mcplane::proto::id::Id;
use mcplane::proto::message::{self, Message, Part};
use mcplane::proto::method::Method;
use mcplane::proto::translate;
use mcplane::proto::types::{Entries, InputRequest};
use mcplane::proto::version::Revision;
use mcplane::server::relay::{Caller, Relayed};
use serde_json::value::RawValue;

use super::asked::{Parked, ParkedCall, Parking, Question};
use super::declined::Declined;
use crate::clock;
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::settle::{Reply, Way, fail, settle};
use crate::upstream::call::Call;
use crate::upstream::model::{Command, Pool, Worker};

/// How every state of ours begins. The rest is 128 random bits.
const PREFIX: &str = "mcplane.parked.";

/// A state that only asks the client to send the call again.
pub(super) const AGAIN: &str = "mcplane.again";

/// How long a client may take to come back: a person may have to decide.
const PARKED_TIME_MAX: Duration = Duration::from_secs(10 * 60);

/// How long a client may take to come back to a call that has ended, with answers that another of its
/// calls waits for.
const ENDED_TIME_MAX: Duration = Duration::from_secs(10);

impl Parking {
    pub(crate) fn count(&self) -> usize {
        self.calls().len()
    }

    /// How many other calls of this one's client are parked.
    pub(super) fn count_of(&self, call: &Arc<Call>) -> usize {
        let calls = self.calls();
        calls.values().filter(|place| place.call.is_beside(call)).count()
    }

    /// Puts a question to the client of a call.
    ///
    /// # Errors
    /// Why the client is not asked.
    pub(super) fn ask(
        &self,
        worker: &Arc<Worker>,
        call: &Arc<Call>,
        id: &Id,
        (question, charge): (Message, Charge),
        upstream: Revision,
    ) -> Result<(), Declined> {
        let entry = translate::question_to_modern(&question).map_err(Declined::Untranslatable)?;
        let method = question.method().unwrap_or(Method::ElicitationCreate);
        let request = {
            let mut life = call.life();
            let (parked, request) = life.park(Box::default).ok_or(Declined::ClientGone)?;
            parked.last_key += 1;
            parked.questions.push(Question {
                worker: Arc::clone(worker),
                life: worker.life(),
                id: id.clone(),
                method,
                message: question,
                _charge: charge,
                upstream,
                key: format!("q{}", parked.last_key),
                entry,
                is_told: false,
            });
            if let (Some(request), Some(sent)) = (&request, life.sent_mut()) {
                sent.kind = Some(call.kind_of(request));
            }
            request
        };
        // While the client is away, the question waits with the others.
        let sent_away = request.map_or(Ok(()), |request| self.send_away(call, request));
        sent_away.map_err(Declined::NoRandomness)
    }

    /// Takes a request that may be a client coming back to its parked call.
    pub(crate) fn resume(&self, pool: &Pool, request: Relayed) -> Resumed {
        let way = Way::to(&pool.shared.tally);
        let state = request.message().text(Part::RequestState).map(std::borrow::Cow::into_owned);
        let Some(state) = state.filter(|state| state.starts_with(PREFIX)) else {
            return Resumed::Not(request);
        };
        let digest = self.digest(&request);
        let place = {
            let mut calls = self.calls();
            let fits = |place: &ParkedCall| {
                place.digest == digest && place.call.caller.principal == request.caller().principal
            };
            calls.get(&state).is_some_and(fits).then(|| calls.remove(&state)).flatten()
        };
        let Some(ParkedCall { call, .. }) = place else {
            fail(request, &Failure::State, way);
            return Resumed::Answered;
        };
        let answers: Entries<Box<RawValue>> = request
            .message()
            .part(Part::InputResponses)
            .and_then(|json| serde_json::from_slice(json).ok())
            .unwrap_or_default();
        // One critical section: the upstream may answer as soon as it has the last answer.
        let mut life = call.life();
        let Some(parked) = life.questions() else {
            drop(life);
            fail(request, &Failure::GivenUp, way);
            return Resumed::Answered;
        };
        parked.questions.retain(|question| match answers.get(&question.key) {
            None => true,
            Some(answer) => {
                question.reply(answer);
                false
            }
        });
        let is_asking = !parked.questions.is_empty();
        if let Some((mut parked, kept)) = life.hear() {
            drop(life);
            parked.close(&call.caller);
            match kept.how {
                Ok((answer, peer)) => super::respond(request, &call, (&answer, &peer), false, way),
                Err(failure) => fail(request, &failure, way),
            }
            return Resumed::Answered;
        }
        let request = match is_asking {
            true => request,
            false => match life.resume(request) {
                Err(request) => request,
                Ok(_) => {
                    drop(life);
                    return Resumed::Again(call);
                }
            },
        };
        drop(life);
        // Not everything was answered, or the upstream asked more meanwhile.
        if self.send_away(&call, request).is_err() {
            call.abandon();
        }
        Resumed::Answered
    }

    /// The upstream takes a question back.
    pub(crate) fn withdrawn(&self, worker: &Worker, id: &Id) {
        let calls = self.calls();
        for place in calls.values() {
            if let Some(parked) = place.call.life().questions() {
                let is_it = |asked: &Question| asked.is_of(worker) && asked.id == *id;
                parked.questions.retain(|asked| !is_it(asked));
            }
        }
    }

    /// Cancels the calls whose clients did not come back: sooner if others wait for the place.
    pub(super) fn expire(&self, patience: Duration) {
        let now = clock::now();
        let expired: Vec<_> = {
            let mut calls = self.calls();
            for ParkedCall { call, .. } in calls.values() {
                if let Some((parked, kept)) = call.life().kept()
                    && now.duration_since(kept.at) >= ENDED_TIME_MAX
                {
                    parked.close(&call.caller);
                }
            }
            let late = |place: &ParkedCall| {
                let since = now.duration_since(place.since);
                let is_in_the_way = |call: &Call| {
                    call.life().sent().is_some_and(|sent| sent.place.worker.is_wanted())
                };
                since >= PARKED_TIME_MAX || since >= patience && is_in_the_way(&place.call)
            };
            calls.extract_if(|_, place| late(place)).map(|(_, place)| place.call).collect()
        };
        for call in expired {
            call.abandon();
        }
    }

    /// Ends a client's request with the questions of its call.
    fn send_away(&self, call: &Arc<Call>, request: Relayed) -> Result<(), getrandom::Error> {
        let state = format!("{PREFIX}{}", super::unguessable()?);
        let mut out = Vec::new();
        {
            let mut life = call.life();
            let questions = life.questions().map_or(&mut [][..], |parked| &mut parked.questions);
            questions.iter_mut().for_each(|asked| asked.is_told = true);
            let entries: Vec<_> =
                questions.iter().map(|asked| (asked.key.as_str(), &*asked.entry)).collect();
            translate::input_required(request.id_json(), &entries, &state, None, &mut out);
        }
        let (pool, call, since) = (Arc::clone(&call.pool), Arc::clone(call), clock::now());
        let digest = self.digest(&request);
        self.calls().insert(state, ParkedCall { call, since, digest });
        let way = Way::to(&pool.shared.tally);
        settle(request, Reply::Line(out, message::Outcome::Result), Outcome::Answered, way);
        Ok(())
    }

    fn digest(&self, request: &Relayed) -> u64 {
        let message = request.message();
        let parts = [Part::Method, Part::Name, Part::Uri, Part::Arguments];
        self.hasher.hash_one(parts.map(|part| message.part(part)))
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<String, ParkedCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of a request that may be a retry.
#[allow(clippy::large_enum_variant, reason = "the large one is what nearly every request is")]
pub(crate) enum Resumed {
    /// It belongs to no parked call.
    Not(Relayed),
    /// The client waits for its parked call again.
    Again(Arc<Call>),
    /// Its answer is on its way back.
    Answered,
}

impl Parked {
    /// The call ended while its client was away. What its upstream still asks belongs to another call
    /// of this client, which may still answer what it was told.
    pub(crate) fn ended(&mut self, caller: &Caller) {
        self.put_again(caller, |question| !question.is_told);
    }

    /// The client will not answer any more.
    pub(crate) fn close(&mut self, caller: &Caller) {
        self.put_again(caller, |_| true);
    }

    fn put_again(&mut self, caller: &Caller, which: fn(&Question) -> bool) {
        for question in self.questions.extract_if(.., |question| which(question)) {
            let Question { worker, life, method, message, .. } = question;
            let _ = worker.send(Command::Asked(life, caller.clone(), method, Box::new(message)));
        }
    }
}

impl Question {
    /// Whether it was asked on the connection that this worker has now.
    fn is_of(&self, worker: &Worker) -> bool {
        std::ptr::eq(&raw const *self.worker, worker) && self.life == worker.life()
    }

    /// Tells the upstream the client's answer.
    fn reply(&self, answer: &RawValue) {
        let answer = answer.get().as_bytes();
        let result = translate::answer_to_legacy(answer, self.method, self.upstream);
        let _ = self.worker.send(Command::Reply(self.life, self.id.clone(), Ok(result.into())));
    }
}

/// An upstream of 2025-11-25 wants the user to open URLs before it takes the call (-32042): the
/// client asks the user and then sends the call again.
pub(crate) fn ask_urls(request: Relayed, elicitations: &[u8], way: Way<'_>) {
    let questions = translate::url_questions(elicitations);
    for question in &questions {
        let parsed: Result<InputRequest, _> = serde_json::from_slice(question);
        let params = parsed.as_ref().ok().and_then(|asked| asked.params.as_deref());
        let params = params.map(|params| params.get().as_bytes());
        if let Err(lacking) =
            translate::can_answer(Method::ElicitationCreate, params, request.capabilities())
        {
            return fail(request, &Failure::UrlCapability(lacking), way);
        }
    }
    let keys: Vec<String> = (1..=questions.len()).map(|number| format!("url{number}")).collect();
    let entries: Vec<_> =
        keys.iter().map(String::as_str).zip(questions.iter().map(Vec::as_slice)).collect();
    let mut out = Vec::new();
    translate::input_required(request.id_json(), &entries, AGAIN, None, &mut out);
    settle(request, Reply::Line(out, message::Outcome::Result), Outcome::Answered, way);
}
