//! What to do: the tool, the load, when to stop, what to check.

use std::time::Duration;

use serde_json::value::RawValue;

use crate::client::{Opening, Speak};
use crate::load::{Course, NUMBER, Template, a_duration};
use crate::results::shape::Rate;
use crate::results::{Arrivals, Shape, Think};
pub use crate::results::{DURATION_MAX, RATE_PER_S_MAX};
use crate::spec::{Field, SpecError, Until};

/// Most calls in flight per session. More would measure our own queue, not the server.
pub const CONCURRENCY_MAX: usize = 4096;

/// Most sessions, each a connection or a process of its own.
pub const SESSIONS_MAX: usize = 256;

/// Longest measurement: a week.
const MEASURED_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Most calls in flight of an open loop over all its sessions, unless a plan says otherwise.
const OPEN_IN_FLIGHT: usize = 1024;

/// Most kinds of calls in a mix.
pub const TOOLS_MAX: usize = 256;

/// Most calls in flight of an open loop in each of so many sessions, unless a plan says otherwise: 1024
/// over all of them.
#[must_use]
pub const fn open_in_flight(sessions: usize) -> usize {
    match OPEN_IN_FLIGHT.checked_div(sessions) {
        Some(0) => 1,
        Some(each) => each,
        None => OPEN_IN_FLIGHT,
    }
}

/// One measurement.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller fills in")]
pub struct Plan {
    /// The tool to call; `None` lets the lab choose one that is cheap and changes nothing.
    pub tool: Option<String>,
    /// Its arguments, a JSON object; `None` builds them from the tool's input schema.
    pub args: Option<Box<RawValue>>,
    /// Calls in flight per session, 1 or more; with arrivals, at most so many.
    pub concurrency: usize,
    /// When calls are meant to begin; `None` begins one when another has ended (a closed loop).
    pub arrivals: Option<Arrivals>,
    /// How long a user thinks between an answer and the next call, in a closed loop.
    pub think: Option<Think>,
    /// Calls of several kinds, in place of `tool` and `args`.
    pub mix: Vec<Template>,
    /// What the random part of arguments and think times begins from.
    pub seed: u64,
    /// When to stop.
    pub until: Until,
    /// Real calls made and thrown away before the measurement.
    pub warmup: Until,
    /// How many times its time the warm-up may last until latencies show no trend; 1 keeps to its
    /// time. A number of calls is kept to.
    pub warmup_stretch: u32,
    /// How long one call may take.
    pub timeout: Duration,
    /// How long the server may take for each step of starting up.
    pub start_timeout: Duration,
    /// How long a process has to stop after its stdin is closed, and again after SIGTERM.
    pub stop_grace: Duration,
    /// Connections (processes, for stdio) that carry the load at once.
    pub sessions: usize,
    /// Whether each result is compared with the first one.
    pub check: bool,
    /// Whether the number of each call goes where the arguments have [`NUMBER`], and is expected in
    /// its result. A floor, whose answers are all the same, makes no sense beside it.
    pub distinct: bool,
    /// Which handshake to use.
    pub speak: Speak,
    /// Put the generator and the server on this core.
    pub pin: Option<usize>,
    /// Pause between the validation calls that decide whether a tool's result is stable. Longer than a
    /// second, so that a clock that shows seconds is seen to move.
    pub settle: Duration,
    /// Slices that the measurement is cut into, so that target and floor alternate: 1 or more.
    pub slices: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            tool: None,
            args: None,
            concurrency: 1,
            arrivals: None,
            think: None,
            mix: Vec::new(),
            seed: 1,
            until: Until::Elapsed(Duration::from_secs(5)),
            warmup: Until::Elapsed(Duration::from_secs(1)),
            warmup_stretch: 10,
            timeout: Duration::from_secs(10),
            start_timeout: Duration::from_secs(20),
            stop_grace: Duration::from_secs(1),
            sessions: 1,
            check: true,
            distinct: false,
            speak: Speak::Auto,
            pin: None,
            settle: Duration::from_millis(1_100),
            slices: 10,
        }
    }
}

impl Plan {
    /// How each connection is opened.
    pub(crate) const fn opening(&self) -> Opening {
        let Self { speak, start_timeout: timeout, stop_grace, .. } = *self;
        Opening { speak, timeout, stop_grace }
    }

    /// The same as an open loop at this rate, its calls spread as they are; evenly, if they have no
    /// arrivals.
    pub(crate) fn at(&self, per_s: f64) -> Self {
        let spread = self.arrivals.map(|arrivals| (arrivals.spacing, arrivals.seed));
        let (spacing, seed) = spread.unwrap_or_default();
        let arrivals = Some(Arrivals { shape: Shape::Rate(Rate { per_s }), spacing, seed });
        Self { arrivals, ..self.clone() }
    }

