//! One target of a run: opened, tried, warmed up, closed, reported.

mod knobs;
mod mix;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcplane_proto::message::Part;
use mcplane_proto::{Message, Method};
use serde_json::value::RawValue;
use tokio::time::sleep;

use crate::choose::{Call, choose};
use crate::client::{
    Connection, LastWords, Opened, Peer, Silence, Site, Speak, Start, Target, Tool, UNSTAMPED, open,
};
use crate::control::{Control, Stage};
use crate::error::Error;
use crate::floor::Floor;
use crate::load::NUMBER;
use crate::load::Until;
use crate::load::{Check, Expect, Fleet, Kind, Session, fault, sized};
use crate::measure::{Measured, Side};
use crate::plan::Plan;
use crate::record::ns;
use crate::results::{
    Binary, Checking, Drifting, Headroom, Knobs, Loop, MixedCall, PlanInfo, Ratios, Run, StartInfo,
    TargetInfo, ToolResults, Warmup,
};
use crate::text::shorten;
use crate::warm::{Warm, warm_up};

/// What makes figures of one call in flight hard to compare.
const ALONE: &str = "With one call in flight, figures move several-fold with the system's choice \
    whether both processes share a core: compare runs, and ratios, with --pin CPU only.";

/// Why a server that we did not start has no resources.
const UNOBSERVED: &str = "CPU and memory of the server are n/a: its process is not to be seen from \
    here. If it runs on this machine, --pid PID observes it.";

/// Ids, and with them numbers of calls, that each session has for itself.
const LANE_IDS: i64 = 1_000_000_000_000;

/// One of several targets that are measured together.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller builds")]
pub struct Entry {
    /// What is measured.
    pub target: Target,
    /// What it is compared with.
    pub floor: Floor,
    /// How it is spoken to, in place of the plan's choice.
    pub speak: Speak,
}

/// One target, and what is to be done with it.
pub(crate) struct Job {
    plan: Plan,
    target: Target,
    floor: Floor,
    control: Arc<Control>,
}

/// A target whose call is known to work.
pub(crate) struct Ready {
    site: Site,
    floor_site: Option<Site>,
    pub(crate) fleet: Fleet,
    pub(crate) floor: Option<Fleet>,
    warm: Warm,
    floor_warm: Option<Warm>,
    /// Why the warm-up ended early, if it did by itself.
    pub(crate) broken: Option<String>,
    call: Call,
    peer: Peer,
    tools: usize,
    start: Start,
    first_call: Duration,
    expect: Expect,
    varies: Option<String>,
    call_bytes: usize,
    /// The file of the target, if it is a command.
    binary: Option<Binary>,
    /// The kinds of calls, where there are several.
    kinds: Vec<Kind>,
    /// What the reader should know about the way to the server.
    notes: Vec<&'static str>,
}

/// Calls that were tried and work.
struct Tried {
    call: Call,
    params: Vec<u8>,
    first_call: Duration,
    expect: Expect,
    /// An example of a result that differed from the first one.
    varies: Option<String>,
    /// All of them, where there are several.
    kinds: Vec<Kind>,
}

impl Job {
    pub(crate) fn new(plan: &Plan, entry: &Entry, control: &Arc<Control>) -> Self {
        Self {
            plan: Plan { speak: entry.speak, ..plan.clone() },
            target: entry.target.clone(),
            floor: entry.floor.clone(),
            control: Arc::clone(control),
        }
    }

    /// Stops everything and says what came of it.
    pub(crate) async fn finish(
        &self,
        mut ready: Ready,
        measured: Option<Measured>,
    ) -> Result<Run, Error> {
        let measured = measured.filter(|measured| measured.target.total.sent > 0);
        let broken = measured.as_ref().and_then(|measured| measured.broken.clone());
        let why = ready.broken.take().or(broken);
        let words = self.close(&mut ready, why.is_some()).await;
        let why = why.map(|why| words.iter().fold(why, |why, words| format!("{why}{words}")));
        match measured {
            Some(measured) => Ok(self.report(&ready, &measured, why)),
            None if self.control.is_stopped() => Err(Error::Interrupted),
            None => {
                let why = why.unwrap_or_else(|| "no call could be made".to_owned());
                let what = format!("during the warm-up, {why}");
                Err(Error::unreachable(&self.target.to_string(), &what))
            }
        }
    }

