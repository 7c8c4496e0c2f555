//! The machine and the conditions that a result was measured under.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf, absolute};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;

use crate::client::{Served, Target};
use crate::results::{Binary, Environment};

impl Binary {
    /// The file of a target that is a command: what its first word is found as.
    pub(crate) fn of(target: &Target) -> Option<Self> {
        let (Target::Stdio(command) | Target::Served(Served { command, .. })) = target else {
            return None;
        };
        found(command.words().next()?).as_deref().map(Self::at)
    }

    /// The file at this path.
    fn at(path: &Path) -> Self {
        let path = absolute(path).unwrap_or_else(|_| path.to_owned());
        Self { sha256: sha256(&path).ok(), path: path.to_string_lossy().into_owned() }
    }
}

/// The file that a program's name stands for: on `PATH`, unless the name has a folder.
fn found(program: &OsStr) -> Option<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(program.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| is_program(file))
}

#[cfg(unix)]
fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;

    let any = |about: fs::Metadata| about.is_file() && about.permissions().mode() & 0o111 != 0;
    fs::metadata(file).is_ok_and(any)
}

#[cfg(not(unix))]
fn is_program(file: &Path) -> bool {
    file.is_file()
}

/// The SHA-256 of a file's bytes, read once for as long as the file is not written. It is the one
/// that TLS needs anyway, and as fast in a program that was built without optimisation.
fn sha256(path: &Path) -> io::Result<String> {
    type Written = (PathBuf, SystemTime, u64);
    static SEEN: Mutex<BTreeMap<Written, String>> = Mutex::new(BTreeMap::new());
    let about = fs::metadata(path)?;
    let SupportedCipherSuite::Tls13(suite) = TLS13_AES_128_GCM_SHA256 else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    if !about.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let written = (path.to_owned(), about.modified()?, about.len());
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = seen.get(&written) {
        return Ok(known.clone());
    }
    let (mut file, mut hash) = (File::open(path)?, suite.common.hash_provider.start());
    let mut chunk = vec![0; 256 * 1024];
    loop {
        let len = file.read(&mut chunk)?;
        if len == 0 {
            break;
        }
        hash.update(chunk.get(..len).unwrap_or_default());
    }
    let mut digits = String::new();
    for byte in hash.finish().as_ref() {
        let _ = write!(digits, "{byte:02x}");
    }
    seen.insert(written, digits.clone());
    Ok(digits)
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
            binary: std::env::current_exe().ok().map(|path| Binary::at(&path)),
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
    fn a_program_has_the_hash_of_its_file() {
        let path = std::env::temp_dir().join(format!("mcplane-binary-{}", std::process::id()));
        // The vectors of FIPS 180-2, B.1 and B.3.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let long = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
        for (bytes, want) in [(b"abc".to_vec(), abc), (vec![b'a'; 1_000_000], long)] {
            fs::write(&path, bytes).unwrap();
            assert_eq!(Binary::at(&path).sha256.as_deref(), Some(want));
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(Binary::at(&path).sha256, None);
        assert_eq!(Binary::at(&std::env::temp_dir()).sha256, None);
        let own = Environment::look().binary.unwrap();
        assert_eq!(own.sha256.unwrap().len(), 64);
        assert_eq!(Path::new(&own.path), std::env::current_exe().unwrap());
    }

    #[test]
    #[cfg(unix)]
    fn a_command_has_its_file_and_an_address_has_none() {
        use mcplane_process::Command;

        let of = |program: &str| Binary::of(&Target::Stdio(Command::new(program).arg("-c")));
        let shell = of("sh").unwrap();
        assert!(shell.path.starts_with('/') && shell.path.ends_with("/sh"), "{}", shell.path);
        assert_eq!(Binary::at(Path::new("/bin/sh")).sha256, shell.sha256);
        assert_eq!(of("./no/such").unwrap().sha256, None);
        assert_eq!(of("no-such-program"), None);
        assert_eq!(Binary::of(&Target::memory("m", || Err(io::ErrorKind::Other.into()))), None);
    }

    #[test]
    fn headers_lose_their_values() {
        let line =
            ["bench", "--header", "X-Key: hunter2", "--header=A:hunter2", "--header", "hunter2"];
        let shown = without_secrets(line.map(str::to_owned).into_iter());
        assert_eq!(shown, ["bench", "--header", "X-Key: …", "--header=A: …", "--header", "…"]);
    }
}
