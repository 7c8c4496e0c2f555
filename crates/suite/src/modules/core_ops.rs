//! What is inside of a server and a gateway, an operation at a time, on the code that runs there.
//!
//! Four batches have the names, sizes and shape of data of mcp-toolkit's benchmarks (100 tools, ten
//! servers, one to five tools for each client), `core_ops_*` the numbers of operations and workers of
//! erlmcp's.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use mcplane::proto::message::{Message, Part, write};
use mcplane::proto::types::ServerCapabilities;
use mcplane::proto::version::Revision;
use mcplane::transport::{Transport as _, memory};
use mcplane::{Context, Server, Tool};
use mcplane_gateway::catalog::{
    Health, Kind, Naming, Need, Offer, Outcome, Server as Offering, Snapshot, negotiate,
};
use mcplane_gateway::config::Policy;
use mcplane_gateway::seams::{Queue, Workers};
use mcplane_lab::stats::Rng;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

use crate::entry::{Entry, Figure, Form, Found, Module, Stand};
use crate::ops::time;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::of(
        Module::CoreOps,
        Form::Quick,
        "jsonrpc_50",
        "JSON-RPC serialize/deserialize (50)",
        jsonrpc,
    ),
    Entry::of(
        Module::CoreOps,
        Form::Quick,
        "dispatch_200",
        "Tool dispatch + validation (200)",
        dispatch,
    ),
    Entry::of(
        Module::CoreOps,
        Form::Quick,
        "registry_300",
        "Server registry lookup (300)",
        registry,
    ),
    Entry::of(
        Module::CoreOps,
        Form::Quick,
        "negotiation_100",
        "Capability negotiation (100)",
        negotiation,
    ),
    Entry::of(
        Module::CoreOps,
        Form::Quick,
        "core_ops_1k",
        "Registry, queue, pool: 1,000 operations, 1 worker",
        |on| core_ops(on, 1_000, 1),
    ),
    Entry::of(
        Module::CoreOps,
        Form::Quick,
        "core_ops_10k",
        "Registry, queue, pool: 10,000 operations, 1 worker",
        |on| core_ops(on, 10_000, 1),
    ),
    Entry::of(
        Module::CoreOps,
        Form::Standard,
        "core_ops_100k",
        "Registry, queue, pool: 100,000 operations, 100 workers",
        |on| core_ops(on, 100_000, 100),
    ),
    Entry::of(
        Module::CoreOps,
        Form::Standard,
        "core_ops_1m",
        "Registry, queue, pool: 1,000,000 operations, 100 workers",
        |on| core_ops(on, 1_000_000, 100),
    ),
];

/// The seed of all data, the same in every run.
const SEED: u64 = 42;
const TOOLS: usize = 100;
const SERVERS: usize = 10;

/// Requests and their answers, written and read.
fn jsonrpc(on: &Stand<'_>) -> Result<Found, String> {
    const BATCH: usize = 50;
    let nested: Vec<_> =
        (0..10).map(|at| json!({"key": at, "value": format!("item {at}")})).collect();
    let params: Vec<Vec<u8>> = (0..BATCH)
        .map(|at| {
            let arguments = json!({"id": at, "options": {"items": nested, "deep": {"flag": true}}});
            json!({"name": format!("tool_{at}"), "arguments": arguments}).to_string().into_bytes()
        })
        .collect();
    let (mut read, mut wrong, mut out) = (0_u64, 0_u64, Vec::new());
    let timed = time(BATCH as u64, on.repeated(), on.control, || {
        for (at, params) in params.iter().enumerate() {
            let id = (at as i64).into();
            out.clear();
            write::request(&mut out, &id, "tools/call", Some(params));
            let request = Message::scan(out.split_off(0));
            let request = request.ok();
            let parts = request.as_ref().map(|of| (of.part(Part::Id), of.text(Part::Name)));
            let Some((Some(id), Some(name))) = parts else {
                wrong += 1;
                continue;
            };
            let content = json!([{"type": "text", "text": name}]);
            let result = json!({"content": content}).to_string();
            write::result(&mut out, id, result.as_bytes());
            let answer = Message::scan(out.split_off(0));
            let is_whole = answer.is_ok_and(|answer| answer.part(Part::Result).is_some());
            read += u64::from(black_box(is_whole));
            wrong += u64::from(!is_whole);
        }
    });
    let found = Found::pass(timed.figures())
        .assert(read > 0 && wrong == 0, || format!("{wrong} of {} could not be read", read + wrong))
        .note("An operation is a pair: a request with a list of ten objects in its arguments is written \
               and read, and so is its answer.");
    Ok(found)
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// Text to give back.
    text: String,
    /// How often.
    times: u8,
}

