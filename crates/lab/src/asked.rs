//! Which fields make sense beside each other, and what is to be done by those of a spec.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcplane_process::Command;
use mcplane_process::observe::Tree;
use serde_json::Value;

use crate::client::{Address, Remote};
use crate::ladder::Steps;
use crate::load::Template;
use crate::plan::{Plan, open_in_flight};
use crate::results::shape::Rate;
use crate::results::{Arrivals, Shape};
use crate::spec::{Field, OPEN, OverHttp, Profiled, Spec, SpecError, TargetSpec, ToolSpec, Until};
use crate::verdict::Assertions;

/// Folder for what a profiler finds, unless a spec says otherwise.
const PROFILE_OUT: &str = "mcplane-profile";

/// What is measured in place of one load after another.
const MODES: &[Field] = &[Field::Ladder, Field::LadderRate, Field::FindLimit, Field::ColdStart];

/// Modes that make the calls of an open loop.
const SEARCHES: &[Field] = &[Field::LadderRate, Field::FindLimit];

/// Fields that make no sense beside others.
const APART: &[(Field, &[Field])] = {
    use Field::{
        Args, Assert, ColdStart, Concurrency, Distinct, Duration, Era, FindLimit, Ladder,
        LadderRate, NoCheck, Profile, Requests, Sessions, Targets, Tool, Tools, Transports,
    };
    &[
        (Requests, &[Duration]),
        (Ladder, &[LadderRate, FindLimit, ColdStart, Concurrency]),
        (LadderRate, &[FindLimit, ColdStart]),
        (FindLimit, &[ColdStart, Assert]),
        (ColdStart, &[Concurrency, Assert, Sessions]),
        (Profile, &[Assert]),
        (Distinct, &[NoCheck]),
        (Transports, &[Targets, Tool, Era]),
        (Tools, &[Tool, Args]),
    ]
};

/// What is done where a spec says nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    pub(crate) duration: Duration,
    pub(crate) warmup: Duration,
    /// How many times its time the warm-up may last.
    pub(crate) warmup_stretch: u32,
    pub(crate) settle: Duration,
    /// Calls in flight per session of a closed loop, each in turn.
    pub(crate) concurrency: &'static [usize],
    pub(crate) slices: usize,
}

/// What is to be measured of each target.
#[derive(Clone, Debug)]
pub(crate) enum Mode {
    /// One load after another.
    Loads(Vec<Plan>),
    /// The same of the built-in server over every transport.
    Transports(Vec<Plan>),
    /// One load after another in turns, to the knee.
    Ladder(Box<Plan>, Steps),
    /// The highest rate that holds.
    Limit(Box<Plan>, Assertions),
    /// So many starts.
    ColdStart(Box<Plan>, usize),
    /// One load under a profiler, and the folder for what that finds.
    Profile(Box<Plan>, Profiled, PathBuf),
}

/// A server that a spec names.
#[derive(Clone, Debug)]
pub(crate) enum Named {
    /// The built-in one.
    BuiltIn,
    Remote(Box<Remote>),
    /// A command over stdio, or one that listens.
    Command(Command, Option<Box<Remote>>),
}

impl Mode {
    /// The plans of its loads, or the one that they are made of.
    pub(crate) fn plans(&self) -> &[Plan] {
        match self {
            Self::Loads(plans) | Self::Transports(plans) => plans,
            Self::Ladder(plan, _)
            | Self::Limit(plan, _)
            | Self::ColdStart(plan, _)
            | Self::Profile(plan, ..) => std::slice::from_ref(plan),
        }
    }
}

impl Defaults {
    /// Those of one load after another.
    pub(crate) const LOADS: Self = Self {
        duration: Duration::from_secs(3),
        warmup: Duration::from_secs(1),
        warmup_stretch: 10,
        settle: Duration::from_millis(1_100),
        concurrency: &[1, 32],
        slices: 10,
    };

    /// Those of the built-in server, which is known to answer the same every time: its sixteen sides
    /// have a minute.
    const TRANSPORTS: Self = Self {
        duration: Duration::from_secs(1),
        warmup: Duration::from_millis(200),
        warmup_stretch: 1,
        settle: Duration::ZERO,
        ..Self::LOADS
    };
}

