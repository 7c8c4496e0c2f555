//! The machine and the conditions that a result was measured under.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a reader needs to judge a result or to repeat it. A `None` could not be found out.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Environment {
    /// When it was measured, UTC, RFC 3339.
    pub time: String,
    /// The version of mcplane.
    pub mcplane: String,
    /// Whether this program was built with optimisation.
    pub optimised: bool,
    /// The command line of this program, without the values of headers.
    pub command: Vec<String>,
    /// The operating system.
    pub os: String,
    /// The architecture.
    pub arch: String,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The CPU's name.
    pub cpu: Option<String>,
    /// Cores that this process may use.
    pub cores: usize,
    /// The list of those cores, in the kernel's notation.
    pub affinity: Option<String>,
    /// The frequency governor of the first core.
    pub governor: Option<String>,
    /// Where the kernel takes the time from.
    pub clock: Option<String>,
    /// The cgroup's CPU limit (`cpu.max`): quota and period in microseconds.
    pub cgroup_cpu: Option<String>,
    /// The cgroup's memory limit (`memory.max`) in bytes, or `max`.
    pub cgroup_memory: Option<String>,
    /// Load averages over 1, 5 and 15 minutes before the run.
    pub load_before: Option<[f64; 3]>,
    /// Memory of the machine, in bytes.
    pub memory_bytes: Option<u64>,
}

impl Environment {
    /// Looks at the machine.
    #[must_use]
    pub fn look() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let status = line_of("/proc/self/status", "Cpus_allowed_list");
        let cpu = ["model name", "Model", "Processor"];
        let memory = line_of("/proc/meminfo", "MemTotal");
        let kib = |text: String| text.split(' ').next()?.parse::<u64>().ok();
        Self {
            time: utc(now),
            mcplane: env!("CARGO_PKG_VERSION").to_owned(),
            optimised: !cfg!(debug_assertions),
            command: without_secrets(
                std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()),
            ),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            kernel: line("/proc/sys/kernel/osrelease"),
            cpu: cpu.iter().find_map(|key| line_of("/proc/cpuinfo", key)),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            affinity: status,
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            clock: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            cgroup_cpu: cgroup("cpu.max"),
            cgroup_memory: cgroup("memory.max"),
            load_before: line("/proc/loadavg").and_then(|text| loads(&text)),
            memory_bytes: memory.and_then(kib).map(|kib| kib * 1024),
        }
    }
}

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}

/// The value of the first `key: value` line.
fn line_of(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
}

/// A limit of this process's cgroup (v2), or of the nearest one above that sets it.
fn cgroup(file: &str) -> Option<String> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    loop {
        if let Some(limit) = line(&format!("/sys/fs/cgroup{path}/{file}")) {
            return Some(limit);
        }
        path = path.rsplit_once('/')?.0;
    }
}

fn loads(text: &str) -> Option<[f64; 3]> {
    let mut words = text.split(' ').map(|word| word.parse().ok());
    Some([words.next()??, words.next()??, words.next()??])
}

/// Seconds since 1970 as RFC 3339 in UTC. The calendar repeats every 400 years, which begin in
/// March so that the leap day is the last.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + carry;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// A command line in which headers have lost their values.
fn without_secrets(args: impl Iterator<Item = String>) -> Vec<String> {
    let hide = |line: &str| match line.split_once(':') {
        Some((name, _)) => format!("{name}: …"),
        None => "…".to_owned(),
    };
    let mut is_header = false;
    args.map(|arg| {
        let was_header = std::mem::replace(&mut is_header, arg == "--header");
        match arg.strip_prefix("--header=") {
            Some(line) => format!("--header={}", hide(line)),
            None if was_header => hide(&arg),
            None => arg,
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_785_196_800, "2026-07-28T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }

    #[test]
    fn load_averages_are_read() {
        assert_eq!(loads("0.52 1.58 2 3/602 27461"), Some([0.52, 1.58, 2.0]));
        assert_eq!(loads("0.52 x"), None);
    }

    #[test]
    fn this_machine_has_cores() {
        let environment = Environment::look();
        assert!(environment.cores > 0 && environment.time.ends_with('Z'));
    }

    #[test]
    fn headers_lose_their_values() {
        let line =
            ["bench", "--header", "X-Key: hunter2", "--header=A:hunter2", "--header", "hunter2"];
        let shown = without_secrets(line.map(str::to_owned).into_iter());
        assert_eq!(shown, ["bench", "--header", "X-Key: …", "--header=A: …", "--header", "…"]);
    }
}