    /// Checks every bound.
    ///
    /// # Errors
    /// [`SpecError`] names the field, what it was given, and what it takes.
    pub fn validate(&self) -> Result<(), SpecError> {
        in_range(Field::Concurrency, self.concurrency, CONCURRENCY_MAX)?;
        in_range(Field::Sessions, self.sessions, SESSIONS_MAX)?;
        self.arrivals.as_ref().map_or(Ok(()), Arrivals::check)?;
        match self.until {
            Until::Calls(0) => return Err(SpecError::value(Field::Requests, 0, "1 or more")),
            // A longer one has longer seconds.
            Until::Elapsed(time) if time > MEASURED_MAX => {
                let takes = "1ms to 168h";
                return Err(SpecError::value(Field::Duration, format!("{time:?}"), takes));
            }
            Until::Elapsed(time) => a_duration(Field::Duration, time.min(DURATION_MAX))?,
            Until::Calls(_) => {}
        }
        if let Until::Elapsed(time) = self.warmup
            && time > DURATION_MAX
        {
            return Err(SpecError::value(Field::Warmup, format!("{time:?}"), "at most 1h"));
        }
        a_duration(Field::Timeout, self.timeout)?;
        a_duration(Field::StartTimeout, self.start_timeout)?;
        if let Some(think) = self.think {
            a_duration(Field::Think, Duration::from_nanos(think.mean_ns))?;
        }
        if self.mix.len() > TOOLS_MAX {
            let takes = format!("at most {TOOLS_MAX}");
            return Err(SpecError::value(Field::Tools, self.mix.len(), takes));
        }
        self.args_fit()
    }

    /// Checks the arguments of the one tool.
    fn args_fit(&self) -> Result<(), SpecError> {
        let args = self.args.as_ref().map(|args| args.get());
        if self.distinct && !args.is_some_and(|args| args.contains(NUMBER)) {
            let what = ["it takes ".into(), Field::Args.into(), " with {n} in a string".into()];
            return Err(SpecError::new(Field::Distinct, what));
        }
        match args {
            Some(args) if !args.trim_start().starts_with('{') => {
                Err(SpecError::value(Field::Args, args, "a JSON object, such as '{\"a\":1}'"))
            }
            Some(_) if self.tool.is_none() => Err(SpecError::needs(Field::Args, &[Field::Tool])),
            _ => Ok(()),
        }
    }

    /// The arrivals over the whole run.
    pub(crate) fn course(&self) -> Option<Course> {
        self.arrivals.map(|arrivals| match self.until {
            Until::Elapsed(time) => Course::over(arrivals, time),
            Until::Calls(calls) => Course::of(arrivals, calls),
        })
    }

    /// Whether the generator may keep a core busy: not the server's.
    pub(crate) const fn may_spin(&self) -> bool {
        self.pin.is_none()
    }
}

fn in_range(field: Field, value: usize, max: usize) -> Result<(), SpecError> {
    match value {
        value if (1..=max).contains(&value) => Ok(()),
        value => Err(SpecError::value(field, value, format!("1 to {max}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Spacing;
    use crate::results::shape::{Burst, Ramp};

    fn raw(json: &str) -> Option<Box<RawValue>> {
        Some(RawValue::from_string(json.to_owned()).unwrap())
    }

    #[test]
    fn the_default_is_valid() {
        assert_eq!(Plan::default().validate(), Ok(()));
    }

    #[test]
    fn every_error_names_its_field() {
        let plan = Plan::default;
        let tool = Some("echo".to_owned());
        let zero = Duration::ZERO;
        let two_hours = Duration::from_secs(7200);
        let open = |shape, spacing| Plan {
            arrivals: Some(Arrivals { shape, spacing, seed: 0 }),
            ..plan()
        };
        let even = Spacing::Constant;
        let burst = |calls, every_ns| Shape::Burst(Burst { calls, every_ns });
        for (field, wrong) in [
            (Field::Concurrency, Plan { concurrency: 0, ..plan() }),
            (Field::Concurrency, Plan { concurrency: CONCURRENCY_MAX + 1, ..plan() }),
            (Field::Rate, open(Shape::Rate(Rate { per_s: 0.0 }), even)),
            (Field::Rate, open(Shape::Rate(Rate { per_s: f64::NAN }), even)),
            (Field::Rate, open(Shape::Rate(Rate { per_s: 2e6 }), Spacing::Poisson)),
            (Field::Ramp, open(Shape::Ramp(Ramp { from_per_s: 0.0, to_per_s: 0.0 }), even)),
            (Field::Ramp, open(Shape::Ramp(Ramp { from_per_s: -1.0, to_per_s: 9.0 }), even)),
            (Field::Burst, open(burst(0, 1_000_000_000), even)),
            (Field::Burst, open(burst(1, 0), even)),
            (Field::Arrivals, open(burst(1, 1_000_000_000), Spacing::Poisson)),
            (Field::Sessions, Plan { sessions: 0, ..plan() }),
            (Field::Requests, Plan { until: Until::Calls(0), ..plan() }),
            (Field::Duration, Plan { until: Until::Elapsed(zero), ..plan() }),
            (Field::Duration, Plan { until: Until::Elapsed(200 * two_hours), ..plan() }),
            (Field::Warmup, Plan { warmup: Until::Elapsed(two_hours), ..plan() }),
            (Field::Timeout, Plan { timeout: zero, ..plan() }),
            (Field::Distinct, Plan { distinct: true, args: raw("{}"), ..plan() }),
            (Field::Args, Plan { tool, args: raw("[1]"), ..plan() }),
            (Field::Args, Plan { args: raw("{}"), ..plan() }),
        ] {
            let error = wrong.validate().unwrap_err();
            assert_eq!(error.field(), field, "{error}");
            assert!(error.to_string().starts_with(field.key()));
        }
    }
}
