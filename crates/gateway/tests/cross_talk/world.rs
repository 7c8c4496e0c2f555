//! What upstreams saw, and what went wrong.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use crate::plan::Dice;

/// Shared by everybody in one schedule.
#[derive(Default)]
pub(crate) struct World(Mutex<State>);

#[derive(Default)]
struct State {
    wrongs: Vec<String>,
    traces: HashMap<String, Trace>,
    /// The connections that the gateway holds, and what to abort to cut them.
    lives: BTreeMap<u64, Option<AbortHandle>>,
    killed: BTreeSet<u64>,
    last_life: u64,
    held: Option<u64>,
    /// Until when a connection neither reads nor writes.
    frozen: BTreeMap<u64, Instant>,
    /// How long upstreams pause in the middle of each line that they write.
    pause: Option<Duration>,
    lives_most: usize,
    counts: BTreeMap<&'static str, u64>,
    /// Where each call went, in order.
    path: Vec<(u64, String)>,
    /// What each connection was told that clients want to hear of.
    told: Vec<(u64, String)>,
}

/// What upstreams saw of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    pub(crate) began: Vec<Instant>,
    pub(crate) cancelled: Vec<Instant>,
    pub(crate) ended: Vec<Instant>,
    pub(crate) life: u64,
    /// With which states it was resumed, and whether it was with one of them twice.
    pub(crate) states: BTreeSet<String>,
    pub(crate) is_repeated: bool,
}

impl World {
    /// Something happened that must not.
    pub(crate) fn wrong(&self, what: impl Into<String>) {
        self.state().wrongs.push(what.into());
    }

    pub(crate) fn wrongs(&self) -> Vec<String> {
        self.state().wrongs.clone()
    }

    pub(crate) fn count(&self, what: &'static str) {
        *self.state().counts.entry(what).or_default() += 1;
    }

    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.state().counts.clone()
    }

    pub(crate) fn note(&self, tag: &str, note: impl FnOnce(&mut Trace)) {
        note(self.state().traces.entry(tag.to_owned()).or_default());
    }

    pub(crate) fn began(&self, tag: &str, life: u64) {
        self.state().path.push((life, tag.to_owned()));
        self.note(tag, |trace| {
            trace.began.push(Instant::now());
            trace.life = life;
        });
    }

    /// Where calls went, in order: the connection, and the tag.
    pub(crate) fn path(&self) -> Vec<(u64, String)> {
        self.state().path.clone()
    }

    /// A connection is told that clients want to hear of something.
    pub(crate) fn told(&self, life: u64, params: &serde_json::Value) {
        let what = params.get("uri").or_else(|| params.get("level")).unwrap().as_str().unwrap();
        self.state().told.push((life, what.to_owned()));
    }

    /// What a connection was told, in order of the words.
    pub(crate) fn wants(&self, life: u64) -> Vec<String> {
        let state = self.state();
        let mut all: Vec<_> =
            state.told.iter().filter(|(to, _)| *to == life).map(|(_, what)| what.clone()).collect();
        all.sort();
        all
    }

    pub(crate) fn trace(&self, tag: &str) -> Trace {
        self.state().traces.get(tag).cloned().unwrap_or_default()
    }

    pub(crate) fn open(self: &Arc<Self>) -> Life {
        let mut state = self.state();
        state.last_life += 1;
        let number = state.last_life;
        state.lives.insert(number, None);
        state.lives_most = state.lives_most.max(state.lives.len());
        Life { world: Arc::clone(self), number }
    }

    pub(crate) fn runs(&self, life: u64, task: AbortHandle) {
        if let Some(place) = self.state().lives.get_mut(&life) {
            *place = Some(task);
        }
    }

    /// Most connections to workers that there were at once.
    pub(crate) fn lives_most(&self) -> usize {
        self.state().lives_most
    }

    pub(crate) fn lives(&self) -> usize {
        self.state().lives.len()
    }

    pub(crate) fn opened(&self) -> u64 {
        self.state().last_life
    }

    /// Whether a connection was cut, or closed by the gateway.
    pub(crate) fn has_ended(&self, life: u64) -> bool {
        let state = self.state();
        state.killed.contains(&life) || !state.lives.contains_key(&life)
    }

    /// The next connection will say nothing.
    pub(crate) fn hold_next(&self) {
        let mut state = self.state();
        state.held = Some(state.last_life + 1);
    }

    pub(crate) fn is_held(&self, life: u64) -> bool {
        self.state().held == Some(life)
    }

    /// From now on upstreams pause for so long in the middle of each line that they write.
    pub(crate) fn pauses(&self, pause: Option<Duration>) {
        self.state().pause = pause;
    }

    pub(crate) fn pause(&self) -> Option<Duration> {
        self.state().pause
    }

    /// Cuts this connection, as if its process had been killed.
    pub(crate) fn kill(&self, life: u64) {
        let task = self.state().lives.get(&life).cloned().flatten();
        self.state().killed.insert(life);
        // The gateway may have let it go a moment ago.
        task.inspect(AbortHandle::abort);
    }

    /// Has one connection neither read nor write for a while, as if its process had been stopped: what
    /// is sent to it fills the pipe.
    pub(crate) fn freeze_one(&self, dice: &mut Dice, time: Duration) {
        self.count("freezes");
        let mut state = self.state();
        let alive: Vec<_> = state.lives.keys().copied().collect();
        if !alive.is_empty() {
            let life = alive[usize::try_from(dice.below(alive.len() as u64)).unwrap()];
            state.frozen.insert(life, Instant::now() + time);
        }
    }

    /// Waits as long as a connection is frozen.
    pub(crate) async fn thaw(&self, life: u64) {
        loop {
            let until = self.state().frozen.get(&life).copied();
            match until.filter(|until| *until > Instant::now()) {
                Some(until) => sleep_until(until).await,
                None => return,
            }
        }
    }

    /// Cuts one connection, as if its process had been killed.
    pub(crate) fn kill_one(&self, dice: &mut Dice) {
        let mut state = self.state();
        let alive = state.lives.iter().filter(|(life, _)| !state.killed.contains(life));
        let alive: Vec<_> = alive.map(|(life, task)| (*life, task.clone())).collect();
        if alive.is_empty() {
            return;
        }
        let (life, task) = &alive[usize::try_from(dice.below(alive.len() as u64)).unwrap()];
        state.killed.insert(*life);
        drop(state);
        self.count("kills");
        if let Some(task) = task {
            task.abort();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

/// A connection to a worker, as long as the gateway holds it.
pub(crate) struct Life {
    world: Arc<World>,
    pub(crate) number: u64,
}

impl Drop for Life {
    fn drop(&mut self) {
        self.world.state().lives.remove(&self.number);
    }
}
