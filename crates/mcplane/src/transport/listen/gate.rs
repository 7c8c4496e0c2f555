//! The rate of new connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::PeerAddress;

/// Clients that may all come as fast as one is let in. Whoever has more addresses than that can
/// take the rate from the others, but not the server.
const CLIENTS: u32 = 8;

/// Addresses whose gate is not full, at most: beyond it only the gate of all counts.
const ADDRESSES_MAX: usize = 4096;

/// A gate for each client's address and one for all, so that nobody is kept out by one other.
#[derive(Debug)]
pub(crate) struct Gates {
    fresh: Gate,
    all: Gate,
    clients: HashMap<u128, Gate>,
}

impl Gates {
    /// `per_s` tokens a second and `burst` at once for each address.
    pub(crate) fn new(per_s: u32, burst: u32) -> Self {
        let all = Gate::new(per_s.saturating_mul(CLIENTS), burst.saturating_mul(CLIENTS));
        Self { fresh: Gate::new(per_s, burst), all, clients: HashMap::new() }
    }

    /// Takes a token; `Err` says when there will be one.
    pub(crate) fn admit(&mut self, peer: PeerAddress, now: Instant) -> Result<(), Duration> {
        if self.fresh.period.is_zero() {
            return Ok(());
        }
        let client = client(peer);
        if self.clients.len() >= ADDRESSES_MAX {
            self.clients.retain(|_, gate| gate.full_at.is_some_and(|full| full > now));
        }
        if self.clients.len() < ADDRESSES_MAX || self.clients.contains_key(&client) {
            self.clients.entry(client).or_insert(self.fresh).admit(now)?;
        }
        self.all.admit(now)
    }
}

/// What belongs to one client: an address, of IPv6 the 64 bits that a network has (RFC 7421).
fn client(peer: PeerAddress) -> u128 {
    match peer {
        PeerAddress::Unix => 0,
        PeerAddress::Tcp(address) => match address.ip().to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits() >> 64 << 64,
        },
    }
}

/// A token bucket, kept as the one moment at which it will be full again. A pure function of the
/// moments that it is given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    /// Time between two tokens; zero lets everything pass.
    period: Duration,
    /// How far the bucket may be from full: the burst, less the token that is asked for.
    depth: Duration,
    full_at: Option<Instant>,
}

impl Gate {
    /// `per_s` tokens a second, and `burst` at once after a pause. No rate, no limit.
    pub(crate) fn new(per_s: u32, burst: u32) -> Self {
        let period = Duration::from_secs(1).checked_div(per_s).unwrap_or(Duration::ZERO);
        Self { period, depth: period.saturating_mul(burst.saturating_sub(1)), full_at: None }
    }

    /// Takes a token; `Err` says when there will be one.
    pub(crate) fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        let full_at = self.full_at.unwrap_or(now).max(now);
        let empty = full_at.saturating_duration_since(now);
        if empty > self.depth {
            return Err(empty - self.depth);
        }
        self.full_at = Some(full_at + self.period);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `count` pass at once.
    fn pass(gate: &mut Gate, now: Instant, count: usize) -> usize {
        (0..count).filter(|_| gate.admit(now).is_ok()).count()
    }

    #[test]
    fn one_client_keeps_no_other_out() {
        let (mut gates, now) = (Gates::new(100, 200), Instant::now());
        let peer = |ip: &str| PeerAddress::Tcp((ip.parse::<IpAddr>().unwrap(), 9).into());
        let mut pass =
            |ip: &str, now| (0..1000).filter(|_| gates.admit(peer(ip), now).is_ok()).count();
        assert_eq!(pass("192.0.2.1", now), 200);
        assert_eq!(pass("192.0.2.2", now), 200);
        assert_eq!(pass("::ffff:192.0.2.2", now), 0, "the same address");
        assert_eq!(pass("2001:db8::1", now), 200);
        assert_eq!(pass("2001:db8::ffff:1", now), 0, "the same network");
        assert_eq!(pass("2001:db8:0:1::1", now), 200);
        let more = (0..4).map(|host| pass(&format!("198.51.100.{host}"), now)).sum::<usize>();
        assert_eq!(more, 800);
        assert_eq!(pass("203.0.113.1", now), 0, "eight times one client's in all");
        assert_eq!(pass("203.0.113.2", now + Duration::from_secs(1)), 200);
    }

    #[test]
    fn addresses_are_forgotten_once_they_owe_nothing() {
        let (mut gates, now) = (Gates::new(1000, 1000), Instant::now());
        for n in 0..20_000_u32 {
            let peer = PeerAddress::Tcp((IpAddr::from(n.to_be_bytes()), 9).into());
            let _ = gates.admit(peer, now + Duration::from_micros(u64::from(n)));
            assert!(gates.clients.len() <= ADDRESSES_MAX);
        }
    }

    #[test]
    fn a_burst_then_the_rate() {
        let (mut gate, start) = (Gate::new(100, 200), Instant::now());
        assert_eq!(pass(&mut gate, start, 1000), 200);
        assert_eq!(gate.admit(start), Err(Duration::from_millis(10)));
        let almost = start + Duration::from_nanos(9_999_999);
        assert_eq!(gate.admit(almost), Err(Duration::from_nanos(1)));
        assert_eq!(pass(&mut gate, start + Duration::from_millis(10), 1000), 1);
        assert_eq!(pass(&mut gate, start + Duration::from_millis(510), 1000), 50);
    }

    #[test]
    fn a_pause_fills_it_up_to_the_burst_and_no_further() {
        let (mut gate, start) = (Gate::new(100, 200), Instant::now());
        assert_eq!(pass(&mut gate, start, 1000), 200);
        assert_eq!(pass(&mut gate, start + Duration::from_secs(3600), 1000), 200);
    }

    #[test]
    fn over_a_minute_the_rate_is_exact() {
        let (mut gate, start) = (Gate::new(100, 200), Instant::now());
        let passed =
            (0..60_000).filter(|ms| gate.admit(start + Duration::from_millis(*ms)).is_ok()).count();
        assert_eq!(passed, 200 + 5_999);
    }

    #[test]
    fn no_rate_is_no_limit_and_no_burst_is_one_at_a_time() {
        let now = Instant::now();
        assert_eq!(pass(&mut Gate::new(0, 0), now, 1000), 1000);
        assert_eq!(pass(&mut Gate::new(100, 0), now, 1000), 1);
        assert_eq!(pass(&mut Gate::new(u32::MAX, u32::MAX), now, 1000), 1000);
    }

    #[test]
    fn a_clock_that_steps_back_opens_nothing() {
        let (mut gate, start) = (Gate::new(1, 1), Instant::now() + Duration::from_secs(9));
        assert_eq!(pass(&mut gate, start, 9), 1);
        let before = start - Duration::from_secs(1);
        assert_eq!(gate.admit(before), Err(Duration::from_secs(2)));
    }
}
