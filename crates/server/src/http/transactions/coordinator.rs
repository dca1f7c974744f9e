//! Asks the coordinators of transactions.

use std::time::Duration;

use protocol::transactions::{
    AbortTransaction, Ask, DescribeTransaction, DescribedTransaction, ListTransactions, ListedTransaction,
    Name, TransactionError,
};

use crate::mailbox::Stopping;

use super::super::App;
use super::super::loading::patiently;

/// Why a coordinator did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum TransactionRefusal {
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    #[error("the transaction's coordinator does not answer now; look before trying a change again")]
    NoCoordinator,
    #[error(transparent)]
    Stopping(#[from] Stopping),
}

impl TransactionRefusal {
    fn is_loading(&self) -> bool {
        matches!(
            self,
            TransactionRefusal::Transaction(TransactionError::CoordinatorLoading)
        )
    }
}

/// The transactions of all coordinators that are here.
pub(super) async fn list(
    app: &App,
    filter: ListTransactions,
) -> Result<Vec<ListedTransaction>, TransactionRefusal> {
    let ask = || async {
        let filter = filter.clone();
        let asked = app
            .cores
            .ask_metadata(move |core| async move { core.list_transactions(&filter).await });
        let listed = asked.await?.map_err(|_| TransactionRefusal::NoCoordinator)?;
        Ok(listed?)
    };
    patiently(ask, TransactionRefusal::is_loading).await
}

/// A transactional id as it stands.
pub(super) async fn describe(app: &App, id: &Name) -> Result<DescribedTransaction, TransactionRefusal> {
    let describe = DescribeTransaction {
        transactional_id: Name::clone(id),
    };
    ask(app, id, describe).await
}

/// Has the open transaction that began then aborted, which fences its producer. The outcome is durable then; partitions may not know yet.
pub(super) async fn abort(app: &App, id: &Name, start_ms: i64) -> Result<(), TransactionRefusal> {
    let abort = AbortTransaction {
        transactional_id: Name::clone(id),
        start_ms,
    };
    ask(app, id, abort).await
}

/// Has the coordinator of an id answer a request about it.
async fn ask<A>(app: &App, id: &Name, request: A) -> Result<A::Answer, TransactionRefusal>
where
    A: Ask + Clone + Send + 'static,
    A::Answer: Send + 'static,
{
    let ask = || async {
        let (request, transactional_id) = (request.clone(), Name::clone(id));
        let asked = app.cores.ask_metadata(move |core| async move {
            // Nobody ever had a transactional id where there is no topic for them.
            if core.transactions_topic().is_none() {
                return Ok(Err(TransactionError::TransactionalIdNotFound {
                    transactional_id,
                }));
            }
            core.ask_transactions_for(Duration::ZERO, request).await
        });
        let answered = asked.await?.map_err(|_| TransactionRefusal::NoCoordinator)?;
        Ok(answered?)
    };
    patiently(ask, TransactionRefusal::is_loading).await
}
