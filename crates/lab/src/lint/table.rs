//! Rows of figures in base units (seconds, per second, bytes, per cent), and what follows from them.

use super::figure::{self, Figure};
use super::finding::{COLUMNS_MAX, LintError, ROWS_MAX, SIDES_MAX};
use super::name::{Column, Dimension, Quantity, Unit, unit_of};

/// A table as it was read.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
    /// Whether a program wrote it for programs: its digits claim no precision.
    pub(super) machine: bool,
    /// Whether calls came at times of their own: the throughput is then the load, and what was in
    /// flight is a result.
    pub(super) open: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The line in the file, or the number of the entry.
    pub(super) line: usize,
    pub(super) label: String,
    pub(super) cells: Vec<Cell>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    pub(super) text: String,
    /// In base units; of a unit that is not stated, as printed.
    pub(super) figure: Option<Figure>,
    /// Whether the unit is stated, or the quantity needs none.
    pub(super) stated: bool,
}

impl Table {
    pub(super) fn new(
        name: &str,
        header: &[String],
        rows: Vec<(usize, Vec<String>)>,
    ) -> Result<Self, LintError> {
        if header.len() > COLUMNS_MAX || rows.len() > ROWS_MAX {
            return Err(LintError::TooLarge);
        }
        let columns = columns(header);
        let units = columns
            .iter()
            .position(|column| matches!(column.name.to_lowercase().as_str(), "unit" | "units"));
        let rows = rows.into_iter().map(|(line, texts)| {
            let unit = units.and_then(|at| texts.get(at)).and_then(|text| unit_word(text));
            let cells =
                columns.iter().zip(texts.into_iter().chain(std::iter::repeat(String::new())));
            let cells = cells.map(|(column, text)| Cell::new(column, text, unit)).collect();
            Row { line, label: String::new(), cells }
        });
        let rows = rows.collect();
        let mut table = Self { name: name.to_owned(), rows, columns, machine: false, open: false };
        if table.sides().len() > SIDES_MAX {
            return Err(LintError::TooLarge);
        }
        table.label();
        Ok(table)
    }

    /// Names each row by its best text, and by its load where the text repeats.
    fn label(&mut self) {
        const NAMES: &[&str] = &[
            "name",
            "id",
            "label",
            "workload",
            "scenario",
            "case",
            "impl",
            "tool",
            "operation",
            "transport",
            "bench",
            "run",
            "claim",
            "target",
        ];
        let is_text = |at: &usize| {
            self.rows
                .iter()
                .filter_map(|row| row.cells.get(*at))
                .any(|cell| cell.figure.is_none() && cell.text.chars().any(char::is_alphabetic))
        };
        let texts: Vec<_> = (0..self.columns.len()).filter(is_text).collect();
        let named = NAMES.iter().find_map(|name| {
            let is = |at: &&usize| {
                self.columns.get(**at).is_some_and(|column| {
                    super::name::words(&column.name).iter().any(|word| word == name)
                })
            };
            texts.iter().find(is)
        });
        let Some(&at) = named.or_else(|| texts.first()) else { return };
        let load = self.columns.iter().position(|c| c.quantity == Quantity::InFlight);
        let mut seen = std::collections::HashMap::<String, usize>::new();
        for row in &mut self.rows {
            row.label = row.cells.get(at).map(|cell| cell.text.clone()).unwrap_or_default();
            *seen.entry(row.label.clone()).or_default() += 1;
        }
        for row in &mut self.rows {
            let repeated = seen.get(&row.label).is_some_and(|count| *count > 1);
            if let Some(cell) = load.filter(|_| repeated).and_then(|at| row.cells.get(at)) {
                row.label = format!("{}, {} in flight", row.label, cell.text);
            }
        }
    }

    /// Figures with a meaning.
    pub(super) fn understood(&self) -> usize {
        let known = |(column, cell): &(&Column, &Cell)| {
            cell.figure.is_some() && column.quantity != Quantity::Other
        };
        self.rows.iter().map(|row| self.cells(row).filter(known).count()).sum()
    }

