//! The runs, in turns: A B B A …, each with fresh processes.

use std::sync::Arc;
use std::time::Duration;

use mcplane_lab::report::Run;
use mcplane_lab::verdict::Role;
use mcplane_lab::{Control, Error, Floor, Plan, Target, pinned, run};

use super::service::Service;
use super::words::Subject;
use crate::bench::watch::Watcher;

/// A target's name, its part, and its runs.
type Side = (String, Role, Vec<Run>);

/// Measures every subject so many times, forwards and backwards in turn. What was measured before an
/// error or an interruption is kept.
pub(super) fn measure(
    subjects: &[(Subject, Role)],
    plan: &Plan,
    pairs: usize,
    control: &Arc<Control>,
) -> anyhow::Result<(Vec<Side>, Option<Error>)> {
    let mut sides: Vec<Side> =
        subjects.iter().map(|(subject, role)| (subject.name.clone(), *role, Vec::new())).collect();
    for round in 0..pairs {
        let mut order: Vec<_> = subjects.iter().zip(&mut sides).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for ((subject, _), (name, _, runs)) in order {
            let plan = Plan { speak: subject.speak, ..after(plan, runs.first()) };
            let watcher =
                Watcher::start(control, format!("{}/{pairs} {}", round + 1, shorten(name)));
            let outcome = once(subject, &plan, control);
            watcher.finish();
            match outcome {
                Ok(run) if run.interrupted => return Ok((sides, Some(Error::Interrupted))),
                Ok(run) => runs.push(run),
                Err(error) => return Ok((sides, Some(error))),
            }
        }
    }
    Ok((sides, None))
}

/// Later runs know from the first whether the result is the same every time, and call the same tool.
fn after(plan: &Plan, first: Option<&Run>) -> Plan {
    match first {
        None => plan.clone(),
        Some(first) => Plan {
            settle: Duration::ZERO,
            check: plan.check && first.plan.check.as_str() == "equal",
            ..plan.clone()
        },
    }
}

fn once(subject: &Subject, plan: &Plan, control: &Arc<Control>) -> Result<Run, Error> {
    let (Some(command), Target::Remote(remote)) = (&subject.service, &subject.target) else {
        return run(plan, &subject.target, &Floor::Off, control);
    };
    let start = || Service::start(command, &subject.place, plan.start_timeout, control);
    let service = pinned(plan.pin, start)?.map_err(|what| Error::Unreachable { what })?;
    let remote = remote.as_ref().clone().pid(Some(service.pid()));
    let outcome = run(plan, &Target::Remote(Box::new(remote)), &Floor::Off, control);
    service.stop();
    outcome
}

fn shorten(name: &str) -> String {
    name.chars().take(30).collect()
}