impl Spec {
    /// Checks every field, and what they mean beside each other; starts nothing.
    ///
    /// # Errors
    /// What is wrong with the first field at fault.
    pub fn check(&self) -> Result<(), SpecError> {
        self.asked().map(drop)
    }

    /// What is to be measured, of which servers; at least one.
    pub(crate) fn asked(&self) -> Result<(Mode, Vec<Named>), SpecError> {
        self.fits_together()?;
        let named = |(index, target): (usize, &TargetSpec)| {
            target.named().map_err(|error| error.of_entry(index))
        };
        let mut targets: Vec<_> =
            self.targets.iter().enumerate().map(named).collect::<Result<_, _>>()?;
        if targets.is_empty() {
            targets.push(Named::BuiltIn);
        }
        Ok((self.mode()?, targets))
    }

    /// One plan for each load.
    pub(crate) fn plans(&self, defaults: &Defaults) -> Result<Vec<Plan>, SpecError> {
        let closed = match self.profile {
            Some(_) => &[1],
            None => defaults.concurrency,
        };
        let concurrency = match (self.concurrency.as_slice(), self.arrivals()) {
            ([], None) => closed.to_vec(),
            ([], Some(_)) => vec![open_in_flight(self.sessions.unwrap_or(1))],
            (given, _) => given.to_vec(),
        };
        let plan = self.plan(defaults)?;
        let of = |concurrency| {
            let plan = Plan { concurrency, ..plan.clone() };
            plan.validate().map(|()| plan)
        };
        concurrency.into_iter().map(of).collect()
    }

    /// The plan of the one load that is asked for.
    pub(crate) fn one_plan(&self, defaults: &Defaults) -> Result<Plan, SpecError> {
        self.fits_together()?;
        let mut plans = self.plans(defaults)?;
        match (plans.pop(), plans.len()) {
            (Some(plan), 0) => Ok(plan),
            (_, others) => {
                let got = format!("{} of them", others + 1);
                Err(SpecError::value(Field::Concurrency, got, "one"))
            }
        }
    }

    /// The plan of one load.
    fn plan(&self, defaults: &Defaults) -> Result<Plan, SpecError> {
        let plan = Plan::default();
        let duration = self.duration.unwrap_or(defaults.duration);
        Ok(Plan {
            tool: self.tool.clone(),
            args: self.args.clone(),
            arrivals: self.arrivals(),
            think: self.think,
            mix: self.mix()?,
            seed: self.seed.unwrap_or(plan.seed),
            until: self.requests.map_or(Until::Elapsed(duration), Until::Calls),
            warmup: self.warmup.unwrap_or(Until::Elapsed(defaults.warmup)),
            // What was asked for is kept to.
            warmup_stretch: self.warmup.map_or(defaults.warmup_stretch, |_| 1),
            timeout: self.timeout.unwrap_or(plan.timeout),
            start_timeout: self.start_timeout.unwrap_or(plan.start_timeout),
            sessions: self.sessions.unwrap_or(1),
            check: !self.no_check,
            distinct: self.distinct,
            speak: self.era.unwrap_or_default(),
            pin: self.pin,
            settle: self.settle.unwrap_or(defaults.settle),
            slices: defaults.slices,
            ..plan
        })
    }

    fn mode(&self) -> Result<Mode, SpecError> {
        if self.transports {
            return self.plans(&Defaults::TRANSPORTS).map(Mode::Transports);
        }
        let plans = self.plans(&Defaults::LOADS)?;
        // Every mode but one load after another takes one of them.
        let Some(plan) = plans.first().cloned().map(Box::new) else {
            return Ok(Mode::Loads(plans));
        };
        Ok(match (self.profile, &self.find_limit, self.cold_start) {
            (Some(kind), ..) => {
                let out = self.profile_out.as_deref().unwrap_or_else(|| Path::new(PROFILE_OUT));
                Mode::Profile(plan, kind, out.to_owned())
            }
            (_, Some(conditions), _) => Mode::Limit(plan, conditions.clone()),
            (.., Some(starts)) => Mode::ColdStart(plan, starts),
            _ if !self.ladder.is_empty() => {
                Mode::Ladder(plan, Steps::Concurrency(self.ladder.clone()))
            }
            _ if !self.ladder_rate.is_empty() => {
                Mode::Ladder(plan, Steps::Rate(self.ladder_rate.clone()))
            }
            _ => Mode::Loads(plans),
        })
    }