    pub(super) fn cells<'a>(
        &'a self,
        row: &'a Row,
    ) -> impl Iterator<Item = (&'a Column, &'a Cell)> {
        self.columns.iter().zip(&row.cells)
    }

    pub(super) fn has(&self, is: impl Fn(Quantity) -> bool) -> bool {
        self.columns.iter().any(|column| is(column.quantity))
    }

    /// Whose figures a row holds: one unnamed side, or several as in `p50_1_ms`, `p50_4_ms`.
    pub(super) fn sides(&self) -> Vec<&str> {
        let mut sides: Vec<_> = self
            .columns
            .iter()
            .filter(|column| column.quantity.is_measured() && !column.side.is_empty())
            .map(|column| column.side.as_str())
            .collect();
        sides.sort_unstable();
        sides.dedup();
        if sides.is_empty() {
            sides.push("");
        }
        sides
    }

    /// Every side of every row.
    pub(super) fn all(&self) -> impl Iterator<Item = Side<'_>> {
        let sides = self.sides();
        self.rows.iter().flat_map(move |row| {
            let sides = sides.clone();
            sides.into_iter().map(move |name| Side { table: self, row, name })
        })
    }
}

impl Cell {
    fn new(column: &Column, text: String, of_row: Option<Unit>) -> Self {
        let Some((figure, own)) = figure::read(&text) else {
            return Self { text, ..Self::default() };
        };
        let wanted = match column.quantity {
            Quantity::Duration | Quantity::Stddev => Some(Dimension::Time),
            quantity if quantity.is_latency() => Some(Dimension::Time),
            Quantity::Throughput => Some(Dimension::Rate),
            Quantity::Memory => Some(Dimension::Bytes),
            Quantity::SuccessRate | Quantity::HitRate | Quantity::Share | Quantity::Improvement => {
                Some(Dimension::Percent)
            }
            Quantity::Value => of_row.or(own).map(|unit| unit.dimension),
            _ => None,
        };
        let fits = |unit: &Unit| Some(unit.dimension) == wanted;
        let unit =
            own.filter(fits).or_else(|| column.unit.filter(fits)).or_else(|| of_row.filter(fits));
        let (scale, stated) = match (unit, wanted) {
            (Some(unit), _) => (unit.scale, true),
            // A share of 0.8 is 80 %.
            (None, Some(Dimension::Percent)) if figure.value <= 1.0 => (100.0, true),
            (None, Some(Dimension::Percent)) => (1.0, true),
            (None, wanted) => (1.0, wanted.is_none() && column.quantity != Quantity::Value),
        };
        let figure = figure.scaled(scale);
        // Whole numbers of what is counted are not rounded.
        let whole = column.quantity.is_count() && (figure.step - 1.0).abs() < 1e-9;
        let exact = Figure { step: figure.step, ..Figure::exact(figure.value) };
        let figure = Some(if whole { exact } else { figure });
        Self { text, figure, stated }
    }
}

/// The columns by name. A setting or a count belongs to a side that measured columns have too:
/// `errors_4` to that of `p50_4_ms`.
fn columns(header: &[String]) -> Vec<Column> {
    let mut columns: Vec<_> = header.iter().map(|name| Column::new(name)).collect();
    let measured = columns.iter().filter(|column| column.quantity.is_measured());
    let sides: Vec<_> = measured.map(|column| column.side.clone()).collect();
    for column in columns.iter_mut().filter(|column| !column.quantity.is_measured()) {
        if !sides.contains(&column.side) {
            column.side.clear();
        }
    }
    columns
}

fn unit_word(text: &str) -> Option<Unit> {
    unit_of(&text.trim().to_lowercase().replace(['µ', 'μ'], "u"))
}

/// One figure of every row, with the calls in flight (0 where they are not told): by load, then by
/// the figure.
pub(super) fn by_load<'a>(
    table: &'a Table,
    name: &'a str,
    figure: impl Fn(&Side<'a>) -> Option<f64>,
) -> Vec<(f64, f64, &'a Row)> {
    let of = |row| {
        let side = Side { table, row, name };
        let load = side.in_flight().map_or(0.0, |(load, _)| load.value);
        Some((load, figure(&side)?, row))
    };
    let mut rows: Vec<_> = table.rows.iter().filter_map(of).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    rows
}

/// The figures of one row that belong together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side<'a> {
    pub(super) table: &'a Table,
    pub(super) row: &'a Row,
    pub(super) name: &'a str,
}

