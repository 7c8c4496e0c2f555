//! What the upstreams offer, merged; which server answers to which name; which servers cover a need.
//!
//! Data and pure functions; only `store` touches the disk.
//!
//! # Layout, in reading order
//!
//! * `offer` — one upstream's lists, page by page, entries kept byte for byte.
//! * `clean` — the few changes that are made to such bytes.
//! * `names` — filters, renames, and the names under which clients see things.
//! * `snapshot` — the merged catalog: name → `Route`, URI → `Route`, what changed.
//! * `addresses` — which server a URI leads to.
//! * `pages` — the answers to the list methods, rendered once per revision, and our cursors.
//! * `features` — merged capabilities and instructions.
//! * `need`, `version`, `negotiate` — ranking servers against what a client needs.
//! * `store` — the last good offers on disk.

mod addresses;
mod clean;
pub mod features;
pub mod names;
pub mod need;
pub mod negotiate;
pub mod offer;
pub mod pages;
pub mod snapshot;
pub mod store;
#[cfg(test)]
mod tests;
pub mod version;

pub use features::Features;
pub use names::{Naming, Prefix, Rules, ServerNaming};
pub use need::{Candidate, Health, Need, NeedError};
pub use negotiate::{Outcome, Verdict, negotiate};
pub use offer::{Asking, Entry, Kind, Offer};
pub use snapshot::{Changes, Route, Server, Shadowed, Snapshot};
pub use store::{Loaded, Store};

/// FNV-1a, 64 bits: short, and the same on every machine and in every release, which names and
/// file names need. No defence against crafted collisions, and nothing here needs one.
#[derive(Clone, Copy, Debug)]
struct Fingerprint(u64);

impl Fingerprint {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds a field. Its end counts too, so that `ab`,`c` is not `a`,`bc`.
    fn add(&mut self, field: &[u8]) {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let mut hash = self.0;
        for &byte in field {
            hash = step(hash, byte);
        }
        self.0 = step(hash, 0xff);
    }

    fn of(fields: &[&str]) -> u64 {
        let mut all = Self::new();
        fields.iter().for_each(|field| all.add(field.as_bytes()));
        all.0
    }
}
