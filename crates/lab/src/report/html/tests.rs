use super::*;
use crate::report::tests::{HOSTILE, elements, hostile};
use crate::results::tests::{begun_at, sample};
use crate::results::{Contest, Environment, Missing, Report, Role};

fn comparison() -> Document {
    let runs = |rates: [f64; 3]| {
        rates.map(|rate| {
            let mut run = sample(5_000, false);
            run.results.throughput_per_s = rate;
            run.results.first_failure = Some(HOSTILE.to_owned());
            run.target.revision = HOSTILE.to_owned();
            run
        })
    };
    let sides = vec![
        ("a".to_owned(), Role::Base, runs([1_000.0, 1_010.0, 990.0]).to_vec()),
        (HOSTILE.to_owned(), Role::Rival, runs([1_300.0, 1_310.0, 1_290.0]).to_vec()),
    ];
    Document::of_contest(&Contest::new(Environment::look(), 0.05, sides))
}

fn count(all: &[(String, Vec<(String, String)>)], name: &str) -> usize {
    all.iter().filter(|(element, _)| element == name).count()
}

#[test]
fn nothing_that_a_server_says_is_markup() {
    for document in [hostile(), comparison()] {
        let html = document.to_html();
        let all = elements(&html);
        assert_eq!(count(&all, "script"), 0);
        assert!(!html.contains("<script") && html.contains("&lt;script&gt;"));
        let events = all.iter().flat_map(|(_, attributes)| attributes);
        assert!(!events.clone().any(|(name, _)| name.starts_with("on")));
        let links =
            events.filter(|(name, _)| name == "href" || name == "src").map(|(_, value)| value);
        assert!(links.clone().all(|value| value.starts_with("data:")), "it needs nothing else");
        assert!(links.count() > 1);
    }
}

#[test]
fn every_drawing_has_a_name_and_a_description_and_every_id_is_unique() {
    let html = hostile().to_html();
    let all = elements(&html);
    // Throughput of all; two groups (stdio, memory) with percentiles, throughput and latency; a ladder of
    // three loads over stdio.
    assert_eq!(count(&all, "svg"), 1 + 2 * 3 + 2);
    assert_eq!((count(&all, "desc"), count(&all, "figcaption")), (9, 9));
    let ids: Vec<_> = all.iter().flat_map(|(_, of)| of).filter(|(name, _)| name == "id").collect();
    let mut unique = ids.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!((ids.len(), unique.len()), (18, 18));
    for (_, labels) in
        all.iter().flat_map(|(_, of)| of).filter(|(name, _)| name == "aria-labelledby")
    {
        assert!(labels.split(' ').all(|label| ids.iter().any(|(_, id)| id == label)), "{labels}");
    }
}

#[test]
fn a_comparison_has_its_forest_and_its_words() {
    let html = comparison().to_html();
    assert_eq!(count(&elements(&html), "svg"), 1 + 3);
    let said = comparison().words();
    let said = said
        .iter()
        .find(|said| said.text.starts_with("B by A: throughput faster (1.30 ×"))
        .unwrap();
    assert!(
        said.mood == Mood::Good && said.text.contains("p99 no difference seen (1.00 ×"),
        "{said:?}"
    );
    for part in [
        "<td>no difference seen</td>",
        "The sides; medians",
        "<td>a</td>",
        "B throughput</text>",
        "1.30 [1.2",
    ] {
        assert!(html.contains(part), "no {part:?}");
    }
}

#[test]
fn a_ladder_has_a_knee_where_it_bends() {
    let page = |rates: [f64; 3]| {
        let runs = rates.iter().zip([1, 2, 4]).map(|(rate, in_flight)| {
            let mut run = sample(400, false);
            (run.results.throughput_per_s, run.plan.concurrency) = (*rate, in_flight);
            run
        });
        Document::of(&Report::new(Environment::look(), runs.collect())).to_html()
    };
    let bent = page([500.0, 990.0, 1_000.0]);
    assert!(bent.contains("3 loads; the knee is at 2.") && bent.contains(">knee</text>"));
    let straight = page([100.0, 200.0, 400.0]);
    for knee in ["the knee is at", ">knee</text>"] {
        assert!(!straight.contains(knee), "it still rises");
    }
}

#[test]
fn an_open_loop_shows_both_starts() {
    let run = begun_at(1_000.0, 5_000, 100);
    let document = Document::of(&Report::new(Environment::look(), vec![run]));
    let html = document.to_html();
    for part in [
        "called over stdio at 1,000/s",
        "<td class=\"fail\">100</td><td>50.0 %</td>",
        "1,000/s, from the actual start",
        "The schedule was missed",
        "began late",
    ] {
        assert!(html.contains(part), "no {part:?}");
    }
    let text = document.to_prometheus();
    assert!(text.contains("schedule_missed_calls_total{") && text.contains("} 100\n"));
}

#[test]
fn the_summary_says_what_to_doubt() {
    let mut bound = sample(5_000, true);
    bound.ratios = Some(crate::results::Ratios::of(&bound.results, &bound.results));
    let said = |run: super::super::Run| {
        let mut environment = Environment::look();
        (environment.optimised, environment.load_before) = (true, Some([0.0; 3]));
        let words = Document::of(&Report::new(environment, vec![run])).words();
        words.into_iter().map(|said| said.text).collect::<Vec<_>>().join("\n")
    };
    let text = said(bound);
    assert!(text.contains("Generator-bound") && text.contains("Not steady"), "{text}");
    let mut steady = sample(5_000, true);
    steady.results.slices.iter_mut().for_each(|slice| slice.throughput_per_s = 4_000.0);
    let text = said(steady.clone());
    assert!(
        text.contains("All 5,000 calls succeeded") && text.contains("Nothing speaks against"),
        "{text}"
    );
    steady.results.errors.timeout = 7;
    steady.interrupted = true;
    let text = said(steady);
    assert!(text.contains("7 of 5,000 calls failed") && text.contains("Interrupted"), "{text}");
    assert!(!text.contains("Nothing speaks against"));
}

#[test]
fn however_large_the_result_the_page_is_small() {
    let runs: Vec<_> = (0..150)
        .map(|at| {
            let mut run = sample(400, true);
            run.target.revision = format!("t{}", at % 40);
            run.plan.concurrency = at;
            run.notes = vec![format!("{at} {}", "long ".repeat(2_000))];
            run.results.first_failure = Some("x".repeat(5_000));
            let slice = run.results.slices[0];
            run.results.slices = vec![slice; 2_000];
            run
        })
        .collect();
    let missing = Missing { target: "ws".to_owned(), concurrency: 1, why: "y".repeat(5_000) };
    let report = Report::together(Environment::look(), runs, vec![missing; 200]);
    let html = Document::of(&report).to_html();
    elements(&html);
    assert!(html.len() < 400_000, "{} bytes", html.len());
    assert!(html.contains("too large for this page"));
}

#[test]
fn the_data_is_in_the_page() {
    let document = hostile();
    let html = document.to_html();
    let (_, after) = html.split_once("data:application/json;base64,").unwrap();
    let data = STANDARD.decode(after.split('"').next().unwrap()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&data).unwrap(), document.files[0].raw);
}