/// Calls of a hundred tools of a server in memory: framed, scanned, validated against the schema of
/// their arguments, handled, answered.
fn dispatch(on: &Stand<'_>) -> Result<Found, String> {
    const BATCH: usize = 200;
    let mut server = Server::new("core_ops", "1");
    for at in 0..TOOLS {
        let echo = |_: &Context, given: Arguments| given.text.repeat(given.times.into());
        server = server.tool(Tool::inline(&format!("tool_{at}"), echo));
    }
    let service = server.start().map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let (near, far) = memory::pair();
    runtime.spawn(async move { service.serve(far).await });
    let halves = runtime.block_on(async { near.open() });
    let (mut reader, mut writer) = halves.map_err(|error| error.to_string())?;
    let mut calls = Vec::new();
    for at in 0..BATCH {
        calls.extend(call(at, at % TOOLS, 1 + at % 10));
    }
    let first = runtime.block_on(right(&mut writer, &mut reader, &calls, BATCH));
    let (mut answered, mut wrong) = (0_u64, 0_u64);
    let mut buffer = vec![0; memory::BUFFER_BYTES];
    let timed = time(BATCH as u64, on.repeated(), on.control, || {
        let exchanged = runtime.block_on(async {
            let write = writer.write_all(&calls);
            let read = async {
                let mut left = BATCH;
                while left > 0 {
                    let len = reader.read(&mut buffer).await?;
                    if len == 0 {
                        return Err(std::io::ErrorKind::UnexpectedEof.into());
                    }
                    let lines = buffer.iter().take(len).filter(|byte| **byte == b'\n').count();
                    left = left.saturating_sub(lines);
                }
                Ok(())
            };
            tokio::try_join!(write, read)
        });
        match exchanged {
            Ok(_) => answered += BATCH as u64,
            Err(_) => wrong += 1,
        }
    });
    let refused = runtime.block_on(refused(&mut writer, &mut reader));
    let found = Found::pass(timed.figures())
        .assert(first == BATCH, || format!("{first} of {BATCH} calls had their own answer"))
        .assert(wrong == 0 && answered > 0, || format!("{wrong} batches were not answered"))
        .assert(refused, || "arguments that the schema forbids were not refused".to_owned())
        .note("An operation is a whole call of 2026-07-28 over a pipe in memory, on one thread: read, \
               scanned, its arguments checked against their schema, handled, and the answer written.");
    Ok(found)
}

/// A call of 2026-07-28 as a line.
fn call(id: usize, tool: usize, times: usize) -> Vec<u8> {
    let params = json!({
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": Revision::LATEST.as_str(),
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "suite", "version": "1"},
        },
        "name": format!("tool_{tool}"),
        "arguments": {"text": "hello", "times": times},
    });
    let mut line = Vec::new();
    write::request(
        &mut line,
        &(id as i64).into(),
        "tools/call",
        Some(params.to_string().as_bytes()),
    );
    line.push(b'\n');
    line
}

/// How many calls of a batch have the answer that is theirs.
async fn right(
    writer: &mut (impl tokio::io::AsyncWrite + Unpin),
    reader: &mut (impl tokio::io::AsyncRead + Unpin),
    calls: &[u8],
    batch: usize,
) -> usize {
    let mut lines = tokio::io::BufReader::new(reader).lines();
    let read = async {
        let mut right = 0;
        for _ in 0..batch {
            let Ok(Some(line)) = lines.next_line().await else { break };
            let answer: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            let id = answer.get("id").and_then(serde_json::Value::as_u64);
            let times = id.map(|id| 1 + id % 10);
            let text = times.and_then(|times| Some("hello".repeat(usize::try_from(times).ok()?)));
            let said = answer.pointer("/result/content/0/text").and_then(|text| text.as_str());
            right += usize::from(text.is_some() && said == text.as_deref());
        }
        right
    };
    tokio::join!(writer.write_all(calls), read).1
}

/// Whether a call with arguments that its schema forbids is refused: a check that cannot fail is none.
async fn refused(
    writer: &mut (impl tokio::io::AsyncWrite + Unpin),
    reader: &mut (impl tokio::io::AsyncRead + Unpin),
) -> bool {
    let line = call(1, 1, usize::from(u8::MAX) + 1);
    let mut answer = vec![0; 4096];
    if writer.write_all(&line).await.is_err() {
        return false;
    }
    let len = reader.read(&mut answer).await.unwrap_or(0);
    let text = String::from_utf8_lossy(answer.get(..len).unwrap_or_default()).into_owned();
    text.contains("\"isError\":true")
}