impl<'a> Side<'a> {
    pub(super) fn cell(&self, quantity: Quantity) -> Option<&'a Cell> {
        let of = |side: &str| {
            let is = |(column, cell): &(&Column, &Cell)| {
                column.quantity == quantity && column.side == side && cell.figure.is_some()
            };
            self.table.cells(self.row).find(is).map(|(_, cell)| cell)
        };
        of(self.name).or_else(|| of(""))
    }

    /// A figure whose unit is stated.
    pub(super) fn one(&self, quantity: Quantity) -> Option<Figure> {
        self.cell(quantity).filter(|cell| cell.stated).and_then(|cell| cell.figure)
    }

    /// Percentiles in rising order of their share, whether or not their unit is stated.
    pub(super) fn percentiles(&self) -> Vec<(f64, Figure)> {
        let mut shares: Vec<_> = self
            .table
            .columns
            .iter()
            .filter(|column| column.side == self.name || column.side.is_empty())
            .filter_map(|column| match column.quantity {
                Quantity::Percentile(share) => Some(share),
                _ => None,
            })
            .collect();
        shares.sort_by(f64::total_cmp);
        shares.dedup();
        let figure = |share| Some((share, self.cell(Quantity::Percentile(share))?.figure?));
        shares.into_iter().filter_map(figure).collect()
    }

    /// Whether every latency states its unit.
    pub(super) fn is_stated(&self) -> bool {
        self.table.cells(self.row).all(|(column, cell)| {
            !column.quantity.is_latency() || cell.figure.is_none() || cell.stated
        })
    }

    /// Calls in flight, and whether the name leaves no doubt that each has one call.
    pub(super) fn in_flight(&self) -> Option<(Figure, bool)> {
        let firm = self.one(Quantity::InFlight).map(|figure| (figure, true));
        firm.or_else(|| self.one(Quantity::Clients).map(|figure| (figure, false)))
            .filter(|(figure, _)| figure.value > 0.0)
    }

    /// How many latencies were measured.
    pub(super) fn samples(&self) -> Option<f64> {
        [Quantity::Samples, Quantity::Ok, Quantity::Received, Quantity::Sent]
            .into_iter()
            .find_map(|quantity| self.one(quantity))
            .map(|figure| figure.value)
            .filter(|n| *n >= 1.0)
    }

    pub(super) fn wall(&self) -> Option<f64> {
        let told = self.one(Quantity::Duration).map(|figure| figure.value);
        told.or_else(|| {
            Some(self.samples()? / self.one(Quantity::Throughput)?.low.max(f64::MIN_POSITIVE))
        })
    }

    pub(super) fn errors(&self) -> f64 {
        self.one(Quantity::Errors).map_or(0.0, |figure| figure.value)
    }

    /// The bounds of the mean, unless a unit is missing or there is no percentile.
    pub(super) fn mean_bounds(&self) -> Option<MeanBounds> {
        let points = self.percentiles();
        let last = points.last()?;
        if !self.is_stated() {
            return None;
        }
        // A percentile is exact to one rank; without a count there are at least as many samples as
        // the highest percentile needs to differ from the greatest.
        let slack = self.samples().map_or(1.0 - last.0, |n| 1.0 / n);
        let (mut low, mut body) = (0.0, 0.0);
        let least = self.one(Quantity::Min).map_or(0.0, |min| min.low.max(0.0));
        let (mut below, mut before, mut value) = (0.0_f64, 0.0_f64, least);
        for (share, figure) in &points {
            let (up, down) = ((share + slack).min(1.0), (share - slack).max(0.0));
            low += (up - below) * value;
            body += (down - before).max(0.0) * figure.high;
            (below, before, value) = (up, down, figure.low);
        }
        low += (1.0 - below) * value;
        let (tail, max) = (1.0 - before, self.one(Quantity::Max));
        if let (Some(max), Some(n)) = (max, self.samples()) {
            low += (1.0 - below).min(1.0 / n) * (max.low - value).max(0.0);
        }
        let high = max.map(|max| body + tail * max.high);
        Some(MeanBounds { low, body, tail, high, top: last.1.value })
    }
}

/// What percentiles say about the mean, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeanBounds {
    /// The mean is at least this.
    pub(super) low: f64,
    /// All but the slowest add at most this to it.
    pub(super) body: f64,
    /// The share of the slowest.
    pub(super) tail: f64,
    /// The mean is at most this, where the greatest is known.
    pub(super) high: Option<f64>,
    /// The highest percentile.
    pub(super) top: f64,
}
