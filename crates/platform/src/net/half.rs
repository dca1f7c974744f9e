//! The two halves of a stream, for a task that reads and one that writes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::{Stream, simulated};

/// The half that is read.
#[derive(Debug)]
pub enum ReadHalf {
    /// Of a TCP connection.
    Tcp(OwnedReadHalf),
    /// Of a simulated one.
    Simulated(simulated::ReadEnd),
}

/// The half that is written. Dropping it ends what the other side reads.
#[derive(Debug)]
pub enum WriteHalf {
    /// Of a TCP connection.
    Tcp(OwnedWriteHalf),
    /// Of a simulated one.
    Simulated(simulated::WriteEnd),
}

impl ReadHalf {
    /// Returns when reading gives bytes, the end or an error at once.
    ///
    /// # Errors
    /// The runtime is being shut down.
    pub async fn readable(&mut self) -> io::Result<()> {
        match self {
            ReadHalf::Tcp(input) => input.readable().await,
            ReadHalf::Simulated(input) => {
                std::future::poll_fn(|context| input.poll_readable(context)).await;
                Ok(())
            }
        }
    }

    pub(super) fn is_of(&self, output: &WriteHalf) -> bool {
        match (self, output) {
            (ReadHalf::Tcp(input), WriteHalf::Tcp(output)) => std::ptr::eq(input.as_ref(), output.as_ref()),
            (ReadHalf::Simulated(input), WriteHalf::Simulated(output)) => input.is_of(output),
            _ => false,
        }
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ReadHalf::Tcp(input) => Pin::new(input).poll_read(context, buffer),
            ReadHalf::Simulated(input) => Pin::new(input).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            WriteHalf::Tcp(output) => Pin::new(output).poll_write(context, bytes),
            WriteHalf::Simulated(output) => Pin::new(output).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            WriteHalf::Tcp(output) => Pin::new(output).poll_write_vectored(context, slices),
            WriteHalf::Simulated(output) => Pin::new(output).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            WriteHalf::Tcp(output) => Pin::new(output).poll_flush(context),
            WriteHalf::Simulated(output) => Pin::new(output).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            WriteHalf::Tcp(output) => Pin::new(output).poll_shutdown(context),
            WriteHalf::Simulated(output) => Pin::new(output).poll_shutdown(context),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().input).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().output).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().output).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().output).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().output).poll_shutdown(context)
    }
}
