//! Appends and trims that are of one epoch alone.

use record::Epoch;

use super::*;

/// A writer whose epoch is over may still have something on its way.
#[tokio::test]
async fn what_is_of_another_epoch_is_neither_appended_nor_trimmed() {
    LocalSet::new()
        .run_until(async {
            let shard = shard();
            offset(append(&shard, FLUSHED)).await;
            let append_in = |epoch: Epoch| {
                let (request, answer) =
                    AppendRequest::new(FLUSHED, batch(Compression::None, 0, 9), Acks::Quorum);
                shard.append(request.in_epoch(Some(epoch)));
                answer
            };
            let now = shard.with_leader(FLUSHED, Leader::epoch).expect("it is led");
            let over = Epoch(now.0 - 1);
            assert_eq!(offset(append_in(now)).await, 1);
            assert!(matches!(
                outcome(append_in(over)).await,
                Err(AppendRefusal::NotLeader)
            ));
            let trimmed = shard.trim_own(FLUSHED, Offset(1), over).await;
            assert!(matches!(trimmed, Err(AppendRefusal::NotLeader)));
            let trimmed = shard.trim_own(FLUSHED, Offset(1), now).await;
            assert_eq!(trimmed.map(|trimmed| trimmed.next), Ok(Offset(1)));
        })
        .await;
}
