//! Places of a listener: one that is full gives the place of its oldest newcomer away once, and
//! never that of one that is settled.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use loom::thread;

use super::in_every_order;
use places::{Lost, Places};

#[allow(dead_code, reason = "a file of another crate, of which a part is run")]
#[path = "../../../crates/mcplane/src/transport/listen/places.rs"]
mod places;

fn is_lost(lost: &mut Lost) -> bool {
    Pin::new(lost).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// A newcomer settles while another comes: the one keeps the place, or the other has it.
pub fn a_place_is_settled_or_lost() {
    in_every_order(|| {
        let places = Places::new(1);
        let (place, mut lost) = places.take().unwrap();
        let comes = thread::spawn({
            let places = Arc::clone(&places);
            move || places.take()
        });
        place.settle();
        let is_settled = place.is_settled();
        let other = comes.join().unwrap();
        assert_eq!(is_settled, other.is_none(), "one of them has the place");
        assert_eq!(is_settled, !is_lost(&mut lost));
        assert_eq!(places.taken(), 1);
        drop(place);
        assert_eq!(places.taken(), usize::from(other.is_some()));
        drop(other);
        assert_eq!(places.taken(), 0);
    });
}

/// A newcomer leaves while two come: places are neither lost nor made.
pub fn places_stay_as_many() {
    in_every_order(|| {
        let places = Places::new(1);
        let place = places.take().unwrap();
        let comes = || {
            let places = Arc::clone(&places);
            thread::spawn(move || {
                let come = places.take();
                assert!(places.taken() <= 1);
                come
            })
        };
        let others = [comes(), comes()];
        drop(place);
        let others = others.map(|other| other.join().unwrap());
        assert_eq!(places.taken(), 1);
        let mut come = others.map(|other| other.expect("newcomers make room"));
        let kept = come.iter_mut().filter_map(|(_, lost)| (!is_lost(lost)).then_some(())).count();
        assert_eq!(kept, 1);
        drop(come);
        assert_eq!(places.taken(), 0);
    });
}
