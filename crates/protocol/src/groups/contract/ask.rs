//! The answer that belongs to each request, in types: whoever asks gets what requests of that kind are answered with.

use super::{
    Answer, CommitOffsets, CommitPending, ConsumerHeartbeat, DeleteGroup, DeleteOffsets, DescribeClassic,
    DescribeConsumer, DescribedClassic, DescribedConsumer, EndTransaction, FetchOffsets, FetchedTopic,
    GroupError, Heard, Heartbeat, JoinGroup, Joined, LeaveGroup, LeftMember, ListGroups, ListedGroups,
    PartitionOutcome, Request, SyncGroup, Synced,
};

/// A [`Request`] of one kind.
pub trait Ask: Into<Request> {
    /// The answer to it, unless it is refused.
    type Answer;

    /// Takes what answers a request of this kind; `None` if it answers another.
    fn take(answer: Answer) -> Option<Result<Self::Answer, GroupError>>;
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

            fn take(answer: Answer) -> Option<Result<$answered, GroupError>> {
                match answer {
                    Answer::$kind(answer) => Some(answer),
                    _ => None,
                }
            }
        }
    )*};
}

asks! {
    JoinGroup => Join(Joined);
    SyncGroup => Sync(Synced);
    Heartbeat => Heartbeat(());
    LeaveGroup => Leave(Vec<LeftMember>);
    CommitOffsets => CommitOffsets(Vec<PartitionOutcome>);
    CommitPending => CommitPending(Vec<PartitionOutcome>);
    EndTransaction => EndTransaction(());
    FetchOffsets => FetchOffsets(Vec<FetchedTopic>);
    DeleteOffsets => DeleteOffsets(Vec<PartitionOutcome>);
    ConsumerHeartbeat => ConsumerHeartbeat(Heard);
    DescribeClassic => DescribeClassic(DescribedClassic);
    DescribeConsumer => DescribeConsumer(DescribedConsumer);
    ListGroups => List(ListedGroups);
    DeleteGroup => DeleteGroup(());
}
