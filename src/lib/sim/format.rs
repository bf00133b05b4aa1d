//! What kind of disk image a file is, by its content; pure.
//!
//! The back-end lets qemu-img detect it (G8S), for which everything without a known beginning
//! is raw.

/// A recognised image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content {
    /// `qcow2`, `vmdk` or `raw`.
    pub(super) format: &'static str,
    /// Bytes of the file.
    pub(super) bytes: u64,
    /// Bytes of the disk in it.
    pub(super) virtual_bytes: u64,
}

/// How many bytes of the beginning [`recognise`] wants to see.
pub(super) const HEAD: usize = 4096;

/// Recognises a file of `bytes` bytes by its beginning; the error is a sentence.
pub(super) fn recognise(head: &[u8], bytes: u64, boot_sector: bool) -> Result<Content, String> {
    if head.starts_with(b"QFI\xfb") {
        return qcow2(head, bytes);
    }
    if head.starts_with(b"KDMV") || head.starts_with(b"# Disk DescriptorFile") {
        let sectors = big(head, 12, 8).map_or(0, u64::swap_bytes);
        return Ok(Content { format: "vmdk", bytes, virtual_bytes: sectors.saturating_mul(512) });
    }
    if bytes == 0 {
        return Err("the image is empty".into());
    }
    if boot_sector && head.get(510..512) != Some(&[0x55, 0xaa]) {
        return Err("the image has no boot sector".into());
    }
    Ok(Content { format: "raw", bytes, virtual_bytes: bytes })
}

fn qcow2(head: &[u8], bytes: u64) -> Result<Content, String> {
    let field = |at, len| big(head, at, len).ok_or("the qcow2 header is cut off");
    let (version, backing, cluster_bits) = (field(4, 4)?, field(8, 8)?, field(20, 4)?);
    if !matches!(version, 2 | 3) || !(9..=21).contains(&cluster_bits) {
        return Err("the qcow2 header is not valid".into());
    }
    if backing != 0 {
        return Err("the qcow2 image needs a backing file".into());
    }
    let table_end = field(40, 8)?.saturating_add(field(36, 4)?.saturating_mul(8));
    if table_end > bytes {
        return Err("the qcow2 image is cut off".into());
    }
    Ok(Content { format: "qcow2", bytes, virtual_bytes: field(24, 8)? })
}

/// A big-endian number of `len` bytes.
fn big(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let field = bytes.get(at..at + len)?;
    Some(field.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(version: u32, backing: u64, l1_offset: u64) -> Vec<u8> {
        let mut head = b"QFI\xfb".to_vec();
        head.extend(version.to_be_bytes());
        head.extend(backing.to_be_bytes());
        head.extend(0u32.to_be_bytes());
        head.extend(16u32.to_be_bytes());
        head.extend((10u64 << 30).to_be_bytes());
        head.extend(0u32.to_be_bytes());
        head.extend(20u32.to_be_bytes());
        head.extend(l1_offset.to_be_bytes());
        head.resize(512, 0);
        head
    }

    #[test]
    fn contents_are_recognised() {
        let good = recognise(&header(3, 0, 196_608), 1 << 20, true).unwrap();
        assert_eq!((good.format, good.virtual_bytes), ("qcow2", 10 << 30));
        let mut vmdk = b"KDMV\x01\0\0\0\0\0\0\0\0\0\x20\0\0\0\0\0".to_vec();
        vmdk.resize(512, 0);
        let vmdk = recognise(&vmdk, 512, false).unwrap();
        assert_eq!((vmdk.format, vmdk.virtual_bytes), ("vmdk", 0x20_0000 * 512));
        assert_eq!(recognise(b"<html>", 6, false).unwrap().format, "raw");
    }

    #[test]
    fn bad_contents_are_refused() {
        for (head, bytes, part) in [
            (header(4, 0, 0), 512, "not valid"),
            (header(3, 4096, 0), 512, "backing"),
            (header(3, 0, 512), 512, "cut off"),
            (b"QFI\xfb".to_vec(), 4, "cut off"),
            (Vec::new(), 0, "empty"),
            (b"<html>".to_vec(), 6, "boot sector"),
        ] {
            let error = recognise(&head, bytes, true).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
