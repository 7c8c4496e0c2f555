//! The keys of a scenario, and the JSON Schema made of them. What a value may be beyond its type is
//! checked where the flag of the same name is.

use std::path::PathBuf;
use std::time::Duration;

use crate::results::{Spacing, Think};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Keys of a target that are flags of `mcplane bench`.
pub const TARGET_KEYS: [&str; 5] = ["headers", "transport", "ca", "pid", "listens"];

/// A scenario of mcplane bench. Each key means what the flag of its name does.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Scenario")]
#[allow(dead_code, reason = "flags are taken from the file by their names")]
pub(super) struct Model {
    /// Servers to measure, one after the other; without one, the built-in fixture.
    #[serde(default)]
    pub(super) targets: Vec<Target>,
    /// The one tool to call; by default one that is cheap and changes nothing.
    pub(super) tool: Option<String>,
    /// Its arguments.
    args: Option<Map<String, Value>>,
    /// A mix of tools, in place of the one.
    #[serde(default)]
    pub(super) tools: Vec<Tool>,
    /// Calls in flight per session, each number in turn.
    concurrency: Option<OneOrMore<usize>>,
    /// Connections; over stdio, processes.
    sessions: Option<usize>,
    /// How long a user thinks between an answer and the next call, in a closed loop: "10ms", or
    /// "exponential 10ms" for times drawn with that mean.
    pub(super) think: Option<ThinkText>,
    /// Open loop: calls begun per second.
    rate: Option<f64>,
    /// Open loop: so many calls at once every so often, such as "50/1s".
    burst: Option<String>,
    /// Open loop: a rate that goes from one to another over the run, such as "100..2000".
    ramp: Option<String>,
    /// How the calls of an open loop are spread.
    arrivals: Option<Spacing>,
    /// Where arrivals, arguments and think times that are random begin.
    pub(super) seed: Option<u64>,
    /// Calls in flight per session, rung by rung, to find the knee.
    ladder: Option<Vec<usize>>,
    /// Calls per second, rung by rung, to find the knee.
    ladder_rate: Option<Vec<f64>>,
    /// Find the highest rate at which these hold, such as "p99<50ms,errors=0".
    find_limit: Option<String>,
    /// So many fresh processes or connections, each to the first call.
    cold_start: Option<usize>,
    /// What must hold for every run, such as "p99<5ms,errors=0".
    assert: Option<String>,
    /// Stop after so many calls.
    requests: Option<u64>,
    /// Stop after so long, such as "3s".
    duration: Option<String>,
    /// Calls or time to throw away first, such as 100 or "1s".
    warmup: Option<NumberOrText>,
    /// Longest time for one call.
    timeout: Option<String>,
    /// Longest time for each step of starting up.
    start_timeout: Option<String>,
    /// Pause between the calls that tell whether a result changes by itself.
    settle: Option<String>,
    /// Do not compare results.
    #[serde(default)]
    no_check: bool,
    /// Put the number of each call where `args` say {n}, and expect it back.
    #[serde(default)]
    distinct: bool,
    /// Do not measure the floor.
    #[serde(default)]
    no_floor: bool,
    /// Let the floor write each answer by itself.
    #[serde(default)]
    plain_floor: bool,
    /// Keep generator and server on this core.
    pin: Option<usize>,
    /// Handshake: "auto", "legacy", "modern", or a revision.
    era: Option<String>,
    /// Measure the built-in fixture over every transport, in turns.
    #[serde(default)]
    transports: bool,
    /// Run the command under a profiler.
    profile: Option<Profiled>,
    /// Folder for what the profiler finds.
    profile_out: Option<PathBuf>,
    /// Show nothing while it runs.
    #[serde(default)]
    quiet: bool,
    /// Where the report goes as JSON.
    json: Option<PathBuf>,
    /// Where it goes as one page with charts.
    html: Option<PathBuf>,
    /// Where it goes as CSV in cMCP's columns.
    csv: Option<PathBuf>,
    /// Where it goes as Markdown.
    markdown: Option<PathBuf>,
    /// Where it goes as JUnit XML.
    junit: Option<PathBuf>,
    /// Where it goes in Prometheus' text format.
    prometheus: Option<PathBuf>,
    /// The folder where it goes as erlmcp's records.
    erlmcp: Option<PathBuf>,
}

/// What a profiler looks for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Profiled {
    Cpu,
    Heap,
    Stages,
}