    /// Stops every process; if the target broke, gives the last words of one that ended by itself.
    pub(crate) async fn close(&self, ready: &mut Ready, broke: bool) -> Option<LastWords> {
        let mut last_words = None;
        for mut session in ready.fleet.sessions.drain(..) {
            if broke {
                let words = session.connection.bury().await.filter(|words| words.exit.is_some());
                last_words = last_words.or(words);
            }
            session.connection.stop(self.plan.stop_grace).await;
        }
        for session in ready.floor.iter_mut().flat_map(|floor| floor.sessions.drain(..)) {
            session.connection.stop(self.plan.stop_grace).await;
        }
        if broke {
            let words = ready.site.bury().await.filter(|words| words.exit.is_some());
            last_words = last_words.or(words);
        }
        for site in ready.floor_site.iter_mut().chain([&mut ready.site]) {
            site.stop().await;
        }
        last_words
    }

    /// Opens every session and finds out whether the call works.
    pub(crate) async fn prepare(&self) -> Result<Ready, Error> {
        self.control.enter(Stage::Starting);
        let plan = &self.plan;
        // Its bytes are read while the server does not wait for us.
        let binary = Binary::of(&self.target);
        let mut site = Site::start(&self.target, Vec::new(), plan.start_timeout).await?;
        let Opened { mut connection, peer, tools, start } =
            open(&mut site, &plan.opening()).await?;
        let mut others = Vec::new();
        for _ in 1..plan.sessions {
            others.push(open(&mut site, &plan.opening()).await?.connection);
        }
        self.control.enter(Stage::Validating);
        let tried = match plan.mix.is_empty() {
            true => self.try_one(&mut connection, &mut others, &tools, &peer).await?,
            false => self.try_mix(&mut connection, &mut others, &tools, &peer).await?,
        };
        let Tried { call, params, first_call, expect, varies, kinds } = tried;
        // The floor has one answer.
        let floor = if kinds.is_empty() { &self.floor } else { &Floor::Off };
        let floor_site = floor.start(&site, expect.halves(), plan).await?;
        let floor_site = floor_site.map(|floor| floor.with_headers_of(&site));
        let mut floors = Vec::new();
        if let Some(floor) = &floor_site {
            for _ in 0..plan.sessions {
                let mut connection = floor.connect(plan.start_timeout).await?;
                connection.wire.agree(peer.revision);
                floors.push(connection);
            }
        }
        let session = |(lane, mut connection): (i64, Connection)| {
            if plan.distinct || !kinds.is_empty() {
                // No two sessions have a number in common.
                connection.wire.reserve_ids(lane * LANE_IDS);
            }
            let (tool, many) = (&call.tool, plan.concurrency);
            Session::new(connection, many, tool, &params, expect.clone())
                .mixed(&kinds, plan.seed.wrapping_add(lane.unsigned_abs() << 32))
                .thinking(plan.think)
        };
        let fleet = std::iter::once(connection).chain(others);
        let fleet: Vec<_> = (0..).zip(fleet).map(session).collect();
        let call_bytes = fleet.first().map_or(0, Session::call_bytes);
        let floor: Vec<_> = (0..).zip(floors).map(session).collect();
        let mut notes = Vec::new();
        if site.is_unobserved() {
            notes.push(UNOBSERVED);
        }
        if site.is_tls() && floor_site.is_some() {
            notes.push("The floor speaks without TLS.");
        }
        Ok(Ready {
            notes,
            site,
            floor_site,
            fleet: Fleet::new(fleet),
            floor: (!floor.is_empty()).then(|| Fleet::new(floor)),
            warm: Warm::default(),
            floor_warm: None,
            broken: None,
            call,
            peer,
            tools: tools.len(),
            start,
            first_call,
            expect,
            varies,
            call_bytes,
            binary,
            kinds,
        })
    }

