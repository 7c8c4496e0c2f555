//! Budgets: never more is taken than there may be, what is taken of a share is taken above, and
//! nothing stays taken. The large buffers that they keep: never more than their part, none that is
//! counted and not there, and none beside what fills the budget.

use std::iter;

use loom::thread;

use super::in_every_order;
use source::{Budget, Charge};

#[allow(dead_code, reason = "a file of another crate, of which a part is run")]
#[path = "../../../crates/mcplane/src/budget/mod.rs"]
mod source;

const KIB: usize = 1024;

/// A buffer of this length is kept. All of them may have a sixteenth of the budget.
const LARGE_BYTES: usize = 128 * KIB;
const PART: usize = 16;

/// Two that share a budget take, grow, shrink and give back at the same time.
pub fn never_more_than_the_budget() {
    in_every_order(|| {
        let budget = Budget::new(20 * KIB);
        let takes = |bytes: usize| {
            let budget = budget.clone();
            move || {
                let mut charge = Charge::default();
                let fits = charge.cover(&budget, bytes);
                assert!(budget.used() <= 20 * KIB && budget.used() >= charge.bytes());
                if charge.cover(&budget, bytes + 4 * KIB) {
                    assert!(budget.used() <= 20 * KIB && budget.used() >= charge.bytes());
                    charge.shrink(bytes);
                }
                (fits, charge)
            }
        };
        let other = thread::spawn(takes(12 * KIB));
        let own = takes(10 * KIB)();
        let other = other.join().unwrap();
        assert!(own.0 || other.0, "there is room for one of them");
        assert_eq!(budget.used(), own.1.bytes() + other.1.bytes());
        drop((own, other));
        assert_eq!(budget.used(), 0);
    });
}

/// Two shares of a budget that has room for one of them at a time.
pub fn shares_and_what_is_above_agree() {
    in_every_order(|| {
        let budget = Budget::new(16 * KIB);
        let shares = [budget.share(12 * KIB), budget.share(12 * KIB)];
        let takes = |share: &Budget| {
            let (budget, share) = (budget.clone(), share.clone());
            move || {
                let mut charge = Charge::default();
                let fits = charge.cover(&share, 10 * KIB);
                assert!(budget.used() <= 16 * KIB && share.used() <= 12 * KIB);
                assert_eq!(share.used(), charge.bytes(), "it has the share to itself");
                assert!(budget.used() >= charge.bytes());
                (fits, charge)
            }
        };
        let other = thread::spawn(takes(&shares[1]));
        let own = takes(&shares[0])();
        let other = other.join().unwrap();
        assert!(own.0 || other.0, "there is room for one of them");
        assert_eq!(shares.each_ref().map(Budget::used), [own.1.bytes(), other.1.bytes()]);
        assert_eq!(budget.used(), own.1.bytes() + other.1.bytes());
        drop((own, other));
        assert_eq!((shares.each_ref().map(Budget::used), budget.used()), ([0, 0], 0));
    });
}

/// What is longer than a share is taken if it is the only one, by one of two.
pub fn one_may_be_longer_than_the_share() {
    in_every_order(|| {
        let budget = Budget::new(100 * KIB);
        let share = budget.share(8 * KIB);
        let takes = || {
            let share = share.clone();
            move || {
                let mut charge = Charge::default();
                let _ = charge.cover(&share, 20 * KIB);
                charge
            }
        };
        let other = thread::spawn(takes());
        let own = takes()();
        let other = other.join().unwrap();
        assert_eq!(own.bytes() + other.bytes(), 20 * KIB, "one of them");
        assert_eq!((share.used(), budget.used()), (20 * KIB, 20 * KIB));
        drop((own, other));
        assert_eq!((share.used(), budget.used()), (0, 0));
    });
}

/// What is there already is counted whatever else is taken, and given back by whoever has the last
/// part of it.
pub fn what_is_held_is_given_back() {
    in_every_order(|| {
        let budget = Budget::new(16 * KIB);
        let share = budget.share(16 * KIB);
        let held = share.hold(vec![7; 10 * KIB]);
        let other = thread::spawn({
            let (share, part) = (share.clone(), held.slice(1..2));
            move || {
                let mut charge = Charge::default();
                charge.cover_anyway(&share, 12 * KIB);
                drop(part);
                assert!(share.used() >= 12 * KIB);
                charge.shrink(6 * KIB);
            }
        });
        drop(held);
        other.join().unwrap();
        assert_eq!((share.used(), budget.used()), (0, 0));
    });
}

fn keep(budget: &Budget) {
    budget.keep(Vec::with_capacity(LARGE_BYTES));
}

/// Takes a buffer that was kept.
fn kept(budget: &Budget) -> Option<(Vec<u8>, Charge)> {
    let (mut buffer, mut charge) = (Vec::new(), Charge::default());
    budget.make_room(&mut buffer, LARGE_BYTES, &mut charge);
    (charge.bytes() > 0).then_some((buffer, charge))
}

fn kept_together(budget: &Budget) -> usize {
    let kept = iter::from_fn(|| kept(budget));
    kept.collect::<Vec<_>>().len()
}

/// Two keep a buffer where there is room for one.
pub fn buffers_have_their_part_and_no_more() {
    in_every_order(|| {
        let budget = Budget::new(PART * LARGE_BYTES);
        let other = thread::spawn({
            let budget = budget.clone();
            move || keep(&budget)
        });
        keep(&budget);
        other.join().unwrap();
        assert_eq!(kept_together(&budget), 1);
    });
}

/// A buffer is kept while one is taken out and all are given back to the system: afterwards there is
/// room for as many as at first.
pub fn buffers_that_are_counted_are_there() {
    in_every_order(|| {
        let budget = Budget::new(2 * PART * LARGE_BYTES);
        keep(&budget);
        let fills = thread::spawn({
            let budget = budget.clone();
            move || Charge::default().cover(&budget, 2 * PART * LARGE_BYTES)
        });
        let takes = thread::spawn({
            let budget = budget.clone();
            move || kept(&budget).is_some()
        });
        keep(&budget);
        let _ = (fills.join().unwrap(), takes.join().unwrap());
        assert!(Charge::default().cover(&budget, 2 * PART * LARGE_BYTES), "nothing is taken");
        assert_eq!(kept_together(&budget), 0, "they had to make room");
        (0..3).for_each(|_| keep(&budget));
        assert_eq!(kept_together(&budget), 2);
    });
}

/// The budget is filled while a buffer is kept: there is no room for it.
pub fn no_buffer_is_kept_beside_a_full_budget() {
    in_every_order(|| {
        let budget = Budget::new(2 * PART * LARGE_BYTES);
        let fills = thread::spawn({
            let budget = budget.clone();
            move || {
                let mut charge = Charge::default();
                assert!(charge.cover(&budget, 2 * PART * LARGE_BYTES));
                charge
            }
        });
        keep(&budget);
        drop(fills.join().unwrap());
        // Nobody has needed its room since the budget was full.
        assert_eq!(kept_together(&budget), 0);
    });
}