/// A server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Target {
    /// Command that starts it; it speaks over stdio, or listens at `listens`.
    #[serde(default)]
    command: Vec<String>,
    /// Environment variables that the command gets beside the few that every server gets: names, or
    /// how they begin and `*`.
    #[serde(default)]
    pub(super) inherit_env: Vec<String>,
    /// Address of one that runs already.
    url: Option<String>,
    /// Headers of every HTTP request, each "Name: value".
    #[serde(default)]
    headers: Vec<String>,
    /// How an http URL is spoken to.
    transport: Option<OverHttp>,
    /// PEM file of the authorities to trust in place of the system's.
    ca: Option<PathBuf>,
    /// Process whose CPU and memory are measured.
    pid: Option<u32>,
    /// Where the command of a cold start listens.
    listens: Option<String>,
}

/// A kind of call of a mix.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Tool {
    /// The tool.
    pub(super) name: String,
    /// How often it is called, beside the weights of the others.
    #[serde(default = "one")]
    pub(super) weight: f64,
    /// Its arguments; strings may have {n}, {uuid}, {zipf:KEYS:S}, {file:PATH} and {size:BYTES}.
    pub(super) args: Option<Map<String, Value>>,
    /// Whether the content of its results is checked, as far as it is the same every time.
    #[serde(default = "yes")]
    pub(super) check: bool,
}

const fn one() -> f64 {
    1.0
}

const fn yes() -> bool {
    true
}

/// A think time.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct ThinkText(String);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "the value is taken from the file")]
enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "the value is taken from the file")]
enum NumberOrText {
    Number(u64),
    Text(String),
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OverHttp {
    Http,
    Sse,
}

impl Model {
    /// The key that makes calls begin when they are meant to, if one does.
    pub(super) fn open_by(&self) -> Option<&'static str> {
        let keys = [
            ("rate", self.rate.is_some()),
            ("burst", self.burst.is_some()),
            ("ramp", self.ramp.is_some()),
            ("ladder_rate", self.ladder_rate.is_some()),
            ("find_limit", self.find_limit.is_some()),
        ];
        keys.into_iter().find(|(_, is_given)| *is_given).map(|(key, _)| key)
    }
}

impl Target {
    /// The words of a command line that name it.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words: Vec<_> =
            self.headers.iter().map(|line| format!("--header={line}")).collect();
        let transport = self.transport.map(|over| match over {
            OverHttp::Http => "http".to_owned(),
            OverHttp::Sse => "sse".to_owned(),
        });
        for (flag, value) in [
            ("--transport", transport),
            ("--ca", self.ca.as_ref().map(|path| path.display().to_string())),
            ("--pid", self.pid.map(|pid| pid.to_string())),
            ("--listens", self.listens.clone()),
        ] {
            words.extend(value.map(|value| format!("{flag}={value}")));
        }
        words.extend(self.url.clone());
        if !self.command.is_empty() {
            words.push("--".to_owned());
            words.extend(self.command.iter().cloned());
        }
        words
    }
}

impl ThinkText {
    pub(super) fn parse(&self) -> Result<Think, String> {
        let text = self.0.trim();
        let (exponential, time) = match text.strip_prefix("exponential ") {
            Some(time) => (true, time.trim()),
            None => (false, text),
        };
        let digits = time.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit_s = match time.strip_prefix(digits) {
            Some("ms") => Some(1e-3),
            Some("s") => Some(1.0),
            Some("m") => Some(60.0),
            _ => None,
        };
        let seconds = digits.parse().ok().zip(unit_s).map(|(number, unit): (f64, _)| number * unit);
        let mean = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let mean = mean.ok_or_else(|| {
            format!("`{text}` is no think time; it takes 10ms or exponential 10ms, in ms, s or m")
        })?;
        Ok(Think { mean_ns: crate::record::ns(mean), exponential })
    }
}

/// The JSON Schema of a scenario file, generated from the model.
#[must_use]
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Model);
    schema.insert("$comment".into(), json!("Generated; see docs/lab/scenario.md."));
    schema.into()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::report::assert_published;

    fn docs(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab").join(name)
    }

    #[test]
    fn the_published_schema_is_that_of_the_code() {
        assert_published("scenario.schema.json", &schema());
    }

    #[test]
    fn the_page_has_every_key_and_its_example_is_one() {
        let page = fs::read_to_string(docs("scenario.md")).unwrap();
        let keys = schema()["properties"].as_object().unwrap().clone();
        assert!(keys.len() > 25, "{keys:?}");
        for key in keys.keys() {
            assert!(page.contains(&format!("`{key}`")), "no `{key}` in scenario.md");
        }
        let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let parsed = super::super::Scenario::parse("e", example.to_owned(), Path::new("")).unwrap();
        assert_eq!((parsed.mix.len(), parsed.lines.len()), (3, 1));
    }
}
