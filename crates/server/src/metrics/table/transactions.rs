//! The metrics of transactions: what a core's coordinators have open and have ended. The questions of leaders are counted by journal, and what
//! readers wait for by topic.

use prometheus_client::registry::Unit;

use super::super::CoreFigures;
use super::{Metric, counter, gauge, known};

/// Of each core that answers.
pub(in crate::metrics) static OF_COORDINATOR: &[Metric<CoreFigures>] = &[
    gauge(
        "transactional_ids",
        None,
        |core| known(core.transactions.ids),
        "Transactional ids that the core coordinates, those without an open transaction included.",
    ),
    gauge(
        "open_transactions",
        None,
        |core| known(core.transactions.open),
        "Transactions of these ids that have begun and are not completed: those that are being committed or aborted count, too.",
    ),
    gauge(
        "oldest_transaction",
        Some(Unit::Seconds),
        |core| known(core.oldest_transaction),
        "Time since the oldest of these began; 0 if there is none.",
    ),
    counter(
        "transactions_committed",
        None,
        |core| known(core.transactions.committed),
        "Transactions of which the core has decided that they commit.",
    ),
    counter(
        "transactions_aborted",
        None,
        |core| known(core.transactions.aborted),
        "Transactions of which it has decided that they abort: their producers wanted it, a newer producer took their id, or they timed out.",
    ),
    counter(
        "transactions_timed_out",
        None,
        |core| known(core.transactions.timed_out),
        "Those of the aborted ones that were open for longer than their timeout.",
    ),
    gauge(
        "waiting_markers",
        None,
        |core| known(core.transactions.markers_waiting),
        "Markers of decided transactions that their partitions have not taken yet.",
    ),
    counter(
        "retried_markers",
        None,
        |core| known(core.transactions.markers_retried),
        "Times that a partition could not take its marker, which is sent again then.",
    ),
];
