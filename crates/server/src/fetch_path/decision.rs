//! Decides whether a fetch has enough, waits, or must have room first, from what a look has found and from nothing else.

/// The sums of a look at partitions.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sight {
    /// Bytes of the batches found.
    pub(super) found_bytes: usize,
    /// Bytes that there are: of a partition that has more than was found, all that it may bring. Whole batches hardly ever add
    /// up to just that.
    pub(super) available_bytes: usize,
    /// Bytes that the look had room for. `None` if there was none: then it has only seen where partitions stand.
    pub(super) room_bytes: Option<usize>,
    /// More may be found at once, further on.
    pub(super) is_part: bool,
    /// There are records that were not found for want of room.
    pub(super) lies_ahead: bool,
    /// A partition is to be read at another node.
    pub(super) is_elsewhere: bool,
    /// A partition cannot be read. What is not there, or not yet, keeps nobody from waiting for the rest.
    pub(super) has_failed: bool,
}

/// The next step of a fetch after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Answer,
    WaitForRoom,
    WaitForRecords,
}

/// Decides for a fetch that wants `bytes_min` at least.
pub(super) fn decide(sight: &Sight, bytes_min: usize) -> Decision {
    // With less room it never finds `bytes_min`: something is better than nothing.
    let is_cramped = sight.room_bytes.unwrap_or(0) < bytes_min;
    // And there is no waiting for what is there already, only further on.
    let is_all_there = is_cramped || sight.is_part || sight.available_bytes >= bytes_min;
    if sight.has_failed
        || sight.is_elsewhere
        || sight.found_bytes >= bytes_min
        || (sight.found_bytes > 0 && is_all_there)
    {
        return Decision::Answer;
    }
    match sight.room_bytes.is_none() && sight.lies_ahead {
        true => Decision::WaitForRoom,
        false => Decision::WaitForRecords,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: usize = 1_000;

    /// Room for all, and so much found.
    fn found(found_bytes: usize) -> Sight {
        Sight {
            found_bytes,
            available_bytes: found_bytes,
            room_bytes: Some(MIN),
            ..Sight::default()
        }
    }

    #[test]
    fn enough_is_answered_and_less_waits() {
        assert_eq!(decide(&found(MIN), MIN), Decision::Answer);
        for few in [0, 1, MIN - 1] {
            assert_eq!(decide(&found(few), MIN), Decision::WaitForRecords, "{few}");
        }
        assert_eq!(decide(&found(0), 0), Decision::Answer, "it waits for nothing");
    }

    #[test]
    fn too_little_is_answered_where_waiting_would_not_bring_more() {
        let cramped = Sight {
            room_bytes: Some(MIN - 1),
            ..found(1)
        };
        let part = Sight {
            is_part: true,
            ..found(1)
        };
        let last_batch_did_not_fit = Sight {
            available_bytes: MIN,
            ..found(1)
        };
        for sight in [cramped, part, last_batch_did_not_fit] {
            assert_eq!(decide(&sight, MIN), Decision::Answer, "{sight:?}");
            let nothing = Sight {
                found_bytes: 0,
                ..sight
            };
            assert_eq!(decide(&nothing, MIN), Decision::WaitForRecords, "{nothing:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_at_once() {
        let failed = Sight {
            has_failed: true,
            ..found(0)
        };
        assert_eq!(decide(&failed, MIN), Decision::Answer);
    }

    #[test]
    fn room_is_waited_for_only_where_there_is_something_to_read() {
        let without_room = Sight {
            room_bytes: None,
            ..Sight::default()
        };
        assert_eq!(decide(&without_room, MIN), Decision::WaitForRecords);
        let starved = Sight {
            lies_ahead: true,
            ..without_room
        };
        assert_eq!(decide(&starved, MIN), Decision::WaitForRoom);
    }
}
