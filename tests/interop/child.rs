//! One program, run to its end within a time limit.

use std::{
    fmt,
    io::Read,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::OnceLock,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

const POLL: Duration = Duration::from_millis(10);

/// What a program said and how it ended.
pub(crate) struct Ended {
    line: String,
    status: Option<ExitStatus>,
    pub(crate) stdout: String,
    stderr: String,
}

/// Runs `words` with nothing to read. At the limit it is killed with its whole group.
pub(crate) fn run(words: &[String], limit: Duration) -> Ended {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child =
        command.spawn().unwrap_or_else(|error| panic!("cannot start {words:?}: {error}"));
    let stdout = drain(child.stdout.take().unwrap());
    let stderr = drain(child.stderr.take().unwrap());
    let status = wait(&mut child, limit);
    if status.is_none() {
        kill_group(&mut child);
    }
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    Ended { line: words.join(" "), status, stdout, stderr }
}

/// Runs `mcplane` with these words.
pub(crate) fn mcplane(words: &[&str], limit: Duration) -> Ended {
    let mut line = vec![binary().to_owned()];
    line.extend(words.iter().map(|word| (*word).to_owned()));
    run(&line, limit)
}

/// The binary under test. Cargo does not build it for another package's tests, so this does.
pub(crate) fn binary() -> &'static str {
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

impl Ended {
    /// Fails the test unless the program ended with 0.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert!(self.status.is_some_and(|status| status.success()), "{self}");
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

fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let started = Instant::now();
    while started.elapsed() < limit {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(POLL);
    }
    None
}

fn kill_group(child: &mut Child) {
    #[cfg(unix)]
    let _ = Command::new("sh").args(["-c", &format!("kill -KILL -{}", child.id())]).status();
    let _ = child.kill();
    let _ = child.wait();
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
    let ended = run(&words, Duration::from_millis(200));
    assert!(ended.status.is_none() && ended.stdout == "up\n", "{ended}");
    assert!(started.elapsed() < Duration::from_secs(30)); // a child left behind keeps the pipes open
}