    /// Tries the one call that the plan asks for.
    async fn try_one(
        &self,
        connection: &mut Connection,
        others: &mut [Connection],
        tools: &[Tool],
        peer: &Peer,
    ) -> Result<Tried, Error> {
        let mut call = choose(&self.plan, tools)?;
        if self.plan.distinct {
            call.args = unstamped(&call.args)?;
        }
        // The report shows a size, and not what is of that size.
        let shown = call.args.clone();
        if self.plan.args.is_some() {
            call.args = filled(&call.args)?;
        }
        let params = peer.call(&call.tool, &call.args);
        let began = Instant::now();
        let first = self.validate(connection, &call, &params, None).await?;
        let first_call = began.elapsed();
        let mut expect = self.expect(&first)?;
        let mut varies = None;
        if self.plan.check {
            varies = self.settle(connection, others, &call, &params, &expect).await?;
            if varies.is_some() {
                expect = expect.with(Check::Off);
            }
        }
        let call = Call { args: shown, ..call };
        Ok(Tried { call, params, first_call, expect, varies, kinds: Vec::new() })
    }

    /// What later answers are held against.
    fn expect(&self, first: &Message) -> Result<Expect, Error> {
        let check = if self.plan.check { Check::Equal } else { Check::Off };
        let no_result = || Error::refused("the answer to the call has no id");
        let expect = Expect::learn(first, check).ok_or_else(no_result)?;
        if !self.plan.distinct {
            return Ok(expect);
        }
        let lost = || Error::refused("the result does not say what the arguments did");
        expect.stamped().ok_or_else(lost)
    }

    /// Calls again at once, then after a pause, then once on every other session. Gives an example
    /// of a result that differed from the first one.
    async fn settle(
        &self,
        connection: &mut Connection,
        others: &mut [Connection],
        call: &Call,
        params: &[u8],
        expect: &Expect,
    ) -> Result<Option<String>, Error> {
        let mut varies = None;
        for pause in [Duration::ZERO, self.plan.settle] {
            sleep(pause).await;
            let answer = self.validate(connection, call, params, None).await?;
            varies = varies.or_else(|| fault(&answer, Some(expect)));
        }
        for other in others {
            let answer = self.validate(other, call, params, None).await?;
            varies = varies.or_else(|| fault(&answer, Some(expect)));
        }
        Ok(varies.map(|(_, example)| example))
    }

    /// One real call. A rejected one refuses the run.
    async fn validate(
        &self,
        connection: &mut Connection,
        call: &Call,
        params: &[u8],
        expect: Option<&Expect>,
    ) -> Result<Message, Error> {
        let what =
            |why: String| format!("{} {} {why}", call.tool, shorten(call.args.get().as_bytes()));
        let limit = self.plan.timeout;
        let name = Some(call.tool.as_str());
        match connection.wire.request(Method::ToolsCall, params, name, limit).await {
            Ok(answer) => match fault(&answer, expect) {
                None if answer.part(Part::Id).is_some() => Ok(answer),
                None => Err(Error::refused(what("was answered without an id".to_owned()))),
                Some((_, why)) => Err(Error::refused(what(format!("was answered with {why}")))),
            },
            Err(Silence::Timeout) => {
                let why = what(format!("was not answered within {limit:?}"));
                let words = connection.bury().await.map(|words| words.to_string());
                let words = words.unwrap_or_default();
                Err(Error::refused(format!("`{}`: {why}{words}", self.target)))
            }
            Err(Silence::Status(_, text)) => {
                Err(Error::refused(what(format!("was answered with {text}"))))
            }
            Err(silence @ (Silence::Closed | Silence::Broken(_))) => {
                let broken = match silence {
                    Silence::Broken(why) => why,
                    _ => "the server closed its output".to_owned(),
                };
                let why = what(format!("was not answered: {broken}"));
                let words = connection.bury().await.map(|words| words.to_string());
                let what = format!("{why}{}", words.unwrap_or_default());
                Err(Error::unreachable(&self.target.to_string(), &what))
            }
        }
    }

    /// Calls that are thrown away.
    pub(crate) async fn warm_up(&self, ready: &mut Ready) {
        let none = matches!(self.plan.warmup, Until::Calls(0) | Until::Elapsed(Duration::ZERO));
        if none || self.control.is_stopped() {
            return;
        }
        ready.warm = warm_up(&mut ready.fleet, &self.plan, &self.control).await;
        if let Some(floor) = &mut ready.floor {
            ready.floor_warm = Some(warm_up(floor, &self.plan, &self.control).await);
        }
        ready.broken = ready.warm.broken.take();
    }

