//! Texts that stand for something: durations, URLs, versions, addresses.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::SignedDuration;

use crate::schema::is_uri;

/// A duration as Go writes it: `1h30m`, `-1.5s`.
pub fn duration(text: &str) -> Option<SignedDuration> {
    const UNITS: [(&str, i128); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut nanos: i128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let unit_end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let (_, scale) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        if !whole.is_empty() {
            nanos = nanos.checked_add(whole.parse::<i128>().ok()?.checked_mul(scale)?)?;
        }
        let mut part = scale;
        for digit in fraction.chars() {
            part /= 10;
            nanos = nanos.checked_add(i128::from(digit.to_digit(10)?).checked_mul(part)?)?;
        }
        rest = after;
    }
    let nanos = i64::try_from(if negative { -nanos } else { nanos }).ok()?;
    Some(SignedDuration::from_nanos(nanos))
}

/// A duration as CEL writes it: in seconds.
pub(super) fn duration_text(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    let sign = if nanos < 0 { "-" } else { "" };
    let (whole, rest) = (
        nanos.unsigned_abs() / 1_000_000_000,
        nanos.unsigned_abs() % 1_000_000_000,
    );
    let fraction = format!("{rest:09}");
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        format!("{sign}{whole}s")
    } else {
        format!("{sign}{whole}.{fraction}s")
    }
}

/// An absolute URL or path in its parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) text: String,
    pub(super) scheme: String,
    /// With its port.
    pub(super) host: String,
    pub(super) path: String,
    query: String,
}

impl Url {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if !is_uri(text) {
            return None;
        }
        let (scheme, rest) = if text.starts_with('/') {
            ("", text)
        } else {
            text.split_once(':')?
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, path) = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None if rest.starts_with('/') => ("", rest),
            None => ("", ""),
        };
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        let url = Self {
            text: text.to_owned(),
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        };
        let port = url.port();
        (port.bytes().all(|byte| byte.is_ascii_digit())).then_some(url)
    }

    fn split_host(&self) -> (&str, &str) {
        if let Some(rest) = self.host.strip_prefix('[') {
            let (name, rest) = rest.split_once(']').unwrap_or((rest, ""));
            return (name, rest.strip_prefix(':').unwrap_or(""));
        }
        self.host.rsplit_once(':').unwrap_or((&self.host, ""))
    }

    pub(super) fn hostname(&self) -> &str {
        self.split_host().0
    }

    pub(super) fn port(&self) -> &str {
        self.split_host().1
    }

    /// The pairs of the query, as they are written.
    pub(super) fn pairs(&self) -> impl Iterator<Item = &str> {
        self.query.split('&').filter(|pair| !pair.is_empty())
    }

    /// The query's keys, each with its values.
    pub(super) fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.pairs() {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            found.entry(unescape(key)).or_default().push(unescape(value));
        }
        found
    }
}

fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let code = text
            .get(at + 1..at + 3)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (byte, code) {
            (b'%', Some(code)) => {
                out.push(code);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (other, _) => out.push(*other),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A semantic version.
#[derive(Debug)]
pub(super) struct Semver {
    pub(super) text: String,
    /// Major, minor, patch.
    pub(super) numbers: [i64; 3],
    before: Vec<String>,
}

impl Semver {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (version, build) = text.split_once('+').map_or((text, None), |(a, b)| (a, Some(b)));
        let (numbers, before) = version
            .split_once('-')
            .map_or((version, None), |(a, b)| (a, Some(b)));
        let word = |word: &str| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let number = |text: &str| {
            let plain = text.bytes().all(|byte| byte.is_ascii_digit());
            (plain && (text == "0" || !text.starts_with('0'))).then(|| text.parse::<i64>().ok())?
        };
        let mut parts = numbers.split('.');
        let mut next = || number(parts.next()?);
        let numbers = [next()?, next()?, next()?];
        let before: Vec<String> = before
            .map(|before| before.split('.').map(str::to_owned).collect())
            .unwrap_or_default();
        let good = parts.next().is_none()
            && before.iter().all(|part| word(part))
            && build.is_none_or(|build| build.split('.').all(word));
        good.then(|| Self {
            text: text.to_owned(),
            numbers,
            before,
        })
    }

    /// The text of a version that may begin with a `v`, lack its last numbers and have zeros before them, as one that
    /// does not.
    pub(super) fn completed(text: &str) -> Cow<'_, str> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<Cow<'_, str>> = text.splitn(3, '.').map(Cow::Borrowed).collect();
        for part in &mut parts {
            if part.len() > 1 {
                let bare = part.trim_start_matches('0');
                let zero = if bare.starts_with(|first: char| first.is_ascii_digit()) {
                    ""
                } else {
                    "0"
                };
                *part = Cow::Owned(format!("{zero}{bare}"));
            }
        }
        let short = parts.len() < 3;
        if short && parts.last().is_some_and(|part| part.contains(['+', '-'])) {
            return Cow::Borrowed("");
        }
        while parts.len() < 3 {
            parts.push(Cow::Borrowed("0"));
        }
        Cow::Owned(parts.join("."))
    }

    /// Precedence: a version before a release comes before it, numbers before words.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| {
            match (self.before.is_empty(), other.before.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => {
                    let key = |word: &String| match word.parse::<u64>() {
                        Ok(number) => (0, number, String::new()),
                        Err(_) => (1, 0, word.clone()),
                    };
                    self.before.iter().map(key).cmp(other.before.iter().map(key))
                }
            }
        })
    }
}

/// An address; none with a zone or of version 4 in the clothes of version 6.
pub(super) fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok().filter(|address| match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => address.to_ipv4_mapped().is_none(),
    })
}

/// An address and the length of a prefix.
pub(super) fn cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (at, bits) = text.split_once('/')?;
    let at = address(at)?;
    let plain = bits.bytes().all(|byte| byte.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
    let bits = bits.parse::<u8>().ok().filter(|_| plain)?;
    (bits <= width(at)).then_some((at, bits))
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// An address without what lies behind a prefix.
pub(super) fn masked(address: IpAddr, bits: u8) -> IpAddr {
    let host = u32::from(width(address).saturating_sub(bits));
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(host).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(host).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

/// Whether an address lies in a net.
pub(super) fn holds((net, bits): (IpAddr, u8), address: IpAddr) -> bool {
    net.is_ipv4() == address.is_ipv4() && masked(net, bits) == masked(address, bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_durations() {
        for (text, want) in [
            ("1h30m", Some("5400s")),
            ("-1.5s", Some("-1.5s")),
            ("1.25ms", Some("0.00125s")),
            ("0", Some("0s")),
            ("10ns", Some("0.00000001s")),
            ("1d", None),
            ("1", None),
            ("", None),
            (".s", None),
            ("9999999h", None),
        ] {
            assert_eq!(duration(text).map(duration_text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn orders_versions() {
        let sorted = [
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-rc.2",
            "1.0.0-rc.10",
            "1.0.0+b",
            "1.0.1",
        ];
        for pair in sorted.windows(2) {
            let [left, right] = pair else {
                unreachable!("pairs")
            };
            let (left, right) = (Semver::parse(left).unwrap(), Semver::parse(right).unwrap());
            assert_eq!(left.order(&right), Ordering::Less, "{} {}", left.text, right.text);
        }
        for bad in ["1.0", "01.0.0", "1.0.0-", "v1.0.0", "1.0.0.0", "1.0.0+"] {
            assert!(Semver::parse(bad).is_none(), "{bad}");
        }
    }
}
