//! What is called, how often and for how long: arguments of every command that measures.

use std::time::Duration;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use mcplane_lab::spec::{
    Field, Places, SHAPES, ShapeField, Spec, SpecError, calls_or_time, duration,
};
use mcplane_lab::{Error, Shape, Spacing, Until};
use serde_json::value::RawValue;

/// The load. What is not given is left to the command.
#[derive(Clone, Debug, Args)]
#[allow(clippy::exhaustive_structs, reason = "what clap fills in")]
pub struct LoadArgs {
    /// Tool to call; by default one that is cheap and changes nothing
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Arguments of the tool; by default built from its input schema
    #[arg(long, value_name = "JSON", value_parser = raw_json)]
    pub args: Option<RawJson>,
    /// Calls in flight per session; a list measures each in turn [default: 1,32]. In an open
    /// loop at most so many [default: 1024 over all sessions]
    #[arg(long, short, value_name = "N", value_delimiter = ',')]
    pub concurrency: Vec<usize>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub shape: ShapeArgs,
    /// How the calls of an open loop are spread: evenly, or as many callers do who do not know of
    /// each other [default: constant]
    #[arg(long, value_name = "constant|poisson")]
    pub arrivals: Option<Spacing>,
    /// Where the random spread begins: the same seed gives the same instants [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Stop after so many calls
    #[arg(long, short = 'n', value_name = "N")]
    pub requests: Option<u64>,
    /// Stop after so long [default: 3s; with --transports 1s for each of them]
    #[arg(long, short, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Calls (100) or time (1s) to throw away first [default: 1s, and on until latencies show no
    /// trend, for 10s at most; with --transports 200ms]
    #[arg(long, value_name = "N|TIME", value_parser = calls_or_time)]
    pub warmup: Option<Until>,
    /// Longest time for one call [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Longest time for each step of starting up [default: 20s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub start_timeout: Option<Duration>,
    /// Connections; over stdio, processes [default: 1]
    #[arg(long, short, value_name = "N")]
    pub sessions: Option<usize>,
    /// Do not compare each result with the first
    #[arg(long)]
    pub no_check: bool,
    /// Pause between the two calls that tell whether a result changes by itself [default: 1.1s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub settle: Option<Duration>,
    /// Keep generator and server on this core
    #[arg(long, value_name = "CPU")]
    pub pin: Option<usize>,
}

/// How the rate of an open loop goes: an option for each of [`SHAPES`].
#[derive(Clone, Debug, Default)]
pub struct ShapeArgs(Vec<Shape>);

impl Args for ShapeArgs {
    fn augment_args(command: Command) -> Command {
        let option = |shape: &ShapeField| {
            let (name, read) = (shape.field.key(), shape.read);
            let option = Arg::new(name).long(name).value_name(shape.syntax.form);
            option.help(shape.about).value_parser(move |text: &str| read(text))
        };
        command.args(SHAPES.iter().map(option))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ShapeArgs {
    fn from_arg_matches(given: &ArgMatches) -> Result<Self, clap::Error> {
        let shape = |shape: &ShapeField| given.get_one::<Shape>(shape.field.key()).copied();
        Ok(Self(SHAPES.iter().filter_map(shape).collect()))
    }

    fn update_from_arg_matches(&mut self, given: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(given)?;
        Ok(())
    }
}

/// JSON text as it was typed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RawJson(Box<RawValue>);

impl LoadArgs {
    /// The load as a part of a spec.
    pub fn spec(&self) -> Spec {
        let spec = Spec {
            tool: self.tool.clone(),
            args: self.args.clone().map(|json| json.0),
            concurrency: self.concurrency.clone(),
            arrivals: self.arrivals,
            seed: self.seed,
            requests: self.requests,
            duration: self.duration,
            warmup: self.warmup,
            timeout: self.timeout,
            start_timeout: self.start_timeout,
            sessions: self.sessions,
            no_check: self.no_check,
            settle: self.settle,
            pin: self.pin,
            ..Spec::default()
        };
        self.shape.0.iter().fold(spec, |spec, shape| spec.shaped(*shape))
    }
}

/// Where a spec is from, and with that what its fields are called.
pub enum Source {
    CommandLine,
    File(Places),
}

impl Source {
    /// What is wrong with a spec, in the words of whoever wrote it.
    pub fn complaint(&self, error: &SpecError) -> String {
        match self {
            Self::File(places) => places.complaint(error),
            Self::CommandLine => {
                let what = error.words(flag);
                match error.field() {
                    Field::Url | Field::Command => what,
                    field => format!("{}: {what}", flag(field)),
                }
            }
        }
    }

    /// Why there is no result, likewise.
    pub fn error(&self, error: &Error) -> String {
        match error {
            Error::Spec(error) => self.complaint(error),
            other => other.to_string(),
        }
    }
}

/// What a field is called on the command line.
fn flag(field: Field) -> String {
    match field {
        Field::Url => "a URL".to_owned(),
        Field::Command => "a command (-- COMMAND)".to_owned(),
        Field::Targets => "a target".to_owned(),
        Field::Headers => "--header".to_owned(),
        Field::Tools => "a mix".to_owned(),
        Field::Think => "a think time".to_owned(),
        field => format!("--{}", field.key().replace('_', "-")),
    }
}

fn raw_json(text: &str) -> Result<RawJson, String> {
    serde_json::from_str(text).map(RawJson).map_err(|error| format!("not JSON: {error}"))
}
