//! What a measurement is asked for: one set of fields, that a command line or a file of TOML fills in.
//!
//! * [`Spec`] — the fields, and the JSON Schema made of them (this file).
//! * `error` — what is wrong with one, by its field.
//! * `value` — values that are written as text.
//! * `file` — a spec in a file.
//! * `place` — where in a file something is wrong.

mod error;
mod file;
mod place;
mod value;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

pub use error::SpecError;
#[cfg(test)]
pub(crate) use file::parse;
pub use file::read;
pub use place::Places;
pub use value::calls_or_time;

pub use crate::text::duration;

use crate::client::Speak;
use crate::results::shape::{Burst, Ramp, Rate, Syntax};
use crate::results::{Shape, Spacing, Think};
use crate::verdict::Assertions;

/// A scenario of mcplane bench. Each key means what the flag of its name does.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Scenario")]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller fills in")]
pub struct Spec {
    /// Servers to measure, one after the other; without one, the built-in fixture.
    #[serde(default)]
    pub targets: Vec<TargetSpec>,
    /// The one tool to call; by default one that is cheap and changes nothing.
    pub tool: Option<String>,
    /// Its arguments.
    #[serde(default, deserialize_with = "value::object")]
    #[schemars(!default, with = "Option<Map<String, Value>>")]
    pub args: Option<Box<RawValue>>,
    /// A mix of tools, in place of the one.
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
    /// Calls in flight per session, each number in turn.
    #[serde(default, deserialize_with = "value::one_or_more")]
    #[schemars(!default, with = "Option<value::OneOrMore<usize>>")]
    pub concurrency: Vec<usize>,
    /// Connections; over stdio, processes.
    pub sessions: Option<usize>,
    /// How long a user thinks between an answer and the next call, in a closed loop: "10ms", or
    /// "exponential 10ms" for times drawn with that mean.
    #[serde(default, deserialize_with = "value::think")]
    #[schemars(!default, with = "Option<String>")]
    pub think: Option<Think>,
    /// Open loop: calls begun per second.
    #[serde(default, deserialize_with = "rate")]
    #[schemars(!default, with = "Option<f64>")]
    pub rate: Option<Rate>,
    /// Open loop: so many calls at once every so often, such as "50/1s".
    #[serde(default, deserialize_with = "value::parsed")]
    #[schemars(!default, with = "Option<String>")]
    pub burst: Option<Burst>,
    /// Open loop: a rate that goes from one to another over the run, such as "100..2000".
    #[serde(default, deserialize_with = "value::parsed")]
    #[schemars(!default, with = "Option<String>")]
    pub ramp: Option<Ramp>,
    /// How the calls of an open loop are spread.
    pub arrivals: Option<Spacing>,
    /// Where arrivals, arguments and think times that are random begin.
    pub seed: Option<u64>,
    /// Calls in flight per session, rung by rung, to find the knee.
    #[serde(default, deserialize_with = "value::some")]
    #[schemars(!default, with = "Option<Vec<usize>>")]
    pub ladder: Vec<usize>,
    /// Calls per second, rung by rung, to find the knee.
    #[serde(default, deserialize_with = "value::some")]
    #[schemars(!default, with = "Option<Vec<f64>>")]
    pub ladder_rate: Vec<f64>,
    /// Find the highest rate at which these hold, such as "p99<50ms,errors=0".
    #[serde(default, deserialize_with = "value::parsed")]
    #[schemars(!default, with = "Option<String>")]
    pub find_limit: Option<Assertions>,
    /// So many fresh processes or connections, each to the first call.
    pub cold_start: Option<usize>,
    /// What must hold for every run, such as "p99<5ms,errors=0".
    #[serde(default, deserialize_with = "value::parsed")]
    #[schemars(!default, with = "Option<String>")]
    pub assert: Option<Assertions>,
    /// Stop after so many calls.
    pub requests: Option<u64>,
    /// Stop after so long, such as "3s".
    #[serde(default, deserialize_with = "value::time")]
    #[schemars(!default, with = "Option<String>")]
    pub duration: Option<Duration>,
    /// Calls or time to throw away first, such as 100 or "1s".
    #[serde(default, deserialize_with = "value::until")]
    #[schemars(!default, with = "Option<value::NumberOrText>")]
    pub warmup: Option<Until>,
    /// Longest time for one call.
    #[serde(default, deserialize_with = "value::time")]
    #[schemars(!default, with = "Option<String>")]
    pub timeout: Option<Duration>,
    /// Longest time for each step of starting up.
    #[serde(default, deserialize_with = "value::time")]
    #[schemars(!default, with = "Option<String>")]
    pub start_timeout: Option<Duration>,
    /// Pause between the calls that tell whether a result changes by itself.
    #[serde(default, deserialize_with = "value::time")]
    #[schemars(!default, with = "Option<String>")]
    pub settle: Option<Duration>,
    /// Do not compare results.
    #[serde(default)]
    pub no_check: bool,
    /// Put the number of each call where `args` say {n}, and expect it back.
    #[serde(default)]
    pub distinct: bool,
    /// Do not measure the floor.
    #[serde(default)]
    pub no_floor: bool,
    /// Let the floor write each answer by itself.
    #[serde(default)]
    pub plain_floor: bool,
    /// Keep generator and server on this core.
    pub pin: Option<usize>,
    /// Handshake: "auto", "legacy", "modern", or a revision.
    #[serde(default, deserialize_with = "value::parsed")]
    #[schemars(!default, with = "Option<String>")]
    pub era: Option<Speak>,
    /// Measure the built-in fixture over every transport, in turns.
    #[serde(default)]
    pub transports: bool,
    /// Run the command under a profiler.
    pub profile: Option<Profiled>,
    /// Folder for what the profiler finds.
    pub profile_out: Option<PathBuf>,
    /// Show nothing while it runs.
    #[serde(default)]
    pub quiet: bool,
    /// Where the report goes as JSON.
    pub json: Option<PathBuf>,
    /// Where it goes as one page with charts.
    pub html: Option<PathBuf>,
    /// Where it goes as CSV in cMCP's columns.
    pub csv: Option<PathBuf>,
    /// Where it goes as Markdown.
    pub markdown: Option<PathBuf>,
    /// Where it goes as JUnit XML.
    pub junit: Option<PathBuf>,
    /// Where it goes in Prometheus' text format.
    pub prometheus: Option<PathBuf>,
    /// The folder where it goes as erlmcp's records.
    pub erlmcp: Option<PathBuf>,
    /// What paths in the arguments of a mix are relative to.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// Declares the fields: their keys in a file, and whether a spec has them.
macro_rules! fields {
    ($spec:ident: $($field:ident = $key:literal if $is_given:expr,)+) => {
        /// What a measurement can be asked for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the key says it")]
        #[non_exhaustive]
        pub enum Field { $($field,)+ }

        impl Field {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$field,)+];

            /// Its key in a file.
            #[must_use]
            pub const fn key(self) -> &'static str {
                match self { $(Self::$field => $key,)+ }
            }
        }

        impl Spec {
            /// Whether anything is said of a field, by any target if it is of those.
            pub(crate) fn has(&self, field: Field) -> bool {
                let $spec = self;
                match field { $(Field::$field => $is_given,)+ }
            }
        }
    };
}

