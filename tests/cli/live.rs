//! What `mcplane bench` shows while it runs, on a terminal that `script` (util-linux) makes.

use std::{fs, path::Path};

use mcplane_tests::child::{binary, mcplane, run};
use mcplane_tests::skip;

use crate::{LIMIT, file};

/// What a terminal of 120 columns got from this line of shell, if there is a `script` to make one. The
/// line itself finds that, as it comes, in the file `$SEEN`.
fn terminal(line: &str) -> Option<String> {
    if !["/usr/bin/script", "/bin/script"].iter().any(|path| Path::new(path).exists()) {
        skip("there is no script(1) here, which makes a terminal");
        return None;
    }
    let out = file("typescript");
    let line = format!("stty cols 120 rows 40; SEEN='{}'; {line}", out.display());
    let words = ["script", "-qefc", &line, out.to_str().unwrap()].map(str::to_owned);
    run(&words, LIMIT).ok();
    Some(String::from_utf8_lossy(&fs::read(out).unwrap()).into_owned())
}

fn bench(options: &str) -> String {
    let me = binary();
    format!("{me} bench -c 2 --no-floor --warmup 50ms --settle 0ms {options} -- {me} fixture")
}

#[test]
fn a_terminal_shows_the_last_second() {
    let Some(seen) = terminal(&bench("-d 3s")) else { return };
    for part in [
        "starting the server",
        "measuring, ",
        "  rate     ",
        " calls/s · p50 ",
        "  latency  ",
        "█",
        "  server   CPU ",
        " fds · ",
        "\u{1b}[", // it draws over what it drew
        "throughput",
    ] {
        assert!(seen.contains(part), "no {part:?} in {seen}");
    }
}

#[test]
fn without_a_terminal_or_when_quiet_nothing_is_drawn() {
    let me = binary();
    let words = ["bench", "-c", "2", "-n", "200", "--no-floor", "--", me, "fixture"];
    let ended = mcplane(&words, LIMIT).ok();
    assert_eq!(ended.stderr, "", "{ended}");
    let Some(seen) = terminal(&bench("-d 2s --quiet")) else { return };
    assert!(seen.contains("throughput"), "{seen}");
    assert!(!seen.contains("measuring, ") && !seen.contains("  rate  "), "{seen}");
}

#[test]
fn an_interrupt_ends_the_run_and_leaves_the_terminal_as_it_was() {
    let bench = bench("-d 50s");
    let line = format!(
        "stty -a; {bench} & until grep -qa 'measuring[,] ' \"$SEEN\"; do sleep 0.2; done; sleep 1; \
         kill -INT $!; wait $!; echo \"ended with $?\"; stty -a"
    );
    let Some(seen) = terminal(&line) else { return };
    for part in ["measuring, ", "interrupted", "ended with 0"] {
        assert!(seen.contains(part), "no {part:?} in {seen}");
    }
    let settings: Vec<_> = seen.match_indices("speed ").collect();
    let flags = |at: usize| seen[at..].lines().take(4).map(str::trim_end).collect::<Vec<_>>();
    assert_eq!(flags(settings[0].0), flags(settings[1].0));
    assert!(!seen.contains("\u{1b}[?25l") || seen.contains("\u{1b}[?25h"), "the cursor is hidden");
}
