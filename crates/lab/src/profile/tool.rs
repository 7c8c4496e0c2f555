//! Which profilers are here, and how a command is run under them.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command as StdCommand, Stdio};

use mcplane_process::Command;

use super::{Kind, stages};

/// Programs that start others and do little themselves.
const STARTERS: [&str; 8] = ["sh", "bash", "dash", "zsh", "env", "npx", "uv", "uvx"];

/// Where the library is that heaptrack puts into a program, below `lib`.
const PRELOAD: [&str; 3] =
    ["heaptrack", "x86_64-linux-gnu/heaptrack", "aarch64-linux-gnu/heaptrack"];

/// A profiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// Samples by the clock, and so without hardware counters.
    Perf,
    /// Counts instructions, some fifty times slower.
    Callgrind,
    /// Follows the first process only.
    Heaptrack { preload: PathBuf, interpret: PathBuf, print: PathBuf },
    /// Some twenty times slower.
    Massif,
    /// A server on mcplane itself.
    Stages,
}

impl Tool {
    /// The best one that is here.
    pub(super) fn choose(kind: Kind, command: &[OsString]) -> Result<Self, String> {
        let valgrind = on_path("valgrind").is_some();
        match kind {
            Kind::Stages => Ok(Self::Stages),
            Kind::Cpu if may_perf() => Ok(Self::Perf),
            Kind::Cpu if valgrind => Ok(Self::Callgrind),
            Kind::Cpu => Err("--profile cpu needs perf, or valgrind in its place, and finds neither, \
                or may not use perf (sysctl kernel.perf_event_paranoid): install the package \
                linux-perf (Ubuntu: linux-tools-generic; Fedora: perf) or valgrind"
                .to_owned()),
            Kind::Heap if valgrind => Ok(heaptrack(command).unwrap_or(Self::Massif)),
            Kind::Heap => heaptrack(command).ok_or_else(|| {
                "--profile heap needs valgrind (or, for a program that starts no others, heaptrack), \
                 and finds neither: install the package valgrind or heaptrack"
                    .to_owned()
            }),
        }
    }

    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Perf => "perf",
            Self::Callgrind => "valgrind's callgrind",
            Self::Heaptrack { .. } => "heaptrack",
            Self::Massif => "valgrind's massif",
            Self::Stages => "the server's own clock",
        }
    }

    /// Whether it slows a program down by more than a few percent.
    pub(super) const fn is_slow(&self) -> bool {
        !matches!(self, Self::Perf | Self::Stages)
    }

    /// How the names of its files begin.
    pub(super) const fn file(&self) -> &'static str {
        match self {
            Self::Perf => "perf.data",
            Self::Callgrind => "callgrind.out",
            Self::Heaptrack { .. } => "heaptrack.raw",
            Self::Massif => "massif.out",
            Self::Stages => "mcplane-stages",
        }
    }

    pub(super) const fn what(&self) -> &'static str {
        match self {
            Self::Perf | Self::Callgrind => "CPU",
            Self::Heaptrack { .. } | Self::Massif => "Heap at its peak",
            Self::Stages => "Stages",
        }
    }

    pub(super) const fn unit(&self) -> &'static str {
        match self {
            Self::Perf => "samples",
            Self::Callgrind => "instructions",
            Self::Heaptrack { .. } | Self::Massif => "bytes",
            Self::Stages => "ns",
        }
    }

    /// `command` under this profiler, which writes into `folder`.
    pub(super) fn wrap(&self, command: &[OsString], folder: &Path) -> Option<Command> {
        let (program, args) = command.split_first()?;
        let file = folder.join(self.file());
        let output = |option: &str, end: &str| {
            let mut option = OsString::from(option);
            option.push(file.as_os_str());
            option.push(end);
            option
        };
        Some(match self {
            // Programs are rarely built with frame pointers, hence the copy of the stack's end.
            Self::Perf => Command::new("perf")
                .args(["record", "-q", "-e", "cpu-clock", "-F", "499"])
                .args(["--call-graph", "dwarf,4096", "-o"])
                .arg(&file)
                .arg("--")
                .args(command),
            Self::Callgrind => Command::new("valgrind")
                .args(["-q", "--vgdb=no", "--tool=callgrind", "--trace-children=yes"])
                .arg(output("--callgrind-out-file=", ".%p"))
                .args(command),
            Self::Massif => Command::new("valgrind")
                .args(["-q", "--vgdb=no", "--tool=massif", "--trace-children=yes"])
                .arg(output("--massif-out-file=", ".%p"))
                .args(command),
            Self::Stages => Command::new(program).args(args).env(stages::ENV, file.as_os_str()),
            Self::Heaptrack { preload, .. } => Command::new(program)
                .args(args)
                .env("LD_PRELOAD", preload.as_os_str())
                .env("DUMP_HEAPTRACK_OUTPUT", file.as_os_str()),
        })
    }
}

/// Heaptrack, if it is here and `command` is the program to be profiled and not one that starts it.
fn heaptrack(command: &[OsString]) -> Option<Tool> {
    let program = Path::new(command.first()?);
    let name = program.file_name()?.to_str()?;
    if STARTERS.contains(&name) || !is_native(&on_path(program)?) {
        return None;
    }
    let root = on_path("heaptrack")?.parent()?.parent()?.to_owned();
    let print = on_path("heaptrack_print")?;
    let folder = PRELOAD.iter().map(|name| root.join("lib").join(name)).find(|at| at.is_dir())?;
    let preload = folder.join("libheaptrack_preload.so");
    let interpret = folder.join("libexec").join("heaptrack_interpret");
    (preload.is_file() && interpret.is_file()).then_some(Tool::Heaptrack {
        preload,
        interpret,
        print,
    })
}

/// An ELF file: scripts are run by another program.
fn is_native(file: &Path) -> bool {
    let mut magic = [0; 4];
    let read = fs::File::open(file).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *b"\x7fELF"
}

/// Whether perf is here and may sample: asked of perf itself.
fn may_perf() -> bool {
    let mut perf = StdCommand::new("perf");
    perf.args(["record", "-q", "-e", "cpu-clock", "-o", "/dev/null", "--", "true"]);
    perf.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    perf.status().is_ok_and(|status| status.success())
}

fn on_path(program: impl AsRef<OsStr>) -> Option<PathBuf> {
    let program = Path::new(program.as_ref());
    if program.components().count() > 1 {
        return program.is_file().then(|| program.to_owned());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_wrapped_with_their_children() {
        let command = ["npx", "server"].map(OsString::from);
        let line = |tool: Tool| tool.wrap(&command, Path::new("/out")).unwrap().to_string();
        let callgrind = line(Tool::Callgrind);
        for part in ["--trace-children=yes", "/out/callgrind.out.%p", "npx server"] {
            assert!(callgrind.contains(part), "{callgrind}");
        }
        let perf = line(Tool::Perf);
        assert!(perf.ends_with("-o /out/perf.data -- npx server"), "{perf}");
        assert!(Tool::Massif.wrap(&[], Path::new("/out")).is_none());
    }

    #[cfg(unix)]
    #[test]
    fn what_starts_others_is_not_for_heaptrack() {
        for starter in ["sh", "npx", "/usr/bin/env", "no-such-program"] {
            assert_eq!(heaptrack(&[OsString::from(starter)]), None, "{starter}");
        }
        assert!(is_native(&env::current_exe().unwrap()) || cfg!(not(target_os = "linux")));
        assert!(!is_native(Path::new("/no/such/file")));
    }
}
