//! The rules. Each is a function of one table; none knows whose table it is.
//!
//! * `percentile` — order, ties, sample minima, the clock
//! * `mean`       — bounds of the mean, mean beside median
//! * `load`       — Little's law, bursts, ladders, generators
//! * `mixture`    — the whole lies between its parts
//! * `wait`       — the wait that a row names beside its figures
//! * `count`      — sent and received, rates and totals, shares
//! * `ratio`      — ratios and what they are said to be ratios of
//! * `unit`       — units that are missing or cannot be
//! * `whole`      — copied rows, digits, repetitions
//! * `found`      — every rule by its id, and what it puts down
//! * `show`       — figures as text

mod count;
mod found;
mod load;
mod mean;
mod mixture;
mod percentile;
mod ratio;
mod show;
mod unit;
mod wait;
mod whole;

pub use found::RULES;

use self::found::Found;
use super::table::Table;

/// What every rule finds in the table.
pub(super) fn apply(table: &Table, found: &mut Found) {
    percentile::apply(table, found);
    mean::apply(table, found);
    load::apply(table, found);
    mixture::apply(table, found);
    wait::apply(table, found);
    count::apply(table, found);
    ratio::apply(table, found);
    unit::apply(table, found);
    whole::apply(table, found);
}
