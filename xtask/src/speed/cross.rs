//! The lab's generator beside `wrk` and `oha`: do they see the same server the same way?
//!
//! Rounds in turns over one server that keeps running, with the same request and as many
//! connections. What is compared within a round are rate and median latency; the interval is that of
//! the mean of the rounds' log ratios (Student's t).

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::campaign::Campaign;
use super::serving::Serving;
use super::words;
use crate::run::{output, step};

/// Rounds; the quantile of Student's t below belongs to them.
const ROUNDS: usize = 10;

/// The 97.5 % quantile of Student's t with 9 degrees of freedom.
const T: f64 = 2.262;

const CONNECTIONS: &str = "32";
const URL: &str = "http://127.0.0.1:18491/mcp";

/// What is called: a tool and its arguments.
struct Load {
    tool: &'static str,
    args: &'static str,
    /// Whether the server has one core to itself and the generators the other.
    apart: bool,
    /// What limits the rate.
    limit: &'static str,
}

const LOADS: [Load; 3] = [
    Load {
        tool: "sleep",
        args: r#"{"ms":5}"#,
        apart: false,
        limit: "The server waits 5 ms for each call, so that no generator has to hurry.",
    },
    Load {
        tool: "search_tree",
        args: r#"{"pattern":"none","files":2000}"#,
        apart: true,
        limit: "The server computes, on a core of its own that is busy all the time.",
    },
    Load {
        tool: "echo",
        args: r#"{"message":"hello"}"#,
        apart: false,
        limit: "Server and generator share the machine and have nothing to wait for, so that what a \
                generator needs for itself is missing to the server: that they agree is not expected.",
    },
];

impl Load {
    fn headers(&self) -> [(&'static str, &'static str); 5] {
        [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", self.tool),
        ]
    }

    fn body(&self) -> String {
        let Self { tool, args, .. } = self;
        format!(
            r#"{{"jsonrpc":"2.0","id":123456,"method":"tools/call","params":{{"name":"{tool}","arguments":{args},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"cross-check","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
        )
    }

    fn lua(&self) -> String {
        let mut out = format!("wrk.method = \"POST\"\nwrk.body = '{}'\n", self.body());
        for (name, value) in self.headers() {
            let _ = writeln!(out, "wrk.headers[\"{name}\"] = \"{value}\"");
        }
        out
    }
}

/// What one generator saw in one round: calls per second, and the median latency in milliseconds.
type Seen = [f64; 2];

/// Measures and writes `bench/results/<date>-<host>/`.
pub fn cross(root: &Path) -> anyhow::Result<()> {
    let campaign = Campaign::with_build(root, "cross")?;
    let server = format!(
        "target/dist/mcplane fixture --workers {CONNECTIONS} --transport http --accept-rate 0 \
         --listen {}",
        URL.trim_start_matches("http://").trim_end_matches("/mcp")
    );
    let others: Vec<&str> = ["wrk", "oha"].into_iter().filter(|name| is_there(name)).collect();
    if others.is_empty() {
        bail!("neither `wrk` nor `oha` is installed: `apt-get install wrk`, `cargo install oha`");
    }
    let generators: Vec<&str> = std::iter::once("mcplane").chain(others.iter().copied()).collect();
    let mut summary = heading();
    for load in &LOADS {
        let script = root.join("target").join(format!("cross-{}.lua", load.tool));
        fs::write(&script, load.lua())?;
        let serving = Serving::start(root, &words(&server), URL, load.apart)?;
        let rounds = measure(root, load, &others, &script)?;
        drop(serving);
        let rows = rounds.iter().enumerate().flat_map(|(round, seen)| {
            generators.iter().zip(seen).map(move |(generator, [calls_per_s, p50_ms])| {
                json!({
                    "generator": generator,
                    "round": round + 1,
                    "calls_per_s": calls_per_s,
                    "p50_ms": p50_ms,
                })
            })
        });
        let file = campaign.file(&format!("cross-{}", load.tool));
        fs::write(file, serde_json::to_vec_pretty(&rows.collect::<Vec<_>>())?)?;
        summarise(&mut summary, load, &others, &rounds);
    }
    campaign.publish(&summary)
}

/// Rounds, each with every generator once.
fn measure(
    root: &Path,
    load: &Load,
    others: &[&str],
    script: &Path,
) -> anyhow::Result<Vec<Vec<Seen>>> {
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let mut order: Vec<usize> = (0..=others.len()).collect();
        order.rotate_left(round % (others.len() + 1));
        let mut seen = vec![[f64::NAN; 2]; others.len() + 1];
        for at in order {
            let name = at.checked_sub(1).and_then(|at| others.get(at)).copied();
            let title = format!("{} {} {}", load.tool, round + 1, name.unwrap_or("mcplane"));
            let found = step(&title, || match name {
                None => bench(root, load),
                Some("wrk") => wrk(load, script),
                Some(_) => oha(load),
            })?;
            if let Some(slot) = seen.get_mut(at) {
                *slot = found;
            }
        }
        rounds.push(seen);
    }
    Ok(rounds)
}

fn is_there(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok()
}

/// A generator, on the core that the server leaves it.
fn generator(load: &Load, program: impl AsRef<OsStr>) -> Command {
    if !load.apart {
        return Command::new(program);
    }
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", "1"]).arg(program);
    command
}

