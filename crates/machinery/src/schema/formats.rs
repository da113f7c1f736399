//! The `format`s of texts that Kubernetes checks; any other is ignored.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

use super::Pattern;

/// The format of bytes in built-in kinds: there may be none (Secrets have empty values). A definition's `byte` is at
/// least one.
pub(crate) const BYTES: &str = "bytes or none";

/// Whether a text has a format; true for a format that is not known.
pub(crate) fn holds(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "uri" => uri(text),
        "email" => email(text),
        "hostname" => hostname(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => cidr(text),
        "mac" => mac(text),
        "uuid" => uuid(text, None),
        "uuid3" => uuid(text, Some(b'3')),
        "uuid4" => uuid(text, Some(b'4')),
        "uuid5" => uuid(text, Some(b'5')),
        "byte" => !text.is_empty() && base64(text),
        BYTES => base64(text),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "datetime" => datetime(text),
        "duration" => go_duration(text),
        "hexcolor" => {
            let digits = text.strip_prefix('#').unwrap_or(text);
            matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        }
        "rgbcolor" => rgb(text),
        "ssn" => ssn(text),
        "isbn" => isbn10(text) || isbn13(text),
        "isbn10" => isbn10(text),
        "isbn13" => isbn13(text),
        "creditcard" => luhn(text),
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "k8sshortname" => text.len() <= 63 && crate::names::is_dns1123_label(text).is_ok(),
        "k8slongname" => text.len() <= 253 && crate::names::is_dns1123_subdomain(text).is_ok(),
        _ => true,
    }
}

/// Standard base64 with padding.
fn base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - digits.len() <= 2
        && digits
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

/// Whether a text is an absolute URI or path.
pub(crate) fn uri(text: &str) -> bool {
    let bad = |c: char| c.is_control() || c == ' ';
    if text.is_empty() || text.contains(bad) || !percent_encoded(text) {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    text.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    })
}

fn percent_encoded(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| {
        let bytes = rest.as_bytes();
        bytes.len() >= 2 && bytes[0].is_ascii_hexdigit() && bytes[1].is_ascii_hexdigit()
    })
}

fn email(text: &str) -> bool {
    let address = match (text.rfind('<'), text.strip_suffix('>')) {
        (Some(start), Some(inner)) => &inner[start + 1..],
        (_, _) => text,
    };
    address.rsplit_once('@').is_some_and(|(user, host)| {
        !user.is_empty()
            && !host.is_empty()
            && !address
                .contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | ','))
            && !user.contains('@')
            && !host.starts_with('.')
            && !host.ends_with('.')
            && !host.contains("..")
    })
}

fn hostname(text: &str) -> bool {
    static SHAPE: OnceLock<Option<Pattern>> = OnceLock::new();
    const PATTERN: &str = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
    let shape = SHAPE.get_or_init(|| Pattern::sized(PATTERN, 16 << 20).ok());
    text.len() <= 255
        && text.split('.').all(|label| label.len() <= 63)
        && shape.as_ref().is_some_and(|shape| shape.is_match(text))
}

fn cidr(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, bits)| {
        let most = match address.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        bits.bytes().all(|byte| byte.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
    })
}

