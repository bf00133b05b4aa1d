//! Ctrl-C and its like.

use std::sync::Arc;

use super::progress::Screen;
use crate::progress::Progress as _;

/// What the kernel sends where a file grows too large, on all Linux but MIPS.
#[cfg(unix)]
const SIGXFSZ: i32 = 25;

/// Calls `caught` when signals no longer end the program by themselves, and `stop` at every one
/// that asks it to end.
#[cfg(unix)]
pub(super) async fn obey(screen: Arc<Screen>, caught: impl FnOnce(), stop: impl Fn()) {
    use tokio::signal::unix::{SignalKind, signal};
    // Caught, it no longer kills: a file that grows beyond `ulimit -f` is an error of the write.
    let _too_large = signal(SignalKind::from_raw(SIGXFSZ));
    let mut hangup = if hangup_counts() { signal(SignalKind::hangup()).ok() } else { None };
    let both = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    let (Ok(mut interrupt), Ok(mut terminate)) = both else {
        return screen.warn("signals cannot be caught: Ctrl-C ends the program at once");
    };
    caught();
    let hung_up = async |hangup: &mut Option<tokio::signal::unix::Signal>| match hangup {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    };
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hung_up(&mut hangup) => {}
        }
        stop();
    }
}

#[cfg(not(unix))]
pub(super) async fn obey(_screen: Arc<Screen>, caught: impl FnOnce(), stop: impl Fn()) {
    caught();
    while tokio::signal::ctrl_c().await.is_ok() {
        stop();
    }
}

/// A closed terminal stops the program like Ctrl-C, unless whoever started it (`nohup`) has it
/// ignored. Where the kernel does not say, it is left as it is.
#[cfg(unix)]
fn hangup_counts() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_signals(&status).is_some_and(|mask| mask & 1 == 0)
}

/// The mask of ignored signals, the first bit being SIGHUP, as `proc(5)` writes it.
#[cfg(unix)]
fn ignored_signals(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_what_is_ignored() {
        for (status, mask) in [
            ("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n", Some(0x1001)),
            ("SigIgn:\t0000000000000000\n", Some(0)),
            ("SigIgn:\tx\n", None),
            ("", None),
        ] {
            assert_eq!(ignored_signals(status), mask, "{status:?}");
        }
    }
}
