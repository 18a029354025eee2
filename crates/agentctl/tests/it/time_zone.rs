//! Times with a date are printed in the zone that `TZ` names, and say which one that is.

use testkit::sandboxed;

use crate::home;
use crate::launched::folder;

/// A zone file without changes of the clock: five hours behind UTC, abbreviated `TST`.
fn zone_file() -> Vec<u8> {
    let block = |version: u8| {
        let mut bytes = b"TZif".to_vec();
        bytes.push(version);
        bytes.extend([0; 15]);
        // Counts: UTC and standard flags, leap seconds, transitions, kinds of time, abbreviation characters.
        for count in [0_u32, 0, 0, 0, 1, 4] {
            bytes.extend(count.to_be_bytes());
        }
        bytes.extend((-5 * 3600_i32).to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(b"TST\0");
        bytes
    };
    [block(b'2'), block(b'2'), b"\nTST5\n".to_vec()].concat()
}

#[test]
fn a_named_zone_is_used_and_named() {
    sandboxed(|| {
        let mut home = home();
        folder(&home, "w");
        home.write("zoneinfo/Test/Zone", zone_file());
        home.set("TZDIR", home.path().join("zoneinfo").to_string_lossy());
        for (zone, name, hours) in [
            ("Test/Zone", "TST", 5),
            (":Test/Zone", "TST", 5),
            ("UTC", "UTC", 0),
            ("No/Such", "UTC", 0),
        ] {
            home.set("TZ", zone);
            let locked = home.run(&["lock", "w", "--ttl", "12h"]);
            assert!(locked.stderr.trim_end().ends_with(name), "{zone}: {}", locked.stderr);
            let until = home.run(&["locks", "--json"]).json()["locks"][0]["until"].clone();
            let until: jiff::Timestamp = until.as_str().expect("a time").parse().expect("a time");
            let local = until - jiff::SignedDuration::from_hours(hours);
            let shown = local.strftime("%Y-%m-%d %H:%M").to_string();
            assert!(locked.stderr.contains(&shown), "{zone}: {shown} in {}", locked.stderr);
            assert_eq!(home.run(&["unlock", "w"]).code, Some(0));
        }
    });
}
