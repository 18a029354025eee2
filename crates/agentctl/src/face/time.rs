//! Times as people read them.

use agentctl_core::model::Time;
use jiff::tz::TimeZone;

use crate::config::Span;

/// A list with ended sessions goes back this far.
pub const USUAL_HISTORY: &str = "7d";

/// The text is neither a span nor a date nor a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoBeginning;

/// Reads the beginning of a period: a span before now (`30d`), a date, a time (`16:00`), or `all`, which has no
/// beginning.
pub fn beginning(now: Time, text: &str) -> Result<Option<Time>, NoBeginning> {
    if text == "all" {
        return Ok(None);
    }
    if let Ok(Span(span)) = text.parse::<Span>() {
        let ms = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        // A span that is longer than the calendar has no beginning either.
        return Ok(Time::from_millis(now.millis().saturating_sub(ms)));
    }
    let time = Time::parse(text).or_else(|| local_time(now, text));
    time.map(Some).ok_or(NoBeginning)
}

/// Reads a date, a date with a time, or a time of day in the local time zone. A time of day is that of today, or of
/// yesterday if today's is still to come.
fn local_time(now: Time, text: &str) -> Option<Time> {
    let zone = TimeZone::system();
    let at = |civil: jiff::civil::DateTime| {
        civil.to_zoned(zone.clone()).ok().map(|zoned| Time(zoned.timestamp()))
    };
    let formats = ["%H:%M", "%H:%M:%S"];
    let clock = formats.iter().find_map(|f| jiff::civil::Time::strptime(f, text).ok());
    if let Some(clock) = clock {
        let today = now.0.to_zoned(zone.clone()).date();
        let time = at(today.to_datetime(clock))?;
        return if time <= now {
            Some(time)
        } else {
            at(today.yesterday().ok()?.to_datetime(clock))
        };
    }
    at(text.parse::<jiff::civil::DateTime>().ok()?)
}

/// How exact an age is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgeForm {
    /// To the second: `6s`, then `12m`.
    Seconds,
    /// To the minute: `now`, then `12m`.
    Minutes,
}

impl AgeForm {
    /// Formats an age.
    #[must_use]
    pub fn text(self, now: Time, then: Time) -> String {
        match self {
            Self::Seconds => age(now, then),
            Self::Minutes => age_to_the_minute(now, then),
        }
    }
}

/// Returns when an age to the minute changes.
#[must_use]
pub fn next_minute_of_age(now: Time, then: Time) -> Option<Time> {
    const MINUTE_MS: i64 = 60_000;
    let age = (now.millis() - then.millis()).max(0);
    let step = match age {
        0..3_600_000 => MINUTE_MS,
        3_600_000..86_400_000 => 60 * MINUTE_MS,
        _ => 24 * 60 * MINUTE_MS,
    };
    Time::from_millis(now.millis() + step - age % step)
}

/// Formats an age to the minute: `now`, then `12m`. It changes once a minute at most.
#[must_use]
pub fn age_to_the_minute(now: Time, then: Time) -> String {
    if now.millis() - then.millis() < 60_000 { "now".to_owned() } else { age(now, then) }
}

/// Formats an age: `12m`.
#[must_use]
pub fn age(now: Time, then: Time) -> String {
    let seconds = (now.millis() - then.millis()).max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns a time in the local time zone, to the minute and with the zone: `2026-11-16 07:05 CET`. The zone is
/// that of `TZ`, else that of the system; if neither is known, the time is UTC.
#[must_use]
pub fn local_minute(time: Time) -> String {
    let zone = match TimeZone::system() {
        unknown if unknown.is_unknown() => TimeZone::UTC,
        zone => zone,
    };
    time.0.to_zoned(zone).strftime("%Y-%m-%d %H:%M %Z").to_string()
}

/// Returns the day in the local time zone.
#[must_use]
pub fn local_date(time: Time) -> jiff::civil::Date {
    time.0.to_zoned(TimeZone::system()).date()
}

/// Returns the time of day in the local time zone: `07:05:09`.
#[must_use]
pub fn local_clock(time: Time) -> String {
    time.0.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}

/// Returns the time of day in the local time zone, to the minute: `07:05`.
#[must_use]
pub fn local_hour(time: Time) -> String {
    time.0.to_zoned(TimeZone::system()).strftime("%H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_begins_at_a_span_a_date_or_a_time() {
        let now = Time::from_millis(1_000_000_000).unwrap();
        let at = |ms| Ok(Time::from_millis(ms));
        assert_eq!(beginning(now, "2s"), at(999_998_000));
        assert_eq!(beginning(now, "1970-01-02T00:00:00Z"), at(86_400_000));
        assert!(matches!(beginning(now, "1970-01-02"), Ok(Some(_))));
        assert_eq!(beginning(now, "all"), Ok(None));
        assert_eq!(beginning(now, "9999999999999d"), Err(NoBeginning));
        assert_eq!(beginning(now, "200000000d"), Ok(None));
        assert_eq!(beginning(now, "soon"), Err(NoBeginning));
        assert_eq!(beginning(now, "1970-01-02T00:00:00+02:00"), at(79_200_000));
    }

    #[test]
    fn a_time_of_day_is_the_last_one_that_is_not_in_the_future() {
        let now = Time::from_millis(1_000_000_000_000).unwrap();
        let local = |time: Time| time.0.to_zoned(TimeZone::system());
        let clock = |time: Time, format: &str| local(time).strftime(format).to_string();
        let minute = clock(now, "%H:%M");
        let begin = beginning(now, &minute).unwrap().unwrap();
        assert_eq!(
            (clock(begin, "%H:%M:%S"), local(begin).date()),
            (format!("{minute}:00"), local(now).date())
        );
        let later = clock(Time::from_millis(now.millis() + 60_000).unwrap(), "%H:%M:%S");
        let begin = beginning(now, &later).unwrap().unwrap();
        assert_eq!(clock(begin, "%H:%M:%S"), later);
        assert!(begin < now && now.millis() - begin.millis() >= 22 * 3_600_000, "{begin}");
        for wrong in ["16", "25:00", "16:60", "16:00x", ":"] {
            assert_eq!(beginning(now, wrong), Err(NoBeginning), "{wrong}");
        }
    }
}
