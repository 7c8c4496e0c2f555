//! The arguments of `mcplane bench`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Command, Id, ValueEnum};
use mcplane_lab::Speak;
use mcplane_lab::profile::Kind;
use mcplane_lab::spec::{OverHttp, Spec, TargetSpec};
use mcplane_lab::verdict::Assertions;

use crate::load::LoadArgs;
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
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub way: WayArgs,
    #[command(flatten)]
    pub modes: ModeArgs,
    /// Take everything from a file of TOML; see docs/lab/scenario.md. Beside it may stand
    /// --quiet, --json and the other outputs
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = in_a_scenario())]
    pub scenario: Option<PathBuf>,
    /// Show nothing while it runs
    #[arg(long, short)]
    pub quiet: bool,
    /// Write everything as JSON to a file, or to stdout in place of the table (-)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub outputs: Outputs,
    #[command(flatten)]
    pub target: TargetArgs,
}

/// How a server is measured.
#[derive(Clone, Debug, Args)]
#[allow(clippy::exhaustive_structs, reason = "what clap fills in")]
pub struct WayArgs {
    /// Put the number of each call where --args say {n}, and expect it back in its result
    #[arg(long)]
    pub distinct: bool,
    /// Do not measure the floor
    #[arg(long)]
    pub no_floor: bool,
    /// Let the floor write each answer by itself, as a plain loop does, and not all that one read
    /// brought at once; over stdio
    #[arg(long)]
    pub plain_floor: bool,
    /// Handshake: auto, legacy, modern, or a revision such as 2025-06-18 [default: auto]
    #[arg(long, visible_alias = "revision", value_name = "ERA")]
    pub era: Option<Speak>,
}

/// What is measured beside one load after another.
#[derive(Clone, Debug, Default, Args)]
#[allow(clippy::exhaustive_structs, reason = "what clap fills in")]
pub struct ModeArgs {
    /// Measure each of these numbers of calls in flight, upwards and downwards in turns, and find
    /// the knee: from where on more load gives no more throughput
    #[arg(long, value_name = "N,N,…", value_delimiter = ',')]
    pub ladder: Vec<usize>,
    /// The same with rates of an open loop, in calls per second
    #[arg(long, value_name = "N,N,…", value_delimiter = ',')]
    pub ladder_rate: Vec<f64>,
    /// Find the highest rate at which all of these hold, within 3 %
    #[arg(long, value_name = "'p99<50ms,errors=0'")]
    pub find_limit: Option<Assertions>,
    /// Start so many fresh processes (for a URL: connections), one after the other, to the first
    /// call: what each step takes, with the 95 % interval of the median; 30 or more say something
    #[arg(long, value_name = "N")]
    pub cold_start: Option<usize>,
    /// Exit with 1 if one of these does not hold for a run, with 3 if that cannot be told or the
    /// run was interrupted; they alone decide then
    #[arg(long, value_name = "'p99<5ms,errors=0'")]
    pub assert: Option<Assertions>,
    /// Measure the built-in fixture over every transport, in turns
    #[arg(long)]
    pub transports: bool,
    /// Run the command, and what it starts, under a profiler, and write a flame graph and a table of
    /// functions: cpu by perf or callgrind, heap by heaptrack or massif. The figures of such a run
    /// are not results
    #[arg(long, value_enum, value_name = "cpu|heap|stages")]
    pub profile: Option<Profiled>,
    /// Folder for them and for what the profiler wrote [default: mcplane-profile]
    #[arg(long, value_name = "DIR")]
    pub profile_out: Option<PathBuf>,
}