fields! { spec:
    Targets = "targets" if !spec.targets.is_empty(),
    Command = "command" if spec.targets.iter().any(|target| !target.command.is_empty()),
    Url = "url" if spec.targets.iter().any(|target| target.url.is_some()),
    Headers = "headers" if spec.targets.iter().any(|target| !target.headers.is_empty()),
    Transport = "transport" if spec.targets.iter().any(|target| target.transport.is_some()),
    Ca = "ca" if spec.targets.iter().any(|target| target.ca.is_some()),
    Pid = "pid" if spec.targets.iter().any(|target| target.pid.is_some()),
    Listens = "listens" if spec.targets.iter().any(|target| target.listens.is_some()),
    Tool = "tool" if spec.tool.is_some(),
    Args = "args" if spec.args.is_some(),
    Tools = "tools" if !spec.tools.is_empty(),
    Concurrency = "concurrency" if !spec.concurrency.is_empty(),
    Sessions = "sessions" if spec.sessions.is_some(),
    Think = "think" if spec.think.is_some(),
    Rate = "rate" if spec.rate.is_some(),
    Burst = "burst" if spec.burst.is_some(),
    Ramp = "ramp" if spec.ramp.is_some(),
    Arrivals = "arrivals" if spec.arrivals.is_some(),
    Seed = "seed" if spec.seed.is_some(),
    Ladder = "ladder" if !spec.ladder.is_empty(),
    LadderRate = "ladder_rate" if !spec.ladder_rate.is_empty(),
    FindLimit = "find_limit" if spec.find_limit.is_some(),
    ColdStart = "cold_start" if spec.cold_start.is_some(),
    Assert = "assert" if spec.assert.is_some(),
    Requests = "requests" if spec.requests.is_some(),
    Duration = "duration" if spec.duration.is_some(),
    Warmup = "warmup" if spec.warmup.is_some(),
    Timeout = "timeout" if spec.timeout.is_some(),
    StartTimeout = "start_timeout" if spec.start_timeout.is_some(),
    Settle = "settle" if spec.settle.is_some(),
    NoCheck = "no_check" if spec.no_check,
    Distinct = "distinct" if spec.distinct,
    NoFloor = "no_floor" if spec.no_floor,
    PlainFloor = "plain_floor" if spec.plain_floor,
    Pin = "pin" if spec.pin.is_some(),
    Era = "era" if spec.era.is_some(),
    Transports = "transports" if spec.transports,
    Profile = "profile" if spec.profile.is_some(),
    ProfileOut = "profile_out" if spec.profile_out.is_some(),
}

