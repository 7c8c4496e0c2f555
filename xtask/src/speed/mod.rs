//! Speed beside the floor and beside peers, as raw data under `bench/results/`.
//!
//! Rounds of short runs, the order of the servers turned round after each (A B C, C B A, …), all on
//! one core. Each run has slices of the floor in turns with its own. What is printed are medians
//! over the rounds.

mod campaign;
mod cross;
mod gateway;
mod ladder;
mod overload;
mod peers;
mod serving;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::interop;
use crate::run::{run, step};
use campaign::Campaign;
pub use cross::cross;
pub use gateway::{ROUNDS_DEFAULT as GATEWAY_ROUNDS_DEFAULT, gateway};
pub use ladder::ladder;
pub use overload::overload;

/// Rounds: medians of an odd number.
pub const ROUNDS_DEFAULT: usize = 5;

/// What the servers are measured over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Over {
    Stdio,
    Http,
}

/// What large messages hold, and what their rows are called after: arguments with text of that size.
const LARGE: [(&str, &str); 2] = [("64k", "{size:64KiB}"), ("1m", "{size:1MiB}")];

/// One server that is measured.
#[derive(Clone)]
struct Server {
    name: String,
    command: Vec<String>,
    tool: &'static str,
    revision: &'static str,
    /// Whether its floor writes each answer by itself (stdio).
    plain_floor: bool,
    /// Where it listens (HTTP).
    url: Option<&'static str>,
    message: &'static str,
    in_flight: [usize; 2],
}

/// What is read off one run.
#[derive(Clone, Copy)]
struct Figures {
    throughput: f64,
    p50_ns: f64,
    cpu_ns: f64,
    floor_throughput: f64,
    floor_p50_ns: f64,
    floor_cpu_ns: f64,
}

/// Measures and writes `bench/results/<date>-<host>/`.
pub fn speed(root: &Path, rounds: usize, over: Over) -> anyhow::Result<()> {
    step("interop set-up", || interop::setup(root, true))?;
    step("build of rmcp", || interop::build_rmcp(root, "dist"))?;
    let servers = match over {
        Over::Stdio => over_stdio(),
        Over::Http => over_http(),
    };
    let campaign = Campaign::with_build(root, if over == Over::Http { "http" } else { "stdio" })?;
    let mut figures = vec![Vec::new(); servers.len() * 2];
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..servers.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let Some(server) = servers.get(at) else { continue };
            let file = campaign.file(&format!("{}-{}", server.name, round + 1));
            step(&format!("round {} {}", round + 1, server.name), || measure(root, server, &file))?;
            forget_root(root, &file)?;
            for (way, found) in read(&file)?.into_iter().enumerate() {
                if let Some(all) = figures.get_mut(at * 2 + way) {
                    all.push(found);
                }
            }
        }
    }
    campaign.publish(&summary(over, &servers, &figures, rounds))
}

/// Their paths are those seen from the workspace, so that the raw data names no machine's folders.
fn over_stdio() -> Vec<Server> {
    let mcplane = server("mcplane", "target/dist/mcplane fixture", true);
    let rmcp = server("rmcp", ".interop/rmcp-target/dist/echo", true);
    let large = large(&[&mcplane, &rmcp]);
    let mut servers = vec![
        mcplane,
        server("mcplane-batch-floor", "target/dist/mcplane fixture", false),
        rmcp,
        server("typescript-1", "node tests/interop/ts1/echo.mjs", true),
    ];
    servers.extend(large);
    servers
}

/// The same servers with large messages.
fn large(servers: &[&Server]) -> Vec<Server> {
    let mut rows = Vec::new();
    for (size, message) in LARGE {
        rows.extend(servers.iter().map(|server| Server {
            name: format!("{}-{size}", server.name),
            message,
            in_flight: [1, 4],
            ..Server::clone(server)
        }));
    }
    rows
}

const SMALL: &str = "hello";
const IN_FLIGHT: [usize; 2] = [1, 32];

fn server(name: &str, command: &str, plain_floor: bool) -> Server {
    let (name, command) = (name.to_owned(), words(command));
    Server {
        name,
        command,
        tool: "echo",
        revision: "legacy",
        plain_floor,
        url: None,
        message: SMALL,
        in_flight: IN_FLIGHT,
    }
}

