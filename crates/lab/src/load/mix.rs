//! Calls of several kinds on one session: which comes next, with which arguments, and what its
//! right answer is.

use std::collections::HashMap;

use bytes::Bytes;
use mcplane_proto::{Id, Message};

use super::expect::Expect;
use super::template::{Source, mark};
use crate::client::Call;
use crate::results::Checking;
use crate::stats::Rng;

/// One kind of call that was tried and works.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) tool: String,
    pub(crate) weight: f64,
    /// The params of the call, marks in place of values.
    pub(crate) params: Vec<u8>,
    pub(crate) sources: Vec<Source>,
    pub(crate) expect: Expect,
    /// How its results are compared: `equal`, `stamped`, `varies` or `off`.
    pub(crate) check: Checking,
}

/// The kinds of one session, and which of them is in flight under which id.
pub(crate) struct Mix {
    kinds: Vec<(Call, Expect, Vec<Hole>)>,
    /// The share of each kind and all before it.
    shares: Vec<f64>,
    random: Rng,
    out: HashMap<i64, usize>,
}

/// A place in a call after its id.
struct Hole {
    at: usize,
    len: usize,
    source: Source,
}

impl Mix {
    /// The mix of a session; `render` makes a call of a tool and its params.
    pub(crate) fn new(kinds: &[Kind], seed: u64, render: impl Fn(&str, &[u8]) -> Call) -> Self {
        let total: f64 = kinds.iter().map(|kind| kind.weight).sum();
        let mut sum = 0.0;
        let share = |kind: &Kind| {
            sum += kind.weight / total;
            sum
        };
        let shares = kinds.iter().map(share).collect();
        let made = |kind: &Kind| {
            // A number goes wherever its place is, whether it comes back or not.
            let call = render(&kind.tool, &kind.params).stamped();
            let mut holes: Vec<Hole> = kind
                .sources
                .iter()
                .enumerate()
                .filter_map(|(index, source)| {
                    let mark = mark(index);
                    let at = memchr::memmem::find(call.tail(), mark.as_bytes())?;
                    Some(Hole { at, len: mark.len(), source: source.clone() })
                })
                .collect();
            holes.sort_by_key(|hole| hole.at);
            (call, kind.expect.clone(), holes)
        };
        let kinds = kinds.iter().map(made).collect();
        Self { kinds, shares, random: Rng::new(seed), out: HashMap::new() }
    }

    /// The call that begins now under this id, and its kind.
    pub(crate) fn begin(&mut self, id: i64) -> Option<(usize, Call)> {
        let at = self.random.unit();
        let index = self.shares.partition_point(|share| *share <= at).min(self.kinds.len() - 1);
        let (call, _, holes) = self.kinds.get(index)?;
        let random = &mut self.random;
        let fills = holes.iter().map(|hole| (hole.at, hole.len, hole.source.draw(random)));
        let call = call.filled(fills);
        self.out.insert(id, index);
        Some((index, call))
    }

    /// The call with this id is over; returns its kind.
    pub(crate) fn end(&mut self, id: i64) -> Option<usize> {
        self.out.remove(&id)
    }

    /// All calls are over; returns their kinds.
    pub(crate) fn end_all(&mut self) -> impl Iterator<Item = usize> {
        std::mem::take(&mut self.out).into_values()
    }

    /// What the answer with this text is held against.
    pub(crate) fn expect(&self, answer: &Bytes) -> Option<&Expect> {
        let message = Message::scan(answer.clone()).ok()?;
        let Some(Id::Integer(id)) = message.id() else { return None };
        self.kinds.get(*self.out.get(&id)?).map(|(_, expect, _)| expect)
    }
}
