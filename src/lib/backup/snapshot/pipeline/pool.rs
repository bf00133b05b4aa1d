//! The buffers between etcd and the bucket: a fixed number, used again and again.
//!
//! A part keeps its buffer until the last byte of it was taken: whoever fills the next one waits
//! until then. So memory is bounded whatever the network does, and a bucket that stalls holds
//! etcd up only once all buffers are full.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// Buffers of one size.
#[derive(Debug)]
pub struct Pool {
    size: usize,
    most: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    free: Vec<Vec<u8>>,
    lent: usize,
    closed: bool,
}

/// One of them, being filled.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    pool: Arc<Pool>,
}

impl Pool {
    /// `most` buffers of `size` bytes, made when they are first needed.
    pub fn new(size: usize, most: usize) -> Arc<Self> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Arc::new(Self { size, most: most.max(1), state, changed })
    }

    /// An empty buffer, once there is one; none after [`Pool::close`]. Blocks.
    pub fn take(self: &Arc<Self>) -> Option<Buffer> {
        let mut state = self.lock();
        while state.lent >= self.most && !state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return None;
        }
        state.lent += 1;
        let bytes = state.free.pop().unwrap_or_else(|| Vec::with_capacity(self.size));
        Some(Buffer { bytes, pool: Arc::clone(self) })
    }

    /// Wakes whoever waits: no more buffers are given.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffer {
    /// Takes of `bytes` what fits and gives the rest.
    pub fn fill<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let room = self.pool.size - self.bytes.len();
        let (now, rest) = bytes.split_at(room.min(bytes.len()));
        self.bytes.extend_from_slice(now);
        rest
    }

    /// Whether nothing fits any more.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= self.pool.size
    }

    /// Its bytes, to be shared; the last one to drop them gives the buffer back.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let mut state = self.pool.lock();
        state.lent -= 1;
        state.free.push(bytes);
        drop(state);
        self.pool.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_only_so_many_and_they_come_back() {
        let pool = Pool::new(4, 2);
        let mut first = pool.take().unwrap();
        assert_eq!(first.fill(b"abcdef"), b"ef");
        assert!(first.is_full());
        let second = pool.take().unwrap();
        assert!(!second.is_full());
        let shared = first.freeze();
        let (again, waiting) = (shared.clone(), Arc::clone(&pool));
        let third = std::thread::spawn(move || waiting.take().map(|buffer| buffer.bytes.len()));
        drop(shared);
        assert!(!third.is_finished(), "somebody still reads it");
        assert_eq!(again, b"abcd"[..]);
        drop(again);
        assert_eq!(third.join().unwrap(), Some(0), "it comes back empty");
    }

    #[test]
    fn who_waits_is_woken_when_nobody_takes_parts_any_more() {
        let pool = Pool::new(4, 1);
        let kept = pool.take().unwrap();
        let waiting = Arc::clone(&pool);
        let woken = std::thread::spawn(move || waiting.take().is_none());
        pool.close();
        assert!(woken.join().unwrap());
        drop(kept);
        assert!(pool.take().is_none());
    }
}
