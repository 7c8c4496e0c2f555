//! The arguments of `mcplane bench`.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mcplane_lab::{
    Address, Arrivals, Plan, PlanError, Remote, Shape, Spacing, Speak, Until, listening_at,
    open_in_flight,
};
use mcplane_process::observe::Tree;
use serde_json::value::RawValue;

use super::modes::ModeArgs;
use super::scenario::Extra;
use crate::report::Outputs;

/// Measure a server: throughput, latency, errors, CPU and memory, beside a floor.
///
/// Without a target, the built-in fixture is measured over memory and stdio, or, with --transports,
/// over every transport.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Durations take ms, s, m or h (500ms, 1.5s, 2m).
Exit code: 0 measured without an error, 1 the server answered with errors or a condition fails, 2 usage, 3 the server \
could not be reached or spoken to, or a condition cannot be told, 130 interrupted before a measurement began.")]
#[allow(clippy::exhaustive_structs, reason = "what clap fills in")]
pub struct BenchArgs {
    /// Tool to call; by default one that is cheap and changes nothing
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Arguments of the tool; by default built from its input schema
    #[arg(long, value_name = "JSON", value_parser = raw_json, requires = "tool")]
    pub args: Option<RawJson>,
    /// Calls in flight per session; a list measures each in turn [default: 1,32]. With --rate,
    /// --burst or --ramp, the most in flight [default: 1024 over all sessions]
    #[arg(long, short, value_name = "N", value_delimiter = ',')]
    pub concurrency: Vec<usize>,
    /// Open loop: begin this many calls per second, whether or not others have ended
    #[arg(long, value_name = "N", groups = ["open", "arriving"])]
    pub rate: Option<f64>,
    /// Open loop: begin a number of calls at once, at intervals
    #[arg(long, value_name = "N/TIME", value_parser = burst, groups = ["open", "arriving"])]
    pub burst: Option<Shape>,
    /// Open loop: begin calls at a rate that changes from one to another over the run
    #[arg(long, value_name = "N..N", value_parser = ramp, groups = ["open", "arriving"])]
    pub ramp: Option<Shape>,
    /// How the calls of an open loop are spread: evenly, or at random, as from independent callers
    #[arg(
        long,
        default_value = "constant",
        value_name = "constant|poisson",
        requires = "arriving"
    )]
    pub arrivals: Spacing,
    /// Seed of the random spread: the same seed gives the same times
    #[arg(long, value_name = "N", default_value_t = 1, requires = "arriving")]
    pub seed: u64,
    /// Stop after this many calls
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "duration")]
    pub requests: Option<u64>,
    /// Stop after this time [default: 3s; with --transports 1s for each of them]
    #[arg(long, short, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Calls (100) or time (1s) of warm-up, not measured [default: 1s, then until latencies show no
    /// trend, 10s at most; with --transports 200ms]
    #[arg(long, value_name = "N|TIME", value_parser = calls_or_time)]
    pub warmup: Option<Until>,
    /// Longest time for one call
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub timeout: Duration,
    /// Longest time for each step of starting up
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "20s")]
    pub start_timeout: Duration,
    /// Connections; over stdio, processes
    #[arg(long, short, value_name = "N", default_value_t = 1)]
    pub sessions: usize,
    /// Do not compare each result with the first
    #[arg(long)]
    pub no_check: bool,
    /// Put the number of each call where --args has {n}, and expect it back in the result
    #[arg(long, requires_all = ["args", "no_floor"], conflicts_with = "no_check")]
    pub distinct: bool,
    /// Pause between the two calls that show whether a result changes by itself [default: 1.1s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub settle: Option<Duration>,
    /// Do not measure the floor
    #[arg(long)]
    pub no_floor: bool,
    /// Let the floor write each answer by itself, as a plain loop does, instead of all answers to
    /// one read at once; over stdio
    #[arg(long)]
    pub plain_floor: bool,
    /// Keep generator and server on this core
    #[arg(long, value_name = "CPU")]
    pub pin: Option<usize>,
    /// Handshake: auto, legacy, modern, or a revision such as 2025-06-18
    #[arg(long, visible_alias = "revision", value_name = "ERA", default_value = "auto")]
    #[arg(conflicts_with = "transports")]
    pub era: Speak,
    /// Header of every HTTP request and of the WebSocket handshake (repeatable); its value is never
    /// shown
    #[arg(
        long = "header",
        value_name = "'NAME: VALUE'",
        requires = "url",
        conflicts_with = "command"
    )]
    pub headers: Vec<String>,
    /// Transport of an http URL; by default Streamable HTTP, and HTTP+SSE where that fails
    #[arg(long, value_enum, value_name = "http|sse", requires = "url", conflicts_with = "command")]
    pub transport: Option<OverHttp>,
    /// PEM file of the authorities to trust in place of the system's
    #[arg(long, value_name = "FILE", requires = "url", conflicts_with = "command")]
    pub ca: Option<PathBuf>,
    /// Process whose CPU and memory are measured; by default the one that listens at the URL, if it
    /// is on this machine and visible
    #[arg(long, value_name = "PID", requires = "url", conflicts_with = "command")]
    pub pid: Option<u32>,
    #[command(flatten)]
    pub modes: ModeArgs,
    /// What only a scenario can ask for
    #[arg(skip)]
    pub extra: Extra,
    /// Measure the built-in fixture over every transport, in turns
    #[arg(long)]
    #[arg(conflicts_with_all = ["url", "command", "tool", "headers", "transport", "ca", "pid"])]
    pub transports: bool,
    /// Run the command, and what it starts, under a profiler, and write a flame graph and a table
    /// of functions: cpu by perf or callgrind, heap by heaptrack or massif. The figures of such a
    /// run are not results
    #[arg(long, value_enum, value_name = "cpu|heap|stages", conflicts_with = "assert")]
    pub profile: Option<Profiled>,
    /// Folder for these, and for the output of the profiler
    #[arg(long, value_name = "DIR", default_value = "mcplane-profile")]
    #[arg(requires = "profile", conflicts_with = "assert")]
    pub profile_out: PathBuf,
    /// Show nothing while it runs
    #[arg(long, short)]
    pub quiet: bool,
    /// Write everything as JSON to a file, or to stdout in place of the table (-)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub outputs: Outputs,
    /// Address of a server: http(s)://, ws(s)://, tcp://HOST:PORT or unix:PATH
    #[arg(value_name = "URL")]
    pub url: Option<String>,
    /// Command that starts a server on stdio
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "url")]
    pub command: Vec<OsString>,
}

