//! What a server gets of the gateway's: no client's token, and no descriptor but its own three.

use std::{collections::BTreeSet, fs, net::TcpStream};

use mcplane_tests::child::Listening;
use serde_json::json;

use crate::{
    client::{Client, text},
    door::upgraded,
    gateway::{Gateway, bad, eventually},
    tap::Wiretap,
};

/// A client shows its token to the gateway. A server that is reached over HTTP gets the headers that
/// the settings have for it, and no word of the client's.
#[test]
fn a_clients_token_goes_no_further() {
    let far = Listening::start(&["--transport", "http"]);
    let tap = Wiretap::before(far.url.split('/').nth(2).unwrap().parse().unwrap());
    let gateway = Gateway::serve(&format!(
        "tokens = {{alice = \"a-secret\"}}\n[servers.far]\nurl = \"http://{}/mcp\"\n\
         headers = {{x-own = \"known-here\"}}\n",
        tap.address
    ));
    let client = || Client::known(gateway.address(), "/far/mcp", "a-secret");
    eventually(|| match client().tools() {
        tools if tools.iter().any(|tool| tool == "echo") => Ok(()),
        tools => Err(format!("{tools:?}")),
    });
    for mut client in [client(), client().initialized()] {
        assert_eq!(text(&client.call("echo", json!({"message": "carried over"}))), "carried over");
    }
    tap.heard(&["x-own: known-here", "carried over"]);
    let all = tap.all().to_ascii_lowercase();
    assert!(!all.contains("a-secret") && !all.contains("authorization"), "{all}");
}

/// Whatever the gateway has open, connections of clients above all, ends at its own process.
#[test]
#[cfg(target_os = "linux")]
fn a_server_gets_three_descriptors() {
    let own = ["0", "1", "2"].map(str::to_owned);
    let expected: BTreeSet<_> = left_open().into_iter().chain(own).collect();
    let gateway = Gateway::serve(&bad("mode = \"per_session\"", &[]));
    let _open = [(); 3].map(|()| TcpStream::connect(gateway.address()).unwrap());
    let _socket = upgraded(gateway.address(), "/mcp");
    // Its worker is started now, whatever was kept warm.
    let mut clients = [(); 3].map(|()| gateway.legacy("bad"));
    for client in &mut clients {
        let pid = text(&client.call("pid", json!({}))).to_owned();
        let open = descriptors(&pid);
        assert!(open.is_subset(&expected) && open.len() >= 3, "{open:?}, not {expected:?}");
    }
}

#[cfg(target_os = "linux")]
fn descriptors(pid: &str) -> BTreeSet<String> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    open.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

/// What is left open for all that is started here is what whoever started this left open.
#[cfg(target_os = "linux")]
fn left_open() -> BTreeSet<String> {
    const CLOSES: u32 = 0o2_000_000;
    let is_left = |number: &String| {
        let about = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
        let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
        flags.is_some_and(|flags| u32::from_str_radix(flags.trim(), 8).unwrap() & CLOSES == 0)
    };
    descriptors("self").into_iter().filter(is_left).collect()
}
