//! Drives a server through the rmcp client: every value that `mcplane fixture` promises, read through the SDK.
//!
//! `drive [--era legacy|modern|auto|plain] [--only NAME,NAME] [--forget URL] -- COMMAND ARGS… | URL`
//!
//! `legacy` names 2025-11-25 in `initialize`, `modern` discovers 2026-07-28, `auto` probes and falls back; `plain` is what rmcp
//! does unless told otherwise: an `initialize` that names 2026-07-28, a revision without that method. A URL is a server of
//! Streamable HTTP; a POST to the URL after `--forget` must make it forget its sessions.

#![expect(deprecated, reason = "roots, sampling and logging are still spoken")]

#[macro_use]
mod expect;
mod checks;
mod peer;

use std::{
    collections::HashSet,
    env,
    error::Error,
    future::Future,
    process::ExitCode,
    time::{Duration, Instant},
};

use checks::*;
use peer::Peer;
use tokio::time;

/// One check; the slowest takes well under a second.
const CHECK_MAX: Duration = Duration::from_secs(20);
/// rmcp closes stdin, waits 3 s for the server to leave and only then signals it.
const CLOSE_MAX: Duration = Duration::from_millis(2_900);

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

macro_rules! run {
    ($peer:ident, $only:ident: $($check:ident)+) => {{
        let mut passed = true;
        $(passed &= attempt(stringify!($check), &$only, $check(&$peer)).await;)+
        passed
    }};
}

// On one thread: rmcp handles each notification in a task of its own, which on several threads overtake one another.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<ExitCode> {
    let Options { era, only, forget, command } = options()?;
    let peer = Peer::connect(&era, &command).await?;
    let mut passed = run!(peer, only:
        identity tools_list schema_is_listed_verbatim echo add tool_error wrong_arguments unknown_tool big content_kinds progress
        cancel concurrent_calls resources_list resources_read unknown_resource resource_updated tools_changed prompts
        unknown_prompt completion elicitation_accepted elicitation_declined elicitation_defaults elicitation_enums sampling
        roots logging);
    passed &= if peer.modern {
        run!(peer, only: input_required input_required_many)
    } else {
        run!(peer, only: ping)
    };
    if peer.web {
        passed &= run!(peer, only: resumed many_kinds_at_once);
        match forget {
            _ if peer.modern => passed &= run!(peer, only: mirrored_argument),
            Some(url) => {
                let check = forgotten_session(&peer, &url);
                passed &= attempt("forgotten_session", &only, check).await;
            }
            None => {}
        }
    }
    passed &= attempt("closes", &only, closes(peer)).await;
    Ok(ExitCode::from(u8::from(!passed)))
}

#[derive(Default)]
struct Options {
    era: String,
    only: HashSet<String>,
    forget: Option<String>,
    command: Vec<String>,
}

fn options() -> Outcome<Options> {
    let mut options = Options { era: "legacy".to_owned(), ..Options::default() };
    let mut args = env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--era" => options.era = value()?,
            "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
            "--forget" => options.forget = Some(value()?),
            "--" => {
                options.command = args.collect();
                return Ok(options);
            }
            _ => break,
        }
    }
    Err("usage: drive [--era legacy|modern|auto|plain] [--only NAME,NAME] -- COMMAND ARGS… | URL"
        .into())
}

/// Runs one check and prints its line; one that is not wanted passes.
async fn attempt(name: &str, only: &HashSet<String>, check: impl Future<Output = Outcome>) -> bool {
    if !only.is_empty() && !only.contains(name) {
        return true;
    }
    let outcome = match time::timeout(CHECK_MAX, check).await {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("took longer than {CHECK_MAX:?}").into()),
    };
    match &outcome {
        Ok(()) => println!("ok {name}"),
        Err(error) => println!("FAIL {name}: {}", error.to_string().replace('\n', " | ")),
    }
    outcome.is_ok()
}

async fn closes(peer: Peer) -> Outcome {
    let started = Instant::now();
    peer.service.cancel().await?;
    let elapsed = started.elapsed();
    match elapsed < CLOSE_MAX {
        true => Ok(()),
        false => Err(format!("the server was still there {elapsed:?} after closing").into()),
    }
}
