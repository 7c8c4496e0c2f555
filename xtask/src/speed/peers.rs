//! The gateways that are raced, and how each is started at its best.

use std::path::Path;

use crate::interop::Peer;
use crate::run::{cargo, run};

/// One gateway in front of the fixture, and the client that calls through it.
pub struct Subject {
    /// Also the stem of its files.
    pub name: &'static str,
    /// What the client speaks, and what the gateway speaks to the fixture.
    pub client: Era,
    pub upstream: Era,
    pub command: Vec<String>,
    pub url: &'static str,
    pub tool: &'static str,
    pub kind: Kind,
    /// The word that says its package could be installed.
    pub package: &'static str,
}

/// What a call carries, and the end of its rows' names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    Small,
    Kib64,
    Mib1,
}

impl Payload {
    pub const ALL: [Self; 3] = [Self::Small, Self::Kib64, Self::Mib1];

    /// The message, with the number of its call.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Small => "hello {n}",
            Self::Kib64 => "{size:64KiB} {n}",
            Self::Mib1 => "{size:1MiB} {n}",
        }
    }

    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Small => "",
            Self::Kib64 => "-64k",
            Self::Mib1 => "-1m",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The null relay: what the others are compared with.
    Relay,
    /// The same on one thread.
    Lean,
    Ours,
    Peer,
}

impl Era {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }
}

const FIXTURE: &str = "target/dist/mcplane fixture";

/// Every gateway with every client that it serves. Paths are those seen from the workspace, so that
/// the raw data names no machine's folders.
pub fn subjects() -> Vec<Subject> {
    use Era::{Legacy, Modern};
    let relay = |name, kind, era| Subject {
        command: words(&format!(
            "target/dist/mcplane __floor --relay{} --listen 127.0.0.1:18480 -- {FIXTURE}",
            if kind == Kind::Lean { " --one-thread" } else { "" }
        )),
        url: "http://127.0.0.1:18480/mcp",
        ..subject(name, kind, era, era)
    };
    let ours = |name, client, upstream| {
        let word = if upstream == Legacy { "legacy" } else { "modern" };
        Subject {
            command: words(&format!(
                "target/dist/mcplane serve --config bench/gateways/mcplane-{word}.toml"
            )),
            url: "http://127.0.0.1:18481/mcp",
            ..subject(name, Kind::Ours, client, upstream)
        }
    };
    let mut all = vec![
        relay("relay-legacy", Kind::Relay, Legacy),
        relay("relay-modern", Kind::Relay, Modern),
        relay("relay-one-thread-legacy", Kind::Lean, Legacy),
        relay("relay-one-thread-modern", Kind::Lean, Modern),
        ours("mcplane-legacy-legacy", Legacy, Legacy),
        ours("mcplane-modern-modern", Modern, Modern),
        ours("mcplane-modern-legacy", Modern, Legacy),
        ours("mcplane-legacy-modern", Legacy, Modern),
    ];
    all.extend(node());
    all.extend(python());
    all.extend([("rust-mcp-proxy-legacy", Legacy), ("rust-mcp-proxy-modern", Modern)].map(
        |(name, client)| Subject {
            command: words(
                ".interop/gateways-rust/bin/mcp-proxy --config bench/gateways/mcp-proxy.toml",
            ),
            url: "http://127.0.0.1:18486/",
            tool: "echo/echo",
            package: "rust",
            ..subject(name, Kind::Peer, client, Legacy)
        },
    ));
    all
}

fn node() -> Vec<Subject> {
    use Era::{Legacy, Modern};
    const MODULES: &str = ".interop/gateways-npm/node_modules";
    let mcp_proxy = |name, client, upstream: Era| {
        let word = if upstream == Legacy { "legacy" } else { "modern" };
        Subject {
            command: words(&format!(
                "node {MODULES}/mcp-proxy/dist/bin/mcp-proxy.mjs --host 127.0.0.1 --port 18482 \
                 --server stream --stateless --no-eventStore --upstreamProtocol {word} -- {FIXTURE}"
            )),
            url: "http://127.0.0.1:18482/mcp",
            package: "npm",
            ..subject(name, Kind::Peer, client, upstream)
        }
    };
    let supergateway = |name, flag, port, url| Subject {
        command: words(&format!(
            "node {MODULES}/supergateway/dist/index.js --outputTransport streamableHttp \
             --logLevel none --port {port}{flag} --stdio"
        ))
        .into_iter()
        .chain([FIXTURE.to_owned()])
        .collect(),
        url,
        package: "npm",
        ..subject(name, Kind::Peer, Legacy, Legacy)
    };
    vec![
        mcp_proxy("npm-mcp-proxy-legacy", Legacy, Legacy),
        mcp_proxy("npm-mcp-proxy-modern", Modern, Modern),
        supergateway("supergateway-stateful", " --stateful", 18483, "http://127.0.0.1:18483/mcp"),
        supergateway("supergateway-stateless", "", 18484, "http://127.0.0.1:18484/mcp"),
    ]
}

fn python() -> Vec<Subject> {
    use Era::{Legacy, Modern};
    let fastmcp = |name, era, mode| Subject {
        command: words(&format!(
            ".interop/gateways-fastmcp/bin/python bench/gateways/fastmcp/proxy.py 18487 {mode} \
             {FIXTURE}"
        )),
        url: "http://127.0.0.1:18487/mcp",
        package: "fastmcp",
        ..subject(name, Kind::Peer, era, era)
    };
    vec![
        Subject {
            command: words(&format!(
                ".interop/gateways-mcp-proxy/bin/mcp-proxy --port 18485 --stateless --log-level \
                 ERROR -- {FIXTURE}"
            )),
            url: "http://127.0.0.1:18485/mcp",
            package: "pypi",
            ..subject("pypi-mcp-proxy", Kind::Peer, Legacy, Legacy)
        },
        fastmcp("fastmcp-legacy", Legacy, "legacy"),
        fastmcp("fastmcp-modern", Modern, "auto"),
    ]
}

fn subject(name: &'static str, kind: Kind, client: Era, upstream: Era) -> Subject {
    let (command, url, tool, package) = (Vec::new(), "", "echo", "");
    Subject { name, client, upstream, command, url, tool, kind, package }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Installs the packages, by pinned version, and tells which could not be, and why.
pub fn install(root: &Path) -> Vec<(&'static str, String)> {
    let peer =
        |sources: &str, name: &str| Peer::new(root, &format!("bench/gateways/{sources}"), name);
    let outcomes = [
        ("npm", peer("npm", "gateways-npm").npm_install()),
        ("pypi", peer("mcp-proxy", "gateways-mcp-proxy").venv()),
        ("fastmcp", peer("fastmcp", "gateways-fastmcp").venv()),
        ("rust", rust(root)),
    ];
    let failed = outcomes.into_iter().filter_map(|(name, outcome)| Some((name, outcome.err()?)));
    failed.map(|(name, error)| (name, format!("{error:#}"))).collect()
}

/// Cargo itself knows what is installed. Without its default features, which are ways to do other
/// things and take most of the time to build, and with the one for 2026-07-28.
fn rust(root: &Path) -> anyhow::Result<()> {
    let installed = root.join(".interop/gateways-rust");
    let args = ["install", "--quiet", "--locked", "mcp-proxy@0.6.0", "--no-default-features"];
    let mut command = cargo(root, &args);
    command.args(["--features", "protocol-2026-07-28", "--root"]).arg(installed);
    command.arg("--target-dir").arg(root.join(".interop/gateways-rust-target"));
    run(&mut command)
}
