//! `Load`: never more handlers than there may be, and nobody is refused while there is room.

use loom::thread;

use super::in_every_order;
use source::Load;

#[path = "../../../crates/mcplane/src/server/load.rs"]
mod source;

/// Three ask for two places: two have one, and in the end all are free.
pub fn never_more_than_there_may_be() {
    in_every_order(|| {
        let load = Load::new(2);
        let asks = || {
            let load = load.clone();
            thread::spawn(move || load.take())
        };
        let others = [asks(), asks()];
        let own = load.take();
        let mut taken: Vec<_> = others.map(|other| other.join().unwrap()).into();
        taken.push(own);
        assert_eq!(taken.iter().flatten().count(), 2);
        assert!(load.is_full());
        drop(taken);
        assert!(!load.is_full());
        assert_eq!([load.take(), load.take()].iter().flatten().count(), 2);
    });
}

/// Somebody gives the only place back and asks for it again, while another asks: one of them has it.
pub fn who_is_refused_takes_no_place() {
    in_every_order(|| {
        let load = Load::new(1);
        let own = load.take();
        assert!(own.is_some());
        let other = thread::spawn({
            let load = load.clone();
            move || load.take()
        });
        drop(own);
        let own = load.take();
        assert!(own.is_some() || other.join().unwrap().is_some(), "it is free, and nobody has it");
    });
}
