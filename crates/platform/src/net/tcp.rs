//! The network of the operating system.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpStream;

use super::{Bound, BoundKind, Connecting, Net, Stream};

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 1024;

/// TCP, over IPv4 and IPv6.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tcp;

impl Net for Tcp {
    fn listen(&self, address: &str) -> io::Result<Bound> {
        let address: SocketAddr = address
            .to_socket_addrs()?
            .next()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the name has no address"))?;
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // Restarting must not wait for connections of the last run to time out.
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        if address.port() == 0 {
            // Else the system may choose the same port for another process.
            socket.listen(BACKLOG)?;
        }
        Ok(Bound(BoundKind::Tcp(socket)))
    }

    fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        (host, port).to_socket_addrs().map(Iterator::collect)
    }

    fn connect(&self, address: SocketAddr) -> Connecting {
        Box::pin(async move { TcpStream::connect(address).await.map(Stream::from) })
    }
}

/// Lets clients connect to an address that is bound.
pub(super) fn listen(socket: Socket) -> io::Result<TcpListener> {
    socket.listen(BACKLOG)?;
    let listener = TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

pub(super) fn address(socket: &Socket) -> io::Result<SocketAddr> {
    let address = socket.local_addr()?.as_socket();
    address.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_stream_splits_joins_and_goes_to_another_runtime() {
        let bound = Tcp.listen("127.0.0.1:0").expect("a free port");
        let address = bound.address().expect("it is bound");
        let listener = bound.attach().expect("a descriptor");
        let mut client = Tcp.connect(address).await.expect("somebody listens");
        let (stream, peer) = listener.accept().await.expect("a client");
        assert!(peer.ip().is_loopback());
        let (mut input, output) = stream.split();
        client.write_all(b"one").await.expect("it is taken");
        let mut read = [0; 3];
        input.read_exact(&mut read).await.expect("it comes");
        assert_eq!(&read, b"one");
        let detached = Stream::join(input, output).detach().expect("it is whole");
        let elsewhere = crate::threads::spawn("elsewhere", move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let mut stream = detached.attach().expect("a descriptor");
                stream.write_all(b"two").await.expect("it is taken");
            });
        });
        elsewhere.expect("a thread").join().expect("no panic");
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.expect("it ends in order");
        assert_eq!(rest, b"two");
    }

    #[tokio::test]
    async fn clients_are_refused_until_they_are_let_in() {
        let free = Tcp.listen("127.0.0.1:0").expect("a free port");
        let address = free.address().expect("it is bound");
        drop(free);
        let bound = Tcp.listen(&address.to_string()).expect("it is free again");
        let refused = Tcp.connect(address).await.map(|_| ());
        assert_eq!(
            refused.map_err(|error| error.kind()),
            Err(io::ErrorKind::ConnectionRefused)
        );
        let listener = bound.attach().expect("nobody else is there");
        Tcp.connect(address).await.expect("it is let in");
        listener.accept().await.expect("a client");
    }

    #[tokio::test]
    async fn of_two_that_begin_at_one_address_the_first_lets_clients_in() {
        let free = Tcp.listen("127.0.0.1:0").expect("a free port");
        let address = free.address().expect("it is bound").to_string();
        drop(free);
        let [first, second] = [(); 2].map(|()| Tcp.listen(&address).expect("nobody is let in there"));
        let listener = first.attach().expect("nobody else is there");
        let taken = second.attach().map(drop).map_err(|error| error.kind());
        assert_eq!(taken, Err(std::io::ErrorKind::AddrInUse));
        drop(listener);
    }

    #[test]
    fn an_address_that_is_taken_is_an_error() {
        let bound = Tcp.listen("127.0.0.1:0").expect("a free port");
        let address = bound.address().expect("it is bound").to_string();
        assert_eq!(
            Tcp.listen(&address).map(|_| ()).map_err(|error| error.kind()),
            Err(io::ErrorKind::AddrInUse)
        );
        assert!(Tcp.listen("nowhere").is_err());
    }
}
