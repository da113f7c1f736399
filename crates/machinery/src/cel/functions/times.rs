//! Functions of times and durations.

use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};

use super::super::text::duration;
use super::super::value::Val;
use super::{Made, fail};

/// A time in UTC or at an offset such as `-08:00`; zones with names are not known here.
fn zoned(time: Timestamp, zone: &str) -> Option<Zoned> {
    let offset = || {
        let (negative, digits) = match zone.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, zone.strip_prefix('+').unwrap_or(zone)),
        };
        let (hours, minutes) = digits.split_once(':')?;
        let hours = hours.parse::<i32>().ok()?.checked_mul(3_600)?;
        let seconds = hours.checked_add(minutes.parse::<i32>().ok()?.checked_mul(60)?)?;
        Offset::from_seconds(if negative { -seconds } else { seconds }).ok()
    };
    let zone = if zone == "UTC" || zone.is_empty() {
        TimeZone::UTC
    } else {
        TimeZone::fixed(offset()?)
    };
    Some(time.to_zoned(zone))
}

pub(super) fn times<'a>(name: &str, values: &[Val<'a>]) -> Made<'a> {
    let made = match (name, values) {
        ("duration", [Val::Duration(duration)]) => Val::Duration(*duration),
        ("duration", [Val::Text(text)]) => match duration(text) {
            Some(duration) => Val::Duration(duration),
            None => return fail("type conversion error from 'string' to 'google.protobuf.Duration'"),
        },
        ("timestamp", [Val::Timestamp(time)]) => Val::Timestamp(*time),
        ("timestamp", [Val::Int(seconds)]) => match Timestamp::from_second(*seconds) {
            Ok(time) => Val::Timestamp(time),
            Err(_) => return fail("timestamp overflow"),
        },
        ("timestamp", [Val::Text(text)]) => match text.parse() {
            Ok(time) => Val::Timestamp(time),
            Err(_) => return fail("type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        },
        (_, [Val::Duration(duration)]) => match part_of_duration(name, *duration) {
            Some(part) => part,
            None => return Ok(None),
        },
        (_, [Val::Timestamp(time)]) => match part_of_time(name, &time.to_zoned(TimeZone::UTC)) {
            Some(part) => part,
            None => return Ok(None),
        },
        (_, [Val::Timestamp(time), text @ Val::Text(zone)]) => match zoned(*time, zone) {
            Some(time) => match part_of_time(name, &time) {
                Some(part) => part,
                None => return Ok(None),
            },
            None => return fail(format!("unknown time zone {}", text.brief())),
        },
        _ => return Ok(None),
    };
    Ok(Some(made))
}

fn part_of_duration<'a>(name: &str, duration: SignedDuration) -> Option<Val<'a>> {
    Some(Val::Int(match name {
        "getHours" => duration.as_hours(),
        "getMinutes" => duration.as_mins(),
        "getSeconds" => duration.as_secs(),
        "getMilliseconds" => i64::try_from(duration.as_millis()).ok()?,
        _ => return None,
    }))
}

fn part_of_time<'a>(name: &str, time: &Zoned) -> Option<Val<'a>> {
    Some(Val::Int(match name {
        "getFullYear" => time.year().into(),
        "getMonth" => i64::from(time.month()) - 1,
        "getDate" => time.day().into(),
        "getDayOfMonth" => i64::from(time.day()) - 1,
        "getDayOfWeek" => time.weekday().to_sunday_zero_offset().into(),
        "getDayOfYear" => i64::from(time.day_of_year()) - 1,
        "getHours" => time.hour().into(),
        "getMinutes" => time.minute().into(),
        "getSeconds" => time.second().into(),
        "getMilliseconds" => time.millisecond().into(),
        _ => return None,
    }))
}
