//! Reading ahead: what a reader who reads on where it stopped will ask for next is in the chunk cache before it asks.
//!
//! Decides only what to load; the owner runs the jobs beside everything else. All that is loaded and not asked for yet keeps
//! to a share of the cache, and a failure here is nobody's: the reader that asks for the bytes hears of it.

use std::collections::VecDeque;

use record::PartitionId;

use super::Store;
use super::load::{Loaded, ReadJob, ReadOutcome};
use super::pieces::{choose_chunks, covers, piece_key};
use super::read::Wanted;
use crate::segment::{Chunk, PIECE_BYTES, Segment, pieces_of};

/// Readers that are followed.
const STREAMS_MAX: usize = 64;
/// Loads under way: enough to keep a disk busy, and few enough to leave threads for other jobs.
const LOADS_MAX: usize = 2;
/// The most that one load begins with; it goes on to the end of a piece.
const LOAD_BYTES_MAX: usize = WINDOW_BYTES.1 / 2;
/// Bytes that lie ready for a reader, at least and at most: twice its answer within that, and the piece that it stands in.
const WINDOW_BYTES: (usize, usize) = (2 * PIECE_BYTES as usize, 8 * PIECE_BYTES as usize);
/// The share of the chunk cache for what nobody has asked for yet.
const CACHE_SHARE: usize = 2;
/// When there is no room, what lies ready for a reader that was silent while others read so often is forgotten.
const SILENT_READS_MAX: u64 = 32;

/// The readers, and what is being loaded for them.
pub(super) struct ReadAhead {
    streams: Vec<Stream>,
    loads: Vec<Load>,
    /// Counts reads: the clock of `last_read`.
    reads: u64,
    bytes_max: usize,
}

/// One reader.
struct Stream {
    partition: PartitionId,
    /// Where it will read on.
    next: i64,
    /// It has read on at least once.
    is_steady: bool,
    answer_bytes: usize,
    last_read: u64,
    /// The ends of what lies ready or is being loaded, and how many bytes each load has.
    ready: VecDeque<(i64, usize)>,
}

/// Pieces that are being loaded. Where they end is not known before their segment's index is: then it may be at its end.
struct Load {
    partition: PartitionId,
    /// Up to where the stream had loaded.
    ahead: i64,
    first: i64,
    next: i64,
    end_is_known: bool,
}

impl Stream {
    fn ready_bytes(&self) -> usize {
        self.ready.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Where loading goes on.
    fn ahead(&self) -> i64 {
        self.ready.back().map_or(self.next, |(end, _)| *end)
    }

    /// The bytes to load at a time: as many as the reader takes at a time, so that no more threads are woken for it than without.
    fn load_bytes(&self) -> usize {
        self.answer_bytes.clamp(PIECE_BYTES as usize, LOAD_BYTES_MAX)
    }

    fn is_hungry(&self) -> bool {
        let (least, most) = WINDOW_BYTES;
        let window = (2 * self.answer_bytes + PIECE_BYTES as usize).clamp(least, most);
        self.is_steady && self.ready_bytes() < window
    }
}

impl ReadAhead {
    /// Nobody reads yet. Keeps to a share of a cache of `cache_bytes`.
    pub(super) fn new(cache_bytes: usize) -> ReadAhead {
        ReadAhead {
            streams: Vec::new(),
            loads: Vec::new(),
            reads: 0,
            bytes_max: cache_bytes / CACHE_SHARE,
        }
    }

