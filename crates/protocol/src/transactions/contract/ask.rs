//! The answer that belongs to each request, in types: whoever asks gets what requests of that kind are answered with.

use super::{
    AbortTransaction, AddPartitions, Answer, DescribeTransaction, DescribedTransaction, EndTransaction,
    Ended, InitProducer, Initialized, ListTransactions, ListedTransaction, Request, TransactionError,
    VerifiedPartition, VerifyPartitions,
};

/// A [`Request`] of one kind.
pub trait Ask: Into<Request> {
    /// The answer to it, unless it is refused.
    type Answer;

    /// Takes what answers a request of this kind; `None` if it answers another.
    fn take(answer: Answer) -> Option<Result<Self::Answer, TransactionError>>;
}

macro_rules! asks {
    ($($request:ty => $kind:ident($answered:ty);)*) => {$(
        impl From<$request> for Request {
            fn from(request: $request) -> Request {
                Request::$kind(request)
            }
        }

        impl Ask for $request {
            type Answer = $answered;

            fn take(answer: Answer) -> Option<Result<$answered, TransactionError>> {
                match answer {
                    Answer::$kind(answer) => Some(answer),
                    _ => None,
                }
            }
        }
    )*};
}

asks! {
    InitProducer => Init(Initialized);
    AddPartitions => AddPartitions(());
    VerifyPartitions => Verify(Vec<VerifiedPartition>);
    EndTransaction => End(Ended);
    AbortTransaction => Abort(());
    DescribeTransaction => Describe(DescribedTransaction);
    ListTransactions => List(Vec<ListedTransaction>);
}
