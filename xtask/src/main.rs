//! Every chore of the project: `cargo xtask help`.
#![allow(clippy::print_stdout, reason = "a chore talks to the one who started it")]
#![allow(unreachable_pub, reason = "a binary has no outside")]

mod api;
mod check;
mod conformance;
mod fuzz;
mod icount;
mod interop;
mod run;
mod site;
mod speed;
mod supply;
mod test;
mod tidy;

use std::env;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};

const HELP: &str = "\
cargo xtask CHORE

  test [--fast]    check, then every test; --fast leaves out the interop tests and the site
  check            tidy, format, clippy and docs; stops at the first failure
  api              writes the public API of the libraries into api.txt anew
  tidy             only the project's own rules: edges, lengths, words
  supply           licences, sources and known vulnerabilities of what we depend on (Python)
  interop          only the tests against other implementations (Node, Python)
  conformance      only the official conformance suite (Node)
  fuzz [SECONDS]   each fuzz target for SECONDS (default 60); needs cargo-fuzz
  icount [--update]
                   instructions per operation in bench/icount against the committed baseline;
                   needs valgrind; --update writes the baseline
  speed [stdio|http [ROUNDS]]
                   echo over stdio, or HTTP, beside the floor and peers, in turns on one core;
                   writes bench/results/
  speed gateway [ROUNDS]
                   gateways over one warm stdio server, beside the null relay and peers
  speed ladder     three kinds of tool with 1 to 100 calls in flight, over 1 worker and over 4
  speed overload   five times as many calls as a gateway can answer
  speed cross      one HTTP server seen by the lab, by wrk and by oha
  docs             the API documentation, in target/doc
  site             the documents as a site, in target/site/book, with every link checked (Python)

With CI set in the environment nothing may be skipped.";

fn rounds_of(word: &str) -> anyhow::Result<usize> {
    word.parse().context("speed takes a number of rounds")
}

fn main() -> ExitCode {
    if let Some(code) = api::as_rustdoc() {
        return code;
    }
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match chore(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn chore(words: &[&str]) -> anyhow::Result<()> {
    let root = root()?;
    match words {
        ["test"] => test::test(root, test::Interop::Run),
        ["test", "--fast"] => test::test(root, test::Interop::LeaveOut),
        ["check"] => check::check(root),
        ["api"] => api::update(root),
        ["tidy"] => tidy::tidy(root),
        ["supply"] => supply::supply(root, true).map(drop),
        ["interop"] => test::interop(root),
        ["conformance"] => test::conformance(root),
        ["fuzz"] => fuzz::fuzz(root, fuzz::SECONDS_DEFAULT),
        ["fuzz", seconds] => {
            fuzz::fuzz(root, seconds.parse().context("fuzz takes a number of seconds")?)
        }
        ["icount"] => icount::icount(root, icount::Against::Baseline),
        ["icount", "--update"] => icount::icount(root, icount::Against::Nothing),
        ["speed"] => speed::speed(root, speed::ROUNDS_DEFAULT, speed::Over::Stdio),
        ["speed", "http"] => speed::speed(root, speed::ROUNDS_DEFAULT, speed::Over::Http),
        ["speed", "stdio", rounds] => speed::speed(root, rounds_of(rounds)?, speed::Over::Stdio),
        ["speed", "http", rounds] => speed::speed(root, rounds_of(rounds)?, speed::Over::Http),
        ["speed", "gateway"] => speed::gateway(root, speed::GATEWAY_ROUNDS_DEFAULT),
        ["speed", "gateway", rounds] => speed::gateway(root, rounds_of(rounds)?),
        ["speed", "cross"] => speed::cross(root),
        ["speed", "ladder"] => speed::ladder(root),
        ["speed", "overload"] => speed::overload(root),
        ["docs"] => check::docs(root),
        ["site"] => site::site(root)?.map_or(Ok(()), |skipped| bail!(skipped)),
        [] | ["help" | "-h" | "--help"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => bail!("no chore `{}`\n\n{HELP}", words.join(" ")),
    }
}

/// The folder of the workspace.
fn root() -> anyhow::Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the workspace's folder")
}