/// The transport of an http URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(clippy::exhaustive_enums, reason = "what clap fills in")]
pub enum OverHttp {
    /// Streamable HTTP
    Http,
    /// HTTP+SSE of 2024-11-05
    Sse,
}

/// What a profiler looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(clippy::exhaustive_enums, reason = "what clap fills in")]
pub enum Profiled {
    /// Where the time goes
    Cpu,
    /// What holds the memory
    Heap,
    /// How long a server on mcplane reads, parses, validates, queues, handles and writes
    Stages,
}

/// JSON text as it was typed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// The text.
    pub fn into_inner(self) -> Box<RawValue> {
        self.0
    }
}

impl BenchArgs {
    /// One plan for each concurrency.
    ///
    /// # Errors
    /// A sentence that names the flag at fault.
    pub(super) fn plans(&self) -> Result<Vec<Plan>, String> {
        // clap does not ask for a command where a URL excludes one.
        if self.profile.is_some() && self.command.is_empty() {
            return Err(
                "--profile takes a command: mcplane bench --profile cpu -- COMMAND".to_owned()
            );
        }
        if let (Some(flag), true) = (self.modes.rates_by(), self.concurrency.len() > 1) {
            return Err(format!("{flag} takes one --concurrency, got {}", self.concurrency.len()));
        }
        let is_one = self.concurrency.len() <= 1 && self.sessions == 1 && !self.modes.is_any();
        if self.profile.is_some() && !is_one {
            return Err("--profile takes one load: one --concurrency and one session".to_owned());
        }
        let valid = |plan: Plan| plan.validate().map(|()| plan);
        let plans: Result<_, PlanError> =
            self.in_flight().into_iter().map(|many| valid(self.plan(many))).collect();
        plans.map_err(|error| error.to_string())
    }

