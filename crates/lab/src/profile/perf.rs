//! What `perf script -F comm,ip,sym` writes (perf-script(1)), as stacks.

use std::io::{self, BufRead};

use super::stacks::{Stacks, plain};

/// Reads samples: a line that begins with the command's name, below it a line for each frame, the
/// innermost first, and an empty one.
pub(super) fn read(input: impl BufRead) -> io::Result<Stacks> {
    let mut stacks = Stacks::default();
    let (mut command, mut frames) = (String::new(), Vec::new());
    for line in input.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if line.trim().is_empty() {
            flush(&mut stacks, &command, &mut frames);
        } else if line.starts_with([' ', '\t']) {
            let name = line.trim_start().split_once(' ').map_or("[unknown]", |(_, name)| name);
            frames.push(plain(name));
        } else {
            flush(&mut stacks, &command, &mut frames);
            command = plain(&line);
        }
    }
    flush(&mut stacks, &command, &mut frames);
    Ok(stacks)
}

fn flush(stacks: &mut Stacks, command: &str, frames: &mut Vec<String>) {
    if !frames.is_empty() {
        let stack = std::iter::once(command.to_owned()).chain(frames.drain(..).rev());
        stacks.add(stack.collect(), 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_turned_round_and_counted() {
        let text = "\
node \n\t    55d0 read::h0123456789abcdef\n\t    55d1 main loop\n\n\
node \n\t    55d0 read\n\t    55d1 main loop\n\n\
sh \n\t ffff [unknown]\n";
        let stacks = read(text.as_bytes()).unwrap();
        let all: Vec<_> = stacks.iter().map(|(stack, cost)| (stack.join(";"), cost)).collect();
        let want = [("node;main loop;read".to_owned(), 2), ("sh;[unknown]".to_owned(), 1)];
        assert_eq!(all, want);
    }
}
