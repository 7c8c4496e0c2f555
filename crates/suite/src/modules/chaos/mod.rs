//! Faults that are really injected, and what they cost those who do nothing wrong.
//!
//! Each is done to our server over HTTP and to the gateway before it, with default settings, while two
//! neighbours make calls. It passes if the neighbours lose nothing, if a new client is served soon after,
//! and if nothing is left behind. Each is done to a server that is broken on purpose too ([`check`]), and
//! has to fail there.
//!
//! * the scenarios and the verdict — this file.
//! * `subject` — the process that it is done to, and the neighbours.
//! * `faults`  — what is done.
//! * `peer`    — a client that shares no code with either.

mod faults;
mod peer;
mod subject;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mcplane_process::Command;

use self::faults::Fault;
use self::subject::{Calls, Neighbour, Subject};
use crate::broken::Flaw;
use crate::entry::{Entry, Figure, Form, Found, Module, Stand};

/// How soon a new client has to be served again.
const RECOVERY_MAX: Duration = Duration::from_secs(5);

/// How long one call of a neighbour may take meanwhile.
const LATE: Duration = Duration::from_secs(4);

/// How long what a fault has left behind may take to go.
const SETTLE_MAX: Duration = Duration::from_secs(5);

/// How many descriptors more than before are no leak: every fault makes twenty connections or more, or
/// one.
const FDS_MORE: u64 = 4;

/// How much more memory is no leak: what an allocator keeps, not what a hundred megabytes need.
const MEMORY_MORE: u64 = 64 << 20;

/// A fault, and the broken server that has to fail under it.
struct Scenario {
    id: &'static str,
    about: &'static str,
    fault: Fault,
    /// Calls of the neighbours that may go wrong, since what worked on them was killed.
    losses_max: usize,
    since: Form,
    /// Whether it is done to the server by itself: that has no processes below it.
    to_server: bool,
    flaw: Flaw,
}

const fn scenario(id: &'static str, about: &'static str, fault: Fault, flaw: Flaw) -> Scenario {
    let since = Form::Standard;
    Scenario { id, about, fault, losses_max: 0, since, to_server: true, flaw }
}

/// The same in a quick run.
const fn quick(scenario: Scenario) -> Scenario {
    Scenario { since: Form::Quick, ..scenario }
}

static SCENARIOS: [Scenario; 12] = [
    quick(scenario(
        "chaos.connection_reset",
        "Resets with calls in flight",
        faults::reset,
        Flaw::Leaks,
    )),
    scenario("chaos.partial_delivery", "A request byte by byte", faults::partial, Flaw::ReadsOnce),
    scenario("chaos.timeout", "Requests that stop in the middle", faults::stall, Flaw::OneAtATime),
    scenario("chaos.connection_leak", "Connections that say nothing", faults::leak, Flaw::Leaks),
    scenario("chaos.rapid_connect", "500 connections, closed at once", faults::rapid, Flaw::Leaks),
    scenario(
        "chaos.slow_consumer",
        "Clients that do not read for 3 s",
        faults::slow_consumer,
        Flaw::OneAtATime,
    ),
    scenario(
        "chaos.buffer_exhaustion",
        "2,000 calls whose answers nobody reads",
        faults::exhaustion,
        Flaw::ReadsOn,
    ),
    quick(scenario(
        "chaos.message_loss",
        "Calls beside others that are cut off",
        faults::loss,
        Flaw::LosesAfterCut,
    )),
    quick(scenario(
        "chaos.invalid_payload",
        "What is not a message",
        faults::invalid,
        Flaw::Believes,
    )),
    scenario("chaos.large_payload", "100 MB in one message", faults::large, Flaw::Hoards),
    scenario("chaos.message_flood", "3,200 calls at once", faults::flood, Flaw::LosesUnderLoad),
    Scenario {
        losses_max: 4,
        since: Form::Quick,
        to_server: false,
        ..scenario("chaos.process_crash", "Workers are killed", faults::crash, Flaw::StaysDown)
    },
];

