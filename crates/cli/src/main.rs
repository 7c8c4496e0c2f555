//! The `mcplane` command: one file per subcommand, each a thin call into a library crate.
//!
//! * `serve` — the gateway.
//! * `connect` — the gateway for clients that can only start a program.
//! * `negotiate` — which of the gateway's servers fit a need.
//! * `fixture` — a server to test and measure against.
//! * `inspect` — who a server is and what it offers.
//! * `bench` — how fast a server is.
//! * `suite` — named benchmarks of prior systems, one command each.
//! * `report` — results in other forms.
//! * `lint` — whether published figures can be true.
//! * `compare` — which of several servers is faster, what a gateway costs.
//! * `gate` — whether a result may pass.
//! * `import` — settings for the gateway from those of a desktop client.
#![allow(clippy::print_stdout, reason = "a command line speaks on standard output")]
#![allow(unreachable_pub, reason = "a binary has no outside")]

mod bench;
mod compare;
mod connect;
#[cfg(test)]
mod documents;
mod endpoint;
mod fixture;
mod gate;
mod import;
mod input;
mod inspect;
mod lint;
mod load;
mod negotiate;
mod report;
mod serve;
mod suite;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// The MCP data plane: serve, inspect and measure Model Context Protocol servers.
#[derive(Parser, Debug)]
#[command(name = "mcplane", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Serve MCP servers to many clients of any revision, over a warm pool of workers
    Serve(serve::ServeArgs),
    /// Reach the gateway from a client that can only start a program
    Connect(connect::ConnectArgs),
    /// Ask the gateway which of its servers meet a need
    Negotiate(negotiate::NegotiateArgs),
    /// Measure a server: throughput, latency, errors, resources, and the ratio to the floor
    Bench(Box<bench::BenchArgs>),
    /// Named benchmarks of prior systems, done again on real code, one command each
    Suite(suite::SuiteArgs),
    /// Turn results into a page with charts, tables, or formats for other systems
    Report(report::ReportArgs),
    /// Audit results, ours or published ones, for figures that cannot be true
    Lint(lint::LintArgs),
    /// Measure several servers in turn: which is faster, or what a gateway adds
    Compare(Box<compare::CompareArgs>),
    /// Judge a result against a baseline and limits
    Gate(gate::GateArgs),
    /// Show who a server is and what it offers, or call one of its tools
    Inspect(Box<inspect::InspectArgs>),
    /// Make settings for the gateway from the JSON of a desktop client
    Import(import::ImportArgs),
    /// Serve the built-in test server
    Fixture(fixture::FixtureArgs),
    /// A server that is broken on purpose
    #[command(name = "__broken", hide = true)]
    Broken {
        /// In which way
        flaw: mcplane_suite::broken::Flaw,
    },
    /// The null responder that `bench` measures a server against
    #[command(name = "__floor", hide = true)]
    Floor(bench::FloorArgs),
}

fn main() -> ExitCode {
    let given = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&given).unwrap_or_else(|error| error.exit());
    let outcome = match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Connect(args) => on_one_core(async move { connect::run(&args).await }),
        Command::Negotiate(args) => on_one_core(async move { negotiate::run(&args).await }),
        Command::Bench(args) => bench::run(&args, fixture::in_memory),
        Command::Suite(args) => suite::run(&args, fixture::in_memory),
        Command::Compare(args) => compare::run(&args, given.subcommand_matches("compare")),
        Command::Gate(args) => gate::run(&args),
        Command::Floor(args) => bench::floor(&args),
        Command::Broken { flaw } => {
            mcplane_suite::broken::serve(flaw).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        Command::Report(args) => report::run(&args),
        Command::Lint(args) => lint::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Inspect(args) => on_one_core(inspect::run(*args)),
        Command::Fixture(args) => on_one_core(async move { fixture::run(&args).await }),
    };
    outcome.unwrap_or_else(|error| {
        report::to_stderr(&format!("mcplane: {error:#}\n"));
        ExitCode::FAILURE
    })
}

/// Runs a future on a runtime of this thread: a connection has nothing to gain from a second one,
/// and a hop between cores costs more than a call.
fn on_one_core(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(work);
    // A blocking handler that nobody waits for must not hold up the end.
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}
