//! A client's and a server's session against each other: one thread, no clock, no I/O. Messages
//! travel through an event queue under conditions that a seed decides, so a schedule that fails
//! fails again.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::frame::Output;
use mcplane_proto::message::Part;
use mcplane_proto::session::client::Call;
use mcplane_proto::session::{
    ClientConfig, ClientEvent, ClientSession, Ids, ServerEvent, ServerSession,
};
use mcplane_proto::types::{ClientCapabilities, Implementation};
use mcplane_proto::{Id, Message, Method};

use crate::random::Random;
use crate::setup::{Setup, server};

/// What the scripted server does about a request, some time after it came.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums, reason = "a script is a list of these")]
pub enum Say {
    /// Progress, if the client wanted to hear of it and still waits.
    Progress(u32),
    /// The end: this result, JSON text.
    Result(String),
    /// The end: an error with this code.
    Error(Code),
}

/// The server's program: what it says about a request, and how long after it came.
pub type Script = Box<dyn FnMut(&Message) -> Vec<(Duration, Say)>>;

/// A message on the wire, as it was sent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sent {
    /// When, from the start.
    pub at: Duration,
    /// Whether from the client to the server.
    pub up: bool,
    /// Its bytes.
    pub bytes: Bytes,
}

/// The two sessions and everything between them.
pub struct Pair {
    /// May be changed on the way.
    pub setup: Setup,
    script: Script,
    client: ClientSession<u32>,
    server: ServerSession<u32, Id>,
    start: Instant,
    now: Instant,
    random: Random,
    /// What happens when; the number keeps the order of what happens at the same time.
    queue: BTreeMap<(Instant, u64), Due>,
    scheduled: u64,
    /// The latest arrival on each stream.
    streams: BTreeMap<(bool, u64), Instant>,
    open: bool,
    /// What the client learned, and when.
    pub events: Vec<(Duration, ClientEvent<u32>)>,
    /// What the server learned besides requests, and when.
    pub server_events: Vec<(Duration, ServerEvent<u32, Id>)>,
    /// Everything that was sent, lost or not.
    pub sent: Vec<Sent>,
}

enum Due {
    Arrival { up: bool, bytes: Bytes },
    Say { id: Id, token: Option<Bytes>, say: Say },
    Close,
}

impl Pair {
    /// A pair whose client has sent its first message.
    pub fn new(
        setup: Setup,
        script: impl FnMut(&Message) -> Vec<(Duration, Say)> + 'static,
    ) -> Self {
        let start = Instant::now();
        let mut out = Output::new();
        let config = ClientConfig {
            info: Implementation::new("client", "1"),
            capabilities: ClientCapabilities::new().with_roots(true),
            choice: setup.choice,
            timeout: setup.timeout,
            ids: Ids::default(),
        };
        let client = ClientSession::start(start, config, &mut out);
        let mut pair = Self {
            server: ServerSession::new(server(&setup)),
            random: Random::new(setup.seed),
            script: Box::new(script),
            client,
            start,
            now: start,
            queue: BTreeMap::new(),
            scheduled: 0,
            streams: BTreeMap::new(),
            open: true,
            events: Vec::new(),
            server_events: Vec::new(),
            sent: Vec::new(),
            setup,
        };
        if let Some(after) = pair.setup.closes_after {
            pair.schedule(start + after, Due::Close);
        }
        pair.send(true, &out);
        pair
    }

    /// The time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    /// Sends a request of the client; its id comes back.
    ///
    /// # Errors
    /// As [`ClientSession::call`].
    pub fn call(&mut self, call: &Call<'_>, tag: u32) -> Result<i64, u32> {
        self.client(|client, now, out| client.call(now, call, tag, out))
    }

    /// Lets the client act; the lines that it writes are sent.
    pub fn client<R>(
        &mut self,
        act: impl FnOnce(&mut ClientSession<u32>, Instant, &mut Output) -> R,
    ) -> R {
        let mut out = Output::new();
        let value = act(&mut self.client, self.now, &mut out);
        self.send(true, &out);
        value
    }

    /// Lets the server act; the lines that it writes are sent.
    pub fn server<R>(
        &mut self,
        act: impl FnOnce(&mut ServerSession<u32, Id>, Instant, &mut Output) -> R,
    ) -> R {
        let mut out = Output::new();
        let value = act(&mut self.server, self.now, &mut out);
        self.send(false, &out);
        value
    }

    /// Runs until nothing is left to happen.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Runs until `after` from the start.
    pub fn run_until(&mut self, after: Duration) {
        let end = self.start + after;
        while self.next_at().is_some_and(|at| at <= end) {
            self.step();
        }
        self.now = self.now.max(end);
    }

    /// The next thing happens; `false` if there is none.
    pub fn step(&mut self) -> bool {
        let Some(at) = self.next_at() else { return false };
        self.now = self.now.max(at);
        match self.queue.first_entry().filter(|due| due.key().0 <= self.now) {
            Some(due) => match due.remove() {
                Due::Arrival { up: true, bytes } => self.at_server(bytes),
                Due::Arrival { up: false, bytes } => self.at_client(bytes),
                Due::Say { id, token, say } => self.say(&id, token, &say),
                Due::Close => self.close(),
            },
            None => self.expire(),
        }
        true
    }

