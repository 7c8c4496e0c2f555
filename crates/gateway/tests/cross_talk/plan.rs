//! What a call is to do.

use serde_json::{Value, json};

/// Chance that can be had again: splitmix64.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `end`.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    /// True `share` times of a hundred.
    pub(crate) const fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

/// One thing that the upstream does during a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// So many milliseconds pass.
    Wait(u64),
    Progress,
    Log,
    Elicit,
    Sample,
}

/// How the upstream ends a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Answer,
    Twice,
    /// First an answer to an id that nobody has.
    Stray,
    Error,
    Never,
    /// Its process dies of it.
    Dies,
}

/// What a call is to do.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) tag: String,
    pub(crate) steps: Vec<Step>,
    pub(crate) ending: Ending,
    /// The upstream works on, and answers, although it was told of the cancellation.
    pub(crate) is_stubborn: bool,
    /// What it still says so many milliseconds after its answer.
    pub(crate) late: Option<(u64, Step)>,
}

impl Plan {
    pub(crate) fn random(dice: &mut Dice, tag: String, odd: bool) -> Self {
        let steps = (0..dice.below(6)).map(|_| match dice.below(10) {
            0..4 => Step::Wait(dice.below(12)),
            4..6 => Step::Progress,
            6..8 => Step::Log,
            8 => Step::Elicit,
            _ => Step::Sample,
        });
        let steps = steps.collect();
        let ending = match dice.below(100) {
            0..6 if odd => Ending::Twice,
            6..12 if odd => Ending::Stray,
            12..16 if odd => Ending::Never,
            20..22 if odd => Ending::Dies,
            16..20 => Ending::Error,
            _ => Ending::Answer,
        };
        let is_stubborn = odd && dice.percent(20);
        let late = (odd && dice.percent(20))
            .then(|| (dice.below(3), dice.one_of(&[Step::Log, Step::Log, Step::Elicit])));
        Self { tag, steps, ending, is_stubborn, late }
    }

    pub(crate) fn asks(&self) -> bool {
        let late = self.late.iter().map(|(_, step)| step);
        self.steps.iter().chain(late).any(|step| matches!(step, Step::Elicit | Step::Sample))
    }

    /// The places of a kind of step.
    pub(crate) fn places(&self, kind: Step) -> Vec<u64> {
        let places = self.steps.iter().enumerate().filter(|(_, step)| **step == kind);
        places.map(|(place, _)| place as u64).collect()
    }

    /// The arguments of its call.
    pub(crate) fn to_json(&self) -> Value {
        let steps = self.steps.iter().map(|step| match step {
            Step::Wait(ms) => json!(ms),
            Step::Progress => json!("progress"),
            Step::Log => json!("log"),
            Step::Elicit => json!("elicit"),
            Step::Sample => json!("sample"),
        });
        let ending = match self.ending {
            Ending::Answer => "answer",
            Ending::Twice => "twice",
            Ending::Stray => "stray",
            Ending::Error => "error",
            Ending::Never => "never",
            Ending::Dies => "dies",
        };
        let steps: Vec<_> = steps.collect();
        let late = self.late.map(|(ms, step)| json!([ms, step == Step::Log]));
        json!({"tag": self.tag, "steps": steps, "ending": ending, "stubborn": self.is_stubborn,
               "late": late})
    }

    pub(crate) fn of_json(json: &Value) -> Self {
        let steps = json["steps"].as_array().unwrap().iter().map(|step| match step.as_str() {
            None => Step::Wait(step.as_u64().unwrap()),
            Some("progress") => Step::Progress,
            Some("log") => Step::Log,
            Some("elicit") => Step::Elicit,
            Some(_) => Step::Sample,
        });
        Self {
            tag: json["tag"].as_str().unwrap().to_owned(),
            steps: steps.collect(),
            ending: match json["ending"].as_str().unwrap() {
                "twice" => Ending::Twice,
                "stray" => Ending::Stray,
                "error" => Ending::Error,
                "never" => Ending::Never,
                "dies" => Ending::Dies,
                _ => Ending::Answer,
            },
            is_stubborn: json["stubborn"].as_bool().unwrap(),
            late: json["late"][0]
                .as_u64()
                .map(|ms| (ms, if json["late"][1] == true { Step::Log } else { Step::Elicit })),
        }
    }
}

/// The place of what is said after the answer.
pub(crate) const LATE: u64 = 1000;

/// What a step says: the tag of its call, and its place in the plan.
pub(crate) fn said(tag: &str, place: u64) -> String {
    format!("{tag}#{place}")
}

/// The opposite of [`said`].
pub(crate) fn heard(text: &Value) -> Option<(&str, u64)> {
    let (tag, place) = text.as_str()?.rsplit_once('#')?;
    Some((tag, place.parse().ok()?))
}

/// The client and the connection of a tag.
pub(crate) fn owner(tag: &str) -> &str {
    tag.rsplit_once('/').map_or(tag, |(owner, _)| owner)
}