    /// When calls are meant to begin, unless that depends on others.
    fn arrivals(&self) -> Option<Arrivals> {
        // A search has rates of its own.
        let searched = self.first_of(SEARCHES).map(|_| Shape::Rate(Rate { per_s: 1.0 }));
        let shape = self.shape().or(searched)?;
        let seed = self.seed.unwrap_or_else(|| Plan::default().seed);
        Some(Arrivals { shape, spacing: self.arrivals.unwrap_or_default(), seed })
    }

    fn mix(&self) -> Result<Vec<Template>, SpecError> {
        let template = |(index, tool): (usize, &ToolSpec)| {
            let args = tool.args.clone().map(Value::from);
            let template = Template::new(tool.name.clone(), tool.weight, args, &self.folder)
                .map_err(|what| SpecError::text(Field::Tools, what).of_entry(index))?;
            Ok(if tool.check { template } else { template.unchecked() })
        };
        self.tools.iter().enumerate().map(template).collect()
    }

    /// The first of some fields that anything is said of.
    fn first_of(&self, fields: &[Field]) -> Option<Field> {
        fields.iter().copied().find(|field| self.has(*field))
    }

    /// Whether the fields make sense beside each other.
    fn fits_together(&self) -> Result<(), SpecError> {
        for (field, others) in APART.iter().filter(|(field, _)| self.has(*field)) {
            if let Some(other) = self.first_of(others) {
                return Err(SpecError::apart(*field, other));
            }
        }
        let mut shapes = OPEN.iter().filter(|field| self.has(**field));
        if let (Some(one), Some(other)) = (shapes.next(), shapes.next()) {
            return Err(SpecError::apart(*one, *other));
        }
        if let (Some(mode), Some(other)) =
            (self.first_of(MODES), self.first_of(&[OPEN, &[Field::Transports]].concat()))
        {
            return Err(SpecError::apart(mode, other));
        }
        let random = [OPEN, SEARCHES, &[Field::Tools, Field::Think]].concat();
        for (field, others) in [
            (Field::Args, &[Field::Tool][..]),
            (Field::Arrivals, &[OPEN, SEARCHES].concat()),
            (Field::Seed, &random),
            (Field::ProfileOut, &[Field::Profile]),
            (Field::Profile, &[Field::Command]),
        ] {
            if self.has(field) && self.first_of(others).is_none() {
                return Err(SpecError::needs(field, others));
            }
        }
        self.is_one_where_one_is_taken()
    }

    fn is_one_where_one_is_taken(&self) -> Result<(), SpecError> {
        let (mode, many) = (self.first_of(MODES), self.concurrency.len());
        if let (Some(search), true) = (self.first_of(SEARCHES), many > 1) {
            let what = ["it takes one ".into(), Field::Concurrency.into()];
            return Err(SpecError::new(search, what).with(format!(", got {many}")));
        }
        let is_one = many <= 1 && self.sessions.is_none_or(|sessions| sessions == 1);
        if self.profile.is_some() && !(is_one && mode.is_none()) {
            let one = ["it takes one load: one ".into(), Field::Concurrency.into()];
            return Err(SpecError::new(Field::Profile, one).with(" and one session"));
        }
        match mode {
            Some(mode) if self.targets.len() > 1 => {
                Err(SpecError::value(mode, format!("{} targets", self.targets.len()), "one"))
            }
            _ => self.stands_beside(),
        }
    }

    /// Whether what takes two others has both.
    fn stands_beside(&self) -> Result<(), SpecError> {
        for (field, both) in [
            (Field::Distinct, [Field::Args, Field::NoFloor]),
            (Field::Listens, [Field::ColdStart, Field::Command]),
        ] {
            if self.has(field) && !both.iter().all(|other| self.has(*other)) {
                let [one, other] = both;
                let what = ["it takes ".into(), one.into(), " and ".into(), other.into()];
                return Err(SpecError::new(field, what));
            }
        }
        match (self.think, self.first_of(&[OPEN, SEARCHES].concat())) {
            (Some(_), Some(open)) => {
                let what = ["beside ".into(), open.into()];
                let takes = "; it takes a closed loop: arrivals do not wait";
                Err(SpecError::new(Field::Think, what).with(takes))
            }
            _ => Ok(()),
        }
    }
}

