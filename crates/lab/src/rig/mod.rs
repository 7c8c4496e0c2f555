//! One subject of a run: opened, tried, warmed up, closed, reported.
//!
//! * [`Rig`] — its connections, and those of its floor (this file).
//! * `calls` — trying the call that the plan asks for.
//! * `mix`   — trying calls of several kinds.
//! * `loads` — one load after another.
//! * `knobs` — what lets a reader repeat the run.

mod calls;
mod knobs;
mod loads;
mod mix;

use std::sync::Arc;
use std::time::Duration;

use self::calls::{Calls, Trying};
use crate::client::{Connection, LastWords, Opened, Peer, Site, Speak, Start, Target, open};
use crate::control::{Control, Stage};
use crate::error::Error;
use crate::floor::Floor;
use crate::load::{Fleet, Session};
use crate::measure::{Side, Trial};
use crate::observe::Gauge;
use crate::pin::Affinity;
use crate::plan::Plan;
use crate::record::ns;
use crate::results::{
    Binary, Checking, Drifting, Headroom, Knobs, Loop, MixedCall, PlanInfo, Ratios, Run, StartInfo,
    TargetInfo, ToolResults, Warmup,
};
use crate::spec::Until;
use crate::warm::{Warm, warm_up};

/// What makes figures of one call in flight hard to compare.
const ALONE: &str = "With one call in flight, figures move several-fold with the system's choice \
    whether both processes share a core: compare runs, and ratios, with --pin CPU only.";

/// Why a server that we did not start has no resources.
const UNOBSERVED: &str = "CPU and memory of the server are n/a: its process is not to be seen from \
    here. If it runs on this machine, --pid PID observes it.";

/// Ids, and with them numbers of calls, that each session has for itself.
const LANE_IDS: i64 = 1_000_000_000_000;

/// A target, with what it is compared with and how it is spoken to.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller builds")]
pub struct Subject {
    /// What is measured.
    pub target: Target,
    /// What it is compared with.
    pub floor: Floor,
    /// How it is spoken to, in place of the plan's choice.
    pub speak: Speak,
}

/// A subject that is open, and whose call is known to work.
pub(crate) struct Rig {
    pub(crate) plan: Plan,
    subject: Subject,
    control: Arc<Control>,
    affinity: Option<Affinity>,
    site: Site,
    floor_site: Option<Site>,
    pub(crate) fleet: Fleet,
    pub(crate) floor: Option<Fleet>,
    warm: Warm,
    floor_warm: Option<Warm>,
    /// Why the warm-up ended early, if it did by itself.
    pub(crate) broken: Option<String>,
    calls: Calls,
    peer: Peer,
    tools: usize,
    start: Start,
    call_bytes: usize,
    /// The file of the target, if it is a command.
    binary: Option<Binary>,
    /// What the reader should know about the way to the server.
    notes: Vec<&'static str>,
}

impl Rig {
    /// Stops everything and says what came of it.
    pub(crate) async fn finish(mut self, trial: Option<Trial>) -> Result<Run, Error> {
        let trial = trial.filter(|trial| trial.target.total.sent > 0);
        let broken = trial.as_ref().and_then(|trial| trial.broken.clone());
        let why = self.broken.take().or(broken);
        let words = self.close(why.is_some()).await;
        let why = why.map(|why| words.iter().fold(why, |why, words| format!("{why}{words}")));
        match trial {
            Some(trial) => Ok(self.report(&trial, why)),
            None if self.control.is_stopped() => Err(Error::Interrupted),
            None => {
                let why = why.unwrap_or_else(|| "no call could be made".to_owned());
                let what = format!("during the warm-up, {why}");
                Err(Error::unreachable(&self.subject.target.to_string(), &what))
            }
        }
    }

    /// Stops every process; if the target broke, gives the last words of one that ended by itself.
    async fn close(&mut self, broke: bool) -> Option<LastWords> {
        let mut last_words = None;
        for mut session in self.fleet.sessions.drain(..) {
            if broke {
                let words = session.connection.bury().await.filter(|words| words.exit.is_some());
                last_words = last_words.or(words);
            }
            session.connection.stop(self.plan.stop_grace).await;
        }
        for session in self.floor.iter_mut().flat_map(|floor| floor.sessions.drain(..)) {
            session.connection.stop(self.plan.stop_grace).await;
        }
        if broke {
            let words = self.site.bury().await.filter(|words| words.exit.is_some());
            last_words = last_words.or(words);
        }
        for site in self.floor_site.iter_mut().chain([&mut self.site]) {
            site.stop().await;
        }
        last_words
    }

