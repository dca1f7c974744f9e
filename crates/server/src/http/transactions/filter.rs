//! The transactions that a list is wanted of.

use std::fmt::Write;

use protocol::groups::Name;
use protocol::transactions::{ListTransactions, TopicPartition, TransactionState};

use super::super::App;
use super::super::paging::Paging;
use super::super::problem::Problem;
use super::super::uri::{Query, bad_parameter};
use super::{Listed, coordinator};

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    /// For coordinators to look at.
    pub(super) asked: ListTransactions,
    pub(super) paging: Paging,
    /// Ids begin so.
    prefix: String,
    /// Open for so long at least.
    open_ms: Option<i64>,
}

impl Filter {
    /// The parameters that `read` reads.
    pub(super) const PARAMETERS: &[&str] = &["limit", "after", "state", "prefix", "open_ms", "partition"];

    pub(super) fn read(query: &Query) -> Result<Filter, Problem> {
        let open_ms = query.number("open_ms", 0..=i64::MAX)?;
        let mut states = query.get("state").map_or(Ok(Vec::new()), read_states)?;
        if states.is_empty() && open_ms.is_some() {
            states.extend(TransactionState::ALL.into_iter().filter(|state| state.is_open()));
        }
        Ok(Filter {
            asked: ListTransactions {
                states,
                producers: Vec::new(),
                duration_ms: -1,
                partition: query.get("partition").map(read_place).transpose()?,
            },
            paging: Paging::read(query)?,
            prefix: query.get("prefix").unwrap_or_default().to_owned(),
            open_ms,
        })
    }

    /// All that have a partition, from an id on.
    pub(super) fn of_partition(partition: TopicPartition) -> Filter {
        Filter {
            asked: ListTransactions {
                states: Vec::new(),
                producers: Vec::new(),
                duration_ms: -1,
                partition: Some(partition),
            },
            paging: Paging {
                limit: usize::MAX - 1,
                after: None,
            },
            prefix: String::new(),
            open_ms: None,
        }
    }

    /// The first that this node coordinates, by id.
    pub(super) async fn find(&self, app: &App) -> Result<Vec<Listed>, Problem> {
        let found = coordinator::list(app, self.asked.clone()).await?;
        let (node, now_ms) = (app.cores.facts.node, app.cores.facts.clock.wall_ms());
        let mut wanted = Vec::new();
        for transaction in &found {
            let id = &*transaction.transactional_id;
            if !id.starts_with(&self.prefix) || !self.paging.is_ahead(id) {
                continue;
            }
            let listed = Listed::of(transaction, node, now_ms);
            let is_old = |least| listed.open_ms.is_some_and(|open_ms| open_ms >= least);
            if self.open_ms.is_none_or(is_old) {
                wanted.push(listed);
            }
        }
        Ok(self.paging.first_by_name(wanted, |transaction| &transaction.id))
    }
}

fn read_states(text: &str) -> Result<Vec<TransactionState>, Problem> {
    let read = |name: &str| {
        let mut all = TransactionState::ALL.into_iter();
        all.find(|state| state.name() == name).ok_or_else(|| {
            let mut detail =
                format!("state must name states, with commas between, and there is no {name:?}; there are ");
            for (at, state) in TransactionState::ALL.iter().enumerate() {
                let comma = if at == 0 { "" } else { ", " };
                let _ = write!(detail, "{comma}{}", state.name());
            }
            bad_parameter("state", detail)
        })
    };
    text.split(',').map(read).collect()
}

fn read_place(text: &str) -> Result<TopicPartition, Problem> {
    let place = text.rsplit_once(':').and_then(|(topic, index)| {
        let index = index.parse().ok().filter(|index| *index >= 0)?;
        Some(TopicPartition {
            topic: Name::from(topic),
            index,
        })
    });
    place.ok_or_else(|| {
        let detail = format!("partition must be TOPIC:PARTITION, not {text:?}");
        bad_parameter("partition", detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Filter, Problem> {
        Filter::read(&Query::read(Some(query), Filter::PARAMETERS).expect("known parameters"))
    }

    #[test]
    fn states_and_places_are_read_strictly() {
        let filter = read("state=Ongoing,PrepareAbort&partition=a:b:3").expect("sound");
        let states = [TransactionState::Ongoing, TransactionState::PrepareAbort];
        assert_eq!(filter.asked.states, states);
        let place = filter.asked.partition.expect("named");
        assert_eq!((&*place.topic, place.index), ("a:b", 3));
        for bad in [
            "state=ongoing",
            "state=Ongoing,",
            "partition=a",
            "partition=a:-1",
            "open_ms=-1",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let problem = read("state=Open").expect_err("no state").json();
        assert!(
            problem["detail"]
                .to_string()
                .contains("Empty, Ongoing, PrepareCommit")
        );
    }

    #[test]
    fn what_has_been_open_for_a_while_is_open() {
        let filter = read("open_ms=5").expect("sound");
        assert!(filter.asked.states.iter().all(|state| state.is_open()));
        assert_eq!(filter.asked.states.len(), 3);
        assert!(read("").expect("sound").asked.states.is_empty());
    }
}
