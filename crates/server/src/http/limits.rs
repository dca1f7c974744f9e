//! What one client, and all together, may make the HTTP thread do. Fixed: nobody should have to tune them.

use std::time::Duration;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct HttpLimits {
    /// Open connections; further ones are closed at once.
    pub(super) connections_max: u32,
    /// A connection is closed after this long, whatever it does. Clients open another.
    pub(super) connection_age_max: Duration,
    /// Header lines of a request.
    pub(super) headers_max: usize,
    /// Bytes of a request's head: its first line and its header lines.
    pub(super) head_bytes_max: usize,
    /// What is read of a connection and not yet understood. At least 8 KiB, says hyper.
    pub(super) buffer_bytes_max: usize,
    /// How long a head may take, or the pause before it.
    pub(super) head_wait: Duration,
    /// Bytes that a request may announce as its body. No path wants one; small ones are let pass unread.
    pub(super) body_bytes_max: u64,
    /// How long answering a request may take.
    pub(super) request_wait: Duration,
    /// How long a stop waits for requests under way.
    pub(super) grace: Duration,
    /// How long accepting rests after it failed.
    pub(super) accept_rest: Duration,
}

impl Default for HttpLimits {
    fn default() -> HttpLimits {
        HttpLimits {
            connections_max: 256,
            connection_age_max: Duration::from_secs(300),
            headers_max: 64,
            head_bytes_max: 16 << 10,
            buffer_bytes_max: 32 << 10,
            head_wait: Duration::from_secs(30),
            body_bytes_max: 64 << 10,
            request_wait: Duration::from_secs(10),
            grace: Duration::from_secs(2),
            accept_rest: Duration::from_millis(100),
        }
    }
}
