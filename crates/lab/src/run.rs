//! One measurement from start to end: open, validate, warm up, measure in slices, close.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcplane_proto::message::Part;
use mcplane_proto::{Message, Method};
use tokio::time::sleep;

use crate::choose::{Call, choose};
use crate::control::{Control, Stage};
use crate::error::{Error, shorten};
use crate::floor::Floor;
use crate::load::{Check, Expect, Fleet, Phase, Session, Show, fault};
use crate::measure::{Measured, Side};
use crate::pin::{Affinity, pin};
use crate::plan::{Plan, Until};
use crate::report::{PlanInfo, Run, StartInfo, TargetInfo};
use crate::target::{Connection, LastWords, Opened, Peer, Silence, Start, Target, open};

/// What makes figures of one call in flight hard to compare.
const ALONE: &str = "With one call in flight, figures move several-fold with the system's choice \
    whether both processes share a core: compare runs, and ratios, with --pin CPU only.";

/// Measures a target, and the floor beside it. Blocks until it is done; meant for a thread that does
/// nothing else, outside of any async runtime.
///
/// # Errors
/// [`Error`] says why there is nothing to report. Failed calls are no error: they are counted.
pub fn run(
    plan: &Plan,
    target: &Target,
    floor: &Floor,
    control: &Arc<Control>,
) -> Result<Run, Error> {
    plan.validate()?;
    control.begin();
    std::thread::scope(|scope| {
        let load = || on_this_thread(plan, target, floor, control);
        // A thread of its own, because pinning is for the life of a thread.
        let thread = std::thread::Builder::new().name("mcplane-load".to_owned());
        let machine = |what: &str, source| Error::Machine { what: what.to_owned(), source };
        let handle = thread
            .spawn_scoped(scope, load)
            .map_err(|source| machine("cannot start the generator's thread", source))?;
        handle.join().unwrap_or_else(|_| {
            Err(machine("the generator failed", std::io::Error::other("it panicked")))
        })
    })
}

fn on_this_thread(
    plan: &Plan,
    target: &Target,
    floor: &Floor,
    control: &Arc<Control>,
) -> Result<Run, Error> {
    let machine = |what: String, source| Error::Machine { what, source };
    let affinity = match plan.pin {
        Some(cpu) => Some(pin(cpu).map_err(|source| machine(format!("--pin {cpu}"), source))?),
        None => None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| machine("cannot start the generator".to_owned(), source))?;
    let bench = Bench { plan, target, floor, control, affinity };
    runtime.block_on(bench.run())
}

struct Bench<'a> {
    plan: &'a Plan,
    target: &'a Target,
    floor: &'a Floor,
    control: &'a Arc<Control>,
    affinity: Option<Affinity>,
}

/// A target whose call is known to work.
struct Ready {
    fleet: Fleet,
    floor: Option<Fleet>,
    call: Call,
    peer: Peer,
    tools: usize,
    start: Start,
    first_call: Duration,
    expect: Expect,
    varies: Option<String>,
    call_bytes: usize,
}

