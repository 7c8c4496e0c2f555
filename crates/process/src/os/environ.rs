//! Linux: processes by what their environment was when they were started.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};

use rustix::io::Errno;
use rustix::process::{self, Pid, PidfdFlags, Signal};

use crate::mark::Found;

/// Bytes read of one environment. The kernel allows 6 MiB for arguments and environment together.
const ENVIRON_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Sends SIGKILL to every process that was started with one of these values of `variable`. Blocks
/// while it reads a file of each process.
pub(crate) fn kill_marked(variable: &str, values: &BTreeSet<&[u8]>) -> Found {
    let mut search = Search { variable: variable.as_bytes(), values, environ: Vec::new() };
    let mut found = Found::Nothing;
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = number.and_then(Pid::from_raw) else { continue };
        match search.matches(pid) {
            Ok(Some(true)) if search.kill(pid) => found = Found::Some,
            Ok(None) if found == Found::Nothing => found = Found::Unsure,
            _ => {}
        }
    }
    found
}

struct Search<'a> {
    variable: &'a [u8],
    values: &'a BTreeSet<&'a [u8]>,
    /// One buffer for all: a read with room for everything is the cheapest.
    environ: Vec<u8>,
}

impl Search<'_> {
    /// `None` if it has no environment at all. An error if it may not be read or has ended.
    fn matches(&mut self, pid: Pid) -> io::Result<Option<bool>> {
        self.environ.clear();
        let file = File::open(format!("/proc/{}/environ", pid.as_raw_pid()))?;
        file.take(ENVIRON_BYTES_MAX).read_to_end(&mut self.environ)?;
        let has_value = |entry: &[u8]| {
            let value = entry.strip_prefix(self.variable).and_then(|rest| rest.strip_prefix(b"="));
            value.is_some_and(|value| self.values.contains(value))
        };
        let mut entries = self.environ.split(|byte| *byte == 0);
        Ok((!self.environ.is_empty()).then(|| entries.any(has_value)))
    }

    /// The number may have gone to a stranger since we looked. So we take hold of whatever has it
    /// now, look at that, and signal what we hold.
    fn kill(&mut self, pid: Pid) -> bool {
        let held = process::pidfd_open(pid, PidfdFlags::empty());
        if !matches!(self.matches(pid), Ok(Some(true))) {
            return false;
        }
        match held {
            Ok(held) => process::pidfd_send_signal(held, Signal::KILL).is_ok(),
            // Before Linux 5.3: between the look and the signal the race remains.
            Err(Errno::NOSYS) => process::kill_process(pid, Signal::KILL).is_ok(),
            Err(_) => false,
        }
    }
}