fn mac(text: &str) -> bool {
    let (separator, width) = match text.as_bytes().get(2) {
        Some(b':') => (':', 2),
        Some(b'-') => ('-', 2),
        _ => ('.', 4),
    };
    let parts: Vec<&str> = text.split(separator).collect();
    matches!(parts.len() * width / 2, 6 | 8 | 20)
        && parts
            .iter()
            .all(|part| part.len() == width && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn uuid(text: &str, version: Option<u8>) -> bool {
    // Each dash may be left out, but only stands where it belongs.
    let mut digits = Vec::with_capacity(32);
    let mut bytes = text.bytes().peekable();
    for length in [8, 4, 4, 4, 12] {
        if !digits.is_empty() && bytes.peek() == Some(&b'-') {
            bytes.next();
        }
        for _ in 0..length {
            match bytes.next() {
                Some(byte) if byte.is_ascii_hexdigit() => digits.push(byte),
                Some(_) | None => return false,
            }
        }
    }
    let variant = || matches!(digits[16].to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b');
    bytes.next().is_none()
        && match version {
            None => true,
            Some(b'3') => digits[12] == b'3',
            Some(version) => digits[12] == version && variant(),
        }
}

fn datetime(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    upper.contains('T') && !upper.contains('[') && upper.parse::<jiff::Timestamp>().is_ok()
}

/// A duration as Go's `time.ParseDuration` reads it.
fn go_duration(text: &str) -> bool {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut rest = rest.trim_end();
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        if digits == 0 || rest[..digits].matches('.').count() > 1 || &rest[..digits] == "." {
            return false;
        }
        rest = rest[digits..].trim_start();
        let unit = rest
            .find(|c: char| c.is_ascii_digit() || c == '.' || c == ' ')
            .unwrap_or(rest.len());
        if !matches!(
            &rest[..unit],
            "ns" | "us"
                | "µs"
                | "μs"
                | "ms"
                | "s"
                | "m"
                | "h"
                | "d"
                | "w"
                | "nanosecond"
                | "nanoseconds"
                | "microsecond"
                | "microseconds"
                | "millisecond"
                | "milliseconds"
                | "second"
                | "seconds"
                | "minute"
                | "minutes"
                | "hour"
                | "hours"
                | "day"
                | "days"
                | "week"
                | "weeks"
                | "hr"
                | "hrs"
                | "min"
                | "mins"
                | "sec"
                | "secs"
                | "nano"
                | "nanos"
                | "micro"
                | "micros"
                | "milli"
                | "millis"
        ) {
            return false;
        }
        rest = rest[unit..].trim_start();
    }
    true
}

fn rgb(text: &str) -> bool {
    let inner = text.strip_prefix("rgb(").and_then(|text| text.strip_suffix(')'));
    inner.is_some_and(|inner| {
        let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
        parts.len() == 3 && parts.iter().all(|part| part.parse::<u8>().is_ok())
    })
}

fn ssn(text: &str) -> bool {
    let digits: String = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    digits.len() == 9 && digits.bytes().all(|byte| byte.is_ascii_digit()) && matches!(text.len(), 9..=11)
}

fn isbn10(text: &str) -> bool {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !matches!(c, '-' | ' '))
        .enumerate()
        .filter_map(|(at, c)| {
            if at == 9 && matches!(c, 'X' | 'x') {
                Some(10)
            } else {
                c.to_digit(10)
            }
        })
        .collect();
    let sum: u32 = (1..).zip(&digits).map(|(weight, digit)| weight * digit).sum();
    digits.len() == 10 && sum.is_multiple_of(11)
}

fn isbn13(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let sum: u32 = digits
        .iter()
        .enumerate()
        .map(|(at, digit)| if at % 2 == 0 { *digit } else { 3 * digit })
        .sum();
    digits.len() == 13 && sum.is_multiple_of(10)
}

fn luhn(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, &digit)| match (at % 2, digit * 2) {
            (0, _) => digit,
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        })
        .sum();
    (13..=16).contains(&digits.len()) && sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_formats() {
        for (format, good, bad) in [
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "fe80::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "01:23:45:67:89:ab", "01:23"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
            (
                "uuid4",
                "123e4567-e89b-42d3-a456-426614174000",
                "123e4567-e89b-12d3-a456-426614174000",
            ),
            ("byte", "aGk=", "a"),
            ("byte", "IA==", ""),
            (BYTES, "", "a"),
            ("date", "2024-02-29", "2023-02-29"),
            ("date-time", "2024-02-29T01:02:03Z", "2024-02-29"),
            ("duration", "1h30m", "1x"),
            ("hostname", "a.example", "-a"),
            ("email", "a@b.c", "a"),
            ("uri", "https://a/b", "a b"),
            ("hexcolor", "#fff", "#ffff"),
            ("isbn", "978-0321751041", "978-0321751042"),
            ("no-such-format", "x", ""),
        ] {
            assert!(holds(format, good), "{format} {good}");
            assert_eq!(holds(format, bad), format == "no-such-format", "{format} {bad}");
        }
    }
}
