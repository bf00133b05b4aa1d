//! TCP connections that can be broken on purpose.
//!
//! A fault such as "the connection dies before a reply" cannot be told through HTTP, so every
//! connection carries a switch, which the handler of a request holds too. Stopping the server
//! pulls all switches, so that hanging requests never keep it alive.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::clock::{Clock, System};

/// The other end of a connection, with the switch that breaks it.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    cut: CancellationToken,
    reset: Arc<AtomicBool>,
}

impl Peer {
    /// Ends the connection at once: the other side sees a reset.
    pub(super) fn reset(&self) {
        self.reset.store(true, Ordering::Relaxed);
        self.cut.cancel();
    }

    /// Ends the connection at once: the other side sees an orderly end, too early.
    pub(super) fn close(&self) {
        self.cut.cancel();
    }
}

/// Accepts connections until `stop`, which breaks those that are open too.
#[derive(Debug)]
pub(super) struct Door {
    listener: TcpListener,
    stop: CancellationToken,
}

impl Door {
    pub(super) async fn open(addr: SocketAddr, stop: CancellationToken) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(addr).await?, stop })
    }

    pub(super) fn addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    fn peer(&self) -> Peer {
        Peer { cut: self.stop.child_token(), reset: Arc::default() }
    }
}

impl Listener for Door {
    type Io = Wire;
    type Addr = Peer;

    async fn accept(&mut self) -> (Wire, Peer) {
        loop {
            if let Ok((stream, _)) = self.listener.accept().await {
                // Small replies must not wait for more; where that fails, they are only slower.
                let _ = stream.set_nodelay(true);
                let peer = self.peer();
                return (Wire::new(stream, &peer), peer);
            }
            // Out of file descriptors, usually: give connections time to end.
            System::new().sleep(Duration::from_millis(50)).await;
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Ok(self.peer())
    }
}

impl Connected<IncomingStream<'_, Door>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        stream.remote_addr().clone()
    }
}

/// One connection.
pub(super) struct Wire {
    stream: TcpStream,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    reset: Arc<AtomicBool>,
    is_cut: bool,
}

impl Wire {
    fn new(stream: TcpStream, peer: &Peer) -> Self {
        let cut = Box::pin(peer.cut.clone().cancelled_owned());
        Self { stream, cut, reset: Arc::clone(&peer.reset), is_cut: false }
    }

    /// An error once the switch is pulled; otherwise makes sure that pulling it wakes the task.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if !self.is_cut && self.cut.as_mut().poll(cx).is_ready() {
            self.is_cut = true;
            if self.reset.load(Ordering::Relaxed) {
                let _ = self.stream.set_zero_linger();
            }
        }
        if self.is_cut { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
impl Peer {
    /// A switch without a connection.
    pub(super) fn alone() -> Self {
        Self { cut: CancellationToken::new(), reset: Arc::default() }
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.is_cancelled()
    }
}
