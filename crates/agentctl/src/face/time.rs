//! Times as people read them.

use agentctl_core::model::Time;
use jiff::tz::TimeZone;

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

/// Returns a time in the local time zone, to the minute: `2026-11-16 07:05`.
#[must_use]
pub fn local_minute(time: Time) -> String {
    time.0.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
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
