//! The client of a request: all that is known of it, by whichever way the request came.
//!
//! Handlers take what depends on the client from here and from nowhere else: its share of memory and of the metadata, the names that
//! groups show of their members, what the log says. Nobody can prove anything yet: everybody is anonymous.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The name that a client has proved to have, as Kafka writes it in its ACLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Principal {
    Anonymous,
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Principal::Anonymous => f.write_str("User:ANONYMOUS"),
        }
    }
}

/// The door that a client came in by, by its name in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listener {
    Kafka,
    Http,
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Listener::Kafka => "kafka",
            Listener::Http => "http",
        })
    }
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    /// The name that a client gives itself, for people; empty if it gives none.
    pub(crate) client_id: Arc<str>,
    pub(crate) peer: SocketAddr,
    pub(crate) listener: Listener,
}

impl Caller {
    /// Returns a client of which nothing is known but where it is.
    pub(crate) fn at(peer: SocketAddr, listener: Listener) -> Caller {
        Caller {
            principal: Principal::Anonymous,
            client_id: Arc::default(),
            peer,
            listener,
        }
    }

    /// Returns the same client with the name that it gives itself.
    pub(crate) fn named(&self, client_id: &str) -> Caller {
        Caller {
            client_id: client_id.into(),
            ..self.clone()
        }
    }

    /// The address by which clients have shares.
    pub(crate) fn address(&self) -> IpAddr {
        self.peer.ip()
    }

    /// The same as groups show it of their members, and Kafka.
    pub(crate) fn shown_host(&self) -> Arc<str> {
        format!("/{}", self.address()).into()
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Caller {
            principal,
            client_id,
            peer,
            listener,
        } = self;
        write!(f, "{principal} at {peer} over {listener}")?;
        match client_id.is_empty() {
            true => Ok(()),
            false => write!(f, " as {client_id:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_told_of_in_one_phrase() {
        let peer = SocketAddr::from(([10, 0, 0, 1], 7));
        let caller = Caller::at(peer, Listener::Kafka);
        assert_eq!(caller.to_string(), "User:ANONYMOUS at 10.0.0.1:7 over kafka");
        assert_eq!(
            caller.named("a\nb").to_string(),
            "User:ANONYMOUS at 10.0.0.1:7 over kafka as \"a\\nb\""
        );
    }
}