/// A workload for each scenario.
pub(super) fn entries() -> impl Iterator<Item = Entry> {
    let entry = |it: &Scenario| Entry::of(Module::Chaos, it.since, it.id, it.about, run);
    SCENARIOS.iter().map(entry)
}

fn run(on: &Stand<'_>) -> Result<Found, String> {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.id == on.id);
    let scenario = scenario.ok_or("there is no such scenario")?;
    let me = || Command::new(on.me).inherit_env(["*"]);
    let server = me().args(["fixture", "--transport", "http", "--listen", "127.0.0.1:0"]);
    let gateway = me().args(["serve", "--listen", "127.0.0.1:0", "--workers", "2", "--"]);
    let gateway = gateway.arg(on.me).arg("fixture");
    let mut found = Found::pass(Vec::new());
    let server = scenario.to_server.then_some(("server", server));
    for (name, command) in server.into_iter().chain([("gateway", gateway)]) {
        if on.control.is_stopped() {
            break;
        }
        let seen = scenario.done_to(&command, scenario.fault);
        let why = seen.as_ref().err().cloned().or_else(|| {
            let seen = seen.as_ref().ok()?;
            found.figures.extend(seen.figures(name));
            seen.wrong(scenario)
        });
        found = found.assert(why.is_none(), || format!("{name}: {}", why.unwrap_or_default()));
    }
    Ok(found)
}

/// What a scenario made of a server that is broken in one way, or in none.
#[derive(Debug)]
#[non_exhaustive]
pub struct Checked {
    /// The scenario.
    pub id: &'static str,
    /// What is wrong with the server.
    pub flaw: Flaw,
    /// Whether the fault was injected.
    pub is_done: bool,
    /// Why it failed, if it did.
    pub failed: Option<String>,
    /// Whether the fault could be injected at all.
    pub was_tried: bool,
}

impl Checked {
    /// Whether it fails for the flaw under the fault, and passes without either.
    #[must_use]
    pub const fn is_right(&self) -> bool {
        let has_to_fail = self.is_done && !matches!(self.flaw, Flaw::None);
        self.was_tried && self.failed.is_some() == has_to_fail
    }
}

/// Does every fault to a server with nothing wrong, and to one that is broken so that it has to fail;
/// without the fault that one has to pass.
pub fn check(me: &std::path::Path) -> impl Iterator<Item = Checked> {
    SCENARIOS.iter().flat_map(move |scenario| {
        let sides = [(Flaw::None, true), (scenario.flaw, false), (scenario.flaw, true)];
        sides.map(|(flaw, is_done)| {
            let command = Command::new(me).inherit_env(["*"]);
            let fault = if is_done { scenario.fault } else { faults::nothing };
            let seen = scenario.done_to(&command.args(["__broken", flaw.as_str()]), fault);
            let was_tried = seen.is_ok();
            let failed = seen.map_or_else(Some, |seen| seen.wrong(scenario));
            Checked { id: scenario.id, flaw, is_done, failed, was_tried }
        })
    })
}

/// What came of a fault.
struct Seen {
    shown: faults::Shown,
    recovery: Option<Duration>,
    neighbours: Vec<Calls>,
    fds_more: u64,
    children_more: usize,
    memory_more: u64,
}

impl Scenario {
    /// Does it to what this command starts.
    ///
    /// # Errors
    /// Why it could not be done.
    fn done_to(&self, command: &Command, fault: Fault) -> Result<Seen, String> {
        let subject = Subject::start(command)?;
        let seen = done(&subject, fault);
        subject.stop();
        seen
    }
}

