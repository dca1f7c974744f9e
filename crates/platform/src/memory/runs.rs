//! Memory on huge pages, for large buffers that go to a disk or come from one.
//!
//! A disk pins each page of what it is given, so few large pages cost less than many small ones. But the kernel clears a huge page when
//! it is touched first, for milliseconds, in the time of the thread that does so: an allocator that asks for huge pages everywhere has small
//! requests wait for it. So large buffers have memory of their own: blocks of one huge page each, and a thread that touches free blocks
//! before they are needed. Blocks that become free are used again; some are kept, the rest is given back.
//!
//! ```text
//! chunk   | block of 2 MiB | block | ...      reserved at once, and never given up
//! block   | slot of 64 KiB | ... | slot       a run is as many slots beside each other as a buffer needs, or whole blocks
//! ```
//! Two buffers must never share a slot.

use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Less than this is better off with other memory.
pub(super) const RUN_BYTES_MIN: usize = 256 << 10;

const SLOT_BYTES: usize = 64 << 10;
/// As many as a mask has bits.
const BLOCK_SLOTS: usize = 32;
/// A huge page.
const BLOCK_BYTES: usize = BLOCK_SLOTS * SLOT_BYTES;
const CHUNK_BLOCKS: usize = 32;
const CHUNK_BYTES: usize = CHUNK_BLOCKS * BLOCK_BYTES;
/// Free blocks that are touched before they are needed.
const READY_BLOCKS: usize = 2;
/// Free blocks whose pages are kept.
const KEPT_BLOCKS: usize = 32;

/// The least that a page has.
const PAGE_BYTES: usize = 4 << 10;

/// As `nice` has it.
const LEAST_PRIORITY: i32 = 19;

/// A run of slots that nobody else has. It may hold bytes of an earlier buffer.
pub(super) struct Run {
    start: NonNull<u8>,
    slots: usize,
}