impl TargetSpec {
    fn named(&self) -> Result<Named, SpecError> {
        if let Some(field) = self.of_url().filter(|_| self.url.is_none()) {
            return Err(SpecError::needs(field, &[Field::Url]));
        }
        let wrong = |field| move |what: String| SpecError::text(field, what);
        if let Some(file) = &self.ca {
            let cannot = |error| SpecError::text(Field::Ca, format!("{}: {error}", file.display()));
            File::open(file).map_err(cannot)?;
        }
        // Elsewhere no process can be seen.
        if let (Some(pid), true) = (self.pid, cfg!(target_os = "linux"))
            && Tree::of(pid).is_none()
        {
            return Err(SpecError::text(Field::Pid, format!("there is no process {pid}")));
        }
        let Some(url) = &self.url else { return self.command() };
        if !self.command.is_empty() {
            return Err(SpecError::apart(Field::Url, Field::Command));
        }
        let address = Address::parse(url, self.transport == Some(OverHttp::Sse));
        let mut remote =
            Remote::new(address.map_err(wrong(Field::Url))?).ca(self.ca.clone()).pid(self.pid);
        if self.transport.is_some() {
            remote = remote.without_fall_back();
        }
        let remote = self.headers.iter().try_fold(remote, |remote, line| remote.header(line));
        Ok(Named::Remote(Box::new(remote.map_err(wrong(Field::Headers))?)))
    }

    fn command(&self) -> Result<Named, SpecError> {
        let Some((program, rest)) = self.command.split_first() else { return Ok(Named::BuiltIn) };
        let command = Command::new(program).args(rest).inherit_env(&self.inherit_env);
        let listens = self.listens.as_deref().map(|url| Address::parse(url, false));
        let listens = listens.transpose().map_err(|what| SpecError::text(Field::Listens, what))?;
        Ok(Named::Command(command, listens.map(|address| Box::new(Remote::new(address)))))
    }