fn over_http() -> Vec<Server> {
    let ours = |name: &str, tool, revision| {
        let command = "target/dist/mcplane fixture --transport http --accept-rate 0 --listen \
                       127.0.0.1:18471";
        let url = Some("http://127.0.0.1:18471/mcp");
        Server { tool, revision, url, ..server(name, command, false) }
    };
    let as_event = |mut server: Server| {
        server.command.push("--events".to_owned());
        server
    };
    let rmcp = |name: &str, revision| {
        let command = ".interop/rmcp-target/dist/echo http-json 18472";
        let url = Some("http://127.0.0.1:18472/");
        Server { revision, url, ..server(name, command, false) }
    };
    let modern = ours("http-mcplane-2026", "echo", "2026-07-28");
    let rmcp_modern = rmcp("http-rmcp-2026", "2026-07-28");
    let large = large(&[&modern, &rmcp_modern]);
    let mut servers = vec![
        modern,
        ours("http-mcplane-2025", "echo", "2025-11-25"),
        as_event(ours("http-mcplane-2026-event", "echo", "2026-07-28")),
        as_event(ours("http-mcplane-2025-event", "echo", "2025-11-25")),
        ours("http-mcplane-2025-events", "echo_logged", "2025-11-25"),
        rmcp_modern,
        rmcp("http-rmcp-2025", "2025-11-25"),
    ];
    servers.extend(large);
    servers
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn measure(root: &Path, server: &Server, file: &Path) -> anyhow::Result<()> {
    const MCPLANE: &str = "target/dist/mcplane";
    let mut command = Command::new(root.join(MCPLANE));
    command
        .arg0(MCPLANE)
        .current_dir(root)
        .args(["bench", "--pin", "0", "--era", server.revision, "--tool", server.tool])
        .args(["--args", &format!(r#"{{"message":"{}"}}"#, server.message)])
        .args(["--concurrency", &server.in_flight.map(|n| n.to_string()).join(",")])
        .args(["--duration", "2s"])
        .args(server.plain_floor.then_some("--plain-floor"))
        .arg("--json")
        .arg(file.strip_prefix(root).unwrap_or(file))
        .stdout(Stdio::null());
    let Some(url) = server.url else { return run(command.arg("--").args(&server.command)) };
    let mut listening = Command::new("taskset")
        .args(["--cpu-list", "0"])
        .args(&server.command)
        .current_dir(root)
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start the server under taskset")?;
    std::thread::sleep(Duration::from_millis(500));
    let measured = run(command.arg(url));
    listening.kill()?;
    listening.wait()?;
    measured
}

/// Programs have their whole paths in a report: those of the workspace begin there.
fn forget_root(root: &Path, file: &Path) -> anyhow::Result<()> {
    let report = fs::read_to_string(file)?;
    fs::write(file, report.replace(&format!("{}/", root.display()), ""))?;
    Ok(())
}

/// The figures of one file: one call in flight, then several.
fn read(file: &Path) -> anyhow::Result<Vec<Figures>> {
    let report: Value = serde_json::from_slice(&fs::read(file)?)?;
    let runs = report.get("runs").and_then(Value::as_array).context("no runs in the report")?;
    runs.iter().map(figures).collect()
}

fn figures(run: &Value) -> anyhow::Result<Figures> {
    let number = |path: &str| {
        let found = run.pointer(path).and_then(Value::as_f64);
        found.with_context(|| format!("no number at {path} in the report"))
    };
    Ok(Figures {
        throughput: number("/results/throughput_per_s")?,
        p50_ns: number("/results/latency/p50_ns")?,
        cpu_ns: number("/results/resources/cpu_ns_per_call")?,
        floor_throughput: number("/floor/throughput_per_s")?,
        floor_p50_ns: number("/floor/latency/p50_ns")?,
        floor_cpu_ns: number("/floor/resources/cpu_ns_per_call")?,
    })
}

fn summary(over: Over, servers: &[Server], figures: &[Vec<Figures>], rounds: usize) -> String {
    let (what, note) = match over {
        Over::Stdio => (
            "stdio",
            "Command: `cargo xtask speed`. The floor writes each answer by itself, but for \
             `mcplane-batch-floor`, where one write answers all that one read brought. `64k` and `1m` \
             have messages of 64 KiB and 1 MiB, the others five letters.",
        ),
        Over::Http => (
            "HTTP/1.1 with keep-alive",
            "Command: `cargo xtask speed http`. The floor is a bare hyper responder. Answers are \
             JSON, but for `event`, where the answer is the only event of a stream, and `events`, \
             where a log message goes before it. `64k` and `1m` have messages of 64 KiB and 1 MiB, the \
             others five letters.",
        ),
    };
    let mut out = format!(
        "# Echo over {what}, one core, medians of {rounds} rounds\n\n\
         | server | in flight | calls/s | ÷ floor | p50 µs | ÷ floor | CPU µs/call | ÷ floor |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    for (at, server) in servers.iter().enumerate() {
        for (way, in_flight) in server.in_flight.into_iter().enumerate() {
            let Some(all) = figures.get(at * 2 + way) else { continue };
            let of = |figure: fn(&Figures) -> f64| median(all.iter().map(figure).collect());
            let _ = writeln!(
                out,
                "| {} | {in_flight} | {:.0} | {:.2} × | {:.1} | {:.2} × | {:.2} | {:.2} × |",
                server.name,
                of(|f| f.throughput),
                of(|f| f.throughput / f.floor_throughput),
                of(|f| f.p50_ns / 1000.0),
                of(|f| f.p50_ns / f.floor_p50_ns),
                of(|f| f.cpu_ns / 1000.0),
                of(|f| f.cpu_ns / f.floor_cpu_ns),
            );
        }
    }
    let _ = writeln!(out, "\n{note} Each result holds its run's environment.");
    out
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_of_the_sorted_values() {
        assert_eq!(median(vec![5.0, 1.0, 3.0]), 3.0);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn large_messages_have_rows_of_their_own() {
        for servers in [over_stdio(), over_http()] {
            let named = |end: &str| servers.iter().filter(|row| row.name.ends_with(end)).count();
            assert_eq!((named("-64k"), named("-1m")), (2, 2));
            let mut names: Vec<_> = servers.iter().map(|row| &row.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), servers.len(), "no file is written twice");
        }
    }

    #[test]
    fn a_report_without_a_figure_is_an_error_that_names_it() {
        let error = figures(&serde_json::json!({"results": {}})).err().unwrap().to_string();
        assert!(error.contains("/results/throughput_per_s"), "{error}");
    }
}
