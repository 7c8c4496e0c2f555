//! Stacks and what each of them cost: the form that all profilers are brought to.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Deepest stack that is kept; what is called below counts for its last frame.
pub(super) const DEPTH_MAX: usize = 256;

/// Most distinct stacks.
const STACKS_MAX: usize = 200_000;

/// Rows of the table.
const ROWS_MAX: usize = 40;

/// Costs by stack, the outermost frame first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stacks {
    costs: BTreeMap<Vec<String>, u64>,
}

impl Stacks {
    pub(super) fn add(&mut self, mut stack: Vec<String>, cost: u64) {
        stack.truncate(DEPTH_MAX);
        if cost > 0 && (self.costs.len() < STACKS_MAX || self.costs.contains_key(&stack)) {
            *self.costs.entry(stack).or_default() += cost;
        }
    }

    /// Lines of the form `outer;inner 17`; others are left out.
    pub(super) fn parse(text: &str) -> Self {
        let mut stacks = Self::default();
        for line in text.lines() {
            let Some((frames, cost)) = line.rsplit_once(' ') else { continue };
            let Ok(cost) = cost.parse() else { continue };
            let frames = frames.split(';').filter(|frame| !frame.trim().is_empty());
            stacks.add(frames.map(plain).collect(), cost);
        }
        stacks
    }

    pub(super) fn total(&self) -> u64 {
        self.costs.values().sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[String], u64)> {
        self.costs.iter().map(|(stack, cost)| (stack.as_slice(), *cost))
    }

    /// The functions that cost most by themselves, as a Markdown table.
    #[allow(clippy::cast_precision_loss, reason = "one decimal is printed")]
    pub(super) fn top(&self, title: &str, unit: &str) -> String {
        let mut functions = BTreeMap::<&str, (u64, u64)>::new();
        for (stack, cost) in self.iter() {
            if let Some(last) = stack.last() {
                functions.entry(last).or_default().0 += cost;
            }
            let mut once: Vec<_> = stack.iter().collect();
            once.sort_unstable();
            once.dedup();
            for frame in once {
                functions.entry(frame).or_default().1 += cost;
            }
        }
        let mut rows: Vec<_> = functions.into_iter().collect();
        rows.sort_by_key(|(name, (own, all))| (std::cmp::Reverse((*own, *all)), *name));
        let total = self.total().max(1);
        let share = |cost: u64| 100.0 * cost as f64 / total as f64;
        let mut out = format!("# {title}\n\n{} {unit} in all.\n\n", self.total());
        out.push_str("| self % | with callees % | self | function |\n|---:|---:|---:|---|\n");
        for (name, (own, all)) in rows.into_iter().take(ROWS_MAX) {
            let name = name.replace('|', "\\|");
            let (part, whole) = (share(own), share(all));
            // Writing into a string does not fail.
            let _ = writeln!(out, "| {part:.1} | {whole:.1} | {own} | `{name}` |");
        }
        out
    }
}

/// A function's name without the hash that Rust adds, and without what separates frames.
pub(super) fn plain(name: &str) -> String {
    let name = name.trim();
    let name = match name.rsplit_once("::h") {
        Some((short, hash)) if hash.len() == 16 && hash.chars().all(|c| c.is_ascii_hexdigit()) => {
            short
        }
        _ => name,
    };
    // The older scheme of Rust's names has no signs.
    let signs = [("$LT$", "<"), ("$GT$", ">"), ("$u7b$", "{"), ("$u7d$", "}"), ("$C$", ",")];
    let signs = signs.into_iter().chain([("$RF$", "&"), ("$BP$", "*"), ("$u20$", " "), (";", ":")]);
    signs.fold(name.to_owned(), |name, (from, to)| match name.contains(from) {
        true => name.replace(from, to),
        false => name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded_lines_add_up() {
        let stacks =
            Stacks::parse("a;b 3\na;b;c$LT$T$GT$::h0123456789abcdef; 4\nnoise\na;b 2\na x\n");
        let all: Vec<_> = stacks.iter().map(|(stack, cost)| (stack.join(" "), cost)).collect();
        assert_eq!(all, [("a b".to_owned(), 5), ("a b c<T>".to_owned(), 4)]);
        assert_eq!(stacks.total(), 9);
    }

    #[test]
    fn the_table_tells_own_cost_from_that_of_callees() {
        let top = Stacks::parse("a;b 30\na;b;a 60\na|x 10").top("CPU", "samples");
        let rows: Vec<_> = top.lines().filter(|line| line.ends_with("` |")).collect();
        let want = ["| 60.0 | 90.0 | 60 | `a` |", "| 30.0 | 90.0 | 30 | `b` |"];
        assert_eq!(rows[..2], want, "recursion counts once");
        assert_eq!(rows[2], "| 10.0 | 10.0 | 10 | `a\\|x` |");
        assert!(top.starts_with("# CPU\n\n100 samples in all."), "{top}");
    }

    #[test]
    fn memory_is_bounded() {
        let mut stacks = Stacks::default();
        stacks.add(vec!["f".to_owned(); 10_000], 1);
        assert_eq!(stacks.iter().next().map(|(stack, _)| stack.len()), Some(DEPTH_MAX));
    }
}