impl Run {
    /// A run with room for so many bytes; `None` where that is too little or too much for one, or the system gives no memory.
    pub(super) fn of(bytes: usize) -> Option<Run> {
        if !(RUN_BYTES_MIN..=CHUNK_BYTES).contains(&bytes) {
            return None;
        }
        let memory = Memory::of_process();
        let slots = bytes.div_ceil(SLOT_BYTES);
        let mut runs = memory.lock();
        let start = runs.take(slots)?;
        if runs.wants_more() {
            memory.wanted.notify_one();
        }
        Some(Run { start, slots })
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

// SAFETY: a run is its owner's alone, as a box is.
unsafe impl Send for Run {}
// SAFETY: through a shared reference nothing can be done with it but to learn its address.
unsafe impl Sync for Run {}

impl Drop for Run {
    fn drop(&mut self) {
        Memory::of_process().lock().give(self.start, self.slots);
    }
}

/// The runs of the process, and who prepares them.
struct Memory {
    runs: Mutex<Runs>,
    /// Fewer blocks are ready than should be.
    wanted: Condvar,
}

impl Memory {
    fn of_process() -> &'static Memory {
        static MEMORY: Memory = Memory {
            runs: Mutex::new(Runs::new()),
            wanted: Condvar::new(),
        };
        static PREPARES: OnceLock<()> = OnceLock::new();
        PREPARES.get_or_init(|| {
            let thread = thread::Builder::new().name("memory".to_owned());
            // Without it a buffer's owner touches its blocks.
            let _ = thread.spawn(|| MEMORY.prepare_for_ever());
        });
        &MEMORY
    }

    fn lock(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Touches free blocks, for ever, when nobody has anything better to do.
    fn prepare_for_ever(&self) {
        // Both are of this thread alone. The one that began it may be pinned to a CPU, and is in more of a hurry. Where the system does not let
        // it, it stays as it is.
        let mut all = CpuSet::new();
        (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
        let _ = sched_setaffinity(None, &all);
        let _ = setpriority_process(None, LEAST_PRIORITY);
        let mut runs = self.lock();
        loop {
            let untouched = match runs.wants_more() {
                true => runs.take_untouched(),
                false => None,
            };
            let Some(untouched) = untouched else {
                runs = self.wanted.wait(runs).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(runs);
            touch(&untouched);
            runs = self.lock();
            runs.give_touched(untouched);
        }
    }
}

/// A free block that nobody may have before it was touched.
struct Untouched {
    block: Block,
    start: NonNull<u8>,
}

/// Blocks count through all chunks.
type Block = usize;

/// Which slots are whose.
struct Runs {
    /// Where each chunk begins.
    chunks: Vec<NonNull<u8>>,
    /// Slots of each block that somebody has, as a mask.
    used: Vec<u32>,
    /// Free blocks that were never touched, or whose pages were given back.
    untouched: BTreeSet<Block>,
    /// Other blocks, by the length of their longest free run.
    by_room: [BTreeSet<Block>; BLOCK_SLOTS + 1],
}

// SAFETY: the addresses are of memory that lives as long as the process, and each run of it has one owner.
unsafe impl Send for Runs {}

impl Runs {
    const fn new() -> Runs {
        Runs {
            chunks: Vec::new(),
            used: Vec::new(),
            untouched: BTreeSet::new(),
            by_room: [const { BTreeSet::new() }; BLOCK_SLOTS + 1],
        }
    }

    /// The number of free blocks that were touched.
    fn ready(&self) -> usize {
        self.by_room[BLOCK_SLOTS].len()
    }

    /// Says that blocks should be touched: some, once somebody has asked for any.
    fn wants_more(&self) -> bool {
        !self.chunks.is_empty() && self.ready() < READY_BLOCKS
    }

    fn start_of(&self, block: Block) -> NonNull<u8> {
        let chunk = self.chunks[block / CHUNK_BLOCKS];
        // SAFETY: the block lies within its chunk.
        unsafe { chunk.add(block % CHUNK_BLOCKS * BLOCK_BYTES) }
    }

    /// Gives a run to somebody, in the block where it fits best.
    fn take(&mut self, slots: usize) -> Option<NonNull<u8>> {
        if slots > BLOCK_SLOTS {
            return self.take_blocks(slots);
        }
        let mut fitting = self.by_room[slots..].iter().filter_map(BTreeSet::first);
        let block = match fitting.next() {
            Some(block) => *block,
            None => {
                let untouched = self.take_untouched()?;
                let block = untouched.block;
                self.give_touched(untouched);
                block
            }
        };
        let used = self.used[block];
        let mask = mask(slots);
        let slot = (0..=BLOCK_SLOTS - slots).find(|slot| used & (mask << slot) == 0)?;
        self.set_used(block, used | (mask << slot));
        // SAFETY: the slot lies within its block.
        Some(unsafe { self.start_of(block).add(slot * SLOT_BYTES) })
    }

    /// Gives blocks beside each other to somebody, the last one in part. They are touched by whom they are for.
    fn take_blocks(&mut self, slots: usize) -> Option<NonNull<u8>> {
        let count = slots.div_ceil(BLOCK_SLOTS);
        let beside = |used: &[u32]| {
            used.windows(count)
                .position(|blocks| blocks.iter().all(|used| *used == 0))
        };
        let mut chunks = self.used.chunks(CHUNK_BLOCKS).enumerate();
        let found = chunks.find_map(|(chunk, used)| Some(chunk * CHUNK_BLOCKS + beside(used)?));
        let first = match found {
            Some(first) => first,
            None => self.add_chunk()?,
        };
        for (block, used) in (first..).zip(masks(slots)) {
            self.untouched.remove(&block);
            self.set_used(block, used);
        }
        Some(self.start_of(first))
    }

    fn take_untouched(&mut self) -> Option<Untouched> {
        if self.untouched.is_empty() {
            self.add_chunk()?;
        }
        let block = self.untouched.pop_first()?;
        self.used[block] = u32::MAX;
        let start = self.start_of(block);
        Some(Untouched { block, start })
    }

    fn give_touched(&mut self, touched: Untouched) {
        self.set_used(touched.block, 0);
    }

    /// Takes a run back.
    fn give(&mut self, start: NonNull<u8>, slots: usize) {
        let is_in = |chunk: &NonNull<u8>| {
            (0..CHUNK_BYTES).contains(&(start.addr().get().wrapping_sub(chunk.addr().get())))
        };
        let chunk = self.chunks.iter().position(is_in).expect("it was taken here");
        let offset = start.addr().get() - self.chunks[chunk].addr().get();
        let first = chunk * CHUNK_BLOCKS + offset / BLOCK_BYTES;
        if slots <= BLOCK_SLOTS {
            let slot = offset % BLOCK_BYTES / SLOT_BYTES;
            return self.free(first, mask(slots) << slot);
        }
        for (block, used) in (first..).zip(masks(slots)) {
            self.free(block, used);
        }
    }

    fn free(&mut self, block: Block, slots: u32) {
        let used = self.used[block];
        assert_eq!(used & slots, slots, "what is given back was taken");
        self.set_used(block, used & !slots);
        if self.used[block] == 0 && self.ready() > KEPT_BLOCKS {
            self.by_room[BLOCK_SLOTS].remove(&block);
            give_back(self.start_of(block));
            self.untouched.insert(block);
        }
    }

    fn set_used(&mut self, block: Block, used: u32) {
        self.by_room[room(self.used[block])].remove(&block);
        self.used[block] = used;
        self.by_room[room(used)].insert(block);
    }

    /// Reserves a chunk; gives its first block.
    fn add_chunk(&mut self) -> Option<Block> {
        let first = self.used.len();
        self.chunks.push(reserve()?);
        self.used.resize(first + CHUNK_BLOCKS, 0);
        self.untouched.extend(first..first + CHUNK_BLOCKS);
        Some(first)
    }
}

/// The slots of each block that a run of whole blocks takes.
fn masks(slots: usize) -> impl Iterator<Item = u32> {
    (0..slots)
        .step_by(BLOCK_SLOTS)
        .map(move |before| mask((slots - before).min(BLOCK_SLOTS)))
}

/// So many slots from the first on.
fn mask(slots: usize) -> u32 {
    u32::MAX >> (BLOCK_SLOTS - slots)
}

/// The longest run of slots that are free.
fn room(used: u32) -> usize {
    let mut free = !used;
    let mut longest = 0;
    while free != 0 {
        free &= free << 1;
        longest += 1;
    }
    longest
}

/// Reserves a chunk at a multiple of a block. Where the system has no huge pages, it is on small ones.
fn reserve() -> Option<NonNull<u8>> {
    let (protection, flags) = (
        ProtFlags::READ | ProtFlags::WRITE,
        MapFlags::PRIVATE | MapFlags::NORESERVE,
    );
    // SAFETY: a new mapping, at an address of the system's choice.
    let mapped =
        unsafe { mmap_anonymous(std::ptr::null_mut(), CHUNK_BYTES + BLOCK_BYTES, protection, flags) };
    let mapped = NonNull::new(mapped.ok()?.cast::<u8>())?;
    let skipped = mapped.addr().get().next_multiple_of(BLOCK_BYTES) - mapped.addr().get();
    // SAFETY: less than a block is skipped, and the mapping has one more than the chunk.
    let chunk = unsafe { mapped.add(skipped) };
    // SAFETY: the chunk is mapped.
    let _ = unsafe { madvise(chunk.as_ptr().cast(), CHUNK_BYTES, Advice::LinuxHugepage) };
    Some(chunk)
}

/// Has the kernel clear a block's pages now, by writing to each: one call for all would keep other threads from mapping memory meanwhile.
fn touch(untouched: &Untouched) {
    for page in (0..BLOCK_BYTES).step_by(PAGE_BYTES) {
        // SAFETY: the page is mapped, lies within the block, and is nobody's.
        unsafe { untouched.start.add(page).write_volatile(0) };
    }
}

/// Gives a block's pages back to the system; it stays mapped.
fn give_back(block: NonNull<u8>) {
    // SAFETY: the block is mapped, and nobody's: what is in it may be lost.
    let _ = unsafe { madvise(block.as_ptr().cast(), BLOCK_BYTES, Advice::LinuxDontNeed) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_the_longest_run() {
        let longest = |used: u32| {
            (0..=BLOCK_SLOTS).rev().find(|slots| {
                *slots == 0 || (0..=BLOCK_SLOTS - slots).any(|slot| used & (mask(*slots) << slot) == 0)
            })
        };
        for of in 0..100_000_u32 {
            let used = of.wrapping_mul(0x9E37_79B9) & of.rotate_left(11);
            assert_eq!(Some(room(used)), longest(used), "{used:b}");
        }
        assert_eq!((room(0), room(u32::MAX)), (BLOCK_SLOTS, 0));
    }

    /// Many runs of all lengths, taken and given back in any order: no slot is of two, and each keeps what was written to it.
    #[test]
    fn runs_never_share_a_slot() {
        let mut runs = Runs::new();
        let mut held: Vec<(NonNull<u8>, usize, u8)> = Vec::new();
        let mut random = 7_u64;
        let mut below = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % bound
        };
        let edges = |start: NonNull<u8>, slots: usize| {
            (0..slots).flat_map(move |slot| {
                [slot * SLOT_BYTES, (slot + 1) * SLOT_BYTES - 1].map(|at| {
                    // SAFETY: within the run.
                    unsafe { start.add(at) }
                })
            })
        };
        for step in 0..20_000_u32 {
            if held.len() < 60 && below(2) == 0 {
                let slots = match below(8) {
                    0 => 33 + below(100) as usize,
                    _ => 1 + below(32) as usize,
                };
                let start = runs.take(slots).expect("there is memory");
                assert!(start.addr().get().is_multiple_of(SLOT_BYTES));
                // SAFETY: the run is held by nobody else.
                edges(start, slots).for_each(|at| unsafe { at.write(step as u8) });
                held.push((start, slots, step as u8));
            } else if !held.is_empty() {
                let (start, slots, written) = held.swap_remove(below(held.len() as u64) as usize);
                // SAFETY: it was written when it was taken.
                assert!(edges(start, slots).all(|at| unsafe { at.read() } == written));
                runs.give(start, slots);
            }
            if below(50) == 0 {
                let untouched = runs.take_untouched().expect("there is memory");
                touch(&untouched);
                runs.give_touched(untouched);
            }
            assert!(runs.ready() <= KEPT_BLOCKS + 1 + CHUNK_BLOCKS);
        }
        for (start, slots, _) in held {
            runs.give(start, slots);
        }
        assert!(runs.used.iter().all(|used| *used == 0), "all came back");
        let free = runs.untouched.len() + runs.ready();
        assert_eq!(free, runs.used.len(), "and is free");
    }

    #[test]
    fn a_run_is_ready_before_it_is_needed() {
        drop(Run::of(RUN_BYTES_MIN).expect("there is memory"));
        while Memory::of_process().lock().wants_more() {
            thread::yield_now();
        }
    }

    #[test]
    fn what_is_too_small_or_too_large_has_other_memory() {
        for bytes in [RUN_BYTES_MIN - 1, CHUNK_BYTES + 1] {
            assert!(Run::of(bytes).is_none());
        }
    }
}
