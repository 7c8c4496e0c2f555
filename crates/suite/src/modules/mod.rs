//! The workloads, a file for each module.

mod calls;
pub(crate) mod chaos;
mod core_ops;
mod fanout;
mod measured;
mod serde;
mod stress;
mod transports;

use crate::entry::Entry;

/// Every workload, in the order of a run.
#[must_use]
pub fn entries() -> Vec<Entry> {
    let mut all =
        [core_ops::ENTRIES, serde::ENTRIES, calls::ENTRIES, fanout::ENTRIES, transports::ENTRIES]
            .concat();
    all.extend(chaos::entries());
    all.extend(stress::ENTRIES);
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::entry::{Form, Module};

    #[test]
    fn every_id_is_one_word_and_its_own() {
        let all = entries();
        let ids: BTreeSet<_> = all.iter().map(|entry| entry.id).collect();
        assert_eq!(ids.len(), all.len());
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.-".contains(c);
        assert!(ids.iter().all(|id| id.chars().all(fits)), "{ids:?}");
        let names = Module::ALL.map(Module::as_str);
        let words = Form::ALL.map(Form::as_str);
        assert!(names.iter().chain(&words).all(|name| !ids.contains(name)), "an id is a module's");
    }
}
