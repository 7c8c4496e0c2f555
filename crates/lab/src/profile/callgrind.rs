//! What callgrind writes (its manual, "Callgrind Format Specification"), as stacks.
//!
//! Callgrind knows who called whom and what that cost, but not by which way the caller was reached.
//! What a function costs is shared out among its callers in proportion to what it cost below each of
//! them: the widths of a frame's callees are exact where it has one caller, and else an estimate.

use std::collections::BTreeMap;

use super::stacks::{DEPTH_MAX, Stacks, plain};

/// The part of the whole below which a call is not followed: it counts for its caller.
const SMALL: f64 = 0.0005;

#[derive(Default)]
struct Function {
    own: u64,
    /// What the calls of others cost, by their number.
    calls: BTreeMap<u64, u64>,
    is_called: bool,
}

#[derive(Default)]
struct Graph {
    functions: BTreeMap<u64, Function>,
    names: BTreeMap<u64, String>,
    command: String,
    /// Columns before the cost.
    positions: usize,
}

/// Adds the stacks of one file, below the name of the command that it is about.
pub(super) fn add(text: &str, stacks: &mut Stacks) {
    let graph = Graph::parse(text);
    let whole: u64 = graph.functions.values().map(|function| function.own).sum();
    let walk = Walk { graph: &graph, small: whole as f64 * SMALL };
    let roots = graph.functions.iter().filter(|(_, function)| !function.is_called);
    for (id, root) in roots {
        let all = root.own + root.calls.values().sum::<u64>();
        walk.down(stacks, &mut vec![*id], all as f64);
    }
}

impl Graph {
    fn parse(text: &str) -> Self {
        let mut graph = Self { positions: 1, ..Self::default() };
        let (mut current, mut callee, mut is_call) = (0, 0, false);
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("fn=") {
                current = graph.name(name);
            } else if let Some(name) = line.strip_prefix("cfn=") {
                callee = graph.name(name);
            } else if line.starts_with("calls=") {
                is_call = true;
            } else if let Some(command) = line.strip_prefix("cmd:") {
                graph.command = short(command);
            } else if let Some(columns) = line.strip_prefix("positions:") {
                graph.positions = columns.split_ascii_whitespace().count();
            } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
                let cost = line.split_ascii_whitespace().nth(graph.positions);
                let cost = cost.and_then(|cost| cost.parse().ok()).unwrap_or(0);
                graph.cost(current, is_call.then_some(callee), cost);
                is_call = false;
            }
        }
        graph
    }

    /// The number of `(17) name`, or of `(17)` alone after that.
    fn name(&mut self, text: &str) -> u64 {
        let Some((id, name)) = text.strip_prefix('(').and_then(|text| text.split_once(')')) else {
            return 0;
        };
        let id = id.parse().unwrap_or(0);
        if !name.trim().is_empty() {
            self.names.insert(id, plain(name));
        }
        id
    }

    fn cost(&mut self, current: u64, callee: Option<u64>, cost: u64) {
        let function = self.functions.entry(current).or_default();
        match callee {
            None => function.own += cost,
            Some(callee) => {
                *function.calls.entry(callee).or_default() += cost;
                self.functions.entry(callee).or_default().is_called |= callee != current;
            }
        }
    }
}

struct Walk<'a> {
    graph: &'a Graph,
    small: f64,
}

impl Walk<'_> {
    /// Follows the last function of `path`; `amount` of its cost arises on this path.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "shares of instructions, which are positive"
    )]
    fn down(&self, stacks: &mut Stacks, path: &mut Vec<u64>, amount: f64) {
        let Some(function) = path.last().and_then(|id| self.graph.functions.get(id)) else {
            return;
        };
        let all = function.own + function.calls.values().sum::<u64>();
        let part = (amount / all.max(1) as f64).min(1.0);
        let mut own = function.own as f64 * part;
        for (callee, cost) in &function.calls {
            let cost = *cost as f64 * part;
            // A call of itself, directly or not, is in the cost of the first call already.
            if cost < self.small || path.contains(callee) || path.len() + 1 >= DEPTH_MAX {
                own += cost;
                continue;
            }
            path.push(*callee);
            self.down(stacks, path, cost);
            path.pop();
        }
        let name = |id| self.graph.names.get(id).cloned().unwrap_or_else(|| "?".to_owned());
        let command = std::iter::once(self.graph.command.clone());
        stacks.add(command.chain(path.iter().map(name)).collect(), own.round() as u64);
    }
}

/// The program's name without its folder.
fn short(command: &str) -> String {
    let program = command.split_ascii_whitespace().next().unwrap_or("?");
    plain(program.rsplit('/').next().unwrap_or(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# callgrind format
cmd:  /usr/bin/server --flag
positions: line
events: Ir
summary: 1000

ob=(1) /usr/bin/server
fl=(1) main.rs
fn=(1) main
10 100
cfn=(2) server::parse::h0123456789abcdef
calls=3 20
* 600
cfn=(3) write
calls=1 30
* 300

fn=(2)
20 200
+1 100
cfn=(3)
calls=1 30
+2 300

fn=(3)
30 600
";

    #[test]
    fn a_callee_is_shared_out_among_its_callers() {
        let mut stacks = Stacks::default();
        add(FILE, &mut stacks);
        let all: Vec<_> = stacks.iter().map(|(stack, cost)| (stack.join(";"), cost)).collect();
        let want = [
            ("server;main", 100),
            ("server;main;server::parse", 300),
            ("server;main;server::parse;write", 300),
            ("server;main;write", 300),
        ];
        assert_eq!(all, want.map(|(stack, cost)| (stack.to_owned(), cost)));
        assert_eq!(stacks.total(), 1000);
    }

    #[test]
    fn recursion_ends() {
        let text = "cmd: x\npositions: line\nfn=(1) main\n1 10\ncfn=(2) f\ncalls=1 1\n* 90\n\
            fn=(2)\n1 50\ncfn=(3) g\ncalls=1 1\n* 40\nfn=(3)\n1 20\ncfn=(2)\ncalls=1 1\n* 20\n";
        let mut stacks = Stacks::default();
        add(text, &mut stacks);
        assert!(stacks.total() >= 95 && stacks.total() <= 101, "{stacks:?}");
        assert!(stacks.iter().all(|(stack, _)| stack.len() <= 4), "{stacks:?}");
    }
}
