//! Gateways in front of one warm stdio server, beside the null relay and beside each other.
//!
//! Rounds in which each gateway is started, measured with 1, 10, 50 and 100 calls in flight, and
//! ended; the order turned round after each. Nothing else runs meanwhile. Each call has a payload of
//! its own, and each reply is held against it.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

use super::campaign::Campaign;
use super::median;
use super::peers::{Kind, Payload, Subject, install, subjects};
use super::serving::Serving;
use crate::run::step;

/// Rounds: medians of an odd number.
pub const ROUNDS_DEFAULT: usize = 5;

const IN_FLIGHT: [usize; 4] = [1, 10, 50, 100];

/// The same with large messages.
const IN_FLIGHT_LARGE: [usize; 4] = [1, 2, 4, 10];

/// What is read off one run of one number of calls in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    per_s: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_us: f64,
    rss_mib: f64,
    errors: f64,
}

/// A subject, and what came of it: for each number of calls in flight the rounds.
struct Row {
    subject: Subject,
    /// On one core with the load.
    pinned: bool,
    payload: Payload,
    rounds: [Vec<Figures>; IN_FLIGHT.len()],
    /// Why there is not more.
    trouble: Option<String>,
}

/// Measures and writes `bench/results/<date>-<host>/`.
pub fn gateway(root: &Path, rounds: usize) -> anyhow::Result<()> {
    let missing = step("packages of the peers", || Ok(install(root)))?;
    let campaign = Campaign::with_build(root, "gateway")?;
    let mut rows = rows();
    for row in &mut rows {
        let missed = missing.iter().find(|(package, _)| *package == row.subject.package);
        row.trouble = missed.map(|(_, why)| format!("cannot be installed: {why}"));
    }
    for round in 0..rounds {
        let mut order: Vec<&mut Row> = rows.iter_mut().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for row in order.into_iter().filter(|row| row.trouble.is_none()) {
            let pinned = if row.pinned { "-pinned" } else { "" };
            let size = row.payload.suffix();
            let name = format!("gateway-{}{size}{pinned}-{}", row.subject.name, round + 1);
            let file = campaign.file(&name);
            match step(&name, || measure(root, row, &file)) {
                Ok(found) => row.rounds.iter_mut().zip(found).for_each(|(all, one)| all.push(one)),
                Err(error) => row.trouble = Some(format!("round {}: {error:#}", round + 1)),
            }
        }
    }
    campaign.publish(&summary(&rows, rounds))
}

/// Every gateway on all cores, and the relays and ours on one core as well, there also with large
/// messages.
fn rows() -> Vec<Row> {
    let row = |pinned, payload| {
        move |subject| Row { subject, pinned, payload, rounds: Default::default(), trouble: None }
    };
    let mut rows: Vec<Row> = subjects().into_iter().map(row(false, Payload::Small)).collect();
    for payload in Payload::ALL {
        let ours = subjects().into_iter().filter(|subject| subject.kind != Kind::Peer);
        // With large messages the eras hardly differ.
        let ours =
            ours.filter(|subject| payload == Payload::Small || subject.client == subject.upstream);
        rows.extend(ours.map(row(true, payload)));
    }
    rows
}

