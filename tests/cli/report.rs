//! `mcplane report` and the same outputs of `mcplane bench`: every form from one real result, and the page in a real
//! browser.

use std::{fs, path::Path, sync::OnceLock, time::Duration};

use mcplane_tests::browser::Chromium;
use mcplane_tests::child::{Ended, binary, mcplane, run};
use serde_json::Value;

use crate::{LIMIT, file};

/// Chromium takes seconds to start on a busy machine.
const BROWSER_MAX: Duration = Duration::from_secs(120);

/// A result of three loads, as JSON.
fn result() -> &'static str {
    static RESULT: OnceLock<String> = OnceLock::new();
    RESULT.get_or_init(|| {
        let words = [
            "bench",
            "-c",
            "1,2,4",
            "-n",
            "500",
            "--warmup",
            "10",
            "--json",
            "-",
            "--",
            binary(),
            "fixture",
        ];
        mcplane(&words, LIMIT).code(0).stdout
    })
}

/// `mcplane report` of `json` with these options.
fn report(json: &str, options: &[&str]) -> Ended {
    let path = file("result.json");
    fs::write(&path, json).unwrap();
    mcplane(&[&["report", path.to_str().unwrap()], options].concat(), LIMIT)
}

#[test]
fn a_real_result_fits_the_published_schema() {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/lab/bench.schema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut value: Value = serde_json::from_str(result()).unwrap();
    let wrong: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    value["runs"][0]["results"]["calls_ok"] = "many".into();
    assert!(!validator.is_valid(&value));
    value["runs"][0]["results"]["calls_ok"] = 1.into();
    value["schema"] = "mcplane.compare/1".into();
    assert!(!validator.is_valid(&value));
    let printed = mcplane(&["report", "--schema"], LIMIT).code(0).stdout;
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), schema);
}

#[test]
fn every_form_is_written_to_where_it_is_asked_for() {
    let folder = file("forms");
    // What an earlier run of this test left there.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let [html, csv, markdown, junit, erlmcp] =
        ["a.html", "a.csv", "a.md", "a.xml", "erlmcp"].map(at);
    let options = [
        "--html",
        &html,
        "--csv",
        &csv,
        "--markdown",
        &markdown,
        "--junit",
        &junit,
        "--erlmcp",
        &erlmcp,
        "--prometheus",
        "-",
    ];
    let ended = report(result(), &options).code(0);
    assert!(ended.stdout.starts_with("# HELP mcplane_bench_info"), "{ended}");
    for (path, start) in [
        (&html, "<!doctype html>"),
        (&csv, "bench,iterations,wall_ms"),
        (&markdown, "## "),
        (&junit, "<?xml version=\"1.0\""),
    ] {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.starts_with(start), "{path}: {text:.200}");
    }
    let files = fs::read_dir(&erlmcp).unwrap().count();
    assert_eq!(files, 4, "three results and an index");
    let index: Value =
        serde_json::from_str(&fs::read_to_string(Path::new(&erlmcp).join("index.json")).unwrap())
            .unwrap();
    assert_eq!(index["result_files"].as_array().unwrap().len(), 3);
}

#[test]
fn bench_writes_them_beside_its_table_or_in_its_place() {
    let page = file("page.html");
    let bench = |option: &str, out: &str| {
        let words =
            ["bench", "-c", "1", "-n", "100", "--warmup", "1", "--no-floor", option, out, "--"];
        mcplane(&[&words[..], &[binary(), "fixture"]].concat(), LIMIT).code(0)
    };
    let ended = bench("--html", page.to_str().unwrap());
    assert!(ended.stdout.contains("throughput"), "{ended}");
    assert!(fs::read_to_string(&page).unwrap().ends_with("</html>\n"));
    let ended = bench("--csv", "-");
    assert!(
        ended.stdout.starts_with("bench,iterations") && ended.stdout.lines().count() == 2,
        "{ended}"
    );
}

#[test]
fn what_cannot_be_done_is_said() {
    let ended = report(result(), &["--html", "-", "--csv", "-"]).code(2);
    assert!(ended.stderr.contains("--html and --csv cannot both write to -"), "{ended}");
    let ended = report("{\"schema\": \"other/1\"}", &[]).code(1);
    assert!(ended.stderr.contains("its schema other/1 is not known"), "{ended}");
    let ended = report(result(), &["--html", "/nowhere/a.html"]).code(2);
    assert!(ended.stderr.contains("--html: cannot write /nowhere/a.html"), "{ended}");
    let ended = mcplane(&["report", "/nowhere/a.json"], LIMIT).code(1);
    assert!(ended.stderr.contains("cannot read /nowhere/a.json"), "{ended}");
    mcplane(&["report"], LIMIT).code(2);
}