impl Bench<'_> {
    async fn run(&self) -> Result<Run, Error> {
        let mut ready = self.unless_stopped(self.prepare()).await?;
        let (calls, mut why) = self.warm_up(&mut ready).await;
        let mut measured = None;
        if why.is_none() && !self.control.is_stopped() {
            self.control.enter(Stage::Measuring);
            let (floor, affinity) = (ready.floor.as_mut(), self.affinity.clone());
            let taken = Measured::take(self.plan, &mut ready.fleet, floor, self.control, affinity);
            measured = Some(taken.await).filter(|measured| measured.target.total.sent > 0);
            why = measured.as_ref().and_then(|measured| measured.broken.clone());
        }
        self.control.enter(Stage::Finishing);
        let words = self.close(&mut ready, why.is_some()).await;
        let why = why.map(|why| words.iter().fold(why, |why, words| format!("{why}{words}")));
        match measured {
            Some(measured) => Ok(self.report(&ready, calls, &measured, why)),
            None if self.control.is_stopped() => Err(Error::Interrupted),
            None => {
                let why = why.unwrap_or_else(|| "no call could be made".to_owned());
                Err(Error::unreachable(
                    &self.target.to_string(),
                    &format!("during the warm-up, {why}"),
                ))
            }
        }
    }

    /// Stops every process; if the target broke, gives the last words of one that ended by itself.
    async fn close(&self, ready: &mut Ready, broke: bool) -> Option<LastWords> {
        let mut last_words = None;
        for mut session in ready.fleet.sessions.drain(..) {
            if broke {
                let words = session.connection.bury().await.filter(|words| words.exit.is_some());
                last_words = last_words.or(words);
            }
            session.connection.stop().await;
        }
        for session in ready.floor.iter_mut().flat_map(|floor| floor.sessions.drain(..)) {
            session.connection.stop().await;
        }
        last_words
    }

    /// Opens every session and finds out whether the call works.
    async fn prepare(&self) -> Result<Ready, Error> {
        let Opened { mut connection, peer, tools, start } = open(self.target, self.plan).await?;
        let mut others = Vec::new();
        for _ in 1..self.plan.sessions {
            others.push(open(self.target, self.plan).await?.connection);
        }
        self.control.enter(Stage::Validating);
        let call = choose(self.plan, &tools)?;
        let params = peer.call(&call.tool, &call.args);
        let began = Instant::now();
        let first = self.validate(&mut connection, &call, &params, None).await?;
        let first_call = began.elapsed();
        let check = if self.plan.check { Check::Equal } else { Check::Off };
        let no_result = || Error::refused("the answer to the call has no id");
        let mut expect = Expect::learn(&first, check).ok_or_else(no_result)?;
        let mut varies = None;
        if self.plan.check {
            varies = self.settle(&mut connection, &mut others, &call, &params, &expect).await?;
            if varies.is_some() {
                expect = expect.with(Check::Off);
            }
        }
        let (before, after) = expect.halves();
        let mut floors = Vec::new();
        for _ in 0..self.plan.sessions {
            floors.extend(self.floor.connect(before, after)?);
        }
        let session =
            |connection| Session::new(connection, self.plan.concurrency, &params, expect.clone());
        let fleet: Vec<_> = std::iter::once(connection).chain(others).map(session).collect();
        let call_bytes = fleet.first().map_or(0, Session::call_bytes);
        let floor: Vec<_> = floors.into_iter().map(session).collect();
        Ok(Ready {
            fleet: Fleet { sessions: fleet },
            floor: (!floor.is_empty()).then_some(Fleet { sessions: floor }),
            call,
            peer,
            tools: tools.len(),
            start,
            first_call,
            expect,
            varies,
            call_bytes,
        })
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
        match connection.wire.request(Method::ToolsCall, params, limit).await {
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
            Err(Silence::Closed(_)) => {
                let why = what("was not answered: the server closed its output".to_owned());
                let words = connection.bury().await.map(|words| words.to_string());
                let what = format!("{why}{}", words.unwrap_or_default());
                Err(Error::unreachable(&self.target.to_string(), &what))
            }
        }
    }

    /// Calls that are thrown away: how many of the target's succeeded, and why it broke if it did.
    async fn warm_up(&self, ready: &mut Ready) -> (u64, Option<String>) {
        self.control.enter(Stage::WarmingUp);
        if matches!(self.plan.warmup, Until::Calls(0) | Until::Elapsed(Duration::ZERO)) {
            return (0, None);
        }
        let phase = || {
            let control = Arc::clone(self.control);
            Phase::new(self.plan.warmup, self.plan.timeout, Show::Nothing, control)
        };
        let (target, why) = ready.fleet.run(phase()).await;
        if let Some(floor) = &mut ready.floor {
            floor.run(phase()).await;
        }
        (target.ok(), why)
    }

    fn report(
        &self,
        ready: &Ready,
        warmup_calls: u64,
        measured: &Measured,
        broken: Option<String>,
    ) -> Run {
        let mut notes = Vec::new();
        if let Some(example) = &ready.varies {
            notes.push(format!(
                "The tool's result changes by itself, so only errors count here: {example}"
            ));
        }
        if measured.target.total.errors.wrong_content > 0 {
            notes.push("If results may differ, --no-check counts errors only.".to_owned());
        }
        let alone = self.plan.concurrency * self.plan.sessions == 1 && self.plan.pin.is_none();
        if alone && matches!(self.target, Target::Stdio(_)) {
            notes.push(ALONE.to_owned());
        }
        let results = measured.target.results();
        let floor = measured.floor.as_ref().map(Side::results);
        let ratios = floor.as_ref().map(|floor| crate::report::Ratios::of(&results, floor));
        Run {
            plan: self.plan_info(ready, warmup_calls, measured.slices),
            target: self.target_info(ready),
            start: StartInfo {
                spawn_to_handshake_ns: ns(ready.start.handshake),
                spawn_to_ready_ns: ns(ready.start.tools),
                first_call_ns: ns(ready.first_call),
            },
            results,
            floor,
            ratios,
            interrupted: self.control.is_stopped(),
            broken,
            notes,
        }
    }

    fn plan_info(&self, ready: &Ready, warmup_calls: u64, slices: usize) -> PlanInfo {
        let plan = self.plan;
        let check = match (plan.check, &ready.varies) {
            (false, _) => "off",
            (true, Some(_)) => "varies",
            (true, None) => "equal",
        };
        PlanInfo {
            load: "closed".to_owned(),
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
            warmup_calls,
            timeout_ns: ns(plan.timeout),
            slices,
            check: check.to_owned(),
            pin: plan.pin,
            tool: ready.call.tool.clone(),
            args: serde_json::from_str(ready.call.args.get()).unwrap_or_default(),
            chosen: ready.call.chosen,
        }
    }

    fn target_info(&self, ready: &Ready) -> TargetInfo {
        TargetInfo {
            target: self.target.to_string(),
            transport: self.target.transport().to_owned(),
            server: ready.peer.name.clone(),
            version: ready.peer.version.clone(),
            revision: ready.peer.revision.to_string(),
            era: ready.peer.era().to_string(),
            tools: ready.tools,
            call_bytes: ready.call_bytes,
            result_bytes: ready.expect.result().len(),
        }
    }

    /// The result of `work`, unless the user stops it first.
    async fn unless_stopped<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut work = std::pin::pin!(work);
        let mut stopped = std::pin::pin!(self.control.stopped());
        std::future::poll_fn(|cx| {
            if let std::task::Poll::Ready(done) = work.as_mut().poll(cx) {
                return std::task::Poll::Ready(done);
            }
            stopped.as_mut().poll(cx).map(|()| Err(Error::Interrupted))
        })
        .await
    }
}

pub(crate) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