/// The server.
#[derive(Clone, Debug, Args)]
#[allow(clippy::exhaustive_structs, reason = "what clap fills in")]
pub struct TargetArgs {
    /// Header of every HTTP request and of the WebSocket handshake (repeatable); its value is never
    /// shown
    #[arg(long = "header", value_name = "'NAME: VALUE'")]
    pub headers: Vec<String>,
    /// How an http URL is spoken to; by default Streamable HTTP, and HTTP+SSE where that fails
    #[arg(long, value_enum, value_name = "http|sse")]
    pub transport: Option<Http>,
    /// PEM file of the authorities to trust in place of the system's
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Process whose CPU and memory are measured; by default the one that listens at the URL, if
    /// that is on this machine and can be seen
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Where the command of --cold-start listens; without it, it speaks over stdio
    #[arg(long, value_name = "URL")]
    pub listens: Option<String>,
    /// Address of a server: http(s)://, ws(s)://, tcp://HOST:PORT or unix:PATH
    #[arg(value_name = "URL")]
    pub url: Option<String>,
    /// Command that starts a server on stdio
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// The transport of an http URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(clippy::exhaustive_enums, reason = "what clap fills in")]
pub enum Http {
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

/// What a scenario says in place of the command line.
fn in_a_scenario() -> Vec<Id> {
    let load = WayArgs::augment_args(LoadArgs::augment_args(Command::new("bench")));
    let all = TargetArgs::augment_args(ModeArgs::augment_args(load));
    all.get_arguments().map(|argument| argument.get_id().clone()).collect()
}

impl BenchArgs {
    /// What the command line asks for.
    pub fn spec(&self) -> Spec {
        let Self { way, modes, .. } = self;
        Spec {
            targets: self.target.spec().into_iter().collect(),
            distinct: way.distinct,
            no_floor: way.no_floor,
            plain_floor: way.plain_floor,
            era: way.era,
            ladder: modes.ladder.clone(),
            ladder_rate: modes.ladder_rate.clone(),
            find_limit: modes.find_limit.clone(),
            cold_start: modes.cold_start,
            assert: modes.assert.clone(),
            transports: modes.transports,
            profile: modes.profile.map(|kind| match kind {
                Profiled::Cpu => Kind::Cpu,
                Profiled::Heap => Kind::Heap,
                Profiled::Stages => Kind::Stages,
            }),
            profile_out: modes.profile_out.clone(),
            ..self.load.spec()
        }
    }
}

impl TargetArgs {
    /// The server, if one is named. A command that somebody typed has the environment in which it was
    /// typed.
    fn spec(&self) -> Option<TargetSpec> {
        let spec = TargetSpec {
            command: self.command.clone(),
            inherit_env: vec!["*".to_owned()],
            url: self.url.clone(),
            headers: self.headers.clone(),
            transport: self.transport.map(|http| match http {
                Http::Http => OverHttp::Http,
                Http::Sse => OverHttp::Sse,
            }),
            ca: self.ca.clone(),
            pid: self.pid,
            listens: self.listens.clone(),
        };
        let none = TargetSpec { inherit_env: spec.inherit_env.clone(), ..TargetSpec::default() };
        (spec != none).then_some(spec)
    }
}

#[cfg(test)]
mod tests {
    use std::process;
    use std::time::Duration;

    use clap::error::ErrorKind;
    use clap::{CommandFactory, Parser};
    use mcplane_lab::results::shape::{Burst, Ramp, Rate};
    use mcplane_lab::spec::{Field, SHAPES, schema};
    use mcplane_lab::{Spacing, Until};

    use super::*;
    use crate::load::Source;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn parse(line: &str) -> Result<BenchArgs, clap::Error> {
        Cli::try_parse_from(std::iter::once("bench").chain(line.split_whitespace()))
            .map(|cli| cli.bench)
    }

    /// What is wrong with a command line that clap takes.
    #[track_caller]
    fn complaint(line: &str) -> String {
        let error = parse(line).unwrap().spec().check().expect_err(line);
        Source::CommandLine.complaint(&error)
    }