#[test]
fn an_output_that_cannot_be_written_is_noticed_before_the_run() {
    let (taken, started) = (file("taken"), file("started"));
    fs::write(&taken, "kept").unwrap();
    let script = format!("touch '{}'", started.display());
    for (option, path) in [
        ("--json", "/nowhere/a.json"),
        ("--html", "/nowhere/a.html"),
        ("--junit", "/"),
        ("--erlmcp", taken.to_str().unwrap()),
    ] {
        let ended = mcplane(&["bench", option, path, "--", "sh", "-c", &script], LIMIT).code(2);
        let said = format!("{option}: cannot write {path}: ");
        assert!(ended.stderr.contains(&said) && !started.exists(), "{ended}");
    }
    assert_eq!(fs::read_to_string(&taken).unwrap(), "kept");
}

#[test]
fn a_reader_that_goes_away_keeps_no_file_from_being_written() {
    let (json, csv) = (file("piped.json"), file("piped.csv"));
    let line = "(\"$@\"; echo code $? >&2) | true";
    let words =
        ["sh", "-c", line, "sh", binary(), "bench", "-c", "1", "-n", "100", "--warmup", "1"];
    let paths = ["--json", json.to_str().unwrap(), "--csv", csv.to_str().unwrap()];
    for more in [&paths[..], &[&paths[..], &["--prometheus", "-"]].concat()] {
        let target = ["--no-floor", "--", binary(), "fixture"];
        let all = [&words[..], more, &target].concat();
        let all: Vec<_> = all.into_iter().map(str::to_owned).collect();
        let ended = run(&all, LIMIT).code(0);
        assert_eq!(ended.stderr, "code 0\n", "{ended}");
        let written: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        assert_eq!(written["runs"][0]["results"]["calls_ok"], 100);
        assert_eq!(fs::read_to_string(&csv).unwrap().lines().count(), 2);
        let _ = (fs::remove_file(&json), fs::remove_file(&csv));
    }
}

/// The page's own measurements, sent to the page around it.
const MEASURE: &str = r#"<script>addEventListener("load", () => {
  const root = document.documentElement, overlaps = [], outside = [];
  for (const svg of document.querySelectorAll("svg")) {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map(t => [t.textContent, t.getBoundingClientRect()]);
    for (const [i, [name, a]] of texts.entries()) {
      if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.bottom > frame.bottom + 1) outside.push(name);
      for (const [other, b] of texts.slice(i + 1))
        if (a.left + 1 < b.right && b.left + 1 < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom)
          overlaps.push(name + " / " + other);
    }
  }
  parent.postMessage({ width: innerWidth, scroll: root.scrollWidth, svgs: document.querySelectorAll("svg").length,
    scripts: document.scripts.length, overlaps, outside }, "*");
})</script>"#;

/// Shows the page in frames as wide as a desktop and a telephone, and writes down what they send.
const FRAMES: &str = r#"<!doctype html><pre id="out"></pre><script>
  const seen = [];
  addEventListener("message", e => { seen.push(e.data); out.textContent = JSON.stringify(seen) });
  for (const width of [1280, 390])
    document.body.append(Object.assign(document.createElement("iframe"), { width, height: 900, src: "page.html" }));
</script>"#;

