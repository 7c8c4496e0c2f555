//! What one connection remembers: its session, its catalog, what runs and what is not sent yet.

mod routes;

use std::sync::Arc;
use std::sync::atomic::Ordering;
#[cfg(feature = "http")]
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::frame::Output;
use mcplane_proto::id::Id;
use mcplane_proto::message::{Message, Part, ScanError, ScanFailure, is_batch, split_batch};
use mcplane_proto::method::Method;
use mcplane_proto::session::{ServerEvent, ServerSession};
use mcplane_proto::version::Revision;
use serde_json::json;
use tokio::sync::{broadcast, oneshot};
use tokio::task::AbortHandle;

use super::batches::Batches;
use super::catalog::Catalog;
use super::context::{ASK_TIMEOUT, Event, Reply, Stop};
use super::outlet::{Charged, Events};
use super::relay::{Cancel, Hop};
use super::room;
use super::{Change, Service};
use routes::Routes;
#[cfg(feature = "http")]
pub(crate) use routes::{Cut, Then};
#[cfg(not(feature = "http"))]
use routes::{Cut, Then};

use crate::budget::{Budget, Charge, FREE_BYTES};
use crate::clock;
use crate::error::Result;
use crate::stages::Stage;

/// Unsent bytes above which no more messages are taken in, from the peer or from handlers: the peer
/// does not read its answers.
const OUT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The same while memory is short, and the step in which unsent bytes are charged.
const OUT_BYTES_STEP: usize = 64 * 1024;

/// Room for output that a connection keeps, in bytes.
const OUT_BYTES_KEPT: usize = 1024 * 1024;

/// Why a question is taken back when its request has ended.
const ENDED: &str = "the request was cancelled";

/// A question of ours: the request that it was asked for, and who waits for the answer.
pub(crate) type Asked = (Option<Id>, oneshot::Sender<Result<Bytes, ErrorObject>>);

/// A request that is not answered in the connection's task.
pub(crate) struct InFlight {
    pub(super) work: Work,
    /// The batch that its answer belongs to.
    pub(super) batch: Option<u64>,
    /// The exchange that everything about it belongs to.
    pub(super) route: Option<u64>,
    /// For its text, which is kept until it is answered.
    _charge: Charge,
}

/// Who works on a request.
pub(super) enum Work {
    /// A handler in a task of its own.
    Task(Arc<Stop>, AbortHandle),
    /// A relay's upstream.
    Elsewhere(Arc<dyn Cancel>),
    /// Nobody: it waits to be told so.
    Refused,
}

impl InFlight {
    fn cancel(&self) {
        match &self.work {
            Work::Task(stop, task) => {
                stop.raise();
                task.abort();
            }
            Work::Elsewhere(request) => request.cancel(),
            Work::Refused => {}
        }
    }
}

/// What one connection remembers between two messages.
pub(crate) struct Connection {
    pub(super) service: Service,
    pub(crate) session: ServerSession<Asked, InFlight>,
    catalog: Arc<Catalog>,
    generation: u64,
    pub(crate) events: Events,
    /// Complete lines that are not sent yet.
    pub(crate) out: Output,
    pub(super) budget: Budget,
    /// For the output.
    pub(super) held: Charge,
    /// For the request that is being taken in.
    taking: Charge,
    /// For the beginning of a message that is not whole yet.
    coming: Charge,
    batches: Batches,
    routes: Option<Routes>,
    /// Where requests go that are passed on.
    pub(super) hop: Option<Box<Hop>>,
}

impl Connection {
    pub(crate) fn new(service: Service) -> Self {
        let hop = service.shared.relay.as_ref();
        let hop = hop.map(|relay| Box::new(Hop::new(Arc::clone(relay), service.principal.clone())));
        let config = hop.as_ref().map(|hop| hop.config());
        Self {
            session: ServerSession::new(
                config.unwrap_or_else(|| Arc::clone(&service.shared.config)),
            ),
            hop,
            generation: service.shared.generation.load(Ordering::Acquire),
            catalog: service.catalog(),
            events: Events::new(
                service.shared.budget.clone(),
                Arc::clone(&service.shared.refusals),
            ),
            budget: service.shared.budget.clone(),
            held: Charge::default(),
            taking: Charge::default(),
            coming: Charge::default(),
            out: Output::new(),
            batches: Batches::default(),
            routes: None,
            service,
        }
    }

    /// A connection that lasts longer than one request, with a budget of its own.
    pub(crate) fn lasting(mut self) -> Self {
        let budget = self.budget.connection(self.service.principal.as_ref());
        self.charge_to(&budget);
        if let Some(hop) = &mut self.hop {
            hop.number();
            self.session = ServerSession::new(hop.config());
        }
        self
    }

