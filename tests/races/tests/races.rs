//! Each race, in every order.

/// A test of each.
macro_rules! races {
    ($($of:ident: $($name:ident)*;)*) => {
        $(mod $of {
            $(#[test]
            fn $name() {
                mcplane_races::$of::$name();
            })*
        })*
    };
}

races! {
    budget:
        never_more_than_the_budget
        shares_and_what_is_above_agree
        one_may_be_longer_than_the_share
        what_is_held_is_given_back
        buffers_have_their_part_and_no_more
        buffers_that_are_counted_are_there
        no_buffer_is_kept_beside_a_full_budget;
    listen:
        a_place_is_settled_or_lost
        places_stay_as_many;
    load:
        never_more_than_there_may_be
        who_is_refused_takes_no_place;
    lane:
        nobody_waits_while_a_place_is_free
        never_more_than_a_worker_may_have
        who_is_second_finds_the_other_worker
        who_waits_goes_on_whoever_ends
        what_leaves_the_queue_does_so_once
        who_is_refused_takes_no_place
        nothing_stays_in_a_closed_queue;
}
