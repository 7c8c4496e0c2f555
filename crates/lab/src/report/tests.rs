use super::*;
use crate::results::tests::sample;
use crate::results::{Environment, Headroom, Limit, Missing, Report, Run, Transport};

#[test]
fn the_text_fits_and_says_what_it_cannot_say() {
    let mut run = sample(100, true);
    run.target.target = "x".repeat(300);
    run.results.first_failure = Some("long words ".repeat(30));
    run.broken = Some("`x` exited with code 3; its last stderr lines:\n  | boom".to_owned());
    run.interrupted = true;
    let text = Report::new(Environment::look(), vec![run]).to_text(Style::default());
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
    }
    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap();
    assert!(line("p99 ").contains("n/a") && line("p99.9").contains("n/a"));
    assert!(!line("p95").contains("n/a"));
    assert!(line("throughput").contains("4,000 calls/s") && line("throughput").contains("0.50 ×"));
    assert!(text.contains("| boom") && text.contains("interrupted"));
    assert!(!text.contains('\x1b'));
}

#[test]
fn several_runs_end_with_one_line_each() {
    let environment = Environment::look();
    let alone = Report::new(environment.clone(), vec![sample(100, true)]);
    assert!(!alone.to_text(Style::default()).contains("in short"));
    let text = Report::new(environment, vec![sample(100, true), sample(400, false)])
        .to_text(Style::default());
    let lines: Vec<_> = text.lines().skip_while(|line| !line.contains("in short")).collect();
    assert!(lines[1].contains("stdio, 1 in flight") && lines[1].contains("0.50 ×"));
    assert!(lines[1].contains("n/a") && !lines[2].contains("n/a"));
    assert!(lines.iter().all(|line| line.chars().count() <= 100));
}

#[test]
fn colours_come_only_when_asked_for() {
    let report = Report::new(Environment::look(), vec![sample(100, false)]);
    assert!(report.to_text(Style { colour: true }).contains("\x1b[1m"));
    assert!(!report.to_text(Style { colour: false }).contains("floor"));
}

#[test]
fn runs_measured_together_share_a_table() {
    let mut other = sample(400, false);
    other.target.transport = Transport::Http;
    other.plan.concurrency = 32;
    other.results.first_failure = Some("HTTP 503 Service Unavailable".to_owned());
    other.notes = vec!["said once".to_owned()];
    let again = Run { notes: other.notes.clone(), ..sample(100, true) };
    let missing = Missing {
        target: "ws 2026-07-28".to_owned(),
        concurrency: 32,
        why: format!("cannot measure `x`: it is not there\n  | {}", "x".repeat(200)),
    };
    let report = Report::together(Environment::look(), vec![again, other], vec![missing]);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((&json["together"], &json["missing"][0]["concurrency"]), (&true.into(), &32.into()));
    let text = report.to_text(Style::default());
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let position = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part:?} in {text}"));
    let order = [
        position("1 in flight"),
        position("stdio 2026-07-28"),
        position("32 in flight"),
        position("http 2026-07-28"),
        position("ws 2026-07-28           n/a: it is not there | xxx"),
        position("http 2026-07-28, 32 in flight: HTTP 503"),
    ];
    assert!(order.is_sorted(), "{text}");
    assert_eq!(text.matches("said once").count(), 1, "{text}");
    assert!(text.contains("0.50 ×"), "{text}");
}

/// Markup, quotes, control characters and formulas, as a server may bring them.
pub(crate) const HOSTILE: &str =
    "=<script>alert(\"x'&\\`|*)</script>]]>\u{1}\u{202e}\n--><!--,{}_`";

/// Runs whose texts all contain markup.
pub(crate) fn hostile() -> Document {
    let evil = |at: &str| format!("{at} {HOSTILE}");
    let mut runs =
        vec![sample(5_000, true), sample(100, false), sample(4_000, true), sample(400, false)];
    for (at, run) in runs.iter_mut().enumerate() {
        let target = &mut run.target;
        target.target = evil("target");
        target.server = Some(evil("server"));
        target.version = Some(evil("version"));
        target.revision = evil("revision");
        run.plan.tool = evil("tool");
        run.plan.args = serde_json::json!({ HOSTILE: HOSTILE });
        run.plan.concurrency = [1, 4, usize::MAX, 16][at];
        run.plan.sessions = 2;
        run.notes = vec![evil("note")];
    }
    runs[2].results.errors.json_rpc = 3;
    runs[2].results.first_failure = Some(evil("failure"));
    runs[3].target.transport = Transport::Memory;
    runs[3].broken = Some(evil("broken"));
    let mut environment = Environment::look();
    environment.cpu = Some(evil("cpu"));
    environment.kernel = Some(evil("kernel"));
    environment.command = vec![evil("command")];
    let missing = Missing { target: evil("missing"), concurrency: 1, why: evil("why") };
    let text = serde_json::to_string(&Report::together(environment, runs, vec![missing])).unwrap();
    Document::read([(HOSTILE, text.as_str())]).unwrap()
}

