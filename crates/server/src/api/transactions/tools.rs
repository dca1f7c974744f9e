//! DescribeTransactions and ListTransactions (KIP-664, KIP-994, KIP-1152): what operators look at.

use std::collections::BTreeSet;
use std::rc::Rc;

use kafka_wire::describe_transactions::{TopicData, TransactionState as DescribedState};
use kafka_wire::list_transactions::TransactionState as ListedState;
use kafka_wire::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, ErrorCode, ListTransactionsRequest,
    ListTransactionsResponse, Text,
};
use protocol::ProducerId;
use protocol::transactions::{
    DescribeTransaction, DescribedTransaction, ListTransactions, ListedTransaction, TransactionState,
};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::{Anchored, Input};

use super::super::Envelope;
use super::name;
use crate::core::Core;
use crate::error_codes::transaction_code;

/// Transactional ids that one request describes, and filters that one names.
const IDS_MAX: usize = 1_000;
const FILTERS_MAX: usize = 1_000;
/// Bytes that a pattern may take when it is made ready, as of groups' subscriptions.
const PATTERN_BYTES_MAX: usize = 1 << 20;

pub(in crate::api) async fn describe_transactions(
    core: Rc<Core>,
    request: DescribeTransactionsRequest,
    _envelope: Envelope,
) -> DescribeTransactionsResponse {
    let mut states = Vec::with_capacity(request.transactional_ids.len().min(IDS_MAX));
    let mut seen = BTreeSet::new();
    for id in request.transactional_ids {
        // Naming an id a million times must not multiply the answer.
        if states.len() >= IDS_MAX || !seen.insert(id.clone()) {
            states.push(DescribedState {
                error_code: ErrorCode::InvalidRequest.code(),
                transactional_id: id,
                ..DescribedState::default()
            });
            continue;
        }
        let describe = DescribeTransaction {
            transactional_id: name(&id),
        };
        let described = core.ask_transactions(describe).await;
        let described = described.and_then(|told| told.map_err(|error| transaction_code(&error)));
        states.push(match described {
            Ok(described) => told(id, &described),
            Err(code) => DescribedState {
                error_code: code.code(),
                transactional_id: id,
                ..DescribedState::default()
            },
        });
    }
    DescribeTransactionsResponse {
        throttle_time_ms: 0,
        transaction_states: states,
    }
}

fn told(id: Text, described: &DescribedTransaction) -> DescribedState {
    let mut topics: Vec<TopicData> = Vec::new();
    for partition in &described.partitions {
        match topics.last_mut() {
            Some(last) if *last.topic == *partition.topic => last.partitions.push(partition.index),
            _ => topics.push(TopicData {
                topic: Text::from(&*partition.topic),
                partitions: vec![partition.index],
            }),
        }
    }
    DescribedState {
        error_code: ErrorCode::None.code(),
        transactional_id: id,
        transaction_state: Text::from(described.state.name()),
        transaction_timeout_ms: described.timeout_ms,
        transaction_start_time_ms: described.start_ms,
        producer_id: described.producer.0,
        producer_epoch: described.epoch,
        topics,
    }
}

pub(in crate::api) async fn list_transactions(
    core: Rc<Core>,
    request: ListTransactionsRequest,
    _envelope: Envelope,
) -> ListTransactionsResponse {
    let of_name = |text: &Text| {
        let mut all = TransactionState::ALL.into_iter();
        all.find(|state| state.name() == text.as_str())
    };
    let (known, unknown): (Vec<Text>, Vec<Text>) = request
        .state_filters
        .into_iter()
        .partition(|text| of_name(text).is_some());
    let refused = |code: ErrorCode| ListTransactionsResponse {
        error_code: code.code(),
        ..ListTransactionsResponse::default()
    };
    if request.producer_id_filters.len() > FILTERS_MAX {
        return refused(ErrorCode::InvalidRequest);
    }
    let pattern = match request
        .transactional_id_pattern
        .as_deref()
        .filter(|text| !text.is_empty())
    {
        None => None,
        Some(text) => match whole(text) {
            Some(pattern) => Some(pattern),
            None => return refused(ErrorCode::InvalidRegularExpression),
        },
    };
    let filters = ListTransactions {
        states: known.iter().filter_map(of_name).collect(),
        producers: request.producer_id_filters.into_iter().map(ProducerId).collect(),
        duration_ms: request.duration_filter,
        partition: None,
    };
    // With none but unknown states nothing is asked for.
    let listed = match known.is_empty() && !unknown.is_empty() {
        true => Ok(Vec::new()),
        false => {
            let listed = core.list_transactions(&filters).await;
            listed.and_then(|listed| listed.map_err(|error| transaction_code(&error)))
        }
    };
    let listed = match listed {
        Ok(listed) => listed,
        Err(code) => return refused(code),
    };
    let mut pattern = pattern;
    let is_wanted = |listed: &ListedTransaction| {
        let id = &listed.transactional_id;
        pattern.as_mut().is_none_or(|pattern| pattern.matches(id))
    };
    let states = listed.into_iter().filter(is_wanted).map(|listed| ListedState {
        transactional_id: Text::from(&*listed.transactional_id),
        producer_id: listed.producer.0,
        transaction_state: Text::from(listed.state.name()),
    });
    ListTransactionsResponse {
        throttle_time_ms: 0,
        error_code: ErrorCode::None.code(),
        unknown_state_filters: unknown,
        transaction_states: states.collect(),
    }
}

/// A pattern that ids have to match from end to end.
struct Pattern {
    dfa: DFA,
    cache: Cache,
}

impl Pattern {
    fn matches(&mut self, id: &str) -> bool {
        let input = Input::new(id).anchored(Anchored::Yes);
        // It gives up where it would take too much memory.
        let found = self.dfa.try_search_fwd(&mut self.cache, &input);
        found.is_ok_and(|found| found.is_some())
    }
}

/// A pattern, if it is one and not too large.
fn whole(text: &str) -> Option<Pattern> {
    let nfa = thompson::Config::new().nfa_size_limit(Some(PATTERN_BYTES_MAX));
    let dfa = DFA::builder()
        .thompson(nfa)
        .build(&format!(r"(?:{text})\z"))
        .ok()?;
    let cache = dfa.create_cache();
    Some(Pattern { dfa, cache })
}
