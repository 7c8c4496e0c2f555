//! The SDKs' clients drive `mcplane fixture`. What they check is in the drivers beside this file.

use std::time::Duration;

use crate::{
    child::{binary, run},
    peers::Peer,
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
    ($($name:ident: $peer:ident $era:literal speaks $speaks:ident;)+) => {
        $(#[test]
        fn $name() {
            drive(Peer::$peer, $era, Speaks::$speaks);
        })+
    };
}

drivers! {
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
}

fn drive(peer: Peer, era: &str, speaks: Speaks) {
    if !peer.is_there() {
        return;
    }
    let mut words = peer.program("drive");
    words.extend(["--era", era, "--", binary(), "fixture"].map(str::to_owned));
    let ended = run(&words, LIMIT).ok();
    // Each driver has checks that only one era has.
    let only = if speaks == Speaks::Modern { "ok input_required\n" } else { "ok ping\n" };
    assert!(ended.stdout.contains(only), "{era} was not spoken: {ended}");
    assert!(!ended.stdout.contains("FAIL"), "{ended}");
}
