//! What the calls of an upstream are known to do: which of them ask. It is learned from calls that went
//! well and questions that came, and kept for the next run.

use std::collections::HashMap;

use mcplane::proto::method::Method;

use crate::catalog::Asking;

/// Calls in a row without a question, after which what never asked is taken not to.
const SILENT_AFTER: u8 = 2;

/// The same of what has asked: it may do so only now and then.
const SILENT_AGAIN_AFTER: u8 = 16;

/// Most tools and prompts of one upstream that are remembered; the others may ask.
const NAMES_MAX: usize = 4096;

/// The longest name that is remembered, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// What is called: the method, and what its tool or prompt is called by the upstream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name(Method, String);

impl Name {
    /// `None` if it is too long.
    pub(super) fn new(method: Method, name: String) -> Option<Self> {
        // Any URI may be read: what one of them asks, all may.
        let name = if method == Method::ResourcesRead { String::new() } else { name };
        (name.len() <= NAME_BYTES_MAX).then_some(Self(method, name))
    }

    fn kept(&self) -> String {
        format!("{} {}", self.0.as_str(), self.1)
    }

    fn read(kept: &str) -> Option<Self> {
        let (method, name) = kept.split_once(' ')?;
        Self::new(Method::parse(method)?, name.to_owned())
    }
}

/// What calls of one name do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Habit {
    /// The settings say that it asks.
    is_said: bool,
    has_asked: bool,
    /// Calls in a row that went well and did not ask.
    quiet: u8,
}

impl Habit {
    /// Of what cannot ask.
    pub(super) const SILENT: Self = Self { is_said: false, has_asked: false, quiet: u8::MAX };

    /// Whether it may ask, as far as is known.
    pub(super) const fn may_ask(self) -> bool {
        let after = if self.has_asked { SILENT_AGAIN_AFTER } else { SILENT_AFTER };
        self.is_said || self.quiet < after
    }

    /// Whether it is known to ask, now and then at least.
    pub(super) const fn asks(self) -> bool {
        self.is_said || self.has_asked
    }
}

/// The habits of the calls of one upstream.
#[derive(Default)]
pub(super) struct Habits(HashMap<Name, Habit>);

impl Habits {
    /// `said` are the tools of which the settings say that they ask.
    pub(super) fn new(said: &[String]) -> Self {
        let habit = Habit { is_said: true, ..Habit::default() };
        Self(said.iter().map(|tool| (Name(Method::ToolsCall, tool.clone()), habit)).collect())
    }

    /// Whether none is known to ask.
    pub(super) fn nothing_asks(&self) -> bool {
        !self.0.values().any(|habit| habit.asks())
    }

