//! The MCP Inspector's command line, on `mcplane fixture`.

use std::time::Duration;

use serde_json::Value;

use crate::{
    child::{binary, run},
    peers::Peer,
    site::Site,
};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn lists_and_calls_over_http() {
    lists_and_calls("http");
}

#[test]
fn lists_and_calls_over_sse() {
    lists_and_calls("sse");
}

fn lists_and_calls(transport: &str) {
    if !Peer::Inspector.is_there() {
        return;
    }
    let words = [binary(), "fixture", "--transport", transport, "--listen", "localhost:0"];
    let site = Site::start(&words.map(str::to_owned));
    let listed = inspect(&site, transport, &["--method", "tools/list"]);
    let names: Vec<_> =
        listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str()).collect();
    assert!(names.contains(&Some("echo")) && names.contains(&Some("add")), "{names:?}");
    let call = ["--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=2", "b=40"];
    let called = inspect(&site, transport, &call);
    assert_eq!(called["content"][0]["text"], "42", "{called:#}");
    let read = ["--method", "resources/read", "--uri", "test://static-text"];
    let read = inspect(&site, transport, &read);
    let text = "This is the content of the static text resource.";
    assert_eq!(read["contents"][0]["text"], text, "{read:#}");
    site.interrupt();
}

fn inspect(site: &Site, transport: &str, options: &[&str]) -> Value {
    let mut words = Peer::Inspector.program("");
    words.extend([&site.url, "--transport", transport].map(str::to_owned));
    words.extend(options.iter().map(|word| (*word).to_owned()));
    let ended = run(&words, LIMIT).ok().left_nothing();
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended}"))
}
