//! What `mcplane compare` does: several targets in turns, A B B A …, each run with fresh processes.
//!
//! * [`contest()`] — the turns (this file).
//! * `words`   — what a target is, from one argument.
//! * `service` — a command that listens at a known address.

mod service;
mod words;

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error as ThisError;

use self::service::Service;
use self::words::Contestant;
use crate::asked::Defaults;
use crate::client::{Speak, Target};
use crate::control::Control;
use crate::error::Error;
use crate::floor::Floor;
use crate::pin::pinned;
use crate::plan::Plan;
use crate::results::{Checking, Contest, Environment, Role, Run};
use crate::run::run;
use crate::spec::{Spec, SpecError};
use crate::verdict::PAIRS_MIN;

/// Most targets at once.
const TARGETS_MAX: usize = 16;

/// Most pairs of runs.
const PAIRS_MAX: usize = 1000;

/// What is done where nothing is asked for.
const DEFAULTS: Defaults = Defaults {
    duration: Duration::from_secs(2),
    warmup: Duration::from_millis(500),
    concurrency: &[1],
    slices: 1,
    ..Defaults::LOADS
};

/// What is compared, and how.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller fills in")]
pub struct ContestSpec {
    /// Servers, each a command line or an address; the first is what the others are compared with.
    pub targets: Vec<String>,
    /// Gateways, through which the first is measured too.
    pub through: Vec<String>,
    /// Headers of every HTTP request to every address, each `Name: value`.
    pub headers: Vec<String>,
    /// The handshake: one for all, or one for each target and then each gateway.
    pub eras: Vec<Speak>,
    /// Runs of each target.
    pub pairs: usize,
    /// Least effect that matters, as a fraction.
    pub effect: f64,
    /// Whether the first target is measured against itself.
    pub calibration: bool,
    /// The load, the same for all; its targets are not looked at.
    pub load: Spec,
}

