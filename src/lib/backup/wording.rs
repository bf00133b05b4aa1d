//! Times as people read them, one form everywhere.

use jiff::Timestamp;

/// A length of time in its two largest units: `2d4h`, `3h12m`, `40s`.
#[must_use]
pub fn length(seconds: i64) -> String {
    if seconds < 0 {
        return format!("-{}", length(seconds.saturating_neg()));
    }
    let units = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let at = units.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(3);
    let (unit, name) = units[at];
    let rest = units.get(at + 1).map(|(small, small_name)| (seconds % unit / small, small_name));
    match rest {
        Some((more, small)) if more > 0 => format!("{}{name}{more}{small}", seconds / unit),
        _ => format!("{}{name}", seconds / unit),
    }
}

/// How long `time` is ago.
#[must_use]
pub fn since(time: Timestamp, now: Timestamp) -> String {
    length(now.as_second() - time.as_second())
}

/// A moment to the second, in UTC.
#[must_use]
pub fn moment(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A cell of a table about which nothing is known.
#[must_use]
pub fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// The cell of a lock: its end, `none` where there is no lock, or that nothing is known.
#[must_use]
pub fn locked_until(until: Option<&str>, mode: Option<&str>) -> String {
    or_dash(until.or(mode).map(str::to_owned))
}

/// A cell for something that is so, is not, or is not known.
#[must_use]
pub const fn yes_or_no(so: Option<bool>) -> &'static str {
    match so {
        Some(true) => "yes",
        Some(false) => "no",
        None => "-",
    }
}

/// The moment so many seconds after 1970, as clocks and stores count.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "a date")]
pub fn at(unix: f64) -> Timestamp {
    Timestamp::from_second(unix.floor() as i64).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_read_well() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (61, "1m1s"),
            (3599, "59m59s"),
            (3600, "1h"),
            (11_520, "3h12m"),
            (11_521, "3h12m"),
            (86_400, "1d"),
            (187_200, "2d4h"),
            (-61, "-1m1s"),
        ] {
            assert_eq!(length(seconds), text);
        }
        assert_eq!(moment(at(1_796_018_400.9)), "2026-11-30T06:00:00Z");
    }
}
