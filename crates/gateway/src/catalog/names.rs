//! Under which names clients see what the upstreams offer: filters first, then renames, then
//! prefixes.
#![allow(
    clippy::exhaustive_structs,
    clippy::exhaustive_enums,
    reason = "settings that the caller builds"
)]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::Fingerprint;
use crate::config::Tools;

/// Between a server's name and that of a tool.
pub const SEPARATOR: &str = "__";
/// Longest name that we make, in bytes (2025-11-25 tools §Tool names: 1 to 128 characters).
pub const NAME_BYTES_MAX: usize = 128;
/// Most characters of a server's name in front of another one: as many as the settings allow.
const PREFIX_CHARS_MAX: usize = 64;

/// How names are made.
#[derive(Clone, Debug, Default)]
pub struct Naming {
    /// When names of tools and prompts get a prefix. URIs never do.
    pub prefix: Prefix,
    /// Rules by the name of the server; one without rules shows everything as it is.
    pub servers: HashMap<Arc<str>, ServerNaming>,
    /// Servers that are not there, whose `server__` is theirs all the same.
    pub absent: Vec<Arc<str>>,
}

/// When a name gets the prefix `server__`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefix {
    /// Only if several servers have that name for something of the same kind.
    #[default]
    Collision,
    /// Always.
    Always,
}

/// The rules of one server.
#[derive(Clone, Debug, Default)]
pub struct ServerNaming {
    /// For tools.
    pub tools: Rules,
    /// For prompts.
    pub prompts: Rules,
    /// For URIs of resources and URI templates; they are never renamed.
    pub resources: Rules,
}

/// What of one server is shown, under the names that the server itself uses.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Patterns of what is shown, where `*` stands for any characters and `?` for one; empty is
    /// everything.
    pub allow: Vec<String>,
    /// Patterns of what is not, stronger than `allow`.
    pub deny: Vec<String>,
    /// Other names: the server's → ours.
    pub rename: BTreeMap<String, String>,
}

impl From<&Tools> for Rules {
    fn from(tools: &Tools) -> Self {
        let Tools { allow, deny, rename, .. } = tools.clone();
        Self { allow, deny, rename }
    }
}

impl Rules {
    /// Whether something of this name is shown.
    #[must_use]
    pub fn shows(&self, name: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| fits(pattern, name));
        (self.allow.is_empty() || any(&self.allow)) && !any(&self.deny)
    }
}

/// Whether the whole of `name` fits a pattern of `*` and `?`.
#[must_use]
pub fn fits(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut rest) = (pattern.chars(), name.chars());
    // Where to go on when what follows the last `*` does not fit.
    let mut star: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let (expected, found) = (pattern.clone().next(), rest.clone().next());
        match (expected, found) {
            (Some('*'), _) => {
                pattern.next();
                star = Some((pattern.clone(), rest.clone()));
                continue;
            }
            (None, None) => return true,
            (Some(e), Some(f)) if e == '?' || e == f => {
                pattern.next();
                rest.next();
                continue;
            }
            _ => {}
        }
        // The last `*` takes one more.
        let Some((after, mut taken)) = star.take() else { return false };
        if taken.next().is_none() {
            return false;
        }
        (pattern, rest) = (after.clone(), taken.clone());
        star = Some((after, taken));
    }
}

/// A thing with its name after filters and renames.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) server: usize,
    /// Where it is in the server's list.
    pub(super) at: usize,
    pub(super) original: Arc<str>,
    pub(super) base: Arc<str>,
}

/// Gives back their own names to those whose other name a thing of the same server keeps. What
/// comes back are their own names and the others.
pub(super) fn without_clashes(all: &mut [Named]) -> Vec<(Arc<str>, Arc<str>)> {
    let mut clashes = Vec::new();
    // Who gets its own name back may be in the way of one more.
    while all.iter().any(|one| one.base != one.original) {
        let is_kept = |one: &&Named| one.base == one.original;
        let kept: HashSet<Arc<str>> =
            all.iter().filter(is_kept).map(|one| Arc::clone(&one.original)).collect();
        let clashing = |one: &&mut Named| one.base != one.original && kept.contains(&one.base);
        let before = clashes.len();
        for one in all.iter_mut().filter(clashing) {
            let own = Arc::clone(&one.original);
            clashes.push((Arc::clone(&own), std::mem::replace(&mut one.base, own)));
        }
        if clashes.len() == before {
            break;
        }
    }
    clashes
}