    /// Takes note that `[from, next)` was read out of segments.
    pub(super) fn note_read(&mut self, partition: PartitionId, from: i64, next: i64, bytes: usize) {
        self.reads += 1;
        let followed = self
            .streams
            .iter_mut()
            .find(|stream| stream.partition == partition && stream.next == from);
        if let Some(stream) = followed {
            stream.next = next;
            stream.is_steady = true;
            stream.answer_bytes = bytes;
            stream.last_read = self.reads;
            while stream.ready.front().is_some_and(|(end, _)| *end <= next) {
                stream.ready.pop_front();
            }
            return;
        }
        if self.streams.len() == STREAMS_MAX {
            let streams = self.streams.iter().enumerate();
            let oldest = streams.min_by_key(|(_, stream)| stream.last_read);
            let (oldest, _) = oldest.expect("there are as many as there may be");
            self.streams.swap_remove(oldest);
        }
        self.streams.push(Stream {
            partition,
            next,
            is_steady: false,
            answer_bytes: bytes,
            last_read: self.reads,
            ready: VecDeque::new(),
        });
    }

    /// Says whether the batch with `offset` is being loaded, or may be.
    pub(super) fn is_loading(&self, partition: PartitionId, offset: i64) -> bool {
        self.loads
            .iter()
            .any(|load| load.partition == partition && (load.first..load.next).contains(&offset))
    }

    /// Streams to load for, the one with the least at hand first.
    fn hungry(&self) -> Vec<usize> {
        let streams = self.streams.iter().enumerate();
        let mut hungry: Vec<usize> = streams
            .filter(|(_, stream)| stream.is_hungry())
            .map(|(index, _)| index)
            .collect();
        hungry.sort_by_key(|index| self.streams[*index].ready_bytes());
        hungry
    }

    /// The bytes that may lie ready beside those that do.
    fn room(&self) -> usize {
        let ready_bytes = self.streams.iter().map(Stream::ready_bytes).sum();
        self.bytes_max.saturating_sub(ready_bytes)
    }

    /// Says whether `bytes` more may lie ready, if need be instead of what lies ready for a reader that is gone.
    fn has_room(&mut self, bytes: usize) -> bool {
        let reads = self.reads;
        let is_silent = |stream: &Stream| stream.last_read + SILENT_READS_MAX < reads;
        while self.room() < bytes {
            let silent = self
                .streams
                .iter_mut()
                .find(|stream| !stream.ready.is_empty() && is_silent(stream));
            let Some(silent) = silent else { return false };
            silent.ready.clear();
            silent.is_steady = false;
        }
        true
    }

    /// Has the streams that waited for a load go on behind what it found, whether the cache can keep that or not.
    fn move_on(&mut self, load: &Load, found: impl Iterator<Item = (i64, usize)> + Clone) {
        for stream in &mut self.streams {
            if stream.partition == load.partition && stream.ahead() == load.ahead {
                stream.ready.extend(found.clone());
            }
        }
    }

    fn forget(&mut self, partition: PartitionId) {
        self.streams.retain(|stream| stream.partition != partition);
    }
}

/// The next need of a stream.
enum Next {
    /// Nothing, or nothing that may be loaded now.
    Nothing,
    /// In the cache already, up to this offset.
    Cached(i64, usize),
    /// To be loaded from an offset of a segment on; the end, if it is known.
    Load(Segment, i64, Option<(i64, usize)>),
}

impl Store {
    /// The next piece to load for readers who will ask for it, if any: run it anywhere, then give its outcome to
    /// `finish_read_ahead`.
    pub fn next_read_ahead(&mut self) -> Option<ReadJob> {
        if self.caches.ahead.loads.len() >= LOADS_MAX {
            return None;
        }
        self.caches
            .ahead
            .hungry()
            .into_iter()
            .find_map(|stream| self.load_for(stream))
    }

    fn load_for(&mut self, stream: usize) -> Option<ReadJob> {
        loop {
            match self.needed_by(&self.caches.ahead.streams[stream]) {
                Next::Nothing => return None,
                Next::Cached(next, bytes) => {
                    self.caches.ahead.streams[stream].ready.push_back((next, bytes));
                    if !self.caches.ahead.streams[stream].is_hungry() {
                        return None;
                    }
                }
                Next::Load(segment, first, end) => {
                    let bytes = end.map_or(PIECE_BYTES as usize, |(_, bytes)| bytes);
                    if !self.caches.ahead.has_room(bytes) {
                        return None;
                    }
                    return Some(self.load(stream, segment, first, end));
                }
            }
        }
    }