    /// The server at the URL, if there is one.
    ///
    /// # Errors
    /// A sentence that names the flag or the address at fault.
    pub(super) fn remote(&self) -> Result<Option<Remote>, String> {
        if let Some(url) = &self.modes.listens {
            if self.modes.cold_start.is_none() || self.command.is_empty() {
                return Err("--listens takes --cold-start and a command".to_owned());
            }
            listening_at(url).map_err(|what| format!("--listens: {what}"))?;
        }
        if let Some(file) = &self.ca {
            File::open(file).map_err(|error| format!("--ca {}: {error}", file.display()))?;
        }
        // Elsewhere no process can be seen.
        if let (Some(pid), true) = (self.pid, cfg!(target_os = "linux"))
            && Tree::of(pid).is_none()
        {
            return Err(format!("--pid: there is no process {pid}"));
        }
        let Some(url) = &self.url else { return Ok(None) };
        let address = Address::parse(url, self.transport == Some(OverHttp::Sse))?;
        let mut remote = Remote::new(address).ca(self.ca.clone()).pid(self.pid);
        if self.transport.is_some() {
            remote = remote.without_fall_back();
        }
        self.headers.iter().try_fold(remote, |remote, line| remote.header(line)).map(Some)
    }

    /// When calls are meant to begin, unless that depends on others.
    fn open(&self) -> Option<Arrivals> {
        let rate = self.rate.map(|per_s| Shape::Rate { per_s });
        // A search has rates of its own.
        let searched = self.modes.rates_by().map(|_| Shape::Rate { per_s: 1.0 });
        let shape = rate.or(self.burst).or(self.ramp).or(searched)?;
        Some(Arrivals { shape, spacing: self.arrivals, seed: self.seed })
    }

    fn in_flight(&self) -> Vec<usize> {
        match (self.concurrency.as_slice(), self.open()) {
            ([], None) if self.profile.is_some() => vec![1],
            ([], None) => vec![1, 32],
            ([], Some(_)) => vec![open_in_flight(self.sessions)],
            (given, _) => given.to_vec(),
        }
    }

    pub(super) fn plan(&self, concurrency: usize) -> Plan {
        let default = Plan::default();
        // The fixture is known to answer the same every time; sixteen sides have a minute.
        let (duration, warmup, settle) = match self.transports {
            true => (Duration::from_secs(1), Duration::from_millis(200), Duration::ZERO),
            false => (Duration::from_secs(3), Duration::from_secs(1), default.settle),
        };
        let duration = self.duration.unwrap_or(duration);
        self.extra.add_to(Plan {
            tool: self.tool.clone(),
            args: self.args.clone().map(|json| json.0),
            concurrency,
            arrivals: self.open(),
            until: self.requests.map_or(Until::Elapsed(duration), Until::Calls),
            warmup: self.warmup.unwrap_or(Until::Elapsed(warmup)),
            // What was asked for is kept to.
            warmup_stretch: match self.warmup.is_some() || self.transports {
                true => 1,
                false => default.warmup_stretch,
            },
            timeout: self.timeout,
            start_timeout: self.start_timeout,
            sessions: self.sessions,
            check: !self.no_check,
            distinct: self.distinct,
            speak: self.era,
            pin: self.pin,
            settle: self.settle.unwrap_or(settle),
            seed: self.seed,
            ..default
        })
    }
}

pub(crate) fn raw_json(text: &str) -> Result<RawJson, String> {
    serde_json::from_str(text).map(RawJson).map_err(|error| format!("not JSON: {error}"))
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..) {
        Some("ms") => 1e-3,
        Some("" | "s") => 1.0,
        Some("m") => 60.0,
        Some("h") => 3600.0,
        _ => return Err("units are ms, s, m and h".to_owned()),
    };
    let number: f64 = digits.parse().map_err(|_| "not a number with a unit".to_owned())?;
    Duration::try_from_secs_f64(number * unit).map_err(|error| error.to_string())
}

