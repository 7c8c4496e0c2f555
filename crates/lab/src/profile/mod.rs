//! Where a server's time or memory goes: its command under a profiler, and what that wrote brought to
//! one form.
//!
//! * [`Profile`] — a profiler around a command (this file).
//! * `tool`      — which profilers are here.
//! * `perf`, `callgrind`, `massif` — what they write.
//! * `stages`    — what a server on mcplane says of itself, in their place.
//! * `stacks`    — stacks and their costs, and the table of the most expensive functions.
//! * `flame`     — the flame graph.

mod callgrind;
mod flame;
mod massif;
mod perf;
mod stacks;
mod stages;
mod tool;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command as StdCommand, Stdio};
use std::time::Duration;

use mcplane_process::Command;

use self::stacks::Stacks;
pub use self::stages::Stages;
use self::tool::Tool;
use crate::plan::Plan;
pub use crate::spec::Profiled as Kind;

/// Longest output of a profiler that is read, in bytes, for each process.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Most processes whose output is read.
const FILES_MAX: usize = 256;

/// How long a program that a profiler slows down may take for a call.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How long a profiler may take to write what it knows, once the server is to stop.
const STOP: Duration = Duration::from_secs(30);

/// A profiler that a command is run under.
#[derive(Clone, Debug)]
pub struct Profile {
    tool: Tool,
    folder: PathBuf,
}

impl Profile {
    /// Finds a profiler for what `command` starts, makes `folder`, and removes the raw data of an
    /// earlier profile from it.
    ///
    /// # Errors
    /// A sentence: that there is no profiler, and which package has one; that the folder cannot be
    /// made.
    pub fn new(kind: Kind, folder: &Path, command: &[OsString]) -> Result<Self, String> {
        let cannot = |error: io::Error| format!("cannot write to {}: {error}", folder.display());
        fs::create_dir_all(folder).map_err(cannot)?;
        let folder = folder.canonicalize().map_err(cannot)?;
        let tool = Tool::choose(kind, command)?;
        let profile = Self { tool, folder };
        for file in profile.raw().map_err(cannot)? {
            fs::remove_file(file).map_err(cannot)?;
        }
        Ok(profile)
    }

    /// The profiler in words.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.tool.name()
    }

    /// `command` under the profiler, with every process that it starts.
    #[must_use]
    pub fn wrap(&self, command: &[OsString]) -> Option<Command> {
        self.tool.wrap(command, &self.folder)
    }

    /// The plan with time for what the profiler slows down, and for it to write.
    #[must_use]
    pub fn stretch(&self, plan: &Plan) -> Plan {
        let slow = |limit: Duration| match self.tool.is_slow() {
            true => limit.max(TIMEOUT),
            false => limit,
        };
        Plan {
            timeout: slow(plan.timeout),
            start_timeout: slow(plan.start_timeout),
            stop_grace: STOP,
            slices: 1,
            ..plan.clone()
        }
    }

    /// Writes `top.md` and `flame.svg` into the folder, the latter not for stages, and returns their
    /// paths.
    ///
    /// # Errors
    /// A sentence that says what the profiler did not write, or what cannot be read or written.
    pub fn finish(&self, title: &str) -> Result<Vec<PathBuf>, String> {
        let write = |name: &str, text: String| {
            let path = self.folder.join(name);
            let cannot = |error| format!("cannot write {}: {error}", path.display());
            fs::write(&path, text).map_err(cannot).map(|()| path)
        };
        if self.tool == Tool::Stages {
            return Ok(vec![write("top.md", self.stages(title)?)?]);
        }
        let at = self.folder.display();
        let stacks = self.stacks().map_err(|error| format!("the profile in {at}: {error}"))?;
        if stacks.total() == 0 {
            let name = self.name();
            return Err(format!("{name} wrote nothing about `{title}` to {at}: was it killed?"));
        }
        let (what, unit) = (self.tool.what(), self.tool.unit());
        let title = format!("{what} of {title}, by {}", self.name());
        let graph = write("flame.svg", flame::svg(&stacks, &title, unit))?;
        Ok(vec![graph, write("top.md", stacks.top(&title, unit))?])
    }

    /// The stages of every process that told them.
    fn stages(&self, title: &str) -> Result<String, String> {
        let wrong = |error: io::Error| format!("the stages in {}: {error}", self.folder.display());
        let files = self.raw().map_err(wrong)?;
        if files.is_empty() {
            return Err(format!(
                "`{title}` did not tell its stages: `mcplane fixture` does, and so can a server \
                 on mcplane (docs/lab/observe.md)"
            ));
        }
        let mut out = format!("# Stages of `{title}`\n");
        for file in files {
            text(&file).and_then(|json| stages::add(&json, &mut out)).map_err(wrong)?;
        }
        Ok(out)
    }

    fn stacks(&self) -> io::Result<Stacks> {
        let mut stacks = Stacks::default();
        for file in self.raw()? {
            match self.tool {
                Tool::Perf => return perf(&file),
                Tool::Heaptrack { .. } => return self.heaptrack(&file),
                Tool::Callgrind => callgrind::add(&text(&file)?, &mut stacks),
                Tool::Massif => massif::add(&text(&file)?, &mut stacks),
                Tool::Stages => {}
            }
        }
        Ok(stacks)
    }

    /// What the profiler wrote, a file for each process or one for all.
    fn raw(&self) -> io::Result<Vec<PathBuf>> {
        let mut files: Vec<_> = fs::read_dir(&self.folder)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let name = path.file_name().and_then(|name| name.to_str());
                name.is_some_and(|name| name.starts_with(self.tool.file()))
            })
            .collect();
        files.sort();
        files.truncate(FILES_MAX);
        Ok(files)
    }

    /// Heaptrack's raw data are first put together, then printed as stacks.
    fn heaptrack(&self, raw: &Path) -> io::Result<Stacks> {
        let Tool::Heaptrack { interpret, print, .. } = &self.tool else {
            return Ok(Stacks::default());
        };
        let [whole, folded] = ["heaptrack.data", "stacks.txt"].map(|name| self.folder.join(name));
        let mut interpret = StdCommand::new(interpret);
        interpret.stdin(File::open(raw)?).stdout(File::create(&whole)?).stderr(Stdio::null());
        done(interpret.status()?)?;
        let mut print = StdCommand::new(print);
        print.arg("-f").arg(&whole).args(["--flamegraph-cost-type", "peak", "-F"]).arg(&folded);
        done(print.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?)?;
        let stacks = Stacks::parse(&text(&folded)?);
        // Large, and in the graph.
        fs::remove_file(&folded)?;
        Ok(stacks)
    }
}

fn perf(data: &Path) -> io::Result<Stacks> {
    let mut script = StdCommand::new("perf");
    script.args(["script", "--no-inline", "-F", "comm,ip,sym", "-i"]).arg(data);
    let mut script =
        script.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let stacks = script.stdout.take().map(|output| perf::read(BufReader::new(output)));
    done(script.wait()?)?;
    stacks.unwrap_or_else(|| Ok(Stacks::default()))
}

fn done(status: std::process::ExitStatus) -> io::Result<()> {
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("the profiler's own tool failed: {status}"))),
    }
}

fn text(file: &Path) -> io::Result<String> {
    let bytes = fs::metadata(file)?.len();
    if bytes > FILE_BYTES_MAX {
        let what = format!("{} has {bytes} bytes, more than is read", file.display());
        return Err(io::Error::other(what));
    }
    Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned())
}
