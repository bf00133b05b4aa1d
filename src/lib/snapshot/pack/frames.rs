//! Compressed data, written as zstd frames, one after another.
//!
//! A file of several frames is a zstd file like another (RFC 8878, 3). A frame is made of one
//! buffer in one go, which takes a quarter less time than zstd's own streaming: that copies into
//! a ring first, and looks for matches across the ring's seam. Data that hardly compresses, such
//! as Secrets that the API server has encrypted, gets a light level from its second frame on,
//! which takes a third of the time and finds as little; the first frame that compresses again is
//! followed by one of the level asked for.

use std::io::{self, Write};

use zstd::bulk::Compressor;
use zstd::zstd_safe::compress_bound;

/// How much of the raw data is in a frame: twice the window of level 3.
const FRAME: usize = 4 << 20;

/// The level for what hardly compresses.
const LIGHT: i32 = 1;

/// Writes frames.
pub(super) struct Frames<W: Write> {
    output: W,
    compressor: Compressor<'static>,
    level: i32,
    light: bool,
    filling: Vec<u8>,
    packed: Vec<u8>,
    written: bool,
}

impl<W: Write> Frames<W> {
    /// A compressor of this level, on top of `output`.
    pub fn new(output: W, level: i32) -> io::Result<Self> {
        let mut compressor = Compressor::new(level)?;
        // Without age there is nothing else in the object that would notice a flipped bit.
        compressor.include_checksum(true)?;
        let (filling, packed) = (Vec::new(), Vec::new());
        Ok(Self { output, compressor, level, light: false, filling, packed, written: false })
    }

    /// Writes the last frame, if there is anything for it, and gives the output back. Nothing at
    /// all is one frame of nothing.
    pub fn finish(mut self) -> io::Result<W> {
        if !self.filling.is_empty() || !self.written {
            self.pack()?;
        }
        Ok(self.output)
    }

    fn pack(&mut self) -> io::Result<()> {
        self.packed.clear();
        self.packed.reserve(compress_bound(self.filling.len()));
        self.compressor.compress_to_buffer(&self.filling, &mut self.packed)?;
        let hardly = self.packed.len() > self.filling.len() / 16 * 15;
        self.filling.clear();
        self.written = true;
        self.lighten(hardly)?;
        self.output.write_all(&self.packed)
    }

    fn lighten(&mut self, light: bool) -> io::Result<()> {
        if light != self.light && self.level > LIGHT {
            self.compressor.set_compression_level(if light { LIGHT } else { self.level })?;
            self.light = light;
        }
        Ok(())
    }
}

impl<W: Write> Write for Frames<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(FRAME - self.filling.len());
        self.filling.extend_from_slice(&bytes[..taken]);
        if self.filling.len() == FRAME {
            self.pack()?;
        }
        Ok(taken)
    }

    /// Hands on the frames that are whole; the one that is being filled waits for the rest of it.
    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(data: &[&[u8]], level: i32) -> Vec<u8> {
        let mut frames = Frames::new(Vec::new(), level).unwrap();
        for part in data {
            frames.write_all(part).unwrap();
        }
        frames.finish().unwrap()
    }

    fn noise(size: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let word = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        };
        std::iter::repeat_with(word).flatten().take(size).collect()
    }

    #[test]
    fn what_is_written_comes_back_whatever_the_number_of_frames() {
        for size in [0, 1, FRAME - 1, FRAME, FRAME + 1, 2 * FRAME] {
            let data = noise(size);
            let file = frames(&[&data], 3);
            assert!(zstd::decode_all(&file[..]).unwrap() == data, "{size}");
        }
    }

    #[test]
    fn what_compresses_after_noise_is_compressed_as_asked() {
        let text: Vec<u8> =
            (0..FRAME / 8).flat_map(|n| format!("{:08}", n % 5000).into_bytes()).collect();
        let noise = noise(2 * FRAME);
        let size = |data: &[&[u8]], level| frames(data, level).len();
        let (hard, light) = (size(&[&text], 19), size(&[&text], LIGHT));
        assert!(hard < light, "{hard} {light}");
        let of_noise = size(&[&noise], 19);
        let mixed = size(&[&noise, &text, &text], 19);
        assert_eq!(mixed, of_noise + light + hard, "the frame after the noise is light");
        let file = frames(&[&noise, &text, &text], 19);
        assert!(zstd::decode_all(&file[..]).unwrap() == [noise, text.clone(), text].concat());
    }
}
