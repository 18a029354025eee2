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

/// Returns the time of day in the local time zone: `07:05:09`.
#[must_use]
pub fn local_clock(time: Time) -> String {
    time.0.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}
