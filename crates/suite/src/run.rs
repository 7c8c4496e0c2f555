//! Choosing workloads, and running them one after another.

use std::time::Instant;

use mcplane_lab::spec::TargetSpec;
use mcplane_lab::{BuiltIn, Control, Environment};

use crate::entry::{Entry, Form, Found, Stand, Verdict};
use crate::record::{Entered, Record};

/// What is to be run.
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller builds")]
pub struct Asked<'a> {
    /// The workloads, in this order.
    pub entries: Vec<Entry>,
    /// How much time each takes.
    pub form: Form,
    /// Somebody else's server, for those that take one.
    pub target: Option<TargetSpec>,
    /// This program.
    pub me: &'a std::path::Path,
    /// The fixture and the floor.
    pub built_in: &'a BuiltIn<'a>,
}

/// One workload, as soon as it has ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ended<'a> {
    /// What goes into the record.
    pub entered: &'a Entered,
    /// What it found.
    pub found: &'a Found,
    /// Its place in the run, from 1, and of how many.
    pub place: (usize, usize),
}

/// An id that no workload and no module has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownId {
    /// The id.
    pub id: String,
    /// The nearest ones.
    pub near: Vec<&'static str>,
}

impl std::fmt::Display for UnknownId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is neither a workload nor a module; ", self.id)?;
        match self.near.as_slice() {
            [] => f.write_str("`mcplane suite list` shows all"),
            near => write!(f, "near it: {}", near.join(", ")),
        }
    }
}

impl std::error::Error for UnknownId {}

/// The workloads of these ids, or of the modules so named, each once and in the order of a run.
///
/// # Errors
/// The first that is neither.
pub fn choose(ids: &[String]) -> Result<Vec<Entry>, UnknownId> {
    let all = crate::entries();
    let fits = |entry: &Entry, id: &str| entry.id == id || entry.module.as_str() == id;
    for id in ids {
        if !all.iter().any(|entry| fits(entry, id)) {
            let is_near = |known: &&str| known.contains(id.as_str()) || id.contains(*known);
            let mut near: Vec<_> = all.iter().map(|entry| entry.id).filter(is_near).collect();
            near.truncate(5);
            return Err(UnknownId { id: id.clone(), near });
        }
    }
    Ok(all.into_iter().filter(|entry| ids.iter().any(|id| fits(entry, id))).collect())
}

/// Runs them. `each` hears of every one that has ended; `Err` from it ends the run.
///
/// # Errors
/// What `each` gave.
pub fn run<E>(
    asked: &Asked<'_>,
    control: &std::sync::Arc<Control>,
    mut each: impl FnMut(Ended<'_>) -> Result<(), E>,
) -> Result<Record, E> {
    let mut record = Record::new(Environment::look(), asked.form);
    let began = Instant::now();
    let of = asked.entries.len();
    for (at, entry) in asked.entries.iter().enumerate() {
        control.show(format!("{}/{of} {}", at + 1, entry.id));
        let Asked { form, me, built_in, .. } = *asked;
        let target = asked.target.as_ref().filter(|_| entry.takes_target);
        let stand = Stand { id: entry.id, form, me, built_in, target, control };
        let since = Instant::now();
        let mut found = (entry.run)(&stand).unwrap_or_else(Found::fail);
        if control.is_stopped() {
            found.verdict = Verdict::Fail("stopped by the user".to_owned());
        }
        let entered = Entered::of(entry, &found, since.elapsed());
        each(Ended { entered: &entered, found: &found, place: (at + 1, of) })?;
        record.entries.push(entered);
        if control.is_stopped() {
            break;
        }
    }
    record.seconds = began.elapsed().as_secs_f64();
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_modules_are_chosen_once_and_in_order() {
        let ids = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            choose(&names).map(|all| all.into_iter().map(|entry| entry.id).collect::<Vec<_>>())
        };
        let chosen = ids(&["stress_30s", "calls", "server_pool_stdio"]).unwrap();
        assert_eq!(
            chosen,
            [
                "server_inline_stdio",
                "server_pool_stdio",
                "server_inline_http",
                "compare_stdio_echo",
                "session_fanout",
                "stress_30s"
            ]
        );
        let unknown = ids(&["calls", "pool_stdio"]).unwrap_err();
        assert_eq!(
            (unknown.id.as_str(), &*unknown.near),
            ("pool_stdio", &["server_pool_stdio"][..])
        );
    }
}
