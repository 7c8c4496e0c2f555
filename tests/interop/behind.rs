//! One gateway with five servers behind it, and the SDKs' clients of both eras before it. What they
//! check is in `behind.mjs` and `python/behind.py`.

use std::{fs, path::Path, time::Duration};

use crate::{
    child::{Ended, run},
    peers::{Peer, npm_server, python_server},
    site::Site,
};

/// A driver takes a few seconds; a check of its own that hangs takes 20 s.
const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn every_era_to_every_server() {
    let peers = [Peer::Ts1, Peer::Ts2, Peer::Python, Peer::Rmcp];
    if !peers.into_iter().all(Peer::is_there) {
        return;
    }
    let gateway = Site::gateway(&servers(""));
    // One after the other: `everything` asks, and the calls of several clients at once would leave
    // open whom.
    for (name, client) in clients(&gateway.url) {
        judge(name, &run(&client, LIMIT));
    }
    gateway.interrupt();
}

#[test]
fn modern_clients_at_once() {
    let peers = [Peer::Ts1, Peer::Ts2, Peer::Python, Peer::Rmcp];
    if !peers.into_iter().all(Peer::is_there) {
        return;
    }
    // Older clients of a server that asks have it started again whenever they take turns; those of
    // 2026-07-28 without a token are one client.
    let gateway = Site::gateway(&servers("mode = \"exclusive\"\n"));
    std::thread::scope(|scope| {
        for (name, client) in clients(&gateway.url) {
            if name.ends_with("modern") {
                scope.spawn(move || judge(name, &run(&client, LIMIT)));
            }
        }
    });
    gateway.interrupt();
}

fn servers(everything: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("behind");
    fs::create_dir_all(&folder).unwrap();
    let mut all_of = npm_server("server-everything");
    all_of.push("stdio".into());
    let mut filesystem = npm_server("server-filesystem");
    filesystem.push(folder.to_str().unwrap().to_owned());
    [
        ("everything", all_of, everything),
        ("filesystem", filesystem, ""),
        ("time", python_server("mcp_server_time"), ""),
        ("rmcp", Peer::Rmcp.program("echo"), ""),
        ("python", Peer::Python.program("echo"), ""),
    ]
    .map(|(name, words, more)| {
        format!("[servers.{name}]\ncommand = {:?}\nargs = {:?}\n{more}\n", words[0], &words[1..])
    })
    .concat()
}

fn clients(url: &str) -> [(&'static str, Vec<String>); 5] {
    let client = |peer: Peer, program, options: &[&str], era: &str| {
        let mut words = peer.program(program);
        words.extend(
            options.iter().chain(&["--era", era, "--", url]).map(|word| (*word).to_owned()),
        );
        words
    };
    let behind = &["--checks", "behind"];
    [
        ("ts1", client(Peer::Ts1, "drive", behind, "legacy")),
        ("ts2_legacy", client(Peer::Ts2, "drive", behind, "legacy")),
        ("ts2_modern", client(Peer::Ts2, "drive", behind, "modern")),
        ("python_legacy", client(Peer::Python, "behind", &[], "legacy")),
        ("python_modern", client(Peer::Python, "behind", &[], "modern")),
    ]
}

fn judge(name: &str, ended: &Ended) {
    let all =
        ended.stdout.contains("ok elicitation\n") && ended.stdout.contains("ok own_endpoints\n");
    assert!(all && !ended.stdout.contains("FAIL"), "{name}: {ended}");
}
