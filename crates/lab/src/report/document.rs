//! Result files, read back, and what they hold in the order in which it is shown.

use serde_json::Value;

use super::found::named;
use crate::results::{Contest, Latencies, Report, Run, Side};
use crate::text::short;

/// Most result files of one document.
pub const FILES_MAX: usize = 64;

/// One or several results, to be written as a page, a table or a record of another system.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Document {
    pub(super) files: Vec<File>,
}

/// Why a file is not a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is not a result: {why}; `mcplane bench --json {name}` writes one")]
#[non_exhaustive]
pub struct ReadError {
    /// The file.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
}

/// One result file.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) name: String,
    /// All that it says, also what this version does not know.
    pub(super) raw: Value,
    pub(super) report: Report,
}

/// Runs that belong into one chart.
pub(super) struct Group<'a> {
    pub(super) name: String,
    /// What was measured, in lines.
    pub(super) about: Vec<String>,
    pub(super) loads: Vec<Load<'a>>,
    /// Whether the loads differ in nothing but how much they ask.
    pub(super) is_ladder: bool,
}

/// The runs of one target with one load, or of one side of a comparison.
pub(super) struct Load<'a> {
    pub(super) name: String,
    pub(super) runs: Vec<&'a Run>,
}

impl Document {
    /// The document of a result that is at hand.
    #[must_use]
    pub fn of(report: &Report) -> Self {
        Self { files: vec![File::of("mcplane-bench.json", report.clone())] }
    }

    /// The document of a comparison that is at hand.
    #[must_use]
    pub fn of_contest(contest: &Contest) -> Self {
        Self { files: vec![File::of("mcplane-compare.json", contest.clone().into())] }
    }

    /// Reads results as `mcplane bench --json` and `mcplane compare --json` write them: names and
    /// texts of at most [`FILES_MAX`] files.
    ///
    /// # Errors
    /// The first file that is something else.
    pub fn read<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ReadError> {
        let files: Vec<_> = files
            .into_iter()
            .map(|(name, text)| File::read(name, text))
            .collect::<Result<_, _>>()?;
        match files.get(FILES_MAX) {
            Some(file) => Err(ReadError {
                name: file.name.clone(),
                why: format!("it is one more than {FILES_MAX} files"),
            }),
            None => Ok(Self { files }),
        }
    }

    /// Every run, with a name that tells it from the others of its file.
    pub(super) fn runs(&self) -> impl Iterator<Item = (String, &File, &Run)> {
        self.files.iter().flat_map(move |file| {
            file.report
                .runs
                .iter()
                .enumerate()
                .map(move |(at, run)| (self.name(file, at, run), file, run))
        })
    }

    fn name(&self, file: &File, at: usize, run: &Run) -> String {
        let mut name = match file.side(at) {
            Some((side, turn)) => format!("{}, run {}", side.name, turn + 1),
            None => {
                let (transport, limit) = (run.target.transport, file.report.limit());
                format!("{transport} {}, {}", run.target.revision, named(run, limit))
            }
        };
        if self.files.len() > 1 {
            name = format!("{}: {name}", file.name);
        }
        name
    }

    /// The runs as charts show them.
    pub(super) fn groups(&self) -> Vec<Group<'_>> {
        let many = self.files.len() > 1;
        let of = |file| {
            let groups = Group::of(file);
            groups.into_iter().map(move |group| match many {
                true => Group { name: format!("{}: {}", file.name, group.name), ..group },
                false => group,
            })
        };
        self.files.iter().flat_map(of).collect()
    }
}

impl File {
    fn of(name: &str, report: Report) -> Self {
        // A model of plain data always has a JSON form.
        let raw = serde_json::to_value(&report).unwrap_or_default();
        Self { name: name.to_owned(), raw, report }
    }

    fn read(name: &str, text: &str) -> Result<Self, ReadError> {
        let error = |why: String| ReadError { name: name.to_owned(), why };
        let report =
            match crate::results::File::parse(text).map_err(|wrong| error(wrong.to_string()))? {
                crate::results::File::Report(report) => *report,
                crate::results::File::Counts(_) => {
                    return Err(error("it holds counts alone".to_owned()));
                }
            };
        let raw = serde_json::from_str(text).map_err(|wrong| error(wrong.to_string()))?;
        Ok(Self { name: name.to_owned(), raw, report })
    }

    /// The side that a run is of, and its place among the runs of that side.
    fn side(&self, at: usize) -> Option<(&Side, usize)> {
        let mut before = 0_usize;
        self.report.sides().iter().find_map(|side| {
            let turn = at.checked_sub(before)?;
            before = before.saturating_add(side.runs);
            (turn < side.runs).then_some((side, turn))
        })
    }
}

impl<'a> Group<'a> {
    fn of(file: &'a File) -> Vec<Self> {
        if !file.report.sides().is_empty() {
            let mut runs = file.report.runs.iter();
            let of = |side: &Side| Load {
                name: side.name.clone(),
                runs: runs.by_ref().take(side.runs).collect(),
            };
            let loads = file.report.sides().iter().map(of).collect();
            let about = |side: &Side| {
                format!("{}: {} · {}", side.name, short(&side.target, 200), side.spoken)
            };
            let about = file.report.sides().iter().take(16).map(about).collect();
            let name = "the sides".to_owned();
            return vec![Self { name, about, loads, is_ladder: false }];
        }
        let mut groups: Vec<(_, Self)> = Vec::new();
        for run in &file.report.runs {
            let target = &run.target;
            let key = (&target.target, target.transport, &target.revision, &run.plan.tool);
            let one = Load { name: run.load(), runs: vec![run] };
            match groups.iter_mut().find(|(other, _)| *other == key) {
                Some((_, group)) => group.loads.push(one),
                None => {
                    let name = format!("{} {}", target.transport, target.revision);
                    let about = vec![about(run)];
                    groups.push((key, Self { name, about, loads: vec![one], is_ladder: true }));
                }
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }
}

impl Load<'_> {
    /// The latencies of all runs; of the floor's side with `floor`.
    pub(super) fn latencies(&self, floor: bool) -> Latencies {
        self.merged(|run| {
            let side = if floor { run.floor.as_ref()? } else { &run.results };
            Some(side.latency_histogram.as_str())
        })
    }

    /// The latencies from the actual start, of open loops.
    pub(super) fn raw_latencies(&self) -> Latencies {
        self.merged(|run| Some(run.results.open.as_ref()?.latency_raw_histogram.as_str()))
    }

    fn merged<'s>(&'s self, of: impl Fn(&'s Run) -> Option<&'s str>) -> Latencies {
        let mut all = Latencies::new();
        for run in &self.runs {
            if let Some(latencies) = of(run).and_then(Latencies::decode) {
                all.merge(&latencies);
            }
        }
        all
    }
}

/// What was called where.
fn about(run: &Run) -> String {
    let (plan, target) = (&run.plan, &run.target);
    let call = match run.results.tools.len() {
        0 => format!("{} {}", short(&plan.tool, 80), short(&plan.args.to_string(), 80)),
        kinds => format!("a mix of {kinds} kinds of calls, the first"),
    };
    format!(
        "{} · {} · {call} · {} B out, {} B result",
        short(&target.target, 200),
        target.server.as_deref().unwrap_or("unnamed server"),
        target.call_bytes,
        target.result_bytes
    )
}