    fn next_at(&self) -> Option<Instant> {
        let next = self.queue.first_key_value().map(|((at, _), _)| *at);
        let deadlines = [self.client.deadline(), self.server.deadline()];
        next.into_iter().chain(deadlines.into_iter().flatten()).min()
    }

    fn schedule(&mut self, at: Instant, due: Due) {
        self.scheduled += 1;
        self.queue.insert((at, self.scheduled), due);
    }

    /// Puts each line of `out` on the wire.
    fn send(&mut self, up: bool, out: &[u8]) {
        let conditions = if up { self.setup.up } else { self.setup.down };
        for line in out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && self.open) {
            let bytes = Bytes::copy_from_slice(line);
            self.sent.push(Sent { at: self.now - self.start, up, bytes: bytes.clone() });
            let copies = 1 + u32::from(self.random.chance(conditions.copy_percent));
            for _ in 0..copies {
                let stream = self.random.below(u64::from(conditions.streams));
                let jitter_us = u64::try_from(conditions.jitter.as_micros()).unwrap_or(u64::MAX);
                let jitter = Duration::from_micros(self.random.below(jitter_us));
                let lost = self.random.chance(conditions.loss_percent);
                let last = self.streams.entry((up, stream)).or_insert(self.start);
                let at = (self.now + conditions.delay + jitter).max(*last);
                *last = at;
                if !lost {
                    self.scheduled += 1;
                    let due = Due::Arrival { up, bytes: bytes.clone() };
                    self.queue.insert((at, self.scheduled), due);
                }
            }
        }
    }

    fn at_server(&mut self, bytes: Bytes) {
        let mut out = Output::new();
        let message = match Message::scan(bytes) {
            Ok(message) => message,
            Err(failure) => {
                self.server.refuse(&failure, &mut out);
                return self.send(false, &out);
            }
        };
        if message.method().is_some() && message.method() == self.setup.dies_on {
            return self.close();
        }
        if message.method().is_some() && message.method() == self.setup.ignores {
            return;
        }
        match self.server.receive(self.now, &message, &mut out) {
            ServerEvent::Request(..) => self.request(&message),
            ServerEvent::Handled => {}
            event => self.server_events.push((self.elapsed(), event)),
        }
        self.send(false, &out);
    }

    /// Every request is answered later, be it at once: it can be cancelled.
    fn request(&mut self, message: &Message) {
        let Some(id) = message.id() else { return };
        self.server.begin(id.clone(), id.clone());
        for (after, say) in (self.script)(message) {
            let token = message.share(Part::ProgressToken);
            self.schedule(self.now + after, Due::Say { id: id.clone(), token, say });
        }
    }

    fn say(&mut self, id: &Id, token: Option<Bytes>, say: &Say) {
        let (mut out, mut id_json) = (Output::new(), Vec::new());
        id.write_json(&mut id_json);
        match (say, token) {
            (Say::Progress(done), Some(token)) if self.server.is_in_flight(id) => {
                let token = String::from_utf8_lossy(&token);
                let params = format!(r#"{{"progressToken":{token},"progress":{done}}}"#);
                let method = Method::Progress;
                out.notification(method, Some(params.as_bytes()));
            }
            (Say::Progress(_), _) => {}
            // Nothing may be sent for a request that was cancelled.
            (_, _) if self.server.finish(id).is_none() => {}
            (Say::Result(result), _) => out.result(&id_json, result.as_bytes()),
            (Say::Error(code), _) => {
                out.error(Some(&id_json), &ErrorObject::new(*code, "scripted"));
            }
        }
        self.send(false, &out);
    }

    fn at_client(&mut self, bytes: Bytes) {
        let mut out = Output::new();
        let event = match Message::scan(bytes) {
            Ok(message) => self.client.receive(self.now, &message, &mut out),
            Err(failure) => self.client.refuse(self.now, &failure, &mut out),
        };
        self.send(true, &out);
        self.learn(event);
    }

    fn learn(&mut self, event: ClientEvent<u32>) {
        let respawn = matches!(event, ClientEvent::Respawn);
        if !matches!(event, ClientEvent::Handled) {
            self.events.push((self.elapsed(), event));
        }
        if respawn {
            self.open = true;
            self.server = ServerSession::new(server(&self.setup));
            self.client(|client, now, out| client.respawned(now, out));
        }
    }

    fn expire(&mut self) {
        loop {
            let mut out = Output::new();
            let Some(event) = self.client.expire(self.now, &mut out) else { break };
            self.send(true, &out);
            self.learn(event);
        }
        for (_, entry) in self.server.expire(self.now) {
            let error = ErrorObject::new(Code::INTERNAL_ERROR, "no answer in time");
            let event = ServerEvent::Answered(entry.tag, Err(error));
            self.server_events.push((self.elapsed(), event));
        }
    }

    /// The pipe is gone in both directions, with what was on its way.
    fn close(&mut self) {
        self.open = false;
        self.queue.clear();
        self.server.drain();
        for event in self.client.closed() {
            self.learn(event);
        }
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair")
            .field("setup", &self.setup)
            .field("elapsed", &self.elapsed())
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}
