//! The order on several shards: by seeds with crashes, and the line by all interleavings of a few threads.

mod entries;
mod interleavings;
mod pages;
mod recovery;
mod seeds;
