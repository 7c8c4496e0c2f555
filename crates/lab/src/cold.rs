//! Cold starts: what the first moments cost, each over many fresh processes or connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcplane_process::Command;
use mcplane_proto::Method;
use tokio::time::sleep;

use crate::choose::choose;
use crate::client::{Opened, Remote, Site, Target, open};
use crate::control::{Control, Stage, unless_stopped};
use crate::error::Error;
use crate::load::fault;
use crate::plan::Plan;
use crate::record::ns;
use crate::results::{ColdStart, Spread};
use crate::run::on_generator;
use crate::spec::{Field, SpecError};
use crate::stats::median_interval;

/// Most starts.
pub const STARTS_MAX: usize = 1000;

/// How long a server that is to listen is left alone between two attempts to connect.
const ATTEMPTS_EVERY: Duration = Duration::from_millis(1);

/// How long a server that listens has to stop, and again after SIGTERM.
const GRACE: Duration = Duration::from_millis(200);

/// What is started, again and again.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums, reason = "plain data that the caller builds")]
pub enum Fresh {
    /// A process for each start, or a connection where a server runs already.
    Target(Target),
    /// A process for each start, which then listens at an address.
    Listening(Command, Box<Remote>),
}

/// Starts a target `starts` times, each time to the first call and then to its end. Blocks like
/// [`crate::run()`].
///
/// # Errors
/// As those of [`crate::run()`]; failed starts are counted, unless all of them failed.
pub fn cold_start(
    plan: &Plan,
    fresh: &Fresh,
    starts: usize,
    control: &Arc<Control>,
) -> Result<ColdStart, Error> {
    plan.validate()?;
    if !(1..=STARTS_MAX).contains(&starts) {
        let takes = format!("1 to {STARTS_MAX}");
        return Err(SpecError::value(Field::ColdStart, starts, takes).into());
    }
    on_generator(plan, control, async |_| {
        let (mut samples, mut failed, mut last) = (Vec::new(), Vec::new(), None);
        for index in 0..starts {
            control.enter(Stage::Measuring);
            control.set_permille((index * 1000 / starts) as u64);
            match unless_stopped(control, fresh.start(plan)).await {
                Ok((sample, tool)) => {
                    control.add(1, 0);
                    samples.push(sample);
                    last = Some(tool);
                }
                Err(Error::Interrupted) => break,
                // What the user asked for cannot be done, or cannot be done once.
                Err(error) if samples.is_empty() && failed.len() == 2 => return Err(error),
                Err(error) => failed.push(error.to_string()),
            }
        }
        if samples.is_empty() {
            let why = failed.pop().map(|what| Error::Unreachable { what });
            return Err(why.unwrap_or(Error::Interrupted));
        }
        Ok(ColdStart::of(fresh, starts, &samples, failed, last))
    })?
}

/// One start.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    connect: Option<Duration>,
    tls: Option<Duration>,
    listens: Option<Duration>,
    handshake: Duration,
    ready: Duration,
    first_call: Duration,
}

impl Fresh {
    /// One start, and the tool that was called.
    async fn start(&self, plan: &Plan) -> Result<(Sample, String), Error> {
        match self {
            Self::Target(target) => {
                let mut sample = Sample::default();
                let mut site = Site::start(target, Vec::new(), plan.start_timeout).await?;
                if let Target::Remote(_) = target {
                    let (connect, tls) = site.knock(plan.start_timeout).await?;
                    (sample.connect, sample.tls) = (Some(connect), tls);
                }
                let tool = sample.go_on(&mut site, plan, None).await;
                site.stop().await;
                Ok((sample, tool?))
            }
            Self::Listening(command, remote) => {
                let began = Instant::now();
                let mut child = command
                    .spawn()
                    .map_err(|error| Error::Unreachable { what: error.to_string() })?;
                let remote = Remote::clone(remote).pid(Some(child.pid()));
                let work = async {
                    let target = Target::Remote(Box::new(remote));
                    let mut site = Site::start(&target, Vec::new(), plan.start_timeout).await?;
                    while let Err(error) = site.knock(plan.start_timeout).await {
                        if began.elapsed() > plan.start_timeout {
                            return Err(error);
                        }
                        sleep(ATTEMPTS_EVERY).await;
                    }
                    let mut sample = Sample { listens: Some(began.elapsed()), ..Sample::default() };
                    let tool = sample.go_on(&mut site, plan, Some(began)).await?;
                    Ok((sample, tool))
                };
                let done = work.await;
                child.stop(GRACE).await;
                done
            }
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Target(target) => target.to_string(),
            Self::Listening(command, remote) => format!("{command} at {}", remote.address()),
        }
    }
}