    /// Charges everything from here on to another budget.
    pub(crate) fn charge_to(&mut self, budget: &Budget) {
        if self.budget.is(budget) {
            return;
        }
        self.budget.clone_from(budget);
        self.events.charge_to(budget);
    }

    /// What everything is charged to.
    pub(crate) const fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Whether more messages may be taken in, from the peer or from handlers.
    pub(crate) fn has_room(&self) -> bool {
        self.out.backlog() < OUT_BYTES_STEP
            || self.out.backlog() < OUT_BYTES_MAX && !self.budget.is_used_up()
    }

    /// Charges what has come of a message that is not whole yet, and makes room for the rest; `false`,
    /// and the peer is told, if there is no room.
    pub(crate) fn holds(&mut self, input: &mut BytesMut) -> bool {
        let len = input.len();
        self.coming.shrink(input.capacity());
        if self.coming.cover(&self.budget, len) {
            self.budget.make_room_for_input(input, &mut self.coming);
            return true;
        }
        let start = self.out.len();
        self.out.error(None, &room::no_room_for_request(len));
        self.end(start, None, Then::End);
        self.coming.shrink(0);
        false
    }

    /// Whether nothing is left of what was said, and nobody can add to it: the connection is as good
    /// as a new one.
    #[cfg(feature = "http")]
    pub(crate) fn is_blank(&self) -> bool {
        self.hop.is_none()
            && self.is_idle()
            && self.events.is_alone()
            && self.session.is_blank()
            && self.routes.is_none()
    }

    /// Serves another client from here on.
    #[cfg(feature = "http")]
    pub(crate) fn serve_for(&mut self, principal: Option<Arc<str>>) {
        self.service.principal = principal;
    }

    /// Whether nothing runs and nothing waits to be taken over from handlers.
    pub(crate) fn is_idle(&self) -> bool {
        self.session.in_flight() == 0 && self.events.is_empty()
    }

    #[cfg(feature = "http")]
    pub(crate) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Charged> {
        self.events.poll_recv(cx)
    }

    /// The catalog as it is now: an earlier message of the same read may have changed it.
    pub(super) fn fresh_catalog(&mut self) -> Arc<Catalog> {
        let generation = self.service.shared.generation.load(Ordering::Acquire);
        if generation != self.generation {
            self.generation = generation;
            self.catalog = self.service.catalog();
        }
        Arc::clone(&self.catalog)
    }

    /// Takes in a message, or a batch. `false` if it was neither: no JSON, or no object.
    pub(crate) fn take(&mut self, now: Instant, line: Bytes) -> bool {
        // It is whole, and charged as a request from here on.
        self.coming.shrink(0);
        let taken = match is_batch(&line) {
            true => self.batch(now, &line),
            false => {
                Stage::Parse.of(|| Message::scan(line)).map(|message| self.message(now, message))
            }
        };
        let Err(failure) = taken else { return true };
        self.refuse(&failure);
        !matches!(
            failure.error,
            ScanError::NotJson { .. } | ScanError::NotObject | ScanError::NotUtf8 { .. }
        )
    }

    pub(crate) fn message(&mut self, now: Instant, message: Message) {
        let start = self.out.len();
        match self.session.receive(now, &message, &mut self.out) {
            ServerEvent::Request(method, revision) => self.request(method, revision, message),
            ServerEvent::Cancelled(running) => {
                running.cancel();
                // The handler is dropped in a later turn, so its questions are found by its id.
                let id = message.part(Part::RequestId).and_then(Id::from_json);
                if let Some(id) = &id {
                    self.service.shared.refusals.withdraw(&self.events, id);
                }
                self.withdraw(ENDED, |(of, _)| *of == id);
                self.settle(&running, None);
            }
            ServerEvent::Answered((_, asked), outcome) => {
                // A handler that was dropped meanwhile does not want it any more.
                let _ = asked.send(outcome);
            }
            ServerEvent::Notification(_) | ServerEvent::Listening(_) | ServerEvent::Handled => {
                self.end_reply(start);
                self.tell_relay(&message);
            }
        }
    }

    /// A request that the session does not answer itself.
    fn request(&mut self, method: Method, revision: Revision, message: Message) {
        let (id, len) = (message.part(Part::Id), message.bytes().len());
        let start = self.out.len();
        if self.batches.current().is_some() {
            self.batches.refuse(id, &mut self.out);
        }
        if self.out.len() == start && !self.taking.cover(&self.budget, len) {
            self.out.error(id, &room::no_room_for_request(len));
        }
        if self.out.len() > start {
            return self.end_reply(start);
        }
        if self.hop.is_some() {
            self.relay(method, revision, message);
        } else {
            self.dispatch(method, revision, message);
        }
        self.taking.shrink(0);
    }