/// `50/1s`: 50 calls every second.
fn burst(text: &str) -> Result<Shape, String> {
    let form = || "not of the form N/TIME, such as 50/1s".to_owned();
    let (calls, every) = text.split_once('/').ok_or_else(form)?;
    let calls = calls.parse().map_err(|_| form())?;
    let every_ns = u64::try_from(duration(every)?.as_nanos()).map_err(|_| form())?;
    Ok(Shape::Burst { calls, every_ns })
}

/// `100..2000`: from 100 to 2000 calls per second.
fn ramp(text: &str) -> Result<Shape, String> {
    let rates = text.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let form = || "not of the form N..N, such as 100..2000".to_owned();
    let (from_per_s, to_per_s) = rates.ok_or_else(form)?;
    Ok(Shape::Ramp { from_per_s, to_per_s })
}

pub(crate) fn calls_or_time(text: &str) -> Result<Until, String> {
    text.parse().map(Until::Calls).or_else(|_| duration(text).map(Until::Elapsed))
}

#[cfg(test)]
mod tests {
    use std::process;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn parse(line: &str) -> Result<BenchArgs, clap::Error> {
        Cli::try_parse_from(std::iter::once("bench").chain(line.split_whitespace()))
            .map(|cli| cli.bench)
    }

    #[test]
    fn the_default_measures_one_and_many_in_flight() {
        let plans = parse("").unwrap().plans().unwrap();
        let concurrency: Vec<_> = plans.iter().map(|plan| plan.concurrency).collect();
        assert_eq!(concurrency, [1, 32]);
        assert!(
            plans
                .iter()
                .all(|plan| plan.check && plan.until == Until::Elapsed(Duration::from_secs(3)))
        );
    }

    #[test]
    fn flags_reach_the_plan() {
        let line = "--tool add --args {\"a\":1.0} -c 4 -n 100 --warmup 20 --timeout 250ms -s 2 \
            --no-check --pin 1 --era legacy -- server --flag -x";
        let args = parse(line).unwrap();
        assert_eq!(args.command, ["server", "--flag", "-x"]);
        let plan = args.plans().unwrap().remove(0);
        assert_eq!(plan.args.unwrap().get(), "{\"a\":1.0}");
        assert_eq!((plan.concurrency, plan.sessions, plan.pin), (4, 2, Some(1)));
        assert_eq!((plan.until, plan.warmup), (Until::Calls(100), Until::Calls(20)));
        assert_eq!((plan.timeout, plan.check), (Duration::from_millis(250), false));
        assert_eq!(plan.speak, "legacy".parse().unwrap());
    }