impl Sample {
    /// Shakes hands, lists the tools, calls one. Times count from `began`, or from when the
    /// connection was opened.
    async fn go_on(
        &mut self,
        site: &mut Site,
        plan: &Plan,
        began: Option<Instant>,
    ) -> Result<String, Error> {
        let Opened { mut connection, peer, tools, start } = open(site, &plan.opening()).await?;
        let before = began.map(|began| connection.started.saturating_duration_since(began));
        let before = before.unwrap_or_default();
        (self.handshake, self.ready) = (before + start.handshake, before + start.tools);
        let call = choose(plan, &tools)?;
        let params = peer.call(&call.tool, &call.args);
        let (name, asked) = (Some(call.tool.as_str()), Instant::now());
        let answer = connection.wire.request(Method::ToolsCall, &params, name, plan.timeout).await;
        self.first_call = asked.elapsed();
        let wrong = match &answer {
            Ok(answer) => fault(answer, None).map(|(_, what)| what),
            Err(silence) => Some(format!("{silence:?}")),
        };
        connection.stop(plan.stop_grace).await;
        match wrong {
            None => Ok(call.tool),
            Some(what) => Err(Error::refused(format!("{} was answered with {what}", call.tool))),
        }
    }
}

impl Spread {
    fn of(values_ns: Vec<u64>) -> Option<Self> {
        let mut sorted = values_ns.clone();
        sorted.sort_unstable();
        let (min_ns, max_ns) = (*sorted.first()?, *sorted.last()?);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(max_ns);
        let middle = sorted.len() / 2;
        let median_ns = match sorted.len() % 2 {
            1 => at(middle),
            _ => u64::midpoint(at(middle - 1), at(middle)),
        };
        let median_interval_ns =
            median_interval(sorted.len()).map(|(low, high)| [at(low), at(high)]);
        Some(Self { min_ns, median_ns, median_interval_ns, max_ns, values_ns })
    }
}

impl ColdStart {
    fn of(
        fresh: &Fresh,
        asked: usize,
        samples: &[Sample],
        failed: Vec<String>,
        tool: Option<String>,
    ) -> Self {
        let all = |part: fn(&Sample) -> Option<Duration>| {
            Spread::of(samples.iter().filter_map(part).map(ns).collect())
        };
        let runs_already = matches!(fresh, Fresh::Target(Target::Remote(_) | Target::Memory(_)));
        Self {
            target: fresh.name(),
            fresh: if runs_already { "connection" } else { "process" }.to_owned(),
            tool,
            asked,
            starts: samples.len() + failed.len(),
            failed: failed.len(),
            first_failure: failed.into_iter().next(),
            connect: all(|sample| sample.connect),
            tls: all(|sample| sample.tls),
            listens: all(|sample| sample.listens),
            handshake: all(|sample| Some(sample.handshake)),
            ready: all(|sample| Some(sample.ready)),
            first_call: all(|sample| Some(sample.first_call)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_its_order_statistics() {
        let spread = Spread::of((1..=30).rev().collect()).unwrap();
        assert_eq!((spread.min_ns, spread.median_ns, spread.max_ns), (1, 15, 30));
        assert_eq!(spread.median_interval_ns, Some([10, 21]));
        assert_eq!(Spread::of(vec![3, 1, 2]).unwrap().median_ns, 2);
        assert_eq!(Spread::of(vec![3, 1, 2]).unwrap().median_interval_ns, None);
        assert_eq!(Spread::of(vec![]), None);
    }
}
