//! Tells a node that one of its cores has died: the core's thread ended although nobody had told it to.
//!
//! A release build ends the whole process at a panic. Where panics unwind, a core could die alone, and a node that
//! nobody stops would go on with its partitions missing: so whoever started the node can wait for this.

use tokio::sync::watch;

/// A core's thread has ended by itself: a mistake of ours, told in the log. What was acknowledged is on the disk; the
/// partitions of this core are served again when the node is started anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("core {core} has died; its partitions are not served until the node is started again")]
pub struct CoreDied {
    /// Which core.
    pub core: usize,
}

/// The first death of a node, if there was one.
pub(crate) type Deaths = watch::Receiver<Option<CoreDied>>;

/// Held by a core's thread. Dropped, it tells of the core's death, unless that was an end in order.
pub(crate) struct DeathNotice {
    core: usize,
    first: watch::Sender<Option<CoreDied>>,
    in_order: bool,
}

/// The place where deaths are told, and the notices for `cores`.
pub(crate) fn death_notices(cores: usize) -> (Deaths, Vec<DeathNotice>) {
    let (first, deaths) = watch::channel(None);
    let notice = |core| DeathNotice {
        core,
        first: first.clone(),
        in_order: false,
    };
    (deaths, (0..cores).map(notice).collect())
}

/// The first death. `None` when all cores have ended in order.
pub(crate) async fn first_death(mut deaths: Deaths) -> Option<CoreDied> {
    let died = deaths.wait_for(Option::is_some).await;
    died.ok().and_then(|died| *died)
}

impl DeathNotice {
    /// The core ends because it was told to: nothing is told.
    pub(crate) fn end_in_order(mut self) {
        self.in_order = true;
    }
}

impl Drop for DeathNotice {
    fn drop(&mut self) {
        if self.in_order {
            return;
        }
        let died = CoreDied { core: self.core };
        tracing::error!("{died}");
        self.first.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(died);
            is_first
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn the_first_death_is_told_and_an_end_in_order_is_none() {
        let (deaths, mut notices) = death_notices(3);
        notices.remove(0).end_in_order();
        assert_eq!(first_death(deaths.clone()).now_or_never(), None, "two still live");
        drop(notices.remove(1));
        drop(notices);
        let first = Some(CoreDied { core: 2 });
        assert_eq!(first_death(deaths).now_or_never(), Some(first));

        let (deaths, notices) = death_notices(2);
        notices.into_iter().for_each(DeathNotice::end_in_order);
        assert_eq!(first_death(deaths).now_or_never(), Some(None));
    }
}