    pub(crate) fn refuse(&mut self, failure: &ScanFailure) {
        let start = self.out.len();
        self.session.refuse(failure, &mut self.out);
        self.end_reply(start);
    }

    /// A batch of 2025-03-26: its answers come back as one array.
    fn batch(&mut self, now: Instant, line: &Bytes) -> Result<(), ScanFailure> {
        let elements = split_batch(line)?;
        if !self.session.takes_batches() {
            return Err(ScanError::BadBatch("batches are not part of this revision").into());
        }
        self.batches.begin();
        for element in elements {
            self.line_of_batch(now, element);
        }
        if let Some(array) = self.batches.end() {
            self.put(&array, self.route(), Then::End);
        }
        Ok(())
    }

    fn line_of_batch(&mut self, now: Instant, element: Bytes) {
        match Stage::Parse.of(|| Message::scan(element)) {
            Ok(message) if message.method() == Some(Method::Initialize) => {
                let start = self.out.len();
                let why = "`initialize` must not be part of a batch";
                let error = ErrorObject::new(Code::INVALID_REQUEST, why);
                self.out.error(message.part(Part::Id), &error);
                self.end_reply(start);
            }
            Ok(message) => self.message(now, message),
            Err(failure) => self.refuse(&failure),
        }
    }

    /// An answer is the line in the output from `start` on: it goes its way, or into the batch that is
    /// being read. One for which there is no room becomes an error.
    pub(super) fn end_reply(&mut self, start: usize) {
        let len = self.out.len() - start;
        if len == 0 {
            return;
        }
        if let Some(batch) = self.batches.current() {
            let reply = self.out.take_back(start);
            return self.batches.reply(batch, &reply, &self.budget);
        }
        if len > FREE_BYTES && !self.held.cover(&self.budget, self.out.len()) {
            let reply = self.out.take_back(start);
            self.out.raw().shrink_to(OUT_BYTES_STEP);
            self.out.error(room::id_of(&reply), &room::no_room_for_answer(reply.len()));
        }
        self.end(start, self.route(), Then::End);
    }

    /// The answer to a request that ran beside the connection's task; none if it was cancelled.
    fn settle(&mut self, running: &InFlight, reply: Option<&Reply>) {
        let start = self.out.len();
        if let Some(batch) = running.batch {
            let reply = reply.map(|reply| &*reply.message);
            let Some(array) = self.batches.settle(batch, reply, &self.budget) else { return };
            self.out.line(|out| out.extend_from_slice(&array));
        } else if let Some(reply) = reply {
            self.out.reply(|out| {
                out.extend_from_slice(&reply.message);
                reply.outcome
            });
        }
        self.end(start, running.route, Then::End);
    }

    fn put(&mut self, message: &[u8], route: Option<u64>, then: Then) {
        let start = self.out.len();
        self.out.line(|out| out.extend_from_slice(message));
        self.end(start, route, then);
    }

    /// The output has a line more from `start` on, perhaps.
    fn end(&mut self, start: usize, route: Option<u64>, then: Then) {
        let said = self.out.len() > start;
        if self.out.len() > self.held.bytes() + OUT_BYTES_STEP {
            self.held.cover_anyway(&self.budget, self.out.len());
        }
        if let Some(routes) = &mut self.routes
            && (said || then != Then::More)
        {
            routes.cuts.push(Cut { end: self.out.len(), route, then });
        }
    }

    /// The exchange whose message is being taken in.
    pub(super) fn route(&self) -> Option<u64> {
        self.routes.as_ref().and_then(|routes| routes.current)
    }

    /// The exchange that a request in flight came on.
    fn route_of(&self, id: Option<&Id>) -> Option<u64> {
        self.session.running(id?)?.route
    }

    /// Notes a request whose answer comes later, through the events.
    pub(super) fn begin(&mut self, id: Id, work: Work) {
        let (batch, route) = (self.current_batch(), self.route());
        let running = InFlight { work, batch, route, _charge: std::mem::take(&mut self.taking) };
        self.session.begin(id, running);
    }

    /// The batch that is being read.
    fn current_batch(&mut self) -> Option<u64> {
        let batch = self.batches.current();
        if let Some(batch) = batch {
            self.batches.expect(batch);
        }
        batch
    }

    /// What handlers have sent so far, as far as there is room: before an inline handler's answer, and
    /// in every turn.
    pub(crate) fn send_notes(&mut self) {
        while self.has_room()
            && let Some(event) = self.events.try_recv()
        {
            self.event(event);
        }
    }

    /// Takes over what a handler sent: what of it becomes output is charged as output.
    pub(crate) fn event(&mut self, (event, charge): Charged) {
        self.held.absorb(charge);
        self.take_over(event);
        self.held.shrink(self.out.len());
    }

