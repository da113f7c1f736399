//! Schedules of CronJobs: five fields, or a word such as `@daily`.

/// A field's name, its least and greatest number, and words for numbers from the least on.
type Field = (&'static str, u32, u32, &'static str);

const FIELDS: [Field; 5] = [
    ("minute", 0, 59, ""),
    ("hour", 0, 23, ""),
    ("day of month", 1, 31, ""),
    ("month", 1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"),
    ("day of week", 0, 6, "sun mon tue wed thu fri sat"),
];
const WORDS: [&str; 7] = [
    "yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly",
];

/// Every zone's name.
const ZONES: &str = include_str!("timezones.txt");

/// What is wrong with the name of a time zone.
pub(super) fn zone_problem(zone: &str) -> Option<String> {
    if zone.is_empty() {
        return Some("timeZone must be nil or non-empty string".to_owned());
    }
    if zone.eq_ignore_ascii_case("local") {
        let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        return Some(why.to_owned());
    }
    let known = ZONES.lines().skip(1).any(|name| name == zone);
    (!known).then(|| format!("unknown time zone {zone}"))
}

/// What is wrong with a schedule.
pub(super) fn problem(schedule: &str) -> Option<String> {
    if schedule.contains("TZ") {
        return Some("cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned());
    }
    if let Some(word) = schedule.strip_prefix('@') {
        let known = WORDS.contains(&word) || word.strip_prefix("every ").is_some_and(is_span);
        return (!known).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Some(format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        ));
    }
    let parts = fields
        .iter()
        .zip(&FIELDS)
        .flat_map(|(text, field)| text.split(',').map(move |part| (part, field)))
        .filter(|(part, _)| !part.is_empty());
    for (part, field) in parts {
        if !is_range(part, field) {
            return Some(format!("bad {}: {part}", field.0));
        }
    }
    None
}

/// A duration such as `1h30m`, and in none of the other ways to write one.
fn is_span(text: &str) -> bool {
    let is_go = text.chars().all(|c| c.is_ascii_digit() || ".hmsuµn".contains(c));
    is_go
        && text
            .parse::<jiff::SignedDuration>()
            .is_ok_and(|span| span.is_positive())
}

/// `*`, a number, or two of them, each with a step or without.
fn is_range(part: &str, field: &Field) -> bool {
    let (range, step) = part
        .split_once('/')
        .map_or((part, None), |(range, step)| (range, Some(step)));
    let is_step = step.is_none_or(|step| step.parse::<u32>().is_ok_and(|step| step > 0));
    let is_in = match range.split_once('-') {
        _ if range == "*" || range == "?" => true,
        Some((from, to)) => number(from, field)
            .zip(number(to, field))
            .is_some_and(|(from, to)| from <= to),
        None => number(range, field).is_some(),
    };
    is_step && is_in
}

fn number(text: &str, (_, least, most, words): &Field) -> Option<u32> {
    let word = words
        .split_whitespace()
        .zip(*least..)
        .find(|(word, _)| text.eq_ignore_ascii_case(word));
    word.map(|(_, number)| number)
        .or_else(|| text.parse().ok())
        .filter(|number| (*least..=*most).contains(number))
}

#[cfg(test)]
mod tests {
    use super::{problem, zone_problem};

    #[test]
    fn knows_the_time_zones() {
        for good in ["UTC", "Europe/Berlin", "Etc/GMT+3", "America/Argentina/Ushuaia"] {
            assert_eq!(zone_problem(good), None, "{good}");
        }
        for (bad, why) in [
            ("", "timeZone must be nil or non-empty string"),
            ("Nope/X", "unknown time zone Nope/X"),
            ("europe/berlin", "unknown time zone europe/berlin"),
            ("Europe", "unknown time zone Europe"),
            ("../x", "unknown time zone ../x"),
            (
                "local",
                "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
            ),
        ] {
            assert_eq!(zone_problem(bad).as_deref(), Some(why));
        }
    }

    #[test]
    fn takes_what_cron_takes() {
        for good in [
            "* * * * *",
            "*/5 0-6,12 1 JAN-mar mon",
            "0 0 ? * 6",
            "@daily",
            "@every 1h30m",
            "1,,2 * * * *",
        ] {
            assert_eq!(problem(good), None, "{good}");
        }
        for (bad, why) in [
            ("nope", "expected exactly 5 fields, found 1: [nope]"),
            ("60 * * * *", "bad minute: 60"),
            ("* * 0 * *", "bad day of month: 0"),
            ("* * * * 3-1", "bad day of week: 3-1"),
            ("*/0 * * * *", "bad minute: */0"),
            ("/5 * * * *", "bad minute: /5"),
            ("-5 * * * *", "bad minute: -5"),
            ("5- * * * *", "bad minute: 5-"),
            ("- * * * *", "bad minute: -"),
            ("* * * /2 *", "bad month: /2"),
            ("* * * * -sat", "bad day of week: -sat"),
            ("@every PT5M", "unrecognized descriptor: @every PT5M"),
            ("@every 5 minutes", "unrecognized descriptor: @every 5 minutes"),
            ("@every 5mins", "unrecognized descriptor: @every 5mins"),
            ("@every ", "unrecognized descriptor: @every "),
            ("@never", "unrecognized descriptor: @never"),
            (
                "TZ=UTC * * * * *",
                "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            ),
        ] {
            assert_eq!(problem(bad).as_deref(), Some(why));
        }
    }
}
