//! Connections between processes: streams of bytes, real ones over TCP and simulated ones over queues.
//!
//! The maker of a node hands it a `Net`, so that a simulation can delay, hold back and reset what the node's connections carry.
//! A stream is attached to the runtime (tokio) of the thread that uses it: to go to another thread it is detached first.

mod half;
mod simulated;
mod tcp;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::net::{TcpListener, TcpStream};

pub use half::{ReadHalf, WriteHalf};
pub use simulated::SimulatedNet;
pub use tcp::Tcp;

/// A connection that is being made.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

/// The network as one process sees it.
pub trait Net: Send + Sync + 'static {
    /// Binds an address, given as `host:port`; port 0 is any that is free. Clients are refused before [`Bound::attach`], so that they turn to
    /// another node meanwhile; where the system chose the port they wait.
    ///
    /// # Errors
    /// The name has no address, or the address is not this machine's, or clients of another process are let in there.
    fn listen(&self, address: &str) -> io::Result<Bound>;

    /// Finds all addresses that a name has. Blocks.
    ///
    /// # Errors
    /// The name is not known, or cannot be looked up now.
    fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;

    /// Connects to an address. To be awaited on a runtime.
    fn connect(&self, address: SocketAddr) -> Connecting;
}

/// An address that is bound, for one runtime to let clients in.
#[derive(Debug)]
pub struct Bound(BoundKind);

#[derive(Debug)]
enum BoundKind {
    Tcp(socket2::Socket),
    Simulated(simulated::Listener),
}

impl Bound {
    /// Returns the address, with the port that was found for port 0.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            BoundKind::Tcp(socket) => tcp::address(socket),
            BoundKind::Simulated(listener) => Ok(listener.address()),
        }
    }

    /// Lets clients in, on the runtime that calls.
    ///
    /// # Errors
    /// Another process was faster at this address, or the runtime has no descriptor left.
    pub fn attach(self) -> io::Result<Listener> {
        Ok(Listener(match self.0 {
            BoundKind::Tcp(socket) => ListenerKind::Tcp(TcpListener::from_std(tcp::listen(socket)?)?),
            BoundKind::Simulated(listener) => ListenerKind::Simulated(listener.open()),
        }))
    }
}

/// Lets clients in.
#[derive(Debug)]
pub struct Listener(ListenerKind);

#[derive(Debug)]
enum ListenerKind {
    Tcp(TcpListener),
    Simulated(simulated::Listener),
}

impl Listener {
    /// Waits for the next client; returns its connection and its address. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// The system has no descriptor left, or the client was gone before it was let in: another may be let in after a rest.
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        match &self.0 {
            ListenerKind::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Stream::from(stream), peer))
            }
            ListenerKind::Simulated(listener) => {
                let (ends, peer) = listener.accept().await;
                Ok((Stream::from(ends), peer))
            }
        }
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct Stream {
    input: ReadHalf,
    output: WriteHalf,
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Stream {
        let (input, output) = stream.into_split();
        Stream {
            input: ReadHalf::Tcp(input),
            output: WriteHalf::Tcp(output),
        }
    }
}

impl From<simulated::Ends> for Stream {
    fn from((input, output): simulated::Ends) -> Stream {
        Stream {
            input: ReadHalf::Simulated(input),
            output: WriteHalf::Simulated(output),
        }
    }
}

impl Stream {
    /// Has small writes sent at once.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn set_nodelay(&self) -> io::Result<()> {
        match &self.output {
            WriteHalf::Tcp(output) => output.as_ref().set_nodelay(true),
            WriteHalf::Simulated(_) => Ok(()),
        }
    }

    /// Splits it for two tasks.
    pub fn split(self) -> (ReadHalf, WriteHalf) {
        (self.input, self.output)
    }

    /// Joins what `split` gave.
    ///
    /// # Panics
    /// If the halves are of two streams: the caller's mistake.
    pub fn join(input: ReadHalf, output: WriteHalf) -> Stream {
        assert!(input.is_of(&output), "both halves are of one stream");
        Stream { input, output }
    }

    /// Detaches it from its runtime.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn detach(self) -> io::Result<Detached> {
        Ok(Detached(match (self.input, self.output) {
            (ReadHalf::Tcp(input), WriteHalf::Tcp(output)) => {
                let stream = input.reunite(output).map_err(io::Error::other)?;
                DetachedKind::Tcp(stream.into_std()?)
            }
            (ReadHalf::Simulated(input), WriteHalf::Simulated(output)) => {
                DetachedKind::Simulated((input, output))
            }
            _ => unreachable!("both halves are of one stream"),
        }))
    }
}

/// One end of a connection on its way to another thread. What comes meanwhile waits.
#[derive(Debug)]
pub struct Detached(DetachedKind);

#[derive(Debug)]
enum DetachedKind {
    Tcp(std::net::TcpStream),
    Simulated(simulated::Ends),
}

impl Detached {
    /// Attaches it to the runtime that calls.
    ///
    /// # Errors
    /// The runtime has no descriptor left for it.
    pub fn attach(self) -> io::Result<Stream> {
        Ok(match self.0 {
            DetachedKind::Tcp(stream) => TcpStream::from_std(stream)?.into(),
            DetachedKind::Simulated(ends) => ends.into(),
        })
    }
}