    /// The first field that makes sense for an address only.
    fn of_url(&self) -> Option<Field> {
        let fields = [
            (Field::Headers, !self.headers.is_empty()),
            (Field::Transport, self.transport.is_some()),
            (Field::Ca, self.ca.is_some()),
            (Field::Pid, self.pid.is_some()),
        ];
        fields.into_iter().find(|(_, is_given)| *is_given).map(|(field, _)| field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Think;
    use crate::results::shape::Burst;
    use crate::spec::parse;

    /// What a file asks for, or a complaint about it.
    fn asked(text: &str) -> Result<(Mode, Vec<Named>), String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (spec, places) = parse("s.toml", text.to_owned(), folder)?;
        spec.asked().map_err(|error| places.complaint(&error))
    }

    #[test]
    fn a_file_is_a_spec() {
        let (spec, _) = parse(
            "s",
            "concurrency = [1, 8]\nduration = \"2s\"\nno_floor = true\nno_check = false\n\
             tool = \"echo\"\nargs = { message = \"a\", n = 1.0 }\nburst = \"50/1s\"\nseed = 3\n\
             warmup = 7\n[[targets]]\ncommand = [\"server\", \"-x\"]\n\
             [[targets]]\nurl = \"http://a/\"\nheaders = [\"A: b\"]\n"
                .to_owned(),
            Path::new(""),
        )
        .unwrap();
        assert_eq!(
            (&spec.concurrency[..], spec.no_floor, spec.no_check),
            (&[1, 8][..], true, false)
        );
        assert_eq!(spec.args.as_ref().unwrap().get(), r#"{"message":"a","n":1.0}"#);
        let burst = Burst { calls: 50, every_ns: 1_000_000_000 };
        assert_eq!((spec.burst, spec.warmup), (Some(burst), Some(Until::Calls(7))));
        let (Mode::Loads(plans), targets) = spec.asked().unwrap() else { panic!("{spec:?}") };
        assert_eq!(plans.iter().map(|plan| plan.concurrency).collect::<Vec<_>>(), [1, 8]);
        let [Named::Command(command, None), Named::Remote(remote)] = &targets[..] else {
            panic!("{targets:?}")
        };
        assert_eq!(command.to_string(), "server -x");
        assert_eq!(remote.address().to_string(), "http://a/");
    }

    #[test]
    fn a_mix_has_its_templates() {
        let text = "think = \"exponential 10ms\"\nseed = 9\n[[tools]]\nname = \"a\"\nweight = 3\n\
            args = { key = \"{zipf:10:1}\" }\n[[tools]]\nname = \"b\"\ncheck = false\n";
        let Mode::Loads(plans) = asked(text).unwrap().0 else { panic!() };
        let mix = &plans[0].mix;
        let tools: Vec<_> = mix.iter().map(|t| (t.tool.as_str(), t.weight, t.check)).collect();
        assert_eq!((tools, plans[0].seed), (vec![("a", 3.0, true), ("b", 1.0, false)], 9));
        assert_eq!(plans[0].think, Some(Think { mean_ns: 10_000_000, exponential: true }));
    }

    #[test]
    fn what_is_wrong_has_its_file_line_column_and_key() {
        for (text, parts) in [
            ("rate = 1\nratee = 2", &["s.toml:2:1: ", "ratee"][..]),
            ("rate = 1\n\nsessions = \"x\"", &["s.toml:3:12: sessions: "]),
            ("rate = ", &["s.toml:1:"]),
            ("think = \"soon\"", &["s.toml:1:9: think: `soon`: ", "exponential 10ms"]),
            (
                "[[tools]]\nname = \"a\"\n[[tools]]\nname = \"b\"\nargs = { a = \"{size:x}\" }",
                &["s.toml:3:1: tools[1]: ", "{size:x}"],
            ),
            ("a = 1", &["s.toml:1:1: ", "concurrency"]),
            ("tool = \"a\"\n[[tools]]\nname = \"a\"", &["s.toml:2:", "tools: ", "with `tool`"]),
            ("[[targets]]\nuri = 1", &["s.toml:2:", "uri"]),
            ("ladder_rate = [9.0]\nthink = \"5ms\"", &["s.toml:2:1: think: ", "`ladder_rate`"]),
            ("think = \"5ms\"\nfind_limit = \"errors=0\"", &["s.toml:1:1: think: "]),
            ("tool = \"a\"\nconcurrency = []", &["s.toml:2:15: concurrency: an empty list"]),
            ("ladder = []", &["s.toml:1:10: ladder: an empty list"]),
            ("\n  duration = \"5 parsecs\"", &["s.toml:2:14: duration: `5 parsecs`: units are ms"]),
            ("rate = 0\n", &["s.toml:1:1: rate: got 0; it takes more than 0"]),
            ("arrivals = \"poisson\"", &["s.toml:1:1: arrivals: it takes `rate`, `burst`, "]),
            ("seed = 1", &["s.toml:1:1: seed: it takes `rate`", "`tools` or `think`"]),
            ("args = { a = 1 }", &["s.toml:1:1: args: it takes `tool`"]),
            ("\nprofile_out = \"x\"", &["s.toml:2:1: profile_out: it takes `profile`"]),
            ("distinct = true", &["s.toml:1:1: distinct: it takes `args` and `no_floor`"]),
            ("profile = \"cpu\"", &["s.toml:1:1: profile: it takes `command`"]),
            ("find_limit = \"p99<5\"", &["s.toml:1:14: find_limit: `p99<5`: ", "unit"]),
            ("requests = 1\nduration = \"1s\"", &["s.toml:1:1: requests: ", "with `duration`"]),
            (
                "[[targets]]\nurl = \"http://a\"\n[[targets]]\nurl = \"ftp://b\"\n",
                &["s.toml:4:1: targets[1].url: ", "ftp is not spoken"],
            ),
            (
                "[[targets]]\ncommand = [\"x\"]\nheaders = [\"a: b\"]\n",
                &["s.toml:3:1: targets[0].headers: it takes `url`"],
            ),
        ] {
            let error = asked(text).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
        }
    }
}