    #[test]
    fn an_open_loop_has_arrivals_and_room() {
        let plan = |line: &str| parse(line).unwrap().plans().unwrap().remove(0);
        let poisson = plan("--rate 500 --arrivals poisson --seed 9 -s 4");
        assert_eq!(poisson.seed, 9);
        let shape = Shape::Rate { per_s: 500.0 };
        let want = Arrivals { shape, spacing: Spacing::Poisson, seed: 9 };
        assert_eq!((poisson.arrivals, poisson.concurrency), (Some(want), 256));
        for (line, want) in [
            ("--burst 50/1s", Shape::Burst { calls: 50, every_ns: 1_000_000_000 }),
            ("--ramp 100..2000", Shape::Ramp { from_per_s: 100.0, to_per_s: 2000.0 }),
        ] {
            let plan = plan(&format!("{line} -c 8"));
            assert_eq!((plan.arrivals.unwrap().shape, plan.concurrency), (want, 8));
        }
        for line in [
            "--rate x",
            "--burst 50",
            "--burst 50/x",
            "--ramp 5",
            "--rate 1 --ramp 1..2",
            "--seed 1",
            "--arrivals poisson",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        let searched = plan("--find-limit errors=0 --arrivals poisson --seed 9").arrivals.unwrap();
        assert_eq!((searched.spacing, searched.seed), (Spacing::Poisson, 9));
        assert!(plan("--ladder-rate 5,9 --arrivals poisson").arrivals.is_some());
        assert!(parse("--rate 0").unwrap().plans().unwrap_err().starts_with("--rate"));
        for line in ["--find-limit errors=0 -c 2,64", "--ladder-rate 5,9 -c 2,4"] {
            let error = parse(line).unwrap().plans().unwrap_err();
            assert!(error.contains("takes one --concurrency"), "{error}");
        }
    }

    #[test]
    fn a_profile_is_of_one_command_and_one_load() {
        let args = parse("--profile cpu -- server").unwrap();
        assert_eq!((args.profile, args.plans().unwrap().len()), (Some(Profiled::Cpu), 1));
        assert_eq!(args.profile_out.to_str(), Some("mcplane-profile"));
        for line in ["--profile-out x -- server", "--profile-out x --assert errors=0 -- server"] {
            assert!(parse(line).is_err(), "{line}");
        }
        for line in ["--profile heap", "--profile heap http://x", "--profile cpu --transports"] {
            let error = parse(line).unwrap().plans().unwrap_err();
            assert!(error.starts_with("--profile takes a command"), "{line}: {error}");
        }
        let many = parse("--profile cpu -c 1,4 -- server").unwrap().plans().unwrap_err();
        assert!(many.starts_with("--profile"), "{many}");
    }

    #[test]
    fn times_take_their_units() {
        for (text, ms) in [("500ms", 500), ("2s", 2000), ("1.5", 1500), ("1m", 60_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for wrong in ["", "s", "1d", "-1s", "1e99h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(calls_or_time("7"), Ok(Until::Calls(7)));
        assert_eq!(calls_or_time("7s"), Ok(Until::Elapsed(Duration::from_secs(7))));
    }

    #[test]
    fn a_url_is_a_server_that_runs_already() {
        let line =
            format!("--header A:b --revision 2025-06-18 --pid {} https://x/mcp", process::id());
        let args = parse(&line).unwrap();
        assert_eq!(args.remote().unwrap().unwrap().address().to_string(), "https://x/mcp");
        assert_eq!(args.era, "2025-06-18".parse().unwrap());
        assert!(parse("").unwrap().remote().unwrap().is_none());
        for (line, part) in [
            ("server", "mcplane bench -- server"),
            ("--transport sse ws://x", "--transport"),
            ("--header nothing http://x", "'Name: value'"),
            ("--listens http://x -c 1 -- server", "--listens takes --cold-start and a command"),
            ("--cold-start 2 --listens http://x http://y", "--listens takes"),
            #[cfg(target_os = "linux")]
            ("--pid 4294967295 http://x", "--pid: there is no process 4294967295"),
        ] {
            let error = parse(line).unwrap().remote().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn every_transport_fits_in_a_minute() {
        let plans = parse("--transports").unwrap().plans().unwrap();
        let seconds = |until| match until {
            Until::Elapsed(time) => time.as_secs_f64(),
            Until::Calls(_) => f64::INFINITY,
        };
        let warmup = |plan: &Plan| seconds(plan.warmup) * f64::from(plan.warmup_stretch);
        let each = |plan: &Plan| 16.0 * (seconds(plan.until) + warmup(plan));
        assert!(plans.iter().map(each).sum::<f64>() < 45.0);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "--args {} ",
            "--tool a --args {",
            "-n 1 -d 1s",
            "--era 2026",
            "u -- c",
            "--transports u",
            "--transports --pid 1",
            "--transports --header a:b",
            "--transports --transport http",
            "--transports --era modern",
            "--header a:b -- c",
            "--pid 1",
            "--tool a --args {} --distinct",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert!(parse("-c 0").unwrap().plans().unwrap_err().starts_with("--concurrency"));
        assert!(parse("--era 2025-06-18").is_ok());
    }
}