    /// Opens every session and finds out whether the call works.
    pub(crate) async fn open(
        plan: &Plan,
        subject: &Subject,
        control: &Arc<Control>,
        affinity: Option<Affinity>,
    ) -> Result<Self, Error> {
        control.enter(Stage::Starting);
        let plan = &Plan { speak: subject.speak, ..plan.clone() };
        // Its bytes are read while the server does not wait for us.
        let binary = Binary::of(&subject.target);
        let mut site = Site::start(&subject.target, Vec::new(), plan.start_timeout).await?;
        let Opened { mut connection, peer, tools, start } =
            open(&mut site, &plan.opening()).await?;
        let mut others = Vec::new();
        for _ in 1..plan.sessions {
            others.push(open(&mut site, &plan.opening()).await?.connection);
        }
        control.enter(Stage::Validating);
        let trying = Trying { plan, target: &subject.target, tools: &tools, peer: &peer };
        let calls = match plan.mix.is_empty() {
            true => trying.one(&mut connection, &mut others).await?,
            false => trying.mix(&mut connection, &mut others).await?,
        };
        let Calls { call, params, expect, kinds, .. } = &calls;
        // The floor has one answer.
        let floor = if kinds.is_empty() { &subject.floor } else { &Floor::Off };
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
            Session::new(connection, many, tool, params, expect.clone())
                .mixed(kinds, plan.seed.wrapping_add(lane.unsigned_abs() << 32))
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
        Ok(Self {
            plan: plan.clone(),
            subject: subject.clone(),
            control: Arc::clone(control),
            affinity,
            fleet: Fleet::new(fleet, &site),
            floor: floor_site.as_ref().map(|site| Fleet::new(floor, site)),
            site,
            floor_site,
            warm: Warm::default(),
            floor_warm: None,
            broken: None,
            calls,
            peer,
            tools: tools.len(),
            start,
            call_bytes,
            binary,
            notes,
        })
    }

    /// The sessions of both sides.
    pub(crate) const fn fleets(&mut self) -> (&mut Fleet, Option<&mut Fleet>) {
        (&mut self.fleet, self.floor.as_mut())
    }

    /// What is seen of the processes of both sides.
    pub(crate) fn gauges(&self) -> [Arc<Gauge>; 2] {
        let floor = self.floor.as_ref().map(|floor| Arc::clone(&floor.gauge));
        [Arc::clone(&self.fleet.gauge), floor.unwrap_or_default()]
    }

    /// Calls that are thrown away.
    pub(crate) async fn warm_up(&mut self) {
        let none = matches!(self.plan.warmup, Until::Calls(0) | Until::Elapsed(Duration::ZERO));
        if none || self.control.is_stopped() {
            return;
        }
        self.warm = warm_up(&mut self.fleet, &self.plan, &self.control).await;
        if let Some(floor) = &mut self.floor {
            self.floor_warm = Some(warm_up(floor, &self.plan, &self.control).await);
        }
        self.broken = self.warm.broken.take();
    }

    fn report(&self, trial: &Trial, broken: Option<String>) -> Run {
        let plan = &trial.plan;
        let mut notes = Vec::new();
        if let Some(example) = &self.calls.varies {
            notes.push(format!(
                "The tool's result changes by itself, so only errors count here: {example}"
            ));
        }
        if trial.target.total.errors.wrong_content > 0 {
            notes.push("If results may differ, --no-check counts errors only.".to_owned());
        }
        notes.extend(self.notes.iter().map(|note| (*note).to_owned()));
        let one = plan.concurrency * plan.sessions == 1 && plan.arrivals.is_none();
        let alone = one && plan.pin.is_none();
        if alone && !matches!(self.subject.target, Target::Memory(_)) {
            notes.push(ALONE.to_owned());
        }
        let mut results = trial.target.results();
        results.tools = ToolResults::all(&self.calls.kinds, &trial.target.total.tools);
        notes.extend(mix::notes(&self.calls.kinds));
        results.warmup = Some(Warmup::of(&self.warm));
        notes.extend(results.open.as_ref().and_then(|open| open.hidden(&results.latency)));
        let mut floor = trial.floor().map(Side::results);
        if let Some(floor) = &mut floor {
            floor.warmup = self.floor_warm.as_ref().map(Warmup::of);
        }
        let ratios = floor.as_ref().map(|floor| Ratios::of(&results, floor));
        let run = Run {
            plan: self.plan_info(plan, trial.slices),
            target: self.target_info(),
            start: StartInfo {
                spawn_to_handshake_ns: ns(self.start.handshake),
                spawn_to_ready_ns: ns(self.start.tools),
                first_call_ns: ns(self.calls.first_call),
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

    fn plan_info(&self, plan: &Plan, slices: usize) -> PlanInfo {
        let check = match (plan.check, &self.calls.varies) {
            _ if !self.calls.kinds.is_empty() => Checking::Mix,
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
            warmup_calls: self.warm.calls,
            timeout_ns: ns(plan.timeout),
            slices,
            check,
            pin: plan.pin,
            tool: self.calls.call.tool.clone(),
            args: serde_json::from_str(self.calls.call.args.get()).unwrap_or_default(),
            chosen: self.calls.call.chosen,
            mix: MixedCall::all(&plan.mix, &self.calls.kinds),
            knobs: Some(Knobs::of(plan, &self.subject.floor)),
        }
    }

    fn target_info(&self) -> TargetInfo {
        TargetInfo {
            target: self.subject.target.to_string(),
            binary: self.binary.clone(),
            transport: self.site.transport(),
            server: self.peer.name.clone(),
            version: self.peer.version.clone(),
            revision: self.peer.revision.to_string(),
            era: self.peer.era().into(),
            tools: self.tools,
            call_bytes: self.call_bytes,
            result_bytes: self.calls.expect.result().len(),
        }
    }
}
