//! A gateway that runs while it is measured.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// How long a gateway may take until it accepts connections.
const START_MAX: Duration = Duration::from_secs(30);

/// How long a gateway has to end after SIGTERM.
const STOP_MAX: Duration = Duration::from_secs(2);

/// A gateway that runs, with all that it has started.
pub struct Serving(Child);

impl Serving {
    /// Starts `words` in the workspace, on one core if wanted, and waits until `url` can be reached.
    pub fn start(root: &Path, words: &[String], url: &str, pinned: bool) -> anyhow::Result<Self> {
        let pin = ["taskset", "--cpu-list", "0"].map(str::to_owned);
        let words: Vec<&String> = pin.iter().filter(|_| pinned).chain(words).collect();
        let (program, rest) = words.split_first().context("a gateway has a command")?;
        let address = address(url)?;
        if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
            bail!("somebody else listens at {address}");
        }
        let mut command = Command::new(program);
        command.args(rest).current_dir(root).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot start `{program}`"))?;
        let mut serving = Self(child);
        serving.wait_for(&address)?;
        Ok(serving)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits until it listens.
    fn wait_for(&mut self, address: &SocketAddr) -> anyhow::Result<()> {
        let began = Instant::now();
        while TcpStream::connect_timeout(address, Duration::from_secs(1)).is_err() {
            if let Some(status) = self.0.try_wait()? {
                bail!("it ended before it listened: {status}");
            }
            if began.elapsed() > START_MAX {
                bail!("it does not listen after {START_MAX:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // Those that listen before their server is ready get a moment.
        std::thread::sleep(Duration::from_millis(300));
        Ok(())
    }

    fn signal(&self, signal: &str) {
        let group = format!("-{}", self.pid());
        let mut kill = Command::new("kill");
        kill.args([signal, "--", &group]).stdout(Stdio::null()).stderr(Stdio::null());
        // The group may be gone already.
        let _ = kill.status();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.signal("-TERM");
        let began = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && began.elapsed() < STOP_MAX {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.signal("-KILL");
        let _ = self.0.wait();
    }
}

/// Where a URL without a name leads.
fn address(url: &str) -> anyhow::Result<SocketAddr> {
    let authority = url.trim_start_matches("http://").split('/').next().unwrap_or_default();
    authority.parse().with_context(|| format!("{url} has no address"))
}