fn bench(root: &Path, load: &Load) -> anyhow::Result<Seen> {
    let mut command = generator(load, root.join("target/dist/mcplane"));
    command.args([
        "bench",
        URL,
        "--era",
        "modern",
        "--tool",
        load.tool,
        "--no-floor",
        "--json",
        "-",
    ]);
    command.args(["--args", load.args, "--concurrency", CONNECTIONS]);
    command.args(["--duration", "2s", "--warmup", "200ms", "--settle", "1ms"]);
    let report: Value = serde_json::from_slice(&output(command.stderr(Stdio::null()))?)?;
    let number = |path: &str| {
        let found = report.pointer(path).and_then(Value::as_f64);
        found.with_context(|| format!("no number at {path} in the report"))
    };
    let p50_ns = number("/runs/0/results/latency/p50_ns")?;
    Ok([number("/runs/0/results/throughput_per_s")?, p50_ns / 1e6])
}

fn wrk(load: &Load, script: &Path) -> anyhow::Result<Seen> {
    let mut command = generator(load, "wrk");
    command.args(["-t1", "-c", CONNECTIONS, "-d", "2s", "--latency", "-s"]).arg(script).arg(URL);
    let text = String::from_utf8(output(&mut command)?)?;
    if text.contains("Non-2xx") {
        bail!("wrk saw errors:\n{text}");
    }
    let after = |label: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(label));
        line.with_context(|| format!("no `{label}` in what wrk printed:\n{text}"))
    };
    Ok([after("Requests/sec:")?.trim().parse()?, milliseconds(after("50%")?.trim())?])
}

/// `1.25ms` and the like.
fn milliseconds(text: &str) -> anyhow::Result<f64> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let each = match unit {
        "us" => 0.001,
        "ms" => 1.0,
        "s" => 1000.0,
        _ => bail!("`{text}` is no time"),
    };
    Ok(number.parse::<f64>()? * each)
}

fn oha(load: &Load) -> anyhow::Result<Seen> {
    let mut command = generator(load, "oha");
    command.args(["--no-tui", "--output-format", "json", "-z", "2s", "-c", CONNECTIONS]);
    command.args(["-m", "POST", "-d", &load.body()]);
    for (name, value) in load.headers() {
        command.args(["-H", &format!("{name}: {value}")]);
    }
    let report: Value = serde_json::from_slice(&output(command.arg(URL).stderr(Stdio::null()))?)?;
    let number = |path: &str| {
        let found = report.pointer(path).and_then(Value::as_f64);
        found.with_context(|| format!("no number at {path} in what oha printed"))
    };
    let p50_s = number("/latencyPercentiles/p50")?;
    Ok([number("/summary/requestsPerSec")?, p50_s * 1000.0])
}

fn heading() -> String {
    format!(
        "# One server seen by several generators\n\n\
         Command: `cargo xtask speed cross`. `mcplane fixture` over HTTP, revision 2026-07-28, \
         {CONNECTIONS} connections, {ROUNDS} rounds of 2 s in turns. The ratio is that of mcplane's lab \
         to the other within a round: geometric mean and its 95 % interval.\n"
    )
}

fn summarise(out: &mut String, load: &Load, others: &[&str], rounds: &[Vec<Seen>]) {
    let _ = write!(
        out,
        "\n## `{}`\n\n{}\n\n\
         | generator | calls/s | ratio | p50 ms | ratio |\n|---|---:|---:|---:|---:|\n",
        load.tool, load.limit
    );
    let column = |at: usize, what: usize| -> Vec<f64> {
        rounds.iter().filter_map(|round| round.get(at)?.get(what).copied()).collect()
    };
    for (at, name) in ["mcplane"].iter().chain(others).enumerate() {
        let _ = write!(out, "| {name}");
        for what in 0..2 {
            let ours = column(0, what);
            let theirs = column(at, what);
            let digits = if what == 0 { 0 } else { 3 };
            let _ = write!(out, " | {:.digits$}", super::median(theirs.clone()));
            let [low, mid, high] = ratio(&ours, &theirs);
            if at == 0 {
                out.push_str(" | 1");
            } else {
                let _ = write!(out, " | {mid:.2} ({low:.2} to {high:.2})");
            }
        }
        out.push_str(" |\n");
    }
}

/// The geometric mean of the ratios, between the ends of its interval.
#[allow(clippy::cast_precision_loss, reason = "ten rounds")]
fn ratio(ours: &[f64], theirs: &[f64]) -> [f64; 3] {
    let logs: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| (a / b).ln()).collect();
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = T * (variance / count).sqrt();
    [mean - half, mean, mean + half].map(f64::exp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(milliseconds("1.25ms").unwrap(), 1.25);
        assert_eq!(milliseconds("250.00us").unwrap(), 0.25);
        assert_eq!(milliseconds("2s").unwrap(), 2000.0);
        assert!(milliseconds("7m").is_err());
    }

    #[test]
    fn a_constant_ratio_has_no_spread() {
        let ours: Vec<f64> = (1..=10).map(f64::from).collect();
        let theirs: Vec<f64> = ours.iter().map(|figure| figure * 2.0).collect();
        assert!(ratio(&ours, &theirs).iter().all(|end| (end - 0.5).abs() < 1e-9));
    }
}
