//! The metrics of each journal: what is appended, flushed, read, laid out and compacted, and what is wrong with it.

use prometheus_client::registry::Unit;
use shard::AppendRefusal;

use super::super::{JournalFigures, RetentionFigures};
use super::{Metric, counter, gauge, histogram, known};

/// Of each journal of a core that answers.
pub(in crate::metrics) static OF_JOURNAL: &[Metric<JournalFigures>] = &[
    gauge(
        "partitions",
        None,
        |journal| known(journal.partitions),
        "Partitions that write to the journal, the internal one of the metadata included.",
    ),
    gauge(
        "led_partitions",
        None,
        |journal| known(journal.led.open),
        "Partitions of several replicas that this node leads.",
    ),
    gauge(
        "opening_partitions",
        None,
        |journal| known(journal.led.opening),
        "Partitions that this node is to lead, and that wait for other replicas; so do their clients.",
    ),
    gauge(
        "short_partitions",
        None,
        |journal| known(journal.led.short),
        "Partitions led here of which some replica is not reached, or is still being sent what it lacks (as Kafka's under-replicated partitions).",
    ),
    counter(
        "epochs_opened",
        None,
        |journal| known(journal.epochs_opened),
        "Times that this node began to lead a partition of several replicas.",
    ),
    counter(
        "epochs_ended",
        None,
        |journal| known(journal.epochs_ended),
        "Times that its leadership of such a partition ended, also for a later epoch of its own.",
    ),
    counter(
        "shipped",
        Some(Unit::Bytes),
        |journal| known(journal.shipped_bytes),
        "Bytes of batches that were sent to replicas which lacked them.",
    ),
    gauge(
        "deferred",
        Some(Unit::Bytes),
        |journal| known(journal.deferred_bytes),
        "Bytes of batches of other leaders that wait for room in this journal.",
    ),
    gauge(
        "idempotent_producers",
        None,
        |journal| known(journal.producers),
        "Idempotent producers that the journal's partitions remember together; producers.bytes_per_journal bounds them.",
    ),
    counter(
        "verifications",
        None,
        |journal| known(journal.verifications),
        "Questions to coordinators whether a transaction may open in one of the journal's partitions.",
    ),
    counter(
        "refused_verifications",
        None,
        |journal| known(journal.refused_verifications),
        "Those that were refused or not answered: the batches that waited were refused, too.",
    ),
    counter(
        "appended_batches",
        None,
        |journal| known(journal.appended_batches),
        "Record batches appended.",
    ),
    counter(
        "batches_in_place",
        None,
        |journal| known(journal.batches_in_place),
        "Record batches appended that were not copied between the socket and the journal: large ones, each alone in its request.",
    ),
    counter(
        "appended_records",
        None,
        |journal| known(journal.appended_records),
        "Records appended.",
    ),
    counter(
        "appended",
        Some(Unit::Bytes),
        |journal| known(journal.appended_bytes),
        "Bytes of the record batches appended.",
    ),
    counter(
        "flushes",
        None,
        |journal| known(journal.flush_latency.count()),
        "Durable writes to the journal, failed ones included.",
    ),
    counter(
        "flushed",
        Some(Unit::Bytes),
        |journal| known(journal.flushed_bytes),
        "Bytes given to durable writes, with frames and padding.",
    ),
    counter(
        "flush",
        Some(Unit::Seconds),
        |journal| known(journal.flush_latency.sum()),
        "Time that durable writes took; divided by flushes, the mean of one.",
    ),
    histogram(
        "flush_latency",
        |journal| known(journal.flush_latency),
        "Time that each durable write to the journal took, failed ones included.",
    ),
    gauge(
        "unflushed",
        Some(Unit::Bytes),
        |journal| known(journal.store.unflushed_bytes),
        "Bytes staged for the journal and not yet durable.",
    ),
    gauge(
        "stalled_appends",
        None,
        |journal| known(journal.stalled_appends),
        "Appends that wait for room: in the journal, or of topics in memory for what was answered before to be flushed.",
    ),
    gauge(
        "journal",
        Some(Unit::Bytes),
        |journal| known(journal.store.journal_bytes),
        "Bytes of the journal that are not released yet.",
    ),
    gauge(
        "journal_max",
        Some(Unit::Bytes),
        |journal| known(journal.store.journal_bytes_max),
        "The most bytes that the journal may hold; appends wait when it is full.",
    ),
    gauge(
        "tail_cache",
        Some(Unit::Bytes),
        |journal| known(journal.store.tail_cache_bytes),
        "Memory that holds what was written lately.",
    ),
    gauge(
        "chunk_cache",
        Some(Unit::Bytes),
        |journal| known(journal.store.chunk_cache_bytes),
        "Memory that holds pieces and indexes of segments that were read lately or ahead of a reader.",
    ),
    counter(
        "chunk_cache_hits",
        None,
        |journal| known(journal.store.chunk_cache_hits),
        "Pieces of segments that were found in the chunk cache.",
    ),
    counter(
        "chunk_cache_misses",
        None,
        |journal| known(journal.store.chunk_cache_misses),
        "Pieces of segments that were not found in the chunk cache.",
    ),
    counter(
        "disk_reads",
        None,
        |journal| known(journal.disk_reads),
        "Reads that went to the disk, those ahead of a reader included.",
    ),
    counter(
        "read",
        Some(Unit::Bytes),
        |journal| known(journal.read_bytes),
        "Bytes of record batches read for consumers, from memory or disk.",
    ),
    counter(
        "layout_rounds",
        None,
        |journal| known(journal.layout_rounds),
        "Checkpoints that were tried, each after a round of layout from the journal into segments.",
    ),
    counter(
        "compaction_passes",
        None,
        |journal| known(journal.compaction.passes),
        "Passes of compaction over a partition that came to their end.",
    ),
    counter(
        "compaction_failures",
        None,
        |journal| known(journal.compaction.failures),
        "Passes of compaction that failed: the log says why. Each partition is tried again after five minutes.",
    ),
    counter(
        "compaction",
        Some(Unit::Seconds),
        |journal| known(journal.compaction.time),
        "Time that steps of compaction took, without the rests between them.",
    ),
    counter(
        "compaction_read",
        Some(Unit::Bytes),
        |journal| known(journal.compaction.read_bytes),
        "Bytes of segments that compaction has read, most of them twice: for their keys, and for what stays.",
    ),
    counter(
        "compaction_written",
        Some(Unit::Bytes),
        |journal| known(journal.compaction.written_bytes),
        "Bytes of segments that compaction has written.",
    ),
    counter(
        "compaction_removed_records",
        None,
        |journal| known(journal.compaction.removed_records),
        "Records that compaction has removed, tombstones among them.",
    ),
    counter(
        "compaction_removed_tombstones",
        None,
        |journal| known(journal.compaction.removed_tombstones),
        "Tombstones that compaction has removed after delete.retention.ms.",
    ),
    counter(
        "compaction_freed",
        Some(Unit::Bytes),
        |journal| known(journal.compaction.freed_bytes),
        "Bytes by which compaction has made segments smaller.",
    ),
    gauge(
        "compaction_waiting",
        Some(Unit::Bytes),
        |journal| known(journal.compaction.waiting_bytes),
        "Bytes of complete segments that wait for a compaction that is due.",
    ),
    counter(
        "scrubbed",
        Some(Unit::Bytes),
        |journal| known(journal.scrubbed_bytes),
        "Bytes of segments read in search of damage.",
    ),
    counter(
        "scrub_passes",
        None,
        |journal| known(journal.scrub_passes),
        "Times that all segments of the journal's partitions were read in search of damage.",
    ),
    counter(
        "damages",
        None,
        |journal| known(journal.damages),
        "Damaged places in segments that reads, replicas or scrubbing have met, each counted once since the start.",
    ),
    counter(
        "lent_reads",
        None,
        |journal| known(journal.lent_reads),
        "Reads of damaged records that were answered with those of another replica.",
    ),
    counter(
        "repairs",
        None,
        |journal| known(journal.repairs),
        "Damaged segments that were written anew with the records of another replica.",
    ),
    counter(
        "failed_repairs",
        None,
        |journal| known(journal.failed_repairs),
        "Attempts to write a damaged segment anew that came to nothing; each is made again.",
    ),
    counter(
        "faults",
        None,
        |journal| known(journal.faults),
        "Failures of the disk and damaged data that the journal and its segments have met.",
    ),
    gauge(
        "journal_dead",
        None,
        |journal| known(matches!(journal.refusal, Some(AppendRefusal::JournalDead(_)))),
        "1 if a durable write has failed: the journal takes no appends until the node is started again.",
    ),
    gauge(
        "disk_full",
        None,
        |journal| known(journal.disk_full),
        "1 while the disk has less than its reserve left; clients' appends are refused then.",
    ),
];

/// The metrics of each journal and each config by which retention takes records.
pub(in crate::metrics) static OF_RETENTION: &[Metric<RetentionFigures>] = &[
    counter(
        "retention_trims",
        None,
        |retention| known(retention.trims),
        "Times that a partition lost records to its topic's retention, by the config that said so.",
    ),
    counter(
        "retention_records",
        None,
        |retention| known(retention.records),
        "Offsets that went that way.",
    ),
    counter(
        "retention",
        Some(Unit::Bytes),
        |retention| known(retention.bytes),
        "Bytes that this freed at once; what lies in the journal, or in a segment of which some is kept, is freed later.",
    ),
];
