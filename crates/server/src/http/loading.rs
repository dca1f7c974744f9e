//! Coordinators that still read their logs are asked again for a while, so that whoever comes first to a node that has just started need
//! not know of that.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The time that a coordinator may read its log while somebody waits, and the pause before it is asked again.
const WAIT: Duration = Duration::from_secs(5);
const REST: Duration = Duration::from_millis(20);

/// Asks again while a coordinator is loading. It has done nothing then.
pub(super) async fn patiently<T, E, F>(
    mut ask: impl FnMut() -> F,
    is_loading: impl Fn(&E) -> bool,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let deadline = Instant::now() + WAIT;
    loop {
        match ask().await {
            Err(error) if is_loading(&error) && Instant::now() < deadline => sleep(REST).await,
            answered => return answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Asks a coordinator that is loading this number of times, and then answers so; returns the number of questions, and its last
    /// answer.
    fn ask_until(times: u32, then: Result<(), &'static str>) -> (u32, Result<(), &'static str>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("there is a thread");
        let asked = Cell::new(0);
        let ask = || async {
            asked.set(asked.get() + 1);
            match asked.get() <= times {
                true => Err("loading"),
                false => then,
            }
        };
        let answer = runtime.block_on(patiently(ask, |error| *error == "loading"));
        (asked.get(), answer)
    }

    #[test]
    fn a_coordinator_that_reads_its_log_is_waited_for_and_not_for_ever() {
        assert_eq!(ask_until(3, Ok(())), (4, Ok(())));
        let (asked, answer) = ask_until(u32::MAX, Ok(()));
        assert_eq!(answer, Err("loading"));
        let most = WAIT.as_millis() / REST.as_millis() + 1;
        assert!(u128::from(asked) <= most, "{asked}");
        // Of any other refusal it is not known whether something was done.
        assert_eq!(ask_until(0, Err("refused")), (1, Err("refused")));
    }
}
