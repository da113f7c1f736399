//! Durations as kubectl prints them.

use jiff::Timestamp;

/// The time since a point in time, `<unknown>` if that cannot be read.
pub(super) fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => human(now.as_second() - time.as_second()),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// A duration in its two largest units, the finer one only while it matters.
pub(super) fn human(seconds: i64) -> String {
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let two = |large: i64, unit: char, small: i64, fine: char| {
        if small == 0 {
            format!("{large}{unit}")
        } else {
            format!("{large}{unit}{small}{fine}")
        }
    };
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        two(minutes, 'm', seconds % 60, 's')
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, 'h', minutes % 60, 'm')
    } else if hours < 48 {
        format!("{hours}h")
    } else if hours < 192 {
        two(days, 'd', hours % 24, 'h')
    } else if days < 365 * 2 {
        format!("{days}d")
    } else if days < 365 * 8 {
        two(days / 365, 'y', days % 365, 'd')
    } else {
        format!("{}y", days / 365)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_durations() {
        let check = |seconds: i64, want: &str| assert_eq!(human(seconds), want);
        check(-5, "<invalid>");
        check(0, "0s");
        check(119, "119s");
        check(120, "2m");
        check(125, "2m5s");
        check(600, "10m");
        check(3 * 3_600, "3h");
        check(3 * 3_600 + 60, "3h1m");
        check(8 * 3_600 + 60, "8h");
        check(50 * 3_600, "2d2h");
        check(9 * 86_400 + 3_600, "9d");
        check(800 * 86_400, "2y70d");
        check(3_000 * 86_400, "8y");
        assert_eq!(since("never", Timestamp::UNIX_EPOCH), "<unknown>");
    }
}
