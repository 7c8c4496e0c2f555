//! The SDKs' clients drive `mcplane fixture`, alone and behind `mcplane serve`. What they check is in
//! the drivers beside this file.

use std::{thread, time::Duration};

use crate::{
    child::{binary, run},
    peers::Peer,
    site::{Site, Tap},
};

/// A driver takes a few seconds; a check of its own that hangs takes 20 s.
const LIMIT: Duration = Duration::from_secs(120);

/// Which revision the two must have settled on.
#[derive(Clone, Copy, PartialEq)]
enum Speaks {
    Legacy,
    Modern,
}

macro_rules! drivers {
    ($over:ident: $($name:ident: $peer:ident $era:literal speaks $speaks:ident;)+) => {
        mod $over {
            use super::{Peer, Speaks};

            $(#[test]
            fn $name() {
                super::drive_over(stringify!($over), Peer::$peer, $era, Speaks::$speaks);
            })+
        }
    };
}

drivers! { stdio:
    ts1: Ts1 "legacy" speaks Legacy;
    ts2_legacy: Ts2 "legacy" speaks Legacy;
    ts2_modern: Ts2 "modern" speaks Modern;
    ts2_probing: Ts2 "auto" speaks Modern;
    python_legacy: Python "legacy" speaks Legacy;
    python_modern: Python "modern" speaks Modern;
    python_probing: Python "auto" speaks Modern;
    rmcp_legacy: Rmcp "legacy" speaks Legacy;
    rmcp_modern: Rmcp "modern" speaks Modern;
    rmcp_probing: Rmcp "auto" speaks Modern;
    // By default rmcp names 2026-07-28 in `initialize`; the answer is the newest revision that has it.
    rmcp_default: Rmcp "plain" speaks Legacy;
    go_legacy: Go "legacy" speaks Legacy;
    go_probing: Go "auto" speaks Modern;
    go_2025_06_18: Go "2025-06-18" speaks Legacy;
    go_2025_03_26: Go "2025-03-26" speaks Legacy;
    go_2024_11_05: Go "2024-11-05" speaks Legacy;
}

drivers! { http:
    ts1: Ts1 "legacy" speaks Legacy;
    ts2_legacy: Ts2 "legacy" speaks Legacy;
    ts2_modern: Ts2 "modern" speaks Modern;
    ts2_probing: Ts2 "auto" speaks Modern;
    python_legacy: Python "legacy" speaks Legacy;
    python_modern: Python "modern" speaks Modern;
    python_probing: Python "auto" speaks Modern;
    rmcp_legacy: Rmcp "legacy" speaks Legacy;
    rmcp_modern: Rmcp "modern" speaks Modern;
    rmcp_probing: Rmcp "auto" speaks Modern;
    rmcp_default: Rmcp "plain" speaks Legacy;
    go_legacy: Go "legacy" speaks Legacy;
    go_probing: Go "auto" speaks Modern;
    go_2025_06_18: Go "2025-06-18" speaks Legacy;
    go_2025_03_26: Go "2025-03-26" speaks Legacy;
    go_2024_11_05: Go "2024-11-05" speaks Legacy;
}

// rmcp has no HTTP+SSE.
drivers! { sse:
    ts1: Ts1 "legacy" speaks Legacy;
    ts2: Ts2 "legacy" speaks Legacy;
    python: Python "legacy" speaks Legacy;
    go: Go "2024-11-05" speaks Legacy;
    go_newest: Go "legacy" speaks Legacy;
}

// The fixture is behind a gateway, as a worker of 2025-11-25 or of 2026-07-28.
drivers! { behind_legacy:
    ts1: Ts1 "legacy" speaks Legacy;
    ts2_legacy: Ts2 "legacy" speaks Legacy;
    ts2_modern: Ts2 "modern" speaks Modern;
    python_legacy: Python "legacy" speaks Legacy;
    python_modern: Python "modern" speaks Modern;
    rmcp_legacy: Rmcp "legacy" speaks Legacy;
    rmcp_modern: Rmcp "modern" speaks Modern;
    go_legacy: Go "legacy" speaks Legacy;
    go_probing: Go "auto" speaks Modern;
    go_2025_06_18: Go "2025-06-18" speaks Legacy;
}

