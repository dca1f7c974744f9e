//! The views that operators have of transactional ids: one described, or many listed. Nothing changes here.

use std::collections::BTreeMap;

use super::contract::{
    DescribeTransaction, DescribedTransaction, ListTransactions, ListedTransaction, Name, TransactionError,
};
use super::entry::Entry;
use super::state::IdState;

/// Describes one id as its durable state has it.
pub(super) fn describe(
    entries: &BTreeMap<Name, Entry>,
    request: &DescribeTransaction,
) -> Result<DescribedTransaction, TransactionError> {
    let transactional_id = Name::clone(&request.transactional_id);
    let Some(state) = entries
        .get(&transactional_id)
        .and_then(|entry| entry.state.as_ref())
    else {
        return Err(TransactionError::TransactionalIdNotFound { transactional_id });
    };
    Ok(DescribedTransaction {
        transactional_id,
        state: state.phase,
        timeout_ms: state.timeout_ms,
        start_ms: state.start_ms,
        producer: state.producer,
        epoch: state.epoch,
        partitions: state.partitions.iter().cloned().collect(),
    })
}

/// Lists the ids that a filter lets through, sorted.
pub(super) fn list(
    entries: &BTreeMap<Name, Entry>,
    filter: &ListTransactions,
    now_ms: i64,
) -> Vec<ListedTransaction> {
    let is_wanted = |state: &IdState| {
        (filter.states.is_empty() || filter.states.contains(&state.phase))
            && (filter.producers.is_empty() || filter.producers.contains(&state.producer))
            && (filter.duration_ms < 0 || now_ms.saturating_sub(state.start_ms) > filter.duration_ms)
            && (filter.partition.as_ref()).is_none_or(|partition| state.partitions.contains(partition))
    };
    let states = entries
        .iter()
        .filter_map(|(name, entry)| Some((name, entry.state.as_ref()?)));
    states
        .filter(|(_, state)| is_wanted(state))
        .map(|(name, state)| ListedTransaction {
            transactional_id: Name::clone(name),
            producer: state.producer,
            epoch: state.epoch,
            state: state.phase,
            timeout_ms: state.timeout_ms,
            start_ms: state.start_ms,
            partition_count: state.partitions.len(),
        })
        .collect()
}
