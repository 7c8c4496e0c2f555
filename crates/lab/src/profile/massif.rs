//! What massif writes (its manual, "Massif"), as stacks: the heap when it was largest.

use super::stacks::{Stacks, plain};

/// Adds the stacks of one file: bytes by who asked for them, the outermost caller first.
pub(super) fn add(text: &str, stacks: &mut Stacks) {
    let command = text.lines().find_map(|line| line.strip_prefix("cmd:")).unwrap_or("?");
    let program = command.split_ascii_whitespace().next().unwrap_or("?");
    let program = plain(program.rsplit('/').next().unwrap_or(program));
    let Some(tree) = tree(text) else { return };
    // Each level's name, and the bytes that its callers have not claimed yet.
    let mut path: Vec<(String, u64)> = Vec::new();
    for line in tree.lines() {
        let depth = line.len() - line.trim_start_matches(' ').len();
        let Some((bytes, name)) = node(line) else { break };
        leave(&mut path, depth, &program, stacks);
        if let Some((_, left)) = path.last_mut() {
            *left = left.saturating_sub(bytes);
        }
        path.push((name, bytes));
    }
    leave(&mut path, 0, &program, stacks);
}

/// The lines of the tree of the peak, or of the last one that there is.
fn tree(text: &str) -> Option<&str> {
    let start = text.find("heap_tree=peak").or_else(|| text.rfind("heap_tree=detailed"))?;
    let tree = text.get(start..)?.split_once('\n')?.1;
    Some(tree.split("\n#").next().unwrap_or(tree))
}

/// `n2: 4096 0x123: name (file:1)`: its bytes and its name.
fn node(line: &str) -> Option<(u64, String)> {
    let (bytes, rest) = line.trim_start().strip_prefix('n')?.split_once(": ")?.1.split_once(' ')?;
    let name = match rest.split_once(": ") {
        Some((address, name)) if address.starts_with("0x") => name,
        _ => rest,
    };
    let name = name.rsplit_once(" (").map_or(name, |(name, _)| name);
    Some((bytes.parse().ok()?, plain(name)))
}

/// Goes back up to `depth`; what is left of the levels below has no caller that is told.
fn leave(path: &mut Vec<(String, u64)>, depth: usize, program: &str, stacks: &mut Stacks) {
    while path.len() > depth {
        let left = path.last().map_or(0, |(_, left)| *left);
        // The first level says only that all of it was allocated.
        let frames = path.iter().skip(1).rev().map(|(name, _)| name.clone());
        stacks.add(std::iter::once(program.to_owned()).chain(frames).collect(), left);
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
desc: --massif-out-file=x
cmd: /usr/bin/server
time_unit: i
#-----------
snapshot=0
heap_tree=empty
#-----------
snapshot=1
mem_heap_B=1000
heap_tree=peak
n3: 1000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
 n2: 600 0x10A: grow (vec.rs:10)
  n0: 400 0x10B: read (io.rs:3)
  n0: 150 0x10C: parse (json.rs:4)
 n0: 300 0x10D: start (main.rs:1)
 n0: 100 in 7 places, all below massif's threshold (1.00%)
#-----------
snapshot=2
heap_tree=detailed
n0: 5 (heap allocation functions) malloc
";

    #[test]
    fn the_peak_is_turned_round() {
        let mut stacks = Stacks::default();
        add(FILE, &mut stacks);
        let all: Vec<_> = stacks.iter().map(|(stack, cost)| (stack.join(";"), cost)).collect();
        let small = "server;in 7 places, all below massif's threshold";
        let want = [
            ("server;grow", 50),
            (small, 100),
            ("server;parse;grow", 150),
            ("server;read;grow", 400),
            ("server;start", 300),
        ];
        assert_eq!(all, want.map(|(stack, cost)| (stack.to_owned(), cost)));
        assert_eq!(stacks.total(), 1000);
    }

    #[test]
    fn what_is_no_tree_gives_nothing() {
        for text in ["", "cmd: x\n", "heap_tree=peak", "heap_tree=peak\nnoise"] {
            let mut stacks = Stacks::default();
            add(text, &mut stacks);
            assert_eq!(stacks, Stacks::default(), "{text:?}");
        }
    }
}
