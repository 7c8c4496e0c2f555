//! One program, run to its end within a time limit.

use std::{
    fmt,
    io::{BufRead, BufReader, Read, Write},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::OnceLock,
    sync::atomic::{AtomicU32, Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

const POLL: Duration = Duration::from_millis(10);

/// How long what a program leaves behind may take to die.
const DYING: Duration = Duration::from_secs(10);

/// Environment variable whose value is different for each program that is run here, and the same
/// for everything that this program starts.
pub const MARK: &str = "MCPLANE_TEST_MARK";

/// A program that runs. Dropped, it is killed with its whole group.
#[derive(Debug)]
pub struct Running {
    line: String,
    mark: String,
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
}

/// What a program said and how it ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ended {
    line: String,
    mark: String,
    status: Option<ExitStatus>,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
}

/// The fixture behind an address; it is killed at the end.
#[derive(Debug)]
#[non_exhaustive]
pub struct Listening {
    child: Child,
    /// What it printed: where clients reach it.
    pub url: String,
}

impl Listening {
    /// Starts it with these options, and `--listen` with a free port unless they have one.
    pub fn start(options: &[&str]) -> Self {
        let mut command = Command::new(binary());
        command.arg("fixture").args(options);
        if !options.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { child, url: url.trim().to_owned() }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `words` with nothing to read. At the limit it is killed with its whole group.
pub fn run(words: &[String], limit: Duration) -> Ended {
    Running::start(words, "").wait(limit)
}

/// Runs `mcplane` with these words.
pub fn mcplane(words: &[&str], limit: Duration) -> Ended {
    start_mcplane(words, "").wait(limit)
}

/// Starts `mcplane` with these words, and `input` on its standard input.
pub fn start_mcplane(words: &[&str], input: &str) -> Running {
    let mut line = vec![binary().to_owned()];
    line.extend(words.iter().map(|word| (*word).to_owned()));
    Running::start(&line, input)
}

/// The binary under test. Cargo does not build it for another package's tests, so this does.
pub fn binary() -> &'static str {
    static BINARY: OnceLock<String> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Ok(named) = std::env::var("MCPLANE_BIN") {
            return named;
        }
        // …/target/PROFILE/deps/interop-HASH
        let this = std::env::current_exe().unwrap();
        let folder = this.ancestors().nth(2).unwrap();
        let profile = match folder.file_name().unwrap().to_str().unwrap() {
            "debug" => "dev",
            name => name,
        };
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let mut build = Command::new(cargo);
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        build.args(["build", "--quiet", "--package", "mcplane-cli", "--profile", profile]);
        build.arg("--target-dir").arg(folder.parent().unwrap());
        assert!(build.status().expect("cargo starts").success(), "mcplane-cli does not build");
        let binary: PathBuf =
            folder.join("mcplane").with_extension(std::env::consts::EXE_EXTENSION);
        binary.to_str().unwrap().to_owned()
    })
}

impl Running {
    /// Runs `words` with `input` on its standard input.
    pub fn start(words: &[String], input: &str) -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env(MARK, &mark);
        command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("cannot start {words:?}: {error}"));
        let stdout = Some(drain(child.stdout.take().unwrap()));
        let stderr = Some(drain(child.stderr.take().unwrap()));
        if let Some(mut pipe) = child.stdin.take() {
            let input = input.to_owned();
            // A program that does not want all of it is no failure here.
            thread::spawn(move || pipe.write_all(input.as_bytes()));
        }
        Self { line: words.join(" "), mark, child, stdout, stderr }
    }

    /// The program's process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGINT to the program alone, as Ctrl-C does to one that leads no other group.
    #[cfg(unix)]
    pub fn interrupt(&self) {
        signal("INT", &self.child.id().to_string());
    }

    /// Waits for the end. At the limit the program is killed with its whole group.
    pub fn wait(mut self, limit: Duration) -> Ended {
        let status = self.status(limit);
        if status.is_none() {
            self.kill();
        }
        Ended {
            line: std::mem::take(&mut self.line),
            mark: std::mem::take(&mut self.mark),
            status,
            stdout: self.stdout.take().unwrap().join().unwrap(),
            stderr: self.stderr.take().unwrap().join().unwrap(),
        }
    }

    fn status(&mut self, limit: Duration) -> Option<ExitStatus> {
        let started = Instant::now();
        while started.elapsed() < limit {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            thread::sleep(POLL);
        }
        None
    }

    fn kill(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            #[cfg(unix)]
            signal("KILL", &format!("-{}", self.child.id()));
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Ended {
    /// Fails the test unless the program ended with 0.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.code(0)
    }

    /// Fails the test unless the program ended with this exit code.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        let ended = self.status.and_then(|status| status.code());
        assert_eq!(ended, Some(code), "{self}");
        self
    }

    /// Fails the test if anything that the program started lives on. Looks where there is `/proc`.
    #[track_caller]
    pub fn left_nothing(self) -> Self {
        let started = Instant::now();
        let mut left = marked(&self.mark);
        while !left.is_empty() && started.elapsed() < DYING {
            thread::sleep(POLL);
            left = marked(&self.mark);
        }
        assert!(left.is_empty(), "{left:?} lives on after {self}");
        self
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => writeln!(f, "`{}` ended with {status}", self.line)?,
            None => writeln!(f, "`{}` was killed at its time limit", self.line)?,
        }
        write!(f, "--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr)
    }
}

/// The processes that have this mark in their environment: their ids and command lines.
pub fn marked(mark: &str) -> Vec<(u32, String)> {
    let variable = format!("{MARK}={mark}");
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let read = |path: PathBuf| std::fs::read(path).unwrap_or_default();
    processes
        .flatten()
        .map(|process| process.path())
        .filter(|process| {
            read(process.join("environ")).split(|b| *b == 0).any(|v| v == variable.as_bytes())
        })
        .filter_map(|process| {
            let id = process.file_name()?.to_str()?.parse().ok()?;
            let line = String::from_utf8_lossy(&read(process.join("cmdline"))).replace('\0', " ");
            Some((id, line))
        })
        .collect()
}

/// Sends a signal to a process, or to a group with `-` in front: std cannot.
#[cfg(unix)]
pub fn signal(name: &str, target: &str) {
    let _ = Command::new("sh").args(["-c", "kill -$0 $1", name, target]).status();
}

fn drain(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[test]
#[cfg(unix)]
fn a_program_is_killed_with_its_children_at_the_limit() {
    let started = Instant::now();
    let words = ["sh", "-c", "sleep 60 & echo up; sleep 60"].map(str::to_owned);
    let ended = run(&words, Duration::from_millis(200)).left_nothing();
    assert!(ended.status.is_none() && ended.stdout == "up\n", "{ended}");
    assert!(started.elapsed() < Duration::from_secs(30)); // a child left behind keeps the pipes open
}

#[test]
#[cfg(target_os = "linux")]
fn what_lives_on_is_found() {
    let words = ["sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"].map(str::to_owned);
    let ended = run(&words, DYING).ok();
    let [(_, line)] = &*marked(&ended.mark) else { panic!("{ended}") };
    assert_eq!(line, "sleep 60 ");
    signal("KILL", ended.stdout.trim());
    ended.left_nothing();
}
