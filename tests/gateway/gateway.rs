//! `mcplane serve` that runs for one test, with a folder and a state of its own.

use std::{
    cell::Cell,
    fs::{self, OpenOptions},
    io::{self, BufRead as _, BufReader, Read, Write as _},
    net::SocketAddr,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use mcplane_tests::child::{Ended, MARK, binary, marked, run, signal};
use serde_json::{Value, json};

use crate::{
    LIMIT,
    client::{Client, Http, Lines, text},
};

/// A gateway. Dropped, it is killed, and must then leave nothing behind.
pub struct Gateway {
    child: Child,
    mark: String,
    folder: PathBuf,
    out: Said,
    err: Said,
    /// Its control group, if it has one of its own.
    group: Option<PathBuf>,
}

/// The lines that a program has said so far.
type Said = Arc<Mutex<Vec<String>>>;

impl Gateway {
    /// A gateway with these settings: keys of `[gateway]` first, then tables.
    pub fn serve(settings: &str) -> Self {
        let folder = folder();
        write(&folder, settings);
        Self::start(folder, &["--config", "mcplane.toml"])
    }

    /// A gateway without a file of settings.
    pub fn serve_words(words: &[&str]) -> Self {
        Self::start(folder(), &[&["--listen", "127.0.0.1:0"], words].concat())
    }

    /// Another one in the same folder, with the same settings and the same state.
    pub fn again(&self) -> Self {
        Self::start(self.folder.clone(), &["--config", "mcplane.toml"])
    }

    /// What a command says that looks for a gateway as this one's user, with these variables, and
    /// with `input` to read.
    pub fn beside(&self, variables: &[&str], words: &[&str], input: &str) -> Ended {
        let file = self.file("input");
        fs::write(&file, input).unwrap();
        let home = format!("HOME={}", self.folder.display());
        let state = format!("XDG_STATE_HOME={}", self.file("state").display());
        let mut line = vec!["env", "-u", "MCPLANE_ENDPOINT", "-u", "MCPLANE_TOKEN", &home, &state];
        line.extend(variables);
        line.extend(["sh", "-c", "cat \"$0\" | \"$@\"", file.to_str().unwrap(), binary()]);
        line.extend(words);
        run(&line.into_iter().map(str::to_owned).collect::<Vec<_>>(), LIMIT)
    }

    /// A gateway that may map so much memory. Where a control group can be made, it and its servers have
    /// so much together.
    #[allow(dead_code, reason = "for `attacks`")]
    pub fn serve_within(kib: u32, settings: &str) -> Self {
        let folder = folder();
        write(&folder, settings);
        let group = group(kib);
        let joins = group.as_ref().map_or_else(String::new, |group| {
            format!("echo $$ > {:?} && ", group.join("cgroup.procs"))
        });
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{joins}ulimit -v {kib}; exec \"$0\" \"$@\""), binary()]);
        let mut gateway = Self::start_by(command, folder, &["--config", "mcplane.toml"]);
        gateway.group = group;
        gateway
    }

    /// A gateway whose standard error nobody reads any more.
    #[allow(dead_code, reason = "not for `attacks`")]
    pub fn serve_unheard(settings: &str) -> Self {
        let (folder, (_, unread)) = (folder(), io::pipe().unwrap());
        write(&folder, settings);
        let words = ["--config", "mcplane.toml"];
        Self::start_to(Command::new(binary()), folder, &words, Some(unread))
    }

    fn start(folder: PathBuf, words: &[&str]) -> Self {
        Self::start_by(Command::new(binary()), folder, words)
    }

    fn start_by(command: Command, folder: PathBuf, words: &[&str]) -> Self {
        Self::start_to(command, folder, words, None)
    }

    fn start_to(
        mut command: Command,
        folder: PathBuf,
        words: &[&str],
        err: Option<io::PipeWriter>,
    ) -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let mark = format!("gateway-{}-{number}", std::process::id());
        command.arg("serve").args(words).current_dir(&folder);
        command.env(MARK, &mark).env("HOME", &folder).env("XDG_STATE_HOME", folder.join("state"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(err.map_or_else(Stdio::piped, Stdio::from));
        let mut child = command.process_group(0).spawn().unwrap();
        // The client of the stdio listener reads the output itself.
        let out = match words.contains(&"stdio") {
            true => Said::default(),
            false => gather(child.stdout.take().unwrap()),
        };
        // The pipe of somebody else is for nobody here.
        let err = child.stderr.take().map_or_else(Said::default, gather);
        let gateway = Self { child, mark, folder, out, err, group: None };
        if !words.contains(&"stdio") {
            gateway.addresses(1);
        }
        gateway
    }

    /// Other settings, in the place of the old ones.
    pub fn rewrite(&self, settings: &str) {
        write(&self.folder, settings);
    }

    /// The addresses that it has printed: so many lines.
    pub fn addresses(&self, count: usize) -> Vec<String> {
        eventually(|| {
            let out = self.out.lock().unwrap();
            (out.len() >= count).then(|| out.clone()).ok_or_else(|| self.said())
        })
    }

    /// Where it listens for HTTP.
    pub fn address(&self) -> SocketAddr {
        let url = self.addresses(1).swap_remove(0);
        url.strip_prefix("http://")
            .and_then(|url| url.strip_suffix("/mcp"))
            .unwrap()
            .parse()
            .unwrap()
    }

    pub fn modern(&self, server: &str) -> Client {
        Client::modern(self.address(), &format!("/{server}/mcp"))
    }

    pub fn legacy(&self, server: &str) -> Client {
        Client::legacy(self.address(), &format!("/{server}/mcp"))
    }

    pub fn status(&self) -> Value {
        let answer = Http::get(self.address(), "/admin/status");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// The state of one server, once `wanted` holds for it.
    #[track_caller]
    pub fn server(&self, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        eventually(|| {
            let status = self.status();
            let servers = status["servers"].as_array().unwrap();
            let server = servers.iter().find(|server| server["name"] == name);
            server.filter(|server| wanted(server)).cloned().ok_or_else(|| status.to_string())
        })
    }

    /// Waits until clients of this server see this tool.
    #[track_caller]
    pub fn offers(&self, server: &str, tool: &str) {
        self.server(server, |_| true);
        let mut client = self.modern(server);
        eventually(|| match client.tools() {
            tools if tools.iter().any(|name| name == tool) => Ok(()),
            tools => Err(format!("no {tool} in {tools:?}")),
        });
    }

    /// The processes of a server's workers.
    pub fn pids(&self, server: &str) -> Vec<u64> {
        let server = self.server(server, |server| {
            server["workers"].as_array().unwrap().iter().all(|worker| worker["pid"].is_u64())
        });
        let workers = server["workers"].as_array().unwrap();
        workers.iter().map(|worker| worker["pid"].as_u64().unwrap()).collect()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has a worker start a child by this tool, and waits until the child runs: between fork and exec
    /// a process cannot be told by its environment.
    #[track_caller]
    pub fn starts_child(&self, server: &str, tool: &str) -> u32 {
        let child: u32 = text(&self.modern(server).call(tool, json!({}))).parse().unwrap();
        eventually(|| match self.processes() {
            all if all.iter().any(|(id, line)| *id == child && line.contains("sleep 600")) => {
                Ok(child)
            }
            all => Err(format!("no {child} in {all:?}")),
        })
    }

    /// Waits until none of its processes has these words in its command line.
    #[track_caller]
    pub fn runs_no(&self, words: &str) {
        eventually(|| match self.processes().iter().find(|(_, line)| line.contains(words)) {
            None => Ok(()),
            Some(left) => Err(format!("{left:?} lives on")),
        });
    }

    /// Everything that runs because of it, by process id.
    pub fn processes(&self) -> Vec<(u32, String)> {
        marked(&self.mark)
    }

    /// All of its standard error so far.
    pub fn said(&self) -> String {
        self.err.lock().unwrap().join("\n")
    }

    /// Waits until it has said this.
    #[track_caller]
    pub fn says(&self, words: &str) {
        eventually(|| match self.said() {
            said if said.contains(words) => Ok(()),
            said => Err(format!("no {words:?} in {said}")),
        });
    }

    pub fn signal(&self, name: &str) {
        signal(name, &self.child.id().to_string());
    }

    /// The exit code, once it has ended.
    #[track_caller]
    pub fn code(&mut self) -> Option<i32> {
        eventually(|| {
            self.child.try_wait().unwrap().ok_or_else(|| self.err.lock().unwrap().join("\n"))
        })
        .code()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// The client on its standard input and output.
    pub fn stdio(&mut self) -> Lines {
        Lines::new(self.child.stdout.take().unwrap(), self.child.stdin.take().unwrap())
    }

    /// Its standard output and input, as they are.
    #[allow(dead_code, reason = "for `attacks`")]
    pub fn pipes(&mut self) -> (ChildStdout, ChildStdin) {
        (self.child.stdout.take().unwrap(), self.child.stdin.take().unwrap())
    }

    /// A file in its folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Fails the test unless everything that it started ends, too.
    #[track_caller]
    pub fn leaves_nothing(&self) {
        eventually(|| match self.processes() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:?} live on")),
        });
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !thread::panicking() {
            self.leaves_nothing();
        }
        // Its processes have ended, but not all of what they were.
        let is_left = || self.group.as_ref().is_some_and(|group| fs::remove_dir(group).is_err());
        for _ in (0..100).take_while(|_| is_left()) {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A control group with so much memory, where this user may make one.
fn group(kib: u32) -> Option<PathBuf> {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let name = format!("mcplane-{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed));
    let kinds = [("memory", "memory.limit_in_bytes"), ("", "memory.max")];
    kinds.iter().find_map(|(controller, limit)| {
        let group = Path::new("/sys/fs/cgroup").join(controller).join(&name);
        fs::create_dir(&group).ok()?;
        let bytes = (u64::from(kib) * 1024).to_string();
        // A folder that is no control group has no such file.
        let is_limited = OpenOptions::new().write(true).open(group.join(limit));
        if is_limited.and_then(|mut file| file.write_all(bytes.as_bytes())).is_err() {
            let _ = fs::remove_dir(&group);
            return None;
        }
        Some(group)
    })
}

fn write(folder: &Path, settings: &str) {
    let common = "[gateway]\nlisten = \"127.0.0.1:0\"\naccept_rate = 0\nstate_dir = \"state\"\n";
    let listens = settings.starts_with("listen");
    let common = common.lines().filter(|line| !(listens && line.starts_with("listen")));
    let common: String = common.map(|line| format!("{line}\n")).collect();
    // In one step: a reader must not see half of it.
    let new = folder.join("new.toml");
    fs::write(&new, common + settings).unwrap();
    fs::rename(new, folder.join("mcplane.toml")).unwrap();
}

/// A folder of this test, empty: another one each time.
pub fn folder() -> PathBuf {
    thread_local!(static MADE: Cell<u32> = const { Cell::new(0) });
    let test = thread::current().name().unwrap_or("gateway").replace("::", "-");
    let name = match MADE.replace(MADE.get() + 1) {
        0 => test,
        number => format!("{test}-{number}"),
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The server `good`: the built-in one.
pub fn good() -> String {
    format!(
        "[servers.good]\ncommand = {:?}\nargs = [\"fixture\"]\ninherit_env = [{MARK:?}]\n",
        binary()
    )
}

/// The server `bad`, with these keys and these words on its command line.
pub fn bad(keys: &str, words: &[&str]) -> String {
    let program = env!("CARGO_BIN_EXE_bad-server");
    format!(
        "[servers.bad]\ncommand = {program:?}\nargs = {words:?}\ninherit_env = [{MARK:?}]\n{keys}\n"
    )
}

/// What `look` finds once it finds something.
#[track_caller]
pub fn eventually<T>(mut look: impl FnMut() -> Result<T, String>) -> T {
    let started = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(why) => assert!(started.elapsed() < LIMIT, "in vain: {why}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn gather(pipe: impl Read + Send + 'static) -> Said {
    let said = Said::default();
    let into = Arc::clone(&said);
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            into.lock().unwrap().push(line);
        }
    });
    said
}