/// A small reader of XML: the elements in order with their attributes. Panics on what is not
/// well-formed. Elements of HTML that have no end are taken as closed.
pub(crate) fn elements(text: &str) -> Vec<(String, Vec<(String, String)>)> {
    const VOID: [&str; 4] = ["meta", "link", "br", "hr"];
    let (mut all, mut open, mut rest) = (Vec::new(), Vec::new(), text);
    while let Some(at) = rest.find('<') {
        check_text(&rest[..at]);
        let inside = &rest[at + 1..];
        let end = inside.find('>').unwrap_or_else(|| panic!("no end of {:.80}", inside));
        let tag = &inside[..end];
        rest = &inside[end + 1..];
        if tag.starts_with(['?', '!']) {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "before {rest:.80}");
            continue;
        }
        let closed = tag.ends_with('/');
        let tag = tag.trim_end_matches('/');
        let (name, mut left) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "element {name:?}");
        let mut attributes = Vec::new();
        while !left.is_empty() {
            let Some((key, after)) = left.split_once("=\"") else {
                assert_eq!(left.trim(), "download", "in <{tag}>");
                break;
            };
            let (value, after) = after.split_once('"').unwrap_or_else(|| panic!("in <{tag}>"));
            check_text(value);
            attributes.push((key.trim().to_owned(), value.to_owned()));
            left = after.trim_start();
        }
        all.push((name.to_owned(), attributes));
        if name == "style" {
            rest = &rest[rest.find("</style>").unwrap()..];
        }
        if !closed && !VOID.contains(&name) {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    all
}

fn check_text(text: &str) {
    assert!(!text.contains('>') && !text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
    for (at, _) in text.match_indices('&') {
        let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
        assert!(known.iter().any(|entity| text[at..].starts_with(entity)), "{:.40}", &text[at..]);
    }
}

#[test]
fn what_is_no_result_is_refused_by_name() {
    for (text, part) in [
        ("{", "EOF while parsing"),
        ("{}", "it names no \"schema\""),
        (r#"{"schema":"mcplane.bench/9"}"#, "mcplane.bench/9 is not known"),
        (r#"{"schema":"mcplane.bench/1"}"#, "missing field"),
        (r#"{"schema":"mcplane.compare/1"}"#, "missing field"),
    ] {
        let error = Document::read([("a.json", text)]).unwrap_err().to_string();
        assert!(error.starts_with("a.json is not a result: ") && error.contains(part), "{error}");
    }
    let text = serde_json::to_string(&Report::new(Environment::look(), vec![])).unwrap();
    let many = vec![("a.json", text.as_str()); FILES_MAX + 1];
    assert!(Document::read(many).unwrap_err().to_string().contains("more than 64 files"));
}

#[test]
fn an_empty_result_has_every_form() {
    let document = Document::of(&Report::new(Environment::look(), vec![]));
    elements(&document.to_html());
    elements(&document.to_junit());
    assert_eq!(document.to_csv().lines().count(), 1);
    assert_eq!(document.to_prometheus(), "");
    assert_eq!(document.to_erlmcp_files().len(), 1);
    assert!(
        document.to_markdown().contains("holds no run") && document.to_mermaid().contains("no run")
    );
}

#[test]
fn a_result_near_the_generators_limit_is_marked() {
    let headroom = |ratio: f64, run: Run| {
        let mut run = run;
        if let Some(throughput) = run.ratios.as_mut().and_then(|of| of.throughput.as_mut()) {
            throughput.median = Some(ratio);
        }
        run.headroom = Headroom::of(&run);
        run
    };
    let text =
        |run: &Run| Report::new(Environment::look(), vec![run.clone()]).to_text(Style::default());
    let fine = headroom(0.69, sample(100, true));
    assert_eq!(fine.headroom.unwrap().by, Limit::Floor);
    assert!(!fine.headroom.unwrap().generator_bound && !text(&fine).contains("generator-bound"));
    let bound = headroom(0.71, sample(100, true));
    assert!(bound.headroom.unwrap().generator_bound);
    assert!(text(&bound).contains("generator-bound: 71 % of the rate that the floor reached"));
    let json = serde_json::to_value(&bound).unwrap();
    assert_eq!(json["headroom"]["generator_bound"], true);
    // Without a floor, by the CPU clock; of a server on the same thread nothing can be said.
    let mut alone = sample(100, false);
    assert!(Headroom::of(&alone).is_none());
    alone.results.generator_cpu_share = Some(0.9);
    let by_cpu = Headroom::of(&alone).unwrap();
    assert_eq!((by_cpu.by, by_cpu.generator_bound), (Limit::Cpu, true));
    alone.target.transport = Transport::Memory;
    assert!(Headroom::of(&alone).is_none());
}