/// Which server a name says that it is of: what begins with `server__` is that server's or nobody's.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    /// The names of servers, as they are in front of `__` and in lower case.
    servers: HashMap<String, Arc<str>>,
    /// Of the longest of them, in bytes.
    longest: usize,
}

impl Reserved {
    pub(super) fn of<'a>(servers: impl Iterator<Item = &'a Arc<str>>) -> Self {
        let servers: HashMap<_, _> = servers
            .map(|server| (clean(server).to_ascii_lowercase(), Arc::clone(server)))
            .collect();
        let longest = servers.keys().map(String::len).max().unwrap_or(0);
        Self { servers, longest }
    }

    /// The other server that a name of this one belongs to. Should the name of one server begin with
    /// that of another, the longer one counts.
    pub(super) fn foreign(&self, server: &str, name: &str) -> Option<&Arc<str>> {
        let pairs = name.as_bytes().windows(SEPARATOR.len()).take(self.longest + 1);
        let ends = pairs.enumerate().filter(|(_, pair)| *pair == SEPARATOR.as_bytes());
        let known = |(end, _)| self.servers.get(&name.get(..end)?.to_ascii_lowercase());
        let owner = ends.rev().find_map(known)?;
        (clean(owner) != clean(server)).then_some(owner)
    }
}

/// The name that clients see of each, all different; in the same order. What keeps its own name
/// has it before any made-up name, and nothing keeps a name that is another server's.
pub(super) fn exposed(
    all: &[Named],
    servers: &[Arc<str>],
    reserved: &Reserved,
    prefix: Prefix,
) -> Vec<Arc<str>> {
    let server = |one: &Named| servers.get(one.server).map_or("", |name| &**name);
    let is_own = |one: &&Named| reserved.foreign(server(one), &one.base).is_none();
    let mut holders: HashMap<&str, usize> = HashMap::with_capacity(all.len());
    all.iter().filter(is_own).for_each(|one| *holders.entry(&one.base).or_default() += 1);
    let keeps = |one: &Named| {
        let is_only = holders.get(&*one.base).is_some_and(|&count| count == 1);
        prefix == Prefix::Collision && is_only && is_own(&one)
    };
    let mut taken: HashSet<Arc<str>> =
        all.iter().filter(|one| keeps(one)).map(|one| Arc::clone(&one.base)).collect();
    all.iter()
        .map(|one| {
            if keeps(one) {
                return Arc::clone(&one.base);
            }
            let server = server(one);
            let mut name = prefixed(server, &one.base);
            // A mark that will not do is followed by another: this ends, as names and servers do.
            let mut round = 0_u32;
            while reserved.foreign(server, &name).is_some() || !taken.insert(Arc::clone(&name)) {
                let mark = Fingerprint::of(&[server, &one.original, &round.to_string()]);
                name = prefixed(server, &format!("{:08x}_{}", mark >> 32, one.base));
                round += 1;
            }
            name
        })
        .collect()
}

/// `server__base`, with a hash in the place of what is too long.
fn prefixed(server: &str, base: &str) -> Arc<str> {
    let name = format!("{}{SEPARATOR}{base}", clean(server));
    if name.len() <= NAME_BYTES_MAX {
        return name.into();
    }
    with_suffix(&name, Fingerprint::of(&[server, base]))
}