    fn load(&mut self, stream: usize, segment: Segment, first: i64, end: Option<(i64, usize)>) -> ReadJob {
        let stream = &mut self.caches.ahead.streams[stream];
        let (partition, ahead) = (stream.partition, stream.ahead());
        stream.ready.extend(end);
        self.caches.ahead.loads.push(Load {
            partition,
            ahead,
            first,
            next: end.map_or(segment.next, |(next, _)| next),
            end_is_known: end.is_some(),
        });
        let wanted = Wanted {
            partition,
            from: first,
            until: segment.next,
            bytes_max: end.map_or(PIECE_BYTES as usize, |(_, bytes)| bytes),
        };
        self.plan_segment(segment, wanted).of_whole_pieces()
    }

    fn needed_by(&self, stream: &Stream) -> Next {
        let (partition, ahead) = (stream.partition, stream.ahead());
        let Some(log) = self.partitions.get(&partition) else {
            return Next::Nothing;
        };
        let in_memory = log
            .tail_index(ahead)
            .is_some_and(|index| log.tail[index].frame >= self.journal.resident_from());
        let Some(segment) = log.segment_index(ahead).map(|index| log.segments[index]) else {
            return Next::Nothing;
        };
        let first = ahead.max(segment.first);
        if in_memory || first < log.log_start || self.caches.ahead.is_loading(partition, first) {
            return Next::Nothing;
        }
        let table = self.caches.tables.peek(&(partition, segment.name()));
        match table.filter(|table| covers(table, &segment)) {
            Some(table) => self.missing_of(stream, &segment, table, first),
            None => Next::Load(segment, first, None),
        }
    }

    /// The need of a stream in a segment whose index is here.
    fn missing_of(&self, stream: &Stream, segment: &Segment, table: &[Chunk], first: i64) -> Next {
        let cached = |offset: i64| {
            let key = piece_key((stream.partition, segment.name()), table, offset)?;
            self.caches.pieces.peek(&key).filter(|piece| piece.holds(offset))
        };
        if let Some(piece) = cached(first) {
            return Next::Cached(piece.next(), piece.held_bytes());
        }
        let wanted = Wanted {
            partition: stream.partition,
            from: first,
            until: segment.next,
            // A piece, if there is room for no more.
            bytes_max: stream.load_bytes().min(self.caches.ahead.room()).max(1),
        };
        let chosen = choose_chunks(table, &wanted, true);
        let missing = pieces_of(chosen).take_while(|chunks| cached(chunks[0].first.max(first)).is_none());
        let chunks = &chosen[..missing.map(<[Chunk]>::len).sum()];
        let end = chunks.last().map_or(segment.next, |chunk| chunk.next);
        let bytes = chunks.iter().map(|chunk| chunk.length as usize).sum();
        Next::Load(*segment, first, Some((end, bytes)))
    }

    /// Takes the outcome of a `next_read_ahead`: whoever waits for it may ask again.
    pub fn finish_read_ahead(&mut self, outcome: ReadOutcome) {
        let (partition, first) = (outcome.wanted.partition, outcome.wanted.from);
        let loads = &mut self.caches.ahead.loads;
        let place = loads
            .iter()
            .position(|load| (load.partition, load.first) == (partition, first))
            .expect("a load ends once");
        let load = loads.swap_remove(place);
        match outcome.result {
            Ok(Loaded::Segment {
                segment,
                file,
                table,
                pieces,
            }) if self.has_segment((partition, segment)) => {
                if !load.end_is_known {
                    let found = pieces.iter().map(|piece| (piece.next(), piece.held_bytes()));
                    self.caches.ahead.move_on(&load, found);
                }
                self.keep_loaded((partition, segment), file, table, pieces);
            }
            // Given up meanwhile; or a failure. Whoever reads there is told, until then it is not tried again.
            _ => self.caches.ahead.forget(partition),
        }
    }
}