    #[test]
    fn flags_reach_the_spec() {
        let line = "--tool add --args {\"a\":1.0} -c 4,8 -n 100 --warmup 20 --timeout 250ms -s 2 \
            --no-check --pin 1 --era legacy -- server --flag -x";
        let spec = parse(line).unwrap().spec();
        assert_eq!(spec.targets[0].command, ["server", "--flag", "-x"]);
        assert_eq!(spec.targets[0].inherit_env, ["*"]);
        assert_eq!(spec.args.as_ref().unwrap().get(), "{\"a\":1.0}");
        assert_eq!(
            (&spec.concurrency[..], spec.sessions, spec.pin),
            (&[4, 8][..], Some(2), Some(1))
        );
        assert_eq!((spec.requests, spec.warmup), (Some(100), Some(Until::Calls(20))));
        assert_eq!((spec.timeout, spec.no_check), (Some(Duration::from_millis(250)), true));
        assert_eq!(spec.era, "legacy".parse().ok());
        spec.check().unwrap();
        let spec = parse("").unwrap().spec();
        assert!(spec.targets.is_empty() && spec.concurrency.is_empty() && spec.check().is_ok());
    }

    #[test]
    fn an_open_loop_has_its_shape() {
        let spec = |line: &str| parse(line).unwrap().spec();
        let poisson = spec("--rate 500 --arrivals poisson --seed 9");
        assert_eq!((poisson.rate, poisson.seed), (Some(Rate { per_s: 500.0 }), Some(9)));
        assert_eq!(poisson.arrivals, Some(Spacing::Poisson));
        let burst = Burst { calls: 50, every_ns: 1_000_000_000 };
        assert_eq!(spec("--burst 50/1s").burst, Some(burst));
        let ramp = Ramp { from_per_s: 100.0, to_per_s: 2000.0 };
        assert_eq!(spec("--ramp 100..2000").ramp, Some(ramp));
        for line in ["--rate x", "--burst 50", "--burst 50/x", "--ramp 5", "--era 2026"] {
            assert!(parse(line).is_err(), "{line}");
        }
        for line in ["--find-limit errors=0 --arrivals poisson", "--ladder-rate 5,9 --seed 3"] {
            spec(line).check().unwrap();
        }
    }

