//! How often the members of a group of the consumer protocol are to be heard, and how long they may be silent: as the coordinator's settings
//! say, or the group's own configs. Told by `handle_pace`, never asked for.

use std::time::Duration;

use super::settings::Settings;

/// Heartbeats that a session is to have time for, if a group's configs and the settings come together by chance.
const HEARTBEATS_IN_A_SESSION: u32 = 3;

/// The times that a group's configs set; the others go by the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnPace {
    /// (`consumer.session.timeout.ms`.)
    pub session_timeout: Option<Duration>,
    /// (`consumer.heartbeat.interval.ms`.)
    pub heartbeat_interval: Option<Duration>,
}

/// The times in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    pub(crate) session_timeout: Duration,
    pub(crate) heartbeat_interval: Duration,
}

impl Pace {
    /// Of a group with configs of its own, or without. Nobody has seen a group's configs and a node's settings together, so a heartbeat that would
    /// come too late for the session comes earlier.
    pub(crate) fn of(settings: &Settings, own: Option<&OwnPace>) -> Pace {
        let by_settings = Pace {
            session_timeout: settings.consumer_session_timeout,
            heartbeat_interval: settings.consumer_heartbeat_interval,
        };
        own.map_or(by_settings, |own| {
            let session_timeout = own.session_timeout.unwrap_or(by_settings.session_timeout);
            let interval = own.heartbeat_interval.unwrap_or(by_settings.heartbeat_interval);
            Pace {
                session_timeout,
                heartbeat_interval: interval.min(session_timeout / HEARTBEATS_IN_A_SESSION),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_groups_own_times_go_before_the_settings() {
        let seconds = Duration::from_secs;
        let settings = |session, interval| Settings {
            consumer_session_timeout: seconds(session),
            consumer_heartbeat_interval: seconds(interval),
            ..Settings::default()
        };
        let own = |session: Option<u64>, interval: Option<u64>| OwnPace {
            session_timeout: session.map(seconds),
            heartbeat_interval: interval.map(seconds),
        };
        let pace = |settings: &Settings, own: Option<OwnPace>| {
            let pace = Pace::of(settings, own.as_ref());
            (pace.session_timeout.as_secs(), pace.heartbeat_interval.as_secs())
        };
        assert_eq!(pace(&settings(6, 5), None), (6, 5), "as its operator has it");
        assert_eq!(pace(&settings(45, 5), Some(own(None, None))), (45, 5));
        assert_eq!(pace(&settings(45, 5), Some(own(Some(60), Some(15)))), (60, 15));
        assert_eq!(
            pace(&settings(6, 1), Some(own(None, Some(15)))),
            (6, 2),
            "in time"
        );
        assert_eq!(
            pace(&settings(120, 60), Some(own(Some(45), None))),
            (45, 15),
            "in time"
        );
    }
}