fn with_suffix(name: &str, mark: u64) -> Arc<str> {
    let suffix = format!("_{:08x}", mark >> 32);
    let mut end = name.len().min(NAME_BYTES_MAX - suffix.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", name.get(..end).unwrap_or_default()).into()
}

/// A server's name with nothing in it that a tool's name must not have.
fn clean(server: &str) -> String {
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let valid = |c| if valid(c) { c } else { '_' };
    server.chars().take(PREFIX_CHARS_MAX).map(valid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(server: usize, base: &str) -> Named {
        Named { server, at: 0, original: base.into(), base: base.into() }
    }

    fn names(all: &[Named], servers: &[&str], prefix: Prefix) -> Vec<String> {
        let servers: Vec<Arc<str>> = servers.iter().map(|&name| name.into()).collect();
        let reserved = Reserved::of(servers.iter());
        exposed(all, &servers, &reserved, prefix).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("read_*", "read_file", true),
            ("read_*", "unread_file", false),
            ("*_file", "read_file", true),
            ("*a*b", "xaxbxb", true),
            ("*a*b", "xaxbxc", false),
            ("?", "é", true),
            ("?", "", false),
            ("a**c", "abc", true),
            ("glob*", "my_glob", false),
            ("*_file", "read_file", true),
            ("*a*b", "aXbXb", true),
            ("*a*b", "ab_", false),
            ("r?ad", "read", true),
            ("r?ad", "rad", false),
            ("", "a", false),
            ("é?", "éü", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} on {name}");
        }
        // No pattern takes exponential time.
        assert!(!fits(&"a*".repeat(40), &"a".repeat(4000).replacen('a', "b", 1)));
    }

    #[test]
    fn deny_is_stronger_than_allow() {
        let rules =
            Rules { allow: vec!["a*".into()], deny: vec!["ab*".into()], ..Rules::default() };
        assert!(rules.shows("ac") && !rules.shows("abc") && !rules.shows("c"));
        assert!(Rules::default().shows("anything"));
    }

    #[test]
    fn a_name_that_is_kept_is_nobodys_other_name() {
        let renamed = |pairs: &[(&str, &str)]| {
            let one = |&(original, base): &(&str, &str)| Named {
                original: original.into(),
                ..named(0, base)
            };
            let mut all: Vec<_> = pairs.iter().map(one).collect();
            let clashes = without_clashes(&mut all);
            let bases: Vec<_> = all.iter().map(|one| one.base.to_string()).collect();
            (bases.join(" "), clashes.len())
        };
        assert_eq!(renamed(&[("a", "b"), ("b", "b"), ("c", "c")]), ("a b c".into(), 1));
        // In the place of one that has another name too, there is room.
        assert_eq!(renamed(&[("a", "b"), ("b", "a")]), ("b a".into(), 0));
        assert_eq!(renamed(&[("a", "b"), ("b", "c"), ("c", "c")]), ("a b c".into(), 2));
    }

    #[test]
    fn only_what_collides_is_prefixed() {
        let all = [named(0, "search"), named(0, "read"), named(1, "search")];
        let servers = ["web", "files"];
        assert_eq!(
            names(&all, &servers, Prefix::Collision),
            ["web__search", "read", "files__search"]
        );
        assert_eq!(
            names(&all, &servers, Prefix::Always),
            ["web__search", "web__read", "files__search"]
        );
    }

    #[test]
    fn a_made_up_name_never_takes_a_real_one() {
        let all = [named(0, "x"), named(1, "x"), named(2, "a__x")];
        assert_eq!(names(&all, &["a", "b", "c"], Prefix::Collision), ["a__x", "b__x", "c__a__x"]);
        let all = [named(0, "x"), named(1, "x"), named(0, "a__x")];
        let names = names(&all, &["a", "b"], Prefix::Collision);
        assert!(names[0].starts_with("a__") && names[0].ends_with("_x"), "{names:?}");
        assert_eq!(names[1..], ["b__x", "a__x"]);
    }

    #[test]
    fn a_servers_prefix_is_its_own() {
        let servers: Vec<Arc<str>> = ["a", "a_", "b"].map(Arc::from).to_vec();
        let reserved = Reserved::of(servers.iter());
        for (server, name, owner) in [
            ("b", "a__echo", Some("a")),
            ("b", "A__echo", Some("a")),
            ("a", "a__echo", None),
            ("a", "a___echo", Some("a_")),
            ("a_", "a___echo", None),
            ("b", "a__b__echo", Some("a")),
            ("b", "c__echo", None),
            ("b", "a_echo", None),
            ("b", "xa__echo", None),
            ("b", "__", None),
            ("b", "", None),
        ] {
            assert_eq!(reserved.foreign(server, name).map(|name| &**name), owner, "{name}");
        }
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let long = |end: &str| format!("{}{end}", "t".repeat(126));
        let all = [named(0, &long("1")), named(0, &long("2")), named(1, &long("1"))];
        let names = names(&all, &["one server", "two"], Prefix::Always);
        for name in &names {
            assert_eq!(name.len(), NAME_BYTES_MAX);
            assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'), "{name}");
        }
        assert!(names[0].starts_with("one_server__t"));
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), 3);
    }
}