    #[test]
    fn a_url_is_a_server_that_runs_already() {
        let line =
            format!("--header A:b --revision 2025-06-18 --pid {} https://x/mcp", process::id());
        let spec = parse(&line).unwrap().spec();
        assert_eq!(spec.targets[0].url.as_deref(), Some("https://x/mcp"));
        assert_eq!(spec.era, "2025-06-18".parse().ok());
        spec.check().unwrap();
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_flag() {
        let shapes: Vec<_> = SHAPES.iter().map(|s| format!("--{}", s.field.key())).collect();
        let shapes = shapes.join(", ");
        for (line, others) in [
            ("--seed 1", "--ladder-rate, --find-limit, a mix or a think time"),
            ("--arrivals poisson", "--ladder-rate or --find-limit"),
        ] {
            let flag = line.split(' ').next().unwrap();
            assert_eq!(complaint(line), format!("{flag}: it takes {shapes}, {others}"));
        }
        for (line, words) in [
            ("--args {}", "--args: it takes --tool"),
            ("-n 1 -d 1s", "--requests: it cannot be used with --duration"),
            ("-c 0", "--concurrency: got 0; it takes 1 to 4096"),
            ("--rate 0", "--rate: got 0; it takes more than 0 to 1000000 calls/s"),
            ("--rate 1 --ramp 1..2", "--rate: it cannot be used with --ramp"),
            ("--rate 1 --ladder 1,2", "--ladder: it cannot be used with --rate"),
            ("--find-limit errors=0 -c 2,64", "--find-limit: it takes one --concurrency, got 2"),
            ("--ladder-rate 5,9 -c 2,4", "--ladder-rate: it takes one --concurrency, got 2"),
            ("--ladder 1 -c 2", "--ladder: it cannot be used with --concurrency"),
            ("u -- c", "it cannot be used with a command (-- COMMAND)"),
            (
                "server",
                "server: relative URL without a base; to measure a command: mcplane bench -- server",
            ),
            ("--transports http://u", "--transports: it cannot be used with a target"),
            ("--transports --header a:b", "--transports: it cannot be used with a target"),
            ("--transports --era modern", "--transports: it cannot be used with --era"),
            ("--header a:b -- c", "--header: it takes a URL"),
            ("--header nothing http://x", "--header: it takes 'Name: value'"),
            ("--pid 1", "--pid: it takes a URL"),
            #[cfg(target_os = "linux")]
            ("--pid 4294967295 http://x", "--pid: there is no process 4294967295"),
            ("--transport sse ws://x", "ws://x: ws is not HTTP, so no --transport"),
            ("--tool a --args {} --distinct", "--distinct: it takes --args and --no-floor"),
            (
                "--listens http://x -c 1 -- s",
                "--listens: it takes --cold-start and a command (-- COMMAND)",
            ),
            (
                "--cold-start 2 --listens http://x http://y",
                "--listens: it takes --cold-start and a command (-- COMMAND)",
            ),
            ("--profile heap", "--profile: it takes a command (-- COMMAND)"),
            ("--profile heap http://x", "--profile: it takes a command (-- COMMAND)"),
            ("--profile-out x -- s", "--profile-out: it takes --profile"),
            ("--profile cpu --assert errors=0 -- s", "--profile: it cannot be used with --assert"),
            (
                "--profile cpu -c 1,4 -- s",
                "--profile: it takes one load: one --concurrency and one session",
            ),
        ] {
            assert_eq!(complaint(line), words, "{line}");
        }
        assert!(parse("--tool a --args {").is_err());
    }

    #[test]
    fn every_flag_is_a_field_or_an_output() {
        let schema = schema();
        let keys = schema["properties"].as_object().unwrap();
        let command = Cli::command();
        let mut flags = 0;
        for flag in command.get_arguments().filter_map(|argument| argument.get_long()) {
            let key = flag.replace('-', "_");
            let of_target = |field: &&Field| {
                field.is_of_target() && (field.key() == key || field.key() == format!("{key}s"))
            };
            let is_known = keys.contains_key(&key) || Field::ALL.iter().any(|f| of_target(&f));
            assert!(is_known || key == "scenario", "--{flag} has no key in a scenario");
            flags += 1;
        }
        assert!(flags > 30, "{flags}");
    }

    /// What the file says, no flag may say too; how results are shown, it may.
    #[test]
    fn no_flag_beside_a_scenario_is_ignored() {
        const BESIDE: [&str; 8] =
            ["quiet", "json", "html", "csv", "markdown", "junit", "prometheus", "erlmcp"];
        let value = |name: &str| match name {
            "args" => "{}",
            "era" => "legacy",
            "find-limit" | "assert" => "errors=0",
            "transport" => "http",
            "arrivals" => "poisson",
            "profile" => "cpu",
            name => SHAPES.iter().find(|s| s.field.key() == name).map_or("1", |s| s.syntax.example),
        };
        for argument in Cli::command().get_arguments() {
            let Some(name) = argument.get_long().filter(|name| *name != "scenario") else {
                continue;
            };
            let flag = format!("--{name}");
            let mut words = vec!["bench", "--scenario", "s.toml", flag.as_str()];
            if argument.get_action().takes_values() {
                words.push(value(name));
            }
            let refused = Cli::try_parse_from(&words).err().map(|error| error.kind());
            let want = (!BESIDE.contains(&name)).then_some(ErrorKind::ArgumentConflict);
            assert_eq!(refused, want, "{flag}");
        }
        for words in [["http://x"], ["--x"]] {
            let words = ["bench", "--scenario", "s.toml"].into_iter().chain(words);
            assert!(Cli::try_parse_from(words).is_err());
        }
    }
}