/// Ten servers with a hundred tools between them; every fourth server is down.
struct Registry {
    snapshot: Snapshot,
    health: Vec<(Health, f64)>,
}

impl Registry {
    fn new() -> Result<Self, String> {
        let mut dice = Rng::new(SEED);
        let mut tools = vec![Vec::new(); SERVERS];
        for at in 0..TOOLS {
            // One to three servers have it.
            for _ in 0..=dice.below(3) {
                if let Some(of) = tools.get_mut(dice.below(SERVERS)) {
                    of.push(format!(r#"{{"name":"tool_{at}","inputSchema":{{"type":"object"}}}}"#));
                }
            }
        }
        let mut servers = Vec::new();
        for (at, mut of) in tools.into_iter().enumerate() {
            of.dedup();
            let revision = if at % 2 == 0 { Revision::LATEST } else { Revision::LATEST_LEGACY };
            let mut offer = Offer::new(Some(revision), ServerCapabilities::new());
            let page = format!(r#"{{"tools":[{}]}}"#, of.join(","));
            let method = Kind::Tools.method();
            offer.add_page(method, page.as_bytes()).map_err(|error| error.to_string())?;
            servers.push(Offering {
                name: format!("server{at}").into(),
                offer: Some(Arc::new(offer)),
            });
        }
        let health =
            |at| (if at % 4 == 3 { Health::Down } else { Health::Healthy }, 0.1 * at as f64);
        let health = (0..SERVERS).map(health).collect();
        Ok(Self { snapshot: Snapshot::build(servers, &Naming::default()), health })
    }

    /// The first server that runs and lists a tool, whatever its revision.
    fn search(&self, tool: &str) -> Option<usize> {
        let lists = |(server, (health, _)): &(usize, &(Health, f64))| {
            let offer = self.snapshot.servers().get(*server).and_then(|one| one.offer.as_deref());
            let tools = offer.map_or(&[][..], |offer| offer.entries(Kind::Tools));
            *health != Health::Down && tools.iter().any(|entry| *entry.name == *tool)
        };
        self.health.iter().enumerate().find(lists).map(|(server, _)| server)
    }

    /// The first server that has a tool, runs, and speaks this revision or a newer one.
    fn find(&self, tool: &str, revision: Revision) -> Option<usize> {
        let servers = self.snapshot.servers();
        let may = |at: &&usize| {
            let is_up = self.health.get(**at).is_some_and(|(health, _)| *health != Health::Down);
            let offer = servers.get(**at).and_then(|server| server.offer.as_deref());
            is_up && offer.and_then(|offer| offer.revision).is_some_and(|of| of >= revision)
        };
        self.snapshot.owners(tool).iter().find(may).copied()
    }
}

/// Tools by the names that clients say, some of which nobody has.
fn wanted(dice: &mut Rng) -> String {
    format!("tool_{}", dice.below(TOOLS + TOOLS / 10))
}

fn registry(on: &Stand<'_>) -> Result<Found, String> {
    const BATCH: usize = 300;
    let registry = Registry::new()?;
    let mut dice = Rng::new(SEED);
    let names: Vec<_> = (0..BATCH).map(|_| wanted(&mut dice)).collect();
    let find = || {
        names
            .iter()
            .filter(|name| black_box(registry.find(name, Revision::LATEST_LEGACY)).is_some())
    };
    let routable = find().count();
    let mut same = true;
    let timed =
        time(BATCH as u64, on.repeated(), on.control, || same &= find().count() == routable);
    let mut figures = timed.figures();
    figures.push(Figure::of("routable", "share", routable as f64 / BATCH as f64));
    let found = Found::pass(figures)
        .assert(same && routable > 0 && routable < BATCH, || format!("{routable} were routable"))
        .note("An operation finds the owners of a tool in the gateway's catalog, and of those the first \
               that runs and speaks the revision. Some names belong to nobody.");
    Ok(found)
}

fn negotiation(on: &Stand<'_>) -> Result<Found, String> {
    const BATCH: usize = 100;
    let registry = Registry::new()?;
    let health = &registry.health;
    let mut dice = Rng::new(SEED);
    let mut candidates =
        registry.snapshot.candidates(|at| health.get(at).copied().unwrap_or((Health::Down, 1.0)));
    for candidate in &mut candidates {
        candidate.version = Some(format!("1.{}.{}", dice.below(6), dice.below(10)));
    }
    let needs: Vec<_> = (0..BATCH)
        .map(|_| Need {
            tools: (0..=dice.below(5)).map(|_| wanted(&mut dice)).collect(),
            min_version: Some(format!("1.{}", dice.below(6))),
            ..Need::default()
        })
        .collect();
    let ask = || {
        let [mut covered, mut split, mut missing] = [0_usize; 3];
        for need in &needs {
            match black_box(negotiate(need, &candidates)).map(|verdict| verdict.outcome) {
                Ok(Outcome::Covered) => covered += 1,
                Ok(Outcome::Split) => split += 1,
                Ok(Outcome::Missing) => missing += 1,
                Err(_) => {}
            }
        }
        [covered, split, missing]
    };
    let counts = ask();
    let mut same = true;
    let timed = time(BATCH as u64, on.repeated(), on.control, || same &= ask() == counts);
    let [covered, split, missing] = counts.map(|count| count as f64 / BATCH as f64);
    let mut figures = timed.figures();
    figures.push(Figure::of("covered by one server", "share", covered));
    figures.push(Figure::of("covered by several", "share", split));
    figures.push(Figure::of("not covered", "share", missing));
    let found = Found::pass(figures)
        .assert(same && counts.iter().sum::<usize>() == BATCH, || format!("{counts:?}"))
        .note("An operation holds ten servers against a need of one to five tools and a least version: \
               they are ranked by coverage, version, health and load, and where none has all, the \
               fewest that a greedy choice finds are named.");
    Ok(found)
}

/// One operation of a worker, by its number and that of the operation; 1 if it was done.
type Operation<'a> = &'a (dyn Fn(usize, usize) -> u64 + Sync);

/// So many operations on each component, by so many workers: threads, of which as many run at once as
/// there are cores.
fn core_ops(on: &Stand<'_>, ops: usize, workers: usize) -> Result<Found, String> {
    let registry = Registry::new()?;
    let mut dice = Rng::new(SEED);
    // Found by looking at every server, not by the index.
    let names = (0..1_000).map(|_| wanted(&mut dice)).map(|name| {
        let owner = registry.search(&name);
        (name, owner)
    });
    let names: Vec<_> = names.collect();
    let queue = Queue::default();
    let pool = Workers::new(workers, 4, Policy::RecentIdle);
    let mut figures = Vec::new();
    let mut done = [0_u64; 3];
    let rounds = on.of(6, 30, 30);
    let components: [(&str, Operation<'_>); 3] = [
        ("registry", &|_, at| {
            let Some((name, expected)) = names.get(at % names.len()) else { return 0 };
            u64::from(black_box(registry.find(name, Revision::LATEST_LEGACY)) == *expected)
        }),
        ("queue", &|worker, at| {
            let is_in = queue.push(worker as u64, at as u64, usize::MAX);
            u64::from(is_in) * black_box(queue.advance(1))
        }),
        ("pool", &|_, _| u64::from(black_box(pool.take_and_free()))),
    ];
    for ((name, work), done) in components.iter().zip(&mut done) {
        let mut per_op = Vec::new();
        for _ in 0..rounds {
            if on.control.is_stopped() {
                break;
            }
            let began = Instant::now();
            let counts = std::thread::scope(|scope| {
                let each = ops / workers;
                let worker =
                    |worker| scope.spawn(move || (0..each).map(|at| work(worker, at)).sum::<u64>());
                let threads: Vec<_> = (0..workers).map(worker).collect();
                threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum::<u64>()
            });
            *done += counts;
            per_op.push(began.elapsed().as_secs_f64() * 1e9 / ops as f64);
        }
        figures.extend(crate::ops::rate(name, &per_op));
    }
    let expected = (ops / workers * workers * rounds) as u64;
    let found = Found::pass(figures)
        .assert(done.iter().all(|done| *done == expected) || on.control.is_stopped(), || {
            format!("{done:?} of {expected} operations of registry, queue and pool were done")
        })
        .note(format!(
            "{workers} threads share one registry, one queue and one pool, {rounds} times; a time has the \
             start of the threads in it. The queue passes on what waits, one for each that comes, \
             whosever turn it is. The pool gives and takes back a place of {workers} workers with four \
             each."
        ));
    Ok(found)
}
