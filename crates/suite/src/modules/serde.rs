//! Text and bytes: a message as JSON and as MessagePack, and what less than a message costs.
//!
//! mcp-find.org's benchmark compares both, and gives a call that does nothing and the serialization of
//! 1 KB as baselines.

use std::hint::black_box;

use mcplane_lab::stats::{Interval, LEVEL, Rng, ratio_unpaired};
use serde::{Deserialize, Serialize};

use crate::entry::{Entry, Figure, Form, Found, Module, Stand};
use crate::ops::time;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::of(
        Module::CoreOps,
        Form::Quick,
        "baselines",
        "A call that does nothing, and the serialization of 1 KiB",
        baselines,
    ),
    Entry::of(
        Module::CoreOps,
        Form::Quick,
        "json_msgpack",
        "JSON and MessagePack, 100 B to 1 MB: written and read",
        formats,
    ),
];

/// The sizes, as JSON, in bytes.
const SIZES: [(&str, usize); 5] =
    [("100 B", 100), ("1 KB", 1_000), ("10 KB", 10_000), ("100 KB", 100_000), ("1 MB", 1_000_000)];

/// What tools give: records with text, numbers and lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Record {
    id: u32,
    name: String,
    score: f64,
    tags: Vec<String>,
    ok: bool,
}

/// Records that are about so many bytes of JSON.
fn records(bytes: usize) -> Vec<Record> {
    let mut dice = Rng::new(42);
    let (mut all, mut len) = (Vec::new(), 2);
    while len < bytes {
        let id = u32::try_from(dice.below(1 << 20)).unwrap_or(0);
        let tags = (0..dice.below(3)).map(|tag| format!("tag-{tag}")).collect();
        let name = format!("a record that is called {id}");
        let score = (dice.unit() * 1e4).round() / 1e2;
        let record = Record { id, name, score, tags, ok: id % 3 == 0 };
        len += serde_json::to_string(&record).map_or(1, |json| json.len() + 1);
        all.push(record);
    }
    all
}

fn baselines(on: &Stand<'_>) -> Result<Found, String> {
    const BATCH: u64 = 1_000;
    let nothing = |n: u64| n;
    let mut sum = 0_u64;
    let noop = time(BATCH, on.repeated(), on.control, || {
        for n in 0..BATCH {
            sum = sum.wrapping_add(black_box(nothing)(black_box(n)));
        }
    });
    let data = records(1_024);
    let mut bytes = 0;
    let write = time(1, on.repeated(), on.control, || {
        bytes = black_box(serde_json::to_vec(&data)).map_or(0, |json| json.len());
    });
    let named = |name: &str, figures: Vec<Figure>| {
        figures
            .into_iter()
            .take(1)
            .map(|of| Figure { name: name.to_owned(), ..of })
            .collect::<Vec<_>>()
    };
    let mut figures = named("a call that does nothing", noop.figures());
    figures.extend(named("JSON of 1 KiB written", write.figures()));
    let found = Found::pass(figures)
        .assert(black_box(sum) > 0 && bytes >= 1_024, || format!("{bytes} bytes were written"));
    Ok(found)
}

fn formats(on: &Stand<'_>) -> Result<Found, String> {
    let mut figures = Vec::new();
    let mut wrong = None;
    for (size, bytes) in SIZES {
        let data = records(bytes);
        let share = on.repeated() / 4;
        let (mut json_bytes, mut pack_bytes) = (0, 0);
        let mut same = true;
        let json = time(1, share, on.control, || {
            let written = serde_json::to_vec(black_box(&data)).unwrap_or_default();
            json_bytes = written.len();
            let read = serde_json::from_slice::<Vec<Record>>(&written);
            same &= read.is_ok_and(|read| black_box(read).len() == data.len());
        });
        let pack = time(1, share, on.control, || {
            let written = rmp_serde::to_vec_named(black_box(&data)).unwrap_or_default();
            pack_bytes = written.len();
            let read = rmp_serde::from_slice::<Vec<Record>>(&written);
            same &= read.is_ok_and(|read| black_box(read).len() == data.len());
        });
        let whole =
            serde_json::to_vec(&data).ok().and_then(|json| serde_json::from_slice(&json).ok());
        let packed = rmp_serde::to_vec_named(&data).ok();
        let packed = packed.and_then(|bytes| rmp_serde::from_slice(&bytes).ok());
        if !same || whole.as_ref() != Some(&data) || packed.as_ref() != Some(&data) {
            wrong.get_or_insert(size);
        }
        let first = |name: &str, figures: Vec<Figure>| {
            let named = figures.into_iter().next();
            named.map(|of| Figure { name: format!("{size} {name}"), ..of })
        };
        figures.extend(first("JSON, written and read", json.figures()));
        figures.extend(first("MessagePack, written and read", pack.figures()));
        let ratio: Option<Interval> = ratio_unpaired(pack.slices(), json.slices(), LEVEL);
        figures.extend(ratio.map(|ratio| {
            let name = format!("{size} time, MessagePack ÷ JSON");
            Figure::estimate(&name, "×", ratio, pack.slices().len())
        }));
        let size_ratio = pack_bytes as f64 / (json_bytes as f64).max(1.0);
        figures.push(Figure::of(&format!("{size} bytes, MessagePack ÷ JSON"), "×", size_ratio));
    }
    let found = Found::pass(figures)
        .assert(wrong.is_none(), || format!("{} did not come back whole", wrong.unwrap_or("")))
        .note("Records with names of members in both, into types and back. Over MCP, a message is JSON on \
               every transport of the specification; MessagePack is mcplane's WebSocket subprotocol \
               `mcp.msgpack`.");
    Ok(found)
}