    fn take_over(&mut self, event: Event) {
        match event {
            Event::Note(None, note) => self.put(&note, self.route(), Then::More),
            Event::Note(Some(id), note) => {
                if let Some(running) = self.session.running(&id) {
                    self.put(&note, running.route, Then::More);
                }
            }
            Event::Done(id, reply) => {
                // A handler that gave up, or ran out of time, leaves its questions behind.
                self.withdraw(ENDED, |(of, _)| of.as_ref() == Some(&id));
                // Cancelled while the answer was on its way: nothing may be sent for it.
                if let Some(running) = self.session.finish(&id) {
                    self.settle(&running, Some(&reply));
                }
            }
            Event::ComeBack(id) => {
                if let Some(running) = self.session.running(&id) {
                    self.put(b"", running.route, Then::ComeBack);
                }
            }
            Event::TakeBack(id, reason) => {
                self.withdraw(&reason, |(of, answer)| *of == id && answer.is_closed());
            }
            // Asked for a request that was cancelled meanwhile.
            Event::Ask { id: Some(id), .. } if !self.session.is_in_flight(&id) => {}
            Event::Ask { id, method, params, answer } => {
                let (start, route) = (self.out.len(), self.route_of(id.as_ref()));
                let (now, asked) = (clock::now(), (id, answer));
                let params = Some(params.as_slice());
                match self.session.ask(now, method, params, ASK_TIMEOUT, asked, &mut self.out) {
                    Ok(_) => self.end(start, route, Then::Answer),
                    Err((_, answer)) => {
                        let why = format!("this client cannot be asked `{method}`");
                        let _ = answer.send(Err(ErrorObject::new(Code::INVALID_REQUEST, why)));
                    }
                }
            }
        }
    }

    pub(crate) fn change(&mut self, change: Result<Change, broadcast::error::RecvError>) {
        let changes = match change {
            Ok(change) => vec![change],
            // Too many to keep: everything may have changed.
            Err(broadcast::error::RecvError::Lagged(_)) => {
                vec![Change::Tools, Change::Prompts, Change::Resources]
            }
            Err(broadcast::error::RecvError::Closed) => return,
        };
        for change in changes {
            let (method, uri) = match &change {
                Change::Tools => (Method::ToolsListChanged, None),
                Change::Prompts => (Method::PromptsListChanged, None),
                Change::Resources => (Method::ResourcesListChanged, None),
                Change::Resource(_, Some(audience))
                    if self.hop.as_ref().is_some_and(|hop| !audience.has(&hop.caller)) =>
                {
                    continue;
                }
                Change::Resource(uri, _) => (Method::ResourcesUpdated, Some(uri.as_str())),
            };
            let start = self.out.len();
            self.session.notify(method, uri, &mut self.out);
            if let (Some(routes), true) = (&mut self.routes, self.out.len() > start) {
                routes.cuts.push(Cut { end: self.out.len(), route: None, then: Then::More });
            }
        }
    }

    /// Questions of ours that the client did not answer in time.
    pub(crate) fn expire(&mut self, now: Instant) {
        for (id, entry) in self.session.expire(now) {
            let params = json!({"requestId": id, "reason": "timeout"}).to_string();
            let start = self.out.len();
            self.out.notification(Method::Cancelled, Some(params.as_bytes()));
            self.end(start, self.route_of(entry.tag.0.as_ref()), Then::More);
            let why = format!("the client did not answer `{}` in time", entry.method);
            let _ = entry.tag.1.send(Err(ErrorObject::new(Code::INTERNAL_ERROR, why)));
        }
    }

    /// Takes back the questions that nobody waits for any more.
    fn withdraw(&mut self, reason: &str, is_orphan: impl Fn(&Asked) -> bool) {
        for id in self.session.asked_by(is_orphan) {
            let start = self.out.len();
            let asked = self.session.withdraw(id, reason, &mut self.out);
            let route = asked.and_then(|(of, _)| self.route_of(of.as_ref()));
            self.end(start, route, Then::More);
        }
    }

    /// Some of the output was sent, and is charged no more. A large buffer is for others then.
    pub(crate) fn sent(&mut self) {
        if self.out.is_empty() && self.out.capacity() > OUT_BYTES_KEPT {
            self.budget.keep(self.out.take());
        }
        self.held.shrink(self.out.len());
    }

    /// Drops the output: it went another way.
    #[cfg(feature = "http")]
    pub(crate) fn recycle(&mut self) {
        self.out.clear();
        self.held.shrink(0);
    }

    /// Stops whatever still runs: nobody is there to hear of it.
    pub(crate) fn stop(&mut self) {
        for running in self.session.drain() {
            running.cancel();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.stop();
    }
}