    pub(super) fn of(&self, name: &Name) -> Habit {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// A call went well without a question. Whether it may ask no more, and might have before.
    pub(super) fn went_well(&mut self, name: Name) -> bool {
        self.learn(name, |habit| habit.quiet = habit.quiet.saturating_add(1))
    }

    /// A question came; `is_certain` if it can have been no other call's. Whether it may ask, and was
    /// taken not to before.
    pub(super) fn asked(&mut self, name: Name, is_certain: bool) -> bool {
        self.learn(name, |habit| {
            habit.has_asked |= is_certain;
            habit.quiet = 0;
        })
    }

    fn learn(&mut self, name: Name, change: impl Fn(&mut Habit)) -> bool {
        if self.0.len() >= NAMES_MAX && !self.0.contains_key(&name) {
            return false;
        }
        let habit = self.0.entry(name).or_default();
        let before = habit.may_ask();
        change(habit);
        before != habit.may_ask()
    }

    /// What is to be remembered: the names of what has asked, and of what does not.
    pub(super) fn learned(&self) -> Asking {
        let mut asking = Asking::default();
        for (name, habit) in &self.0 {
            match habit {
                Habit { has_asked: true, .. } => asking.asks.push(name.kept()),
                habit if !habit.may_ask() => asking.silent.push(name.kept()),
                _ => {}
            }
        }
        asking.asks.sort_unstable();
        asking.silent.sort_unstable();
        asking
    }

    /// What an earlier run has learned.
    pub(super) fn remember(&mut self, asking: &Asking) {
        let asks = asking.asks.iter().filter_map(|kept| Name::read(kept)).map(|name| (name, true));
        let silent =
            asking.silent.iter().filter_map(|kept| Name::read(kept)).map(|name| (name, false));
        for (name, has_asked) in asks.chain(silent).take(NAMES_MAX) {
            let habit = self.0.entry(name).or_default();
            habit.has_asked = has_asked;
            habit.quiet = if has_asked { 0 } else { SILENT_AFTER };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::tests::dice::Dice;

    fn tool(name: &str) -> Name {
        Name::new(Method::ToolsCall, name.into()).unwrap()
    }

    #[test]
    fn what_does_not_ask_is_found_out_and_so_is_what_asks() {
        let mut habits = Habits::new(&["said".into()]);
        assert!(habits.of(&tool("a")).may_ask() && !habits.of(&tool("a")).asks());
        assert!(!habits.went_well(tool("a")), "once is not enough");
        assert!(habits.went_well(tool("a")));
        assert!(!habits.of(&tool("a")).may_ask());
        // It might have been another one that asked.
        assert!(habits.asked(tool("a"), false));
        assert!(habits.of(&tool("a")).may_ask() && !habits.of(&tool("a")).asks());
        assert!(!habits.asked(tool("a"), true), "that it may is known");
        assert!(habits.of(&tool("a")).asks());
        let told = (0..20).map(|_| habits.went_well(tool("a"))).collect::<Vec<_>>();
        assert_eq!(told.iter().position(|told| *told), Some(15));
        for _ in 0..300 {
            assert!(!habits.went_well(tool("said")));
        }
        assert!(habits.of(&tool("said")).may_ask() && habits.of(&tool("said")).asks());
    }

    #[test]
    fn all_resources_are_one_and_long_names_none() {
        let of = |uri: &str| Name::new(Method::ResourcesRead, uri.into());
        assert_eq!(of("x:1"), of(&"x".repeat(300)));
        assert_eq!(Name::new(Method::ToolsCall, "x".repeat(257)), None);
    }

    #[test]
    fn so_many_names_are_remembered_and_the_others_may_ask() {
        let mut habits = Habits::default();
        for _ in 0..2 {
            for number in 0..=NAMES_MAX {
                habits.went_well(tool(&number.to_string()));
            }
        }
        assert!(!habits.of(&tool("0")).may_ask());
        assert!(habits.of(&tool(&NAMES_MAX.to_string())).may_ask());
        assert_eq!(habits.learned().silent.len(), NAMES_MAX);
    }

    /// Calls that go well and ask, in seeded schedules: what is taken not to ask has gone well often
    /// enough since it did, news are told as such, and the next run knows the same.
    #[test]
    fn what_is_learned_follows_from_what_happened() {
        for seed in 0..500_u64 {
            let mut dice = Dice(seed);
            let names = ["a", "b", "c"].map(tool);
            let mut habits = Habits::default();
            let mut quiet = [(false, 0_u32); 3];
            for _ in 0..200 {
                let at = dice.index(3);
                let name = names[at].clone();
                let before = habits.of(&name).may_ask();
                let is_news = if dice.below(12) == 0 {
                    let is_certain = dice.coin();
                    quiet[at] = (quiet[at].0 || is_certain, 0);
                    habits.asked(name, is_certain)
                } else {
                    quiet[at].1 += 1;
                    habits.went_well(name)
                };
                let habit = habits.of(&names[at]);
                let (has_asked, quiet) = quiet[at];
                let after = if has_asked { 16 } else { 2 };
                assert_eq!((habit.may_ask(), habit.asks()), (quiet < after, has_asked), "{seed}");
                assert_eq!(is_news, before != habit.may_ask(), "{seed}");
            }
            let (mut next, learned) = (Habits::default(), habits.learned());
            next.remember(&learned);
            assert_eq!(next.learned(), learned);
            assert_eq!(next.nothing_asks(), learned.asks.is_empty());
            for name in &names {
                let (here, there) = (habits.of(name), next.of(name));
                assert_eq!(here.asks(), there.asks(), "{seed}");
                assert!(there.may_ask() || !here.may_ask(), "{seed}: it may, and is taken not to");
            }
        }
    }
}
