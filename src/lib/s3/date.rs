//! The dates of HTTP headers, as seconds since 1970.

use std::time::UNIX_EPOCH;

/// Reads `Tue, 14 Nov 2023 22:13:20 GMT` and its older forms.
#[must_use]
pub fn read(header: &str) -> Option<f64> {
    let at = httpdate::parse_http_date(header.trim()).ok()?;
    Some(at.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_three_forms_are_read() {
        for (header, seconds) in [
            ("Tue, 14 Nov 2023 22:13:20 GMT", Some(1_700_000_000.0)),
            ("Tuesday, 14-Nov-23 22:13:20 GMT", Some(1_700_000_000.0)),
            ("Tue Nov 14 22:13:20 2023", Some(1_700_000_000.0)),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(read(header), seconds, "{header:?}");
        }
    }
}