#[test]
fn the_page_looks_right_in_a_browser() {
    let Some(chromium) = Chromium::find() else { return };
    let mut hostile: Value = serde_json::from_str(result()).unwrap();
    for run in hostile["runs"].as_array_mut().unwrap() {
        run["target"]["server"] = "<script>document.title='caught'</script>".into();
        run["target"]["target"] =
            format!("{} <img src=x onerror=alert(1)>", "long/".repeat(60)).into();
        run["results"]["first_failure"] =
            format!("</td></table><script>{}", "w".repeat(900)).into();
    }
    let folder = file("browser");
    fs::create_dir_all(&folder).unwrap();
    for (json, name) in [(result().to_owned(), "plain"), (hostile.to_string(), "hostile")] {
        let html = report(&json, &["--html", "-"]).code(0).stdout;
        assert!(html.len() < 400_000, "{name}: {} bytes", html.len());
        let (page, frames) = (folder.join("page.html"), folder.join("frames.html"));
        fs::write(&page, &html).unwrap();
        let shot = folder.join(format!("{name}.png"));
        let screenshot = format!("--screenshot={}", shot.display());
        let shown = browse(&chromium, &folder, &page, &["--window-size=1280,3000", &screenshot]);
        assert!(!shown.stderr.contains("CONSOLE"), "{name}: {shown}");
        assert!(fs::read(&shot).unwrap().starts_with(b"\x89PNG"), "{name}");
        let pdf = folder.join(format!("{name}.pdf"));
        browse(&chromium, &folder, &page, &[&format!("--print-to-pdf={}", pdf.display())]);
        assert!(fs::read(&pdf).unwrap().starts_with(b"%PDF"), "{name}");

        // A script in the page is kept from running, and that is to be seen on the console.
        fs::write(&page, html.replace("</body>", &format!("{MEASURE}</body>"))).unwrap();
        let blocked = browse(&chromium, &folder, &page, &["--dump-dom"]);
        assert!(blocked.stderr.contains("CONSOLE"), "{name}: {blocked}");

        let open = html.replace("http-equiv=\"Content-Security-Policy\"", "name=\"none\"");
        fs::write(&page, open.replace("</body>", &format!("{MEASURE}</body>"))).unwrap();
        fs::write(&frames, FRAMES).unwrap();
        let ended = browse(&chromium, &folder, &frames, &["--window-size=1400,1000", "--dump-dom"]);
        let seen =
            ended.stdout.split_once("<pre id=\"out\">").unwrap().1.split_once("</pre>").unwrap().0;
        let seen: Vec<Value> = serde_json::from_str(
            &seen.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"),
        )
        .unwrap_or_else(|error| panic!("{error}: {ended}"));
        let mut widths: Vec<_> = seen.iter().map(|seen| seen["width"].as_u64().unwrap()).collect();
        widths.sort_unstable();
        assert_eq!(widths, [390, 1280], "{name}: {ended}");
        for seen in seen {
            assert!(seen["scroll"].as_u64() <= seen["width"].as_u64(), "{name} overflows: {seen}");
            // All throughputs; percentiles, throughput and latency over time; throughput and latency by load.
            assert_eq!(seen["svgs"], 6, "{name}: {seen}");
            assert_eq!(seen["scripts"], 1, "only the test's own, {name}: {seen}");
            for what in ["overlaps", "outside"] {
                assert_eq!(seen[what], Value::Array(vec![]), "labels, {name}: {seen}");
            }
        }
    }
}

fn browse(chromium: &Chromium, folder: &Path, page: &Path, options: &[&str]) -> Ended {
    let common = ["--hide-scrollbars", "--enable-logging=stderr", "--virtual-time-budget=4000"];
    let page = format!("file://{}", page.display());
    chromium.open(folder, &[&common, options].concat(), &page).wait(BROWSER_MAX).code(0)
}

#[test]
fn compressed_results_and_campaigns_are_read_as_they_are() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/results");
    let campaign = results.join("2026-11-21-linux-x86_64-2-cores/stdio.jsonl.gz");
    let campaign = campaign.to_str().unwrap();
    let one = |name: &str| format!("{campaign}#{name}");
    let ended = mcplane(&["lint", "--json", campaign], LIMIT).ok();
    let audits: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(audits.as_array().map(Vec::len), Some(20));
    assert_eq!(audits[0]["file"], one("mcplane-1"));
    let csv = mcplane(&["report", &one("mcplane-batch-*"), "--csv", "-"], LIMIT).ok().stdout;
    assert_eq!(csv.lines().count(), 1 + 2 * 2 * 5, "{csv}");
    mcplane(&["compare", &one("mcplane-1"), &one("mcplane-2")], LIMIT).ok();
    mcplane(&["gate", &one("mcplane-1"), &one("mcplane-1"), "--profile", "cmcp-inline"], LIMIT)
        .ok();
    for (words, why) in [
        ([&*one("mcplane-9"), &one("mcplane-1")], "has no result \"mcplane-9\""),
        ([campaign, &one("mcplane-1")], "it holds 20 results: name one, as "),
    ] {
        let ended = mcplane(&["gate", words[0], words[1]], LIMIT).code(2);
        assert!(ended.stderr.contains(why), "{ended}");
    }
    let own = file("one.json");
    fs::write(&own, result()).unwrap();
    let ended = mcplane(&["lint", &format!("{}#a", own.display())], LIMIT).code(2);
    assert!(ended.stderr.contains("is not a campaign"), "{ended}");
}