fn measure(root: &Path, row: &Row, file: &Path) -> anyhow::Result<Vec<Figures>> {
    const MCPLANE: &str = "target/dist/mcplane";
    let subject = &row.subject;
    let serving = Serving::start(root, &subject.command, subject.url, row.pinned)?;
    let in_flight = row.in_flight().map(|count| count.to_string()).join(",");
    let args = format!(r#"{{"message":"{}"}}"#, row.payload.message());
    // What a round before has left is no result of this one.
    let _ = fs::remove_file(file);
    let mut bench = Command::new(root.join(MCPLANE));
    bench
        .arg0(MCPLANE)
        .current_dir(root)
        .args(["bench", "--era", subject.client.as_str(), "--tool", subject.tool])
        .args(["--args", &args, "--distinct", "--no-floor"])
        .args(["--concurrency", &in_flight, "--duration", "600ms", "--warmup", "300ms"])
        .args(["--settle", "1ms", "--pid", &serving.pid().to_string()])
        .args(if row.pinned { &["--pin", "0"][..] } else { &[] })
        .arg("--json")
        .arg(file.strip_prefix(root).unwrap_or(file))
        .arg(subject.url);
    let outcome = bench.stdin(Stdio::null()).output().context("cannot start the load")?;
    drop(serving);
    // With errors in some calls there is a report, which counts them.
    if !file.exists() {
        bail!("{}", String::from_utf8_lossy(&outcome.stderr).trim());
    }
    read(file)
}

/// The figures of one file, for each number of calls in flight.
fn read(file: &Path) -> anyhow::Result<Vec<Figures>> {
    let report: Value = serde_json::from_slice(&fs::read(file)?)?;
    let runs = report.get("runs").and_then(Value::as_array).context("no runs in the report")?;
    if runs.len() < IN_FLIGHT.len() {
        bail!("only {} of {} loads could be measured", runs.len(), IN_FLIGHT.len());
    }
    runs.iter().map(figures).collect()
}

fn figures(run: &Value) -> anyhow::Result<Figures> {
    let number = |path: &str| {
        let found = run.pointer(path).and_then(Value::as_f64);
        found.with_context(|| format!("no number at {path} in the report"))
    };
    let high = ["p99", "p95", "p90", "p50"].iter();
    let high = high.map(|q| number(&format!("/results/latency/{q}_ns"))).find(Result::is_ok);
    let high = high.context("no quantile in the report")?;
    let errors = run.pointer("/results/errors").and_then(Value::as_object);
    let errors = errors.context("no errors in the report")?.values().filter_map(Value::as_f64);
    Ok(Figures {
        per_s: number("/results/throughput_per_s")?,
        p50_us: number("/results/latency/p50_ns")? / 1000.0,
        p99_us: high? / 1000.0,
        cpu_us: number("/results/resources/cpu_ns_per_call")? / 1000.0,
        rss_mib: number("/results/resources/rss_bytes_end")? / f64::from(1 << 20),
        errors: errors.sum(),
    })
}

impl Row {
    fn in_flight(&self) -> [usize; IN_FLIGHT.len()] {
        if self.payload == Payload::Small { IN_FLIGHT } else { IN_FLIGHT_LARGE }
    }

    /// The median over the rounds.
    fn of(&self, way: usize, figure: fn(&Figures) -> f64) -> f64 {
        let rounds = self.rounds.get(way).map(Vec::as_slice).unwrap_or_default();
        median(rounds.iter().map(figure).collect())
    }

    /// The median of what each round has beside the same round of another.
    fn beside(&self, other: &Self, way: usize, figure: fn(&Figures) -> f64) -> f64 {
        let (Some(ours), Some(theirs)) = (self.rounds.get(way), other.rounds.get(way)) else {
            return f64::NAN;
        };
        median(ours.iter().zip(theirs).map(|(a, b)| figure(a) / figure(b)).collect())
    }

    fn errors(&self) -> f64 {
        self.rounds.iter().flatten().map(|figures| figures.errors).sum()
    }

    fn is_measured(&self) -> bool {
        self.rounds.iter().all(|rounds| !rounds.is_empty())
    }
}

/// The row of small messages.
fn find<'a>(rows: &'a [Row], name: &str, pinned: bool) -> Option<&'a Row> {
    let small = |row: &&Row| row.pinned == pinned && row.payload == Payload::Small;
    rows.iter().filter(small).find(|row| row.subject.name == name)
}

fn summary(rows: &[Row], rounds: usize) -> String {
    let mut out = format!(
        "# Gateways: HTTP in front of one warm stdio echo server, medians of {rounds} rounds\n\n\
         Command: `cargo xtask speed gateway`. Each gateway in its best mode, one upstream process \
         where it can share one, JSON answers where it can give them; one connection per call in \
         flight, payloads distinct, each reply's content checked. Where too few calls ended to \
         tell the p99 it is the highest quantile that can be told, which is lower. CPU and memory \
         include the upstream. The relays `one-thread` have no pool of threads. Each file holds its run's environment.\n"
    );
    for (title, pinned, payload) in [
        ("On all cores", false, Payload::Small),
        ("On one core with the load", true, Payload::Small),
        ("The same with messages of 64 KiB", true, Payload::Kib64),
        ("The same with messages of 1 MiB", true, Payload::Mib1),
    ] {
        let in_flight = if payload == Payload::Small { IN_FLIGHT } else { IN_FLIGHT_LARGE };
        let [one, some, more, most] = in_flight;
        let _ = writeln!(
            out,
            "\n## {title}\n\n| gateway | client → upstream | p50 µs at {one} | calls/s at {one} | {some} | \
             {more} | {most} | p99 ms at {some} | {more} | {most} | CPU µs/call at {more} | RSS MiB | errors |\n\
             |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
        );
        let here = |row: &&Row| row.pinned == pinned && row.payload == payload;
        for row in rows.iter().filter(here).filter(|row| row.is_measured()) {
            line(&mut out, row);
        }
    }
    wanted(&mut out, rows);
    let missing: Vec<&Row> = rows.iter().filter(|row| row.trouble.is_some()).collect();
    if !missing.is_empty() {
        out.push_str("\n## Not measured, or not to the end\n\n");
    }
    for row in missing {
        let why = row.trouble.as_deref().unwrap_or_default().replace('\n', " ");
        let core = if row.pinned { ", one core" } else { "" };
        let _ = writeln!(out, "* {}{}{core}: {why}", row.subject.name, row.payload.suffix());
    }
    out
}

