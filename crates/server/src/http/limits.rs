//! Bounds on the work that one client, and all together, may give the HTTP thread. Fixed: nobody should have to tune them.
//! Memory for bodies and answers is bounded by the configuration, as for Kafka's requests.

use std::time::Duration;

use crate::seats::SeatLimits;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct HttpLimits {
    /// Open connections. For a further one, the one that has waited longest for a request is closed; if none waits, the
    /// further one is a visitor.
    pub(super) connections: SeatLimits,
    /// Connections beyond those, on which probes are answered and everything else is refused. A further one takes the place
    /// of the first that came.
    pub(super) visitors_max: usize,
    /// A connection is closed after this long and the answer that is under way, unless it follows a partition. Clients open another.
    pub(super) connection_age_max: Duration,
    /// Connections that follow a partition.
    pub(super) followers: SeatLimits,
    /// Header lines of a request.
    pub(super) headers_max: usize,
    /// Bytes of a request's head: its first line and its header lines.
    pub(super) head_bytes_max: usize,
    /// Bytes of a connection that are read and not yet understood. At least 8 KiB, says hyper.
    pub(super) buffer_bytes_max: usize,
    /// The time that a head may take, or the pause before it.
    pub(super) head_wait: Duration,
    /// Bytes that a request may announce as its body where none is wanted; small ones are let pass unread.
    pub(super) unread_bytes_max: usize,
    /// The time that a body may take.
    pub(super) body_wait: Duration,
    /// The time that answering a request may take, beside its own waits.
    pub(super) request_wait: Duration,
    /// The time that an append may take to be durable.
    pub(super) append_wait: Duration,
    /// The time that a change of topics, or a trim, may take.
    pub(super) change_wait: Duration,
    /// The time that a read may wait for records.
    pub(super) read_wait_max: Duration,
    /// The time that a client may take for an answer, or a piece of a stream, beside that of its bytes at the least speed
    /// allowed.
    pub(super) taken_wait: Duration,
    /// The least speed at which answers are taken.
    pub(super) taken_bytes_per_second_min: u64,
    /// A follower hears something at least this often.
    pub(super) heartbeat: Duration,
    /// The time that a stop waits for requests under way.
    pub(super) grace: Duration,
    /// The time that accepting rests after it failed.
    pub(super) accept_rest: Duration,
}

impl HttpLimits {
    /// The time that a client may take for this number of bytes of an answer.
    pub(super) fn taken_within(&self, bytes: usize) -> Duration {
        self.taken_wait + Duration::from_secs(bytes as u64 / self.taken_bytes_per_second_min)
    }
}

impl Default for HttpLimits {
    fn default() -> HttpLimits {
        HttpLimits {
            connections: SeatLimits {
                all: 256,
                per_address: 192,
            },
            visitors_max: 16,
            connection_age_max: Duration::from_secs(300),
            followers: SeatLimits {
                all: 64,
                per_address: 48,
            },
            headers_max: 64,
            head_bytes_max: 16 << 10,
            buffer_bytes_max: 32 << 10,
            head_wait: Duration::from_secs(30),
            unread_bytes_max: 64 << 10,
            body_wait: Duration::from_secs(30),
            request_wait: Duration::from_secs(10),
            append_wait: Duration::from_secs(30),
            change_wait: Duration::from_secs(30),
            read_wait_max: Duration::from_secs(60),
            taken_wait: Duration::from_secs(30),
            taken_bytes_per_second_min: 64 << 10,
            heartbeat: Duration::from_secs(15),
            grace: Duration::from_secs(2),
            accept_rest: Duration::from_millis(100),
        }
    }
}