drivers! { behind_modern:
    ts1: Ts1 "legacy" speaks Legacy;
    ts2_legacy: Ts2 "legacy" speaks Legacy;
    ts2_modern: Ts2 "modern" speaks Modern;
    python_legacy: Python "legacy" speaks Legacy;
    python_modern: Python "modern" speaks Modern;
    rmcp_legacy: Rmcp "legacy" speaks Legacy;
    rmcp_modern: Rmcp "modern" speaks Modern;
    go_legacy: Go "legacy" speaks Legacy;
    go_probing: Go "auto" speaks Modern;
    go_2025_03_26: Go "2025-03-26" speaks Legacy;
}

fn drive_over(transport: &str, peer: Peer, era: &str, speaks: Speaks) {
    if !peer.is_there() {
        return;
    }
    if transport == "stdio" {
        return drive(peer, era, speaks, &[], &[binary().to_owned(), "fixture".to_owned()], &[]);
    }
    let behind = transport.strip_prefix("behind_");
    let red = if behind.is_some() { untranslatable(era) } else { &[] };
    let site = match behind {
        Some(upstream) => gateway(upstream),
        None => {
            let words = [binary(), "fixture", "--transport", transport, "--listen", "localhost:0"];
            Site::start(&words.map(str::to_owned))
        }
    };
    let tap = Tap::on(&site);
    let options = ["--forget".to_owned(), tap.forget_url()];
    let options = if transport == "sse" { &[] } else { options.as_slice() };
    let driven = std::panic::catch_unwind(|| {
        drive(peer, era, speaks, options, std::slice::from_ref(&tap.url), red)
    });
    let name = thread::current().name().unwrap_or("drive").replace("::", "-");
    assert!(driven.is_ok(), "what was said is in {}", tap.keep(&name));
    if transport != "sse" {
        listen_in(&tap, era, speaks, behind.is_none());
    }
    site.interrupt();
}

/// A gateway with the fixture behind it.
fn gateway(upstream: &str) -> Site {
    let revision = if upstream == "modern" { "2026-07-28" } else { "legacy" };
    let fixture = format!(
        "[servers.fixture]\ncommand = {:?}\nargs = [\"fixture\"]\nrevision = {revision:?}\n",
        binary()
    );
    Site::gateway(&fixture)
}

/// The checks that fail through a gateway, since no gateway can translate what they are about.
fn untranslatable(era: &str) -> &'static [&'static str] {
    match era {
        // Up to 2025-06-18 wrong arguments are an error of the request, since then a result with
        // `isError`. Nothing in such a result says that it was about the arguments.
        "2025-06-18" | "2025-03-26" => &["wrong_arguments"],
        _ => &[],
    }
}

/// `red` names the checks that must fail.
fn drive(
    peer: Peer,
    era: &str,
    speaks: Speaks,
    options: &[String],
    server: &[String],
    red: &[&str],
) {
    let mut words = peer.program("drive");
    words.extend(["--era", era].map(str::to_owned));
    words.extend_from_slice(options);
    words.push("--".to_owned());
    words.extend_from_slice(server);
    let ended = run(&words, LIMIT).code(i32::from(!red.is_empty())).left_nothing();
    // Each driver has checks that only one era has, or one transport.
    let modern = speaks == Speaks::Modern;
    let mut wanted = vec![if modern { "ok input_required\n" } else { "ok ping\n" }];
    if !options.is_empty() {
        wanted.extend(["ok resumed\n", "ok many_kinds_at_once\n"]);
        wanted.push(if modern { "ok mirrored_argument\n" } else { "ok forgotten_session\n" });
    }
    for wanted in wanted {
        assert!(ended.stdout.contains(wanted), "{era}: no {wanted:?} in {ended}");
    }
    let failed =
        ended.stdout.lines().filter_map(|line| line.strip_prefix("FAIL ")?.split(':').next());
    assert_eq!(failed.collect::<Vec<_>>(), red, "{ended}");
}

/// What the driver cannot see: that its SDK did on the wire what the check was meant for.
fn listen_in(tap: &Tap, era: &str, speaks: Speaks, resumes: bool) {
    if speaks == Speaks::Modern {
        for header in ["mcp-method: tools/call", "mcp-name: echo", "mcp-param-region: =?base64?"] {
            assert!(tap.was_asked(header), "no client sent {header:?}");
        }
        return;
    }
    assert!(tap.was_asked("mcp-session-id: "), "no session");
    assert!(tap.was_asked("\"notifications/cancelled\""), "no call was cancelled");
    // Only since 2025-11-25 does a stream begin with an event to come back to. That a server on
    // stdio closes a stream is said by no message.
    if resumes && ["legacy", "plain"].contains(&era) {
        assert!(tap.was_asked("last-event-id: "), "no stream was resumed");
    }
}
