//! Options of a producer, and the rules by which they go together.

use std::time::Duration;

use record::Compression;

use crate::error::{ClientError, Result};

/// Batches of one idempotent producer that a broker tells apart: with more in flight a retry could pass for new.
pub const IDEMPOTENT_IN_FLIGHT_MAX: usize = 5;

/// When an append counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Acks {
    /// When it was sent: nothing is answered, losses go unseen.
    None,
    /// When the leader has it.
    Leader,
    /// When it is committed.
    All,
}

impl Acks {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> i16 {
        match self {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        }
    }
}

impl std::str::FromStr for Acks {
    type Err = ClientError;

    /// Reads `0`, `1`, `all` or `-1`.
    fn from_str(text: &str) -> Result<Acks> {
        match text {
            "0" => Ok(Acks::None),
            "1" => Ok(Acks::Leader),
            "all" | "-1" => Ok(Acks::All),
            _ => Err(ClientError::Options(format!(
                "acks is 0, 1 or all, but {text:?} was given"
            ))),
        }
    }
}

/// Options of a producer.
#[derive(Debug, Clone)]
pub struct ProducerOptions {
    /// When an append counts as done.
    pub acks: Acks,
    /// The most batches in flight.
    pub in_flight_max: usize,
    /// Batches carry sequence numbers, so that a retry is never a second append.
    pub idempotent: bool,
    /// The compression of batches.
    pub compression: Compression,
    /// The time for which failed batches are tried again. Zero reports the first failure. Without `idempotent`, a batch that
    /// may have been appended already is never sent again.
    pub retry_for: Duration,
}

impl Default for ProducerOptions {
    /// Committed, five in flight, with sequence numbers, tried again for 30 s.
    fn default() -> ProducerOptions {
        ProducerOptions {
            acks: Acks::All,
            in_flight_max: IDEMPOTENT_IN_FLIGHT_MAX,
            idempotent: true,
            compression: Compression::None,
            retry_for: Duration::from_secs(30),
        }
    }
}

/// Checks that a producer can behave so.
pub(super) fn check_options(options: &ProducerOptions) -> Result<()> {
    let wrong = |text: String| Err(ClientError::Options(text));
    if options.in_flight_max == 0 {
        return wrong("a producer needs at least one batch in flight".to_owned());
    }
    if !options.idempotent {
        return Ok(());
    }
    if options.acks != Acks::All {
        return wrong("an idempotent producer needs acks=all".to_owned());
    }
    if options.in_flight_max > IDEMPOTENT_IN_FLIGHT_MAX {
        return wrong(format!(
            "an idempotent producer may have {IDEMPOTENT_IN_FLIGHT_MAX} batches in flight, not {}",
            options.in_flight_max
        ));
    }
    Ok(())
}