fn done(subject: &Subject, fault: Fault) -> Result<Seen, String> {
    let usage = || subject.usage().ok_or_else(|| "its processes cannot be seen".to_owned());
    let before = subject.steady().ok_or("its processes cannot be seen")?;
    let children = subject.children().len();
    let neighbour = |number| Neighbour::start(subject.place.clone(), number);
    let neighbours: Vec<_> =
        [1, 2].into_iter().map(neighbour).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    std::thread::sleep(Duration::from_millis(100));
    let is_over = AtomicBool::new(false);
    let (shown, recovery, most) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| subject.most_memory(&is_over));
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (fault(subject), recovered(subject))
        }));
        is_over.store(true, Ordering::Relaxed);
        let panicked = (Err("the fault panicked".to_owned()), None);
        let (shown, recovery) = done.unwrap_or(panicked);
        (shown, recovery, watch.join().unwrap_or(u64::MAX))
    });
    std::thread::sleep(Duration::from_millis(200));
    let neighbours = neighbours.into_iter().map(Neighbour::stop).collect();
    let until = Instant::now() + SETTLE_MAX;
    let (fds_more, children_more) = loop {
        let more = (
            usage()?.fds.saturating_sub(before.fds),
            subject.children().len().saturating_sub(children),
        );
        if more == (0, 0) || Instant::now() > until {
            break more;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let memory_more = most.saturating_sub(before.rss_bytes);
    Ok(Seen { shown: shown?, recovery, neighbours, fds_more, children_more, memory_more })
}

/// How long it takes until a new client is served.
fn recovered(subject: &Subject) -> Option<Duration> {
    let began = Instant::now();
    while began.elapsed() < RECOVERY_MAX {
        if subject.place.echo(9).is_ok() {
            return Some(began.elapsed());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

impl Seen {
    /// What it fails for; `None` if nothing is wrong.
    fn wrong(&self, scenario: &Scenario) -> Option<String> {
        let lost: Vec<_> = self.neighbours.iter().flat_map(|calls| &calls.lost).collect();
        let longest = self.neighbours.iter().map(|calls| calls.longest).max().unwrap_or_default();
        if let Some(complaint) = &self.shown.complaint {
            return Some(complaint.clone());
        }
        if let Some(why) = lost.first().filter(|_| lost.len() > scenario.losses_max) {
            return Some(format!("neighbours lost {} calls, the first: {why}", lost.len()));
        }
        if longest > LATE || self.neighbours.iter().any(|calls| calls.answered == 0) {
            return Some(format!("a call of a neighbour took {longest:.1?}"));
        }
        if self.recovery.is_none() {
            return Some(format!("a new client was not served within {RECOVERY_MAX:?}"));
        }
        if self.fds_more > FDS_MORE || self.children_more > 0 {
            let Self { fds_more, children_more, .. } = self;
            return Some(format!("{fds_more} descriptors and {children_more} processes were left"));
        }
        let more = self.memory_more;
        (more > MEMORY_MORE).then(|| format!("it took {} MiB of memory", more >> 20))
    }

    fn figures(&self, name: &str) -> Vec<Figure> {
        let of =
            |figure: &str, unit: &str, value| Figure::of(&format!("{name} {figure}"), unit, value);
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let lost: usize = self.neighbours.iter().map(|calls| calls.lost.len()).sum();
        let answered: u64 = self.neighbours.iter().map(|calls| calls.answered).sum();
        let longest = self.neighbours.iter().map(|calls| calls.longest).max();
        let mut figures = Vec::new();
        figures.extend(self.recovery.map(|time| of("recovery", "ms", ms(time))));
        figures.extend(self.shown.detected.map(|time| of("detection", "ms", ms(time))));
        if let Some((refused, asked)) = self.shown.refused {
            figures.push(of("refused", &format!("of {asked}"), refused as f64));
        }
        figures.extend(longest.map(|time| of("longest call of a neighbour", "ms", ms(time))));
        figures.push(of("neighbours' calls answered", "calls", answered as f64));
        figures.push(of("neighbours' calls lost", "calls", lost as f64));
        figures.push(of("descriptors left", "fds", self.fds_more as f64));
        figures.push(of("processes left", "processes", self.children_more as f64));
        figures.push(of("memory more", "MiB", self.memory_more as f64 / 1_048_576.0));
        figures
    }
}