    pub(crate) fn report(&self, ready: &Ready, measured: &Measured, broken: Option<String>) -> Run {
        let mut notes = Vec::new();
        if let Some(example) = &ready.varies {
            notes.push(format!(
                "The tool's result changes by itself, so only errors count here: {example}"
            ));
        }
        if measured.target.total.errors.wrong_content > 0 {
            notes.push("If results may differ, --no-check counts errors only.".to_owned());
        }
        notes.extend(ready.notes.iter().map(|note| (*note).to_owned()));
        let one = self.plan.concurrency * self.plan.sessions == 1 && self.plan.arrivals.is_none();
        let alone = one && self.plan.pin.is_none();
        if alone && !matches!(self.target, Target::Memory(_)) {
            notes.push(ALONE.to_owned());
        }
        let mut results = measured.target.results();
        results.tools = ToolResults::all(&ready.kinds, &measured.target.total.tools);
        notes.extend(mix::notes(&ready.kinds));
        results.warmup = Some(Warmup::of(&ready.warm));
        notes.extend(results.open.as_ref().and_then(|open| open.hidden(&results.latency)));
        let mut floor = measured.floor.as_ref().map(Side::results);
        if let Some(floor) = &mut floor {
            floor.warmup = ready.floor_warm.as_ref().map(Warmup::of);
        }
        let ratios = floor.as_ref().map(|floor| Ratios::of(&results, floor));
        let run = Run {
            plan: self.plan_info(ready, measured.slices),
            target: self.target_info(ready),
            start: StartInfo {
                spawn_to_handshake_ns: ns(ready.start.handshake),
                spawn_to_ready_ns: ns(ready.start.tools),
                first_call_ns: ns(ready.first_call),
            },
            drift: Drifting::all(&results),
            results,
            floor,
            ratios,
            headroom: None,
            profiled: None,
            interrupted: self.control.is_stopped(),
            broken,
            notes,
            counts: Default::default(),
        };
        Run { headroom: Headroom::of(&run), ..run }
    }

    fn plan_info(&self, ready: &Ready, slices: usize) -> PlanInfo {
        let plan = &self.plan;
        let check = match (plan.check, &ready.varies) {
            _ if !ready.kinds.is_empty() => Checking::Mix,
            (false, _) => Checking::Off,
            (true, Some(_)) => Checking::Varies,
            (true, None) => Checking::Equal,
        };
        PlanInfo {
            load: if plan.arrivals.is_some() { Loop::Open } else { Loop::Closed },
            arrivals: plan.arrivals,
            think: plan.think,
            concurrency: plan.concurrency,
            sessions: plan.sessions,
            calls: match plan.until {
                Until::Calls(calls) => Some(calls),
                Until::Elapsed(_) => None,
            },
            duration_ns: match plan.until {
                Until::Elapsed(time) => Some(ns(time)),
                Until::Calls(_) => None,
            },
            warmup_calls: ready.warm.calls,
            timeout_ns: ns(plan.timeout),
            slices,
            check,
            pin: plan.pin,
            tool: ready.call.tool.clone(),
            args: serde_json::from_str(ready.call.args.get()).unwrap_or_default(),
            chosen: ready.call.chosen,
            mix: MixedCall::all(&plan.mix, &ready.kinds),
            knobs: Some(Knobs::of(plan, &self.floor)),
        }
    }

    fn target_info(&self, ready: &Ready) -> TargetInfo {
        TargetInfo {
            target: self.target.to_string(),
            binary: ready.binary.clone(),
            transport: ready.site.transport(),
            server: ready.peer.name.clone(),
            version: ready.peer.version.clone(),
            revision: ready.peer.revision.to_string(),
            era: ready.peer.era().into(),
            tools: ready.tools,
            call_bytes: ready.call_bytes,
            result_bytes: ready.expect.result().len(),
        }
    }
}

/// The arguments with a number that no call has.
fn unstamped(args: &RawValue) -> Result<Box<RawValue>, Error> {
    let args = args.get().replace(NUMBER, &String::from_utf8_lossy(&UNSTAMPED));
    RawValue::from_string(args).map_err(|error| Error::refused(format!("--args: {error}")))
}

/// The arguments with text of the sizes that they ask for.
fn filled(args: &RawValue) -> Result<Box<RawValue>, Error> {
    let wrong = |why: String| Error::refused(format!("--args: {why}"));
    let args = sized(args.get()).map_err(wrong)?;
    RawValue::from_string(args).map_err(|error| wrong(error.to_string()))
}
