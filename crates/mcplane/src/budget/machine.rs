//! How much memory this process may use.

use std::fs;
use std::path::Path;

/// The least of what the machine has, what its container may have, and what the process may map;
/// `None` where nobody says.
pub(super) fn memory() -> Option<usize> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let machine = kib_after(&read("/proc/meminfo"), "MemTotal:");
    let process = bytes_after(&read("/proc/self/limits"), "Max address space");
    let group = groups(&read("/proc/self/cgroup"))
        .into_iter()
        .filter_map(|file| number(fs::read_to_string(file).ok()?.trim()));
    group.chain(machine).chain(process).min()
}

/// The files that may hold a limit of the control group (versions 2 and 1): its own, those of the
/// groups above it, and that of a container, which sees its own group as the root.
fn groups(own: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            some if some.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        for group in Path::new(path).ancestors() {
            let group = group.to_string_lossy();
            files.push(format!("{root}{}/{file}", group.trim_end_matches('/')));
        }
    }
    files
}

fn kib_after(text: &str, key: &str) -> Option<usize> {
    bytes_after(text, key)?.checked_mul(1024)
}

/// The number that follows a key; `None` if there is no limit.
fn bytes_after(text: &str, key: &str) -> Option<usize> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    number(rest.split_whitespace().next()?)
}

/// Not `max`, nor `unlimited`, nor what version 1 writes for them.
fn number(text: &str) -> Option<usize> {
    const NO_LIMIT: usize = usize::MAX / 4;
    text.parse().ok().filter(|bytes| (1..NO_LIMIT).contains(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_says() {
        let meminfo = "MemTotal:       16315404 kB\nMemFree:          123 kB\n";
        assert_eq!(kib_after(meminfo, "MemTotal:"), Some(16_315_404 * 1024));
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max address space         1073741824           unlimited            bytes\n";
        assert_eq!(bytes_after(limits, "Max address space"), Some(1 << 30));
        assert_eq!(bytes_after(&limits.replace("1073741824", "unlimited "), "Max address"), None);
        assert_eq!(
            (number("max"), number("9223372036854771712"), number("5")),
            (None, None, Some(5))
        );
    }

    #[test]
    fn where_groups_say_it() {
        let root = "/sys/fs/cgroup";
        assert_eq!(groups("0::/\n"), [format!("{root}/memory.max")]);
        assert_eq!(
            groups("5:cpu:/x\n4:memory,x:/a/b\n"),
            ["/memory/a/b", "/memory/a", "/memory"]
                .map(|group| format!("{root}{group}/memory.limit_in_bytes"))
        );
        assert!(groups("nonsense").is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_says_something() {
        assert!(memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
