//! What a histogram holds, in little memory: runs keep hundreds of them.

/// Latencies that occurred, in nanoseconds, rising, and how often each: as LEB128 the step up from
/// the one before, then the count. A fifth of what pairs of numbers take.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(Box<[u8]>);

impl Counts {
    /// Of latencies that rise.
    pub(super) fn of(counts: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let (mut bytes, mut before) = (Vec::new(), 0);
        for (ns, count) in counts {
            write(&mut bytes, ns - before);
            write(&mut bytes, count);
            before = ns;
        }
        Self(bytes.into())
    }

    /// Each latency and how often it occurred.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let (mut rest, mut ns) = (&*self.0, 0);
        std::iter::from_fn(move || {
            ns += read(&mut rest)?;
            Some((ns, read(&mut rest)?))
        })
    }

    /// Bytes that it takes.
    pub(super) const fn bytes(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of both.
    pub(super) fn and(&self, other: &Self) -> Self {
        let mut all: Vec<_> = self.iter().chain(other.iter()).collect();
        // Two runs in order, which this sort sees.
        all.sort_by_key(|(ns, _)| *ns);
        all.dedup_by(|later, first| {
            let same = later.0 == first.0;
            first.1 += if same { later.1 } else { 0 };
            same
        });
        Self::of(all)
    }
}

fn write(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push((number & 0x7f) as u8);
}

fn read(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            break;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_comes_out() {
        let counts = [(1, 1), (127, 128), (128, 16_384), (1 << 40, u64::MAX), (u64::MAX, 3)];
        let packed = Counts::of(counts);
        assert_eq!(packed.iter().collect::<Vec<_>>(), counts);
        assert!(!packed.is_empty() && Counts::default().iter().next().is_none());
    }

    #[test]
    fn what_both_have_is_added_up() {
        let (one, other) = (Counts::of([(5, 1), (9, 2)]), Counts::of([(1, 7), (9, 3), (10, 1)]));
        let all: Vec<_> = one.and(&other).iter().collect();
        assert_eq!(all, [(1, 7), (5, 1), (9, 5), (10, 1)]);
    }

    #[test]
    fn a_busy_second_is_small() {
        // 2,000 latencies of 50 to 250 µs in steps of 100 ns, each some hundred times.
        let packed = Counts::of((500..2500).map(|tenth| (tenth * 100, 200)));
        assert!(packed.0.len() <= 2000 * 4, "{}", packed.0.len());
    }
}