/// What makes no sense in a [`ContestSpec`].
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum ContestError {
    /// The load.
    #[error(transparent)]
    Load(#[from] SpecError),
    /// A target or a gateway, in a sentence that quotes it.
    #[error("{0}")]
    Target(String),
    /// Too few targets, or too many.
    #[error("{0} targets; it takes 2 to {TARGETS_MAX}, or one and a gateway")]
    Targets(usize),
    /// Too few pairs, or too many.
    #[error("got {0}; it takes {PAIRS_MIN} to {PAIRS_MAX}")]
    Pairs(usize),
    /// Neither one handshake nor as many as there are targets.
    #[error("{given} for {targets} targets")]
    Eras {
        /// Handshakes.
        given: usize,
        /// Targets and gateways.
        targets: usize,
    },
}

/// A target's name, its part, and its runs.
type Side = (String, Role, Vec<Run>);

/// Measures every target so many times, forwards and backwards in turn. What was measured before an
/// error or an interruption is kept; the error says why there is not more. Blocks like [`run`].
///
/// # Errors
/// [`ContestError`] if what is asked for makes no sense: nothing was started then.
pub fn contest(
    spec: &ContestSpec,
    control: &Arc<Control>,
) -> Result<(Contest, Option<Error>), ContestError> {
    let (contestants, plan) = spec.asked()?;
    let environment = Environment::look();
    let (sides, failed) = in_turns(&contestants, &plan, spec.pairs, control);
    Ok((Contest::new(environment, spec.effect, sides), failed))
}

impl ContestSpec {
    /// The targets with their parts, and the plan of a run.
    fn asked(&self) -> Result<(Vec<(Contestant, Role)>, Plan), ContestError> {
        if !(PAIRS_MIN..=PAIRS_MAX).contains(&self.pairs) {
            return Err(ContestError::Pairs(self.pairs));
        }
        let targets = self.targets.len() + self.through.len();
        if !(2..=TARGETS_MAX).contains(&targets) {
            return Err(ContestError::Targets(targets));
        }
        let mut contestants = self.contestants().map_err(ContestError::Target)?;
        for (at, (contestant, _)) in contestants.iter_mut().enumerate() {
            contestant.speak = match self.eras.as_slice() {
                [] => Speak::default(),
                [all] => *all,
                each if each.len() == targets => each.get(at).copied().unwrap_or_default(),
                each => return Err(ContestError::Eras { given: each.len(), targets }),
            };
        }
        if self.calibration {
            let base = contestants.first().map(|(base, _)| (base.clone(), Role::Calibration));
            contestants.extend(base);
        }
        Ok((contestants, self.load.one_plan(&DEFAULTS)?))
    }

    fn contestants(&self) -> Result<Vec<(Contestant, Role)>, String> {
        let mut contestants = Vec::new();
        for target in &self.targets {
            let role = if contestants.is_empty() { Role::Base } else { Role::Rival };
            contestants.push((Contestant::parse(target, &self.headers)?, role));
        }
        for gateway in &self.through {
            let server = self.targets.first().map_or("", String::as_str);
            contestants.push((Contestant::gateway(gateway, server, &self.headers)?, Role::Gateway));
        }
        Ok(contestants)
    }
}

fn in_turns(
    contestants: &[(Contestant, Role)],
    plan: &Plan,
    pairs: usize,
    control: &Arc<Control>,
) -> (Vec<Side>, Option<Error>) {
    let mut sides: Vec<Side> = contestants
        .iter()
        .map(|(contestant, role)| (contestant.name.clone(), *role, Vec::new()))
        .collect();
    for round in 0..pairs {
        let mut order: Vec<_> = contestants.iter().zip(&mut sides).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for ((contestant, _), (name, _, runs)) in order {
            let plan = Plan { speak: contestant.speak, ..after(plan, runs.first()) };
            control.show(format!("{}/{pairs} {}", round + 1, shorten(name)));
            match once(contestant, &plan, control) {
                Ok(run) if run.interrupted => return (sides, Some(Error::Interrupted)),
                Ok(run) => runs.push(run),
                Err(error) => return (sides, Some(error)),
            }
        }
    }
    (sides, None)
}

/// Later runs know from the first whether the result is the same every time, and call the same tool.
fn after(plan: &Plan, first: Option<&Run>) -> Plan {
    match first {
        None => plan.clone(),
        Some(first) => Plan {
            settle: Duration::ZERO,
            check: plan.check && first.plan.check == Checking::Equal,
            ..plan.clone()
        },
    }
}

fn once(contestant: &Contestant, plan: &Plan, control: &Arc<Control>) -> Result<Run, Error> {
    let (Some(command), Target::Remote(remote)) = (&contestant.service, &contestant.target) else {
        return run(plan, &contestant.target, &Floor::Off, control);
    };
    let start = || Service::start(command, &contestant.place, plan.start_timeout, control);
    let service = pinned(plan.pin, start)?.map_err(|what| Error::Unreachable { what })?;
    let remote = remote.as_ref().clone().pid(Some(service.pid()));
    let outcome = run(plan, &Target::Remote(Box::new(remote)), &Floor::Off, control);
    service.stop();
    outcome
}

fn shorten(name: &str) -> String {
    name.chars().take(30).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Until;

    fn spec(targets: &[&str]) -> ContestSpec {
        ContestSpec {
            targets: targets.iter().map(|target| (*target).to_owned()).collect(),
            through: Vec::new(),
            headers: Vec::new(),
            eras: Vec::new(),
            pairs: 3,
            effect: 0.05,
            calibration: false,
            load: Spec::default(),
        }
    }

    fn roles(spec: &ContestSpec) -> Vec<Role> {
        spec.asked().unwrap().0.into_iter().map(|(_, role)| role).collect()
    }

    #[test]
    fn each_target_has_its_part() {
        use Role::{Base, Calibration, Gateway, Rival};
        let calibrated = ContestSpec { calibration: true, ..spec(&["a", "b"]) };
        assert_eq!(roles(&calibrated), [Base, Rival, Calibration]);
        assert_eq!(roles(&spec(&["a", "b", "c"])), [Base, Rival, Rival]);
        let through = vec!["gw -- {server}".to_owned()];
        assert_eq!(roles(&ContestSpec { through, ..spec(&["a"]) }), [Base, Gateway]);
    }

    #[test]
    fn each_target_has_its_era() {
        let eras = |spec: ContestSpec| {
            let (contestants, _) = spec.asked().unwrap();
            contestants.into_iter().map(|(contestant, _)| contestant.speak).collect::<Vec<_>>()
        };
        let (old, new) = ("legacy".parse().unwrap(), "modern".parse().unwrap());
        let base = ContestSpec { calibration: true, ..spec(&["a", "b", "c"]) };
        let own = ContestSpec { eras: vec![old, new, new], ..base.clone() };
        assert_eq!(eras(own), [old, new, new, old]);
        assert_eq!(eras(ContestSpec { eras: vec![new], ..base.clone() }), [new; 4]);
        assert_eq!(eras(base), [Speak::default(); 4]);
    }

    #[test]
    fn the_plan_of_a_run_is_one_slice() {
        let plan = |load: Spec| ContestSpec { load, ..spec(&["a", "b"]) }.asked().unwrap().1;
        let closed = plan(Spec::default());
        assert_eq!((closed.concurrency, closed.arrivals, closed.slices), (1, None, 1));
        assert_eq!(closed.until, Until::Elapsed(Duration::from_secs(2)));
        assert_eq!(closed.warmup, Until::Elapsed(Duration::from_millis(500)));
        let open = plan(Spec {
            rate: Some(crate::results::shape::Rate { per_s: 500.0 }),
            seed: Some(7),
            ..Spec::default()
        });
        assert_eq!((open.concurrency, open.seed, open.arrivals.unwrap().seed), (1024, 7, 7));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let of = |spec: ContestSpec| spec.asked().unwrap_err();
        assert_eq!(of(spec(&["a"])), ContestError::Targets(1));
        assert_eq!(of(ContestSpec { pairs: 2, ..spec(&["a", "b"]) }), ContestError::Pairs(2));
        let eras = vec![Speak::default(); 2];
        let wrong = of(ContestSpec { eras, ..spec(&["a", "b", "c"]) });
        assert_eq!(wrong.to_string(), "2 for 3 targets");
        assert!(of(spec(&["a", "'b"])).to_string().contains("not closed"));
        for (concurrency, words) in [(vec![0], "got 0; "), (vec![1, 2], "got 2 of them; ")] {
            let load = Spec { concurrency, ..Spec::default() };
            let wrong = of(ContestSpec { load, ..spec(&["a", "b"]) }).to_string();
            assert!(wrong.starts_with(&format!("concurrency: {words}")), "{wrong}");
        }
    }
}