fn line(out: &mut String, row: &Row) {
    let _ = write!(
        out,
        "| {} | {} → {} | {:.0}",
        row.subject.name,
        row.subject.client.as_str(),
        row.subject.upstream.as_str(),
        row.of(0, |f| f.p50_us),
    );
    (0..IN_FLIGHT.len()).for_each(|way| _ = write!(out, " | {:.0}", row.of(way, |f| f.per_s)));
    (1..IN_FLIGHT.len())
        .for_each(|way| _ = write!(out, " | {:.2}", row.of(way, |f| f.p99_us) / 1000.0));
    let cpu = row.of(2, |f| f.cpu_us);
    let rss = row.of(IN_FLIGHT.len() - 1, |f| f.rss_mib);
    let _ = writeln!(out, " | {cpu:.0} | {rss:.1} | {:.0} |", row.errors());
}

/// What the figures are held against.
fn wanted(out: &mut String, rows: &[Row]) {
    out.push_str(
        "\n## Ratios, each within its round\n\n\
         | what | wanted | at 1 | at 10 | at 50 | at 100 |\n|---|---|---:|---:|---:|---:|\n",
    );
    let per_s: fn(&Figures) -> f64 = |f| f.per_s;
    let p50: fn(&Figures) -> f64 = |f| f.p50_us;
    let p99: fn(&Figures) -> f64 = |f| f.p99_us;
    let mut ratio = |what: &str, goal: &str, pair: (Option<&Row>, Option<&Row>), figure| {
        let (Some(a), Some(b)) = pair else { return };
        let _ = write!(out, "| {what} | {goal}");
        (0..IN_FLIGHT.len()).for_each(|way| _ = write!(out, " | {:.2}", a.beside(b, way, figure)));
        out.push_str(" |\n");
    };
    for pinned in [false, true] {
        let row = |name| find(rows, name, pinned);
        let core = if pinned { ", one core" } else { "" };
        for (ours, relay, lean) in [
            ("mcplane-legacy-legacy", "relay-legacy", "relay-one-thread-legacy"),
            ("mcplane-modern-modern", "relay-modern", "relay-one-thread-modern"),
            ("mcplane-modern-legacy", "relay-modern", "relay-one-thread-modern"),
        ] {
            let what = |figure: &str| format!("{ours} ÷ {relay}, {figure}{core}");
            let pair = (row(ours), row(relay));
            ratio(&what("calls/s"), "≥ 0.6 at 10, 50, 100", pair, per_s);
            ratio(&what("p50"), "≤ 1.6 at 1", pair, p50);
            let what = format!("{ours} ÷ {lean}, calls/s{core}");
            ratio(&what, "", (row(ours), row(lean)), per_s);
        }
        for (same_era, name) in [
            ("modern → modern", "mcplane-modern-modern"),
            ("legacy → legacy", "mcplane-legacy-legacy"),
        ] {
            let pair = (row("mcplane-modern-legacy"), row(name));
            ratio(&format!("modern → legacy ÷ {same_era}, calls/s{core}"), "≥ 0.9", pair, per_s);
        }
    }
    let ours = find(rows, "mcplane-legacy-legacy", false);
    for peer in rows.iter().filter(|row| row.subject.kind == Kind::Peer && row.is_measured()) {
        let name = peer.subject.name;
        ratio(&format!("mcplane ÷ {name}, calls/s"), "> 1", (ours, Some(peer)), per_s);
        ratio(&format!("mcplane ÷ {name}, p50"), "< 1", (ours, Some(peer)), p50);
        ratio(&format!("mcplane ÷ {name}, p99"), "< 1", (ours, Some(peer)), p99);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_two_relays_of_each_era_and_rows_of_each_size() {
        let rows = rows();
        let count = |kind: Kind, pinned: bool, payload: Payload| {
            let here = |row: &&Row| row.pinned == pinned && row.payload == payload;
            rows.iter().filter(here).filter(|row| row.subject.kind == kind).count()
        };
        for payload in Payload::ALL {
            assert_eq!(count(Kind::Relay, true, payload), 2);
            assert_eq!(count(Kind::Lean, true, payload), 2);
            assert_eq!(count(Kind::Peer, true, payload), 0);
        }
        assert_eq!(
            (count(Kind::Ours, true, Payload::Mib1), count(Kind::Ours, true, Payload::Small)),
            (2, 4)
        );
        assert_eq!(
            (count(Kind::Lean, false, Payload::Small), count(Kind::Ours, false, Payload::Small)),
            (2, 4)
        );
        let one_thread = |row: &Row| row.subject.command.iter().any(|word| word == "--one-thread");
        assert!(rows.iter().all(|row| one_thread(row) == (row.subject.kind == Kind::Lean)));
    }
}