/// Declares the shapes of an open loop: the field of each, and what its option does.
macro_rules! shapes {
    ($($shape:ident in $field:ident: $about:literal,)+) => {
        /// Every shape, in the order of the help.
        pub const SHAPES: &[ShapeField] = &[$(ShapeField {
            field: Field::$shape,
            syntax: $shape::SYNTAX,
            about: $about,
            read: |text| text.parse().map(Shape::$shape),
        },)+];

        /// What makes calls begin when they are meant to, whatever became of others.
        pub(crate) const OPEN: &[Field] = &[$(Field::$shape,)+];

        impl From<Shape> for Field {
            fn from(shape: Shape) -> Self {
                match shape { $(Shape::$shape(_) => Self::$shape,)+ }
            }
        }

        impl Spec {
            /// The same as an open loop of this shape.
            #[must_use]
            pub fn shaped(mut self, shape: Shape) -> Self {
                match shape { $(Shape::$shape(shape) => self.$field = Some(shape),)+ }
                self
            }

            /// How the rate of an open loop goes.
            pub(crate) fn shape(&self) -> Option<Shape> {
                None$(.or(self.$field.map(Shape::$shape)))+
            }
        }
    };
}

shapes! {
    Rate in rate: "Open loop: begin so many calls per second, whether others have ended or not",
    Burst in burst: "Open loop: begin so many calls at once every so often",
    Ramp in ramp: "Open loop: begin calls at a rate that goes from one to another over the run",
}

/// A shape as an option.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ShapeField {
    /// Its field, whose key is its name.
    pub field: Field,
    /// How it is written.
    pub syntax: Syntax,
    /// What its option does.
    pub about: &'static str,
    /// Reads it.
    pub read: fn(&str) -> Result<Shape, String>,
}

impl Spec {
    /// Where the report goes in a form of this name.
    #[must_use]
    pub fn output(&self, form: &str) -> Option<&Path> {
        let path = match form {
            "html" => &self.html,
            "csv" => &self.csv,
            "markdown" => &self.markdown,
            "junit" => &self.junit,
            "prometheus" => &self.prometheus,
            "erlmcp" => &self.erlmcp,
            _ => return None,
        };
        path.as_deref()
    }
}

fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Rate>, D::Error> {
    f64::deserialize(from).map(|per_s| Some(Rate { per_s }))
}

impl Field {
    /// Whether it belongs to one of the targets, and not to the measurement.
    #[must_use]
    pub const fn is_of_target(self) -> bool {
        use Field::{Ca, Command, Headers, Listens, Pid, Transport, Url};
        matches!(self, Command | Url | Headers | Transport | Ca | Pid | Listens)
    }
}

/// A server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Target")]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller fills in")]
pub struct TargetSpec {
    /// Command that starts it; it speaks over stdio, or listens at `listens`.
    #[serde(default, deserialize_with = "value::words")]
    #[schemars(with = "Vec<String>")]
    pub command: Vec<OsString>,
    /// Environment variables that the command gets beside the few that every server gets: names, or
    /// how they begin and `*`.
    #[serde(default)]
    pub inherit_env: Vec<String>,
    /// Address of one that runs already.
    pub url: Option<String>,
    /// Headers of every HTTP request, each "Name: value".
    #[serde(default)]
    pub headers: Vec<String>,
    /// How an http URL is spoken to.
    pub transport: Option<OverHttp>,
    /// PEM file of the authorities to trust in place of the system's.
    pub ca: Option<PathBuf>,
    /// Process whose CPU and memory are measured.
    pub pid: Option<u32>,
    /// Where the command of a cold start listens.
    pub listens: Option<String>,
}

/// A kind of call of a mix.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tool")]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller fills in")]
pub struct ToolSpec {
    /// The tool.
    pub name: String,
    /// How often it is called, beside the weights of the others.
    #[serde(default = "one")]
    pub weight: f64,
    /// Its arguments; strings may have {n}, {uuid}, {zipf:KEYS:S}, {file:PATH} and {size:BYTES}.
    pub args: Option<Map<String, Value>>,
    /// Whether the content of its results is checked, as far as it is the same every time.
    #[serde(default = "yes")]
    pub check: bool,
}

const fn one() -> f64 {
    1.0
}

const fn yes() -> bool {
    true
}

/// What is spoken behind an http URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "plain data that the caller fills in")]
pub enum OverHttp {
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE of 2024-11-05.
    Sse,
}

/// What a profiler looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "there are these three")]
pub enum Profiled {
    /// Where the time goes.
    Cpu,
    /// Who holds the memory when most is held.
    Heap,
    /// How long a server on mcplane reads, parses, validates, queues, handles and writes.
    Stages,
}

/// When a phase ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "plain data that the caller fills in")]
pub enum Until {
    /// After this many calls.
    Calls(u64),
    /// After this long.
    Elapsed(Duration),
}

/// The JSON Schema of a spec in a file, generated from [`Spec`].
#[must_use]
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Spec);
    schema.insert("$comment".into(), json!("Generated; see docs/lab/scenario.md."));
    schema.into()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::report::FORMS;
    use crate::report::assert_published;

    fn docs(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab").join(name)
    }

    #[test]
    fn the_published_schema_is_that_of_the_code() {
        assert_published("scenario.schema.json", &schema());
    }

    #[test]
    fn every_field_is_a_key() {
        let schema = schema();
        for field in Field::ALL {
            let of = if field.is_of_target() { "/$defs/Target/properties" } else { "/properties" };
            let keys = schema.pointer(of).unwrap();
            assert!(keys.get(field.key()).is_some(), "{field:?}");
        }
    }

    #[test]
    fn every_form_of_a_report_is_a_key() {
        for form in FORMS {
            let text = format!("{} = \"out\"", form.name);
            let (spec, _) = parse("s", text, Path::new("")).unwrap();
            assert_eq!(spec.output(form.name), Some(Path::new("out")));
        }
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
        let (spec, _) = parse("e", example.to_owned(), Path::new("")).unwrap();
        assert_eq!((spec.tools.len(), spec.targets.len()), (3, 1));
    }
}
