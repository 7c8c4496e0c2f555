//! An allocator that counts, to hold a path to its budget:
//!
//! ```
//! use mcplane_testkit::{CountingAllocator, count};
//!
//! #[global_allocator]
//! static ALLOCATOR: CountingAllocator = CountingAllocator;
//!
//! let (numbers, counts) = count(|| Vec::<u64>::with_capacity(4));
//! assert_eq!((counts.allocations, counts.bytes), (1, 32));
//! # drop(numbers);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, which notes what each thread asks of it.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "it stands in a static")]
pub struct CountingAllocator;

/// What was allocated. Growing a block in place or elsewhere is one more allocation of the bytes
/// that it grew by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Calls of the allocator that may have taken memory.
    pub allocations: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Those of the calls that were for a block of [`LARGE_BYTES`] or more.
    pub large: u64,
}

/// From here on a block is large, in bytes: the system's allocator asks for fresh memory.
pub const LARGE_BYTES: usize = 128 * 1024;

/// Runs `work` and counts what this thread allocates meanwhile. Nothing is counted unless
/// [`CountingAllocator`] is the global allocator.
pub fn count<T>(work: impl FnOnce() -> T) -> (T, Counts) {
    let before = so_far();
    let value = work();
    let after = so_far();
    let counts = Counts {
        allocations: after.allocations - before.allocations,
        bytes: after.bytes - before.bytes,
        large: after.large - before.large,
    };
    (value, counts)
}

/// What this thread has allocated since it began.
#[must_use]
pub fn so_far() -> Counts {
    THREAD.try_with(Cell::get).unwrap_or_default()
}

/// Runs `work` and gives back the most bytes that the whole program held at once meanwhile.
pub async fn peak<T>(work: impl Future<Output = T>) -> (T, usize) {
    PEAK.store(LIVE.load(Ordering::Relaxed), Ordering::Relaxed);
    let value = work.await;
    (value, PEAK.load(Ordering::Relaxed))
}

/// Bytes that the program holds, and the most that it held since [`peak`] began.
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

fn shrink(bytes: usize) {
    LIVE.fetch_sub(bytes, Ordering::Relaxed);
}

thread_local! {
    // Const and without a destructor, so that reaching it never allocates.
    static THREAD: Cell<Counts> = const { Cell::new(Counts { allocations: 0, bytes: 0, large: 0 }) };
}

/// So many bytes more, for a block of `size`.
fn note(bytes: usize, size: usize) {
    // A thread that is going away has no counter any more.
    let _ = THREAD.try_with(|counts| {
        let Counts { allocations, bytes: before, large } = counts.get();
        counts.set(Counts {
            allocations: allocations + 1,
            bytes: before + bytes as u64,
            large: large + u64::from(size >= LARGE_BYTES),
        });
    });
}

#[allow(unsafe_code, reason = "GlobalAlloc has no safe form; every call is handed to System as is")]
// SAFETY: each method passes its arguments to `System` unchanged and returns what that returns;
// `note`, `grow` and `shrink` neither allocate nor unwind.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), layout.size());
        grow(layout.size());
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), layout.size());
        grow(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size.saturating_sub(layout.size()), size);
        grow(size);
        shrink(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}
