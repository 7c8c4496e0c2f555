//! Everything that can happen to a call, in every state and in seeded schedules.

use std::cell::Cell;
use std::rc::Rc;

use super::*;

/// One of what calls hold, counted while it is there.
struct Token(Rc<Cell<usize>>);

impl Token {
    fn new(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(Rc::clone(count))
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

struct Tokens;

impl Parts for Tokens {
    type Request = Token;
    type Turn = Token;
    type Place = Token;
    type Questions = u32;
    type End = u32;
}

/// Where a call is, as the drawing has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Waiting,
    Queued,
    Sent,
    Parked,
    Kept,
    Replayed,
    Over,
}

const EVENTS: usize = 10;

struct World {
    on: On,
    requests: Rc<Cell<usize>>,
    turns: Rc<Cell<usize>>,
    places: Rc<Cell<usize>>,
    /// What upstreams still hold of calls that have ended here.
    gone: Vec<Sent<Tokens>>,
    answers: usize,
}

impl World {
    fn new() -> Self {
        Self {
            on: On { life: 1, id: 2, number: 3, at: Instant::now() },
            requests: Rc::default(),
            turns: Rc::default(),
            places: Rc::default(),
            gone: Vec::new(),
            answers: 0,
        }
    }

    /// Something happens to a call that is there: where it is then.
    fn happen(&mut self, event: usize, at: At, life: &mut Life<Tokens>) -> At {
        match event {
            0 => match life.begin(Token::new(&self.turns)) {
                Ok(()) => self.moved(at, &[At::Waiting], At::Queued),
                Err(_) => self.stays(at, &[At::Waiting]),
            },
            1 => match life.send(Token::new(&self.places), self.on) {
                Ok(_) => self.moved(at, &[At::Queued], At::Sent),
                Err(_) => self.stays(at, &[At::Queued]),
            },
            2 => match life.requeue() {
                Some(_) => self.moved(at, &[At::Sent], At::Queued),
                None => self.stays(at, &[At::Sent]),
            },
            3 => match life.replay() {
                Some(_) => self.moved(at, &[At::Sent], At::Replayed),
                None => self.stays(at, &[At::Sent]),
            },
            4 => match life.again(vec![1]) {
                true => self.moved(at, &[At::Replayed], At::Waiting),
                false => self.stays(at, &[At::Replayed]),
            },
            5 => match life.park(|| 0) {
                Some((_, Some(_request))) => self.moved(at, &[At::Sent], At::Parked),
                Some((_, None)) => self.moved(at, &[At::Parked], At::Parked),
                None => self.stays(at, &[At::Sent, At::Parked]),
            },
            6 => match life.resume(Token::new(&self.requests)) {
                Ok(_) => self.moved(at, &[At::Parked], At::Sent),
                Err(_) => self.stays(at, &[At::Parked]),
            },
            7 => match life.hear() {
                Some((_, end)) => {
                    self.answers += 1;
                    assert_eq!(end, 7);
                    self.moved(at, &[At::Kept], At::Over)
                }
                None => self.stays(at, &[At::Kept]),
            },
            8 => {
                let Ended { request, sent, .. } = life.finish(|| 7);
                self.answers += usize::from(request.is_some());
                assert_eq!(sent.is_some(), matches!(at, At::Sent | At::Parked), "{at:?}");
                self.gone.extend(sent);
                match at {
                    At::Parked | At::Kept => At::Kept,
                    _ => At::Over,
                }
            }
            _ => {
                let cancelled = life.cancel();
                self.answers += usize::from(cancelled.request.is_some());
                assert_eq!(cancelled.sent.is_some(), at == At::Sent, "{at:?}");
                self.gone.extend(cancelled.sent);
                match at {
                    At::Parked | At::Kept => at,
                    _ => At::Over,
                }
            }
        }
    }

    fn moved(&self, at: At, from: &[At], to: At) -> At {
        assert!(from.contains(&at), "from {at:?} to {to:?}");
        to
    }

    fn stays(&self, at: At, may: &[At]) -> At {
        assert!(!may.contains(&at), "{at:?} does not go on");
        at
    }

    /// A call has what its state has, and nothing else has anything.
    fn check(&self, all: &[(At, Life<Tokens>)]) {
        let count = |of: &[At]| all.iter().filter(|(at, _)| of.contains(at)).count();
        let open = count(&[At::Waiting, At::Queued, At::Sent, At::Replayed]);
        assert_eq!(self.requests.get(), open, "requests");
        let gone = self.gone.len();
        let turns = count(&[At::Queued, At::Sent, At::Parked]) + gone;
        assert_eq!(self.turns.get(), turns, "turns");
        assert_eq!(self.places.get(), count(&[At::Sent, At::Parked]) + gone, "places");
        for (at, life) in all {
            assert_eq!(life.is_to_be_sent(), matches!(at, At::Waiting | At::Queued));
            assert_eq!(life.sent().is_some(), matches!(at, At::Sent | At::Parked));
        }
    }
}

#[test]
fn a_call_holds_what_its_state_has_and_is_answered_once() {
    for seed in 0..2000_u64 {
        let mut dice = seed;
        let mut below = |max: usize| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_889);
            usize::try_from(dice >> 33).unwrap() % max
        };
        let mut world = World::new();
        let new = |world: &World| {
            (At::Waiting, Life::<Tokens>::new(Token::new(&world.requests), Vec::new()))
        };
        let mut calls: Vec<_> = (0..3).map(|_| new(&world)).collect();
        for _ in 0..60 {
            let (at, life) = &mut calls[below(3)];
            *at = world.happen(below(EVENTS), *at, life);
            // The upstream has heard that a call is over.
            if below(4) == 0 && !world.gone.is_empty() {
                world.gone.swap_remove(0);
            }
            world.check(&calls);
        }
        // Whoever is away does not come back, and the rest is given up.
        let mut ended = 0;
        for (at, life) in &mut calls {
            let abandoned = life.abandon();
            assert_eq!(abandoned.is_some(), matches!(at, At::Parked | At::Kept), "{at:?}");
            ended += usize::from(abandoned.is_some());
            *at = world.happen(9, if abandoned.is_some() { At::Over } else { *at }, life);
        }
        world.gone.clear();
        world.check(&calls);
        assert_eq!(world.answers + ended, calls.len(), "each has one end");
    }
}
