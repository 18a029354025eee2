//! Output on a real pseudo-terminal of a given width.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use testkit::{TestHome, sandboxed};

use crate::{fixtures_dir, home};

/// Runs the program on a terminal of this width and returns its output.
pub(crate) fn shown(home: &mut TestHome, columns: u16, args: &[&str]) -> String {
    let terminal: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).expect("granted");
    unlockpt(&terminal).expect("unlocked");
    let name = ptsname(&terminal, Vec::new()).expect("a name");
    let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).expect("sized");
    let open = || File::options().read(true).write(true).open(name.to_str().expect("UTF-8"));
    // Without the variable the terminal itself says how wide it is.
    home.set("COLUMNS", "");
    let mut child = home
        .command(args)
        .stdout(open().expect("opened"))
        .stderr(open().expect("opened"))
        .spawn()
        .expect("starts");
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        // The terminal ends with an error when the last writer has left.
        let _left = File::from(terminal).read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    });
    assert!(child.wait().expect("ends").success());
    reader.join().expect("read").replace("\r\n", "\n")
}

#[test]
fn a_list_fits_the_terminal_and_shortens_the_home() {
    sandboxed(|| {
        let mut home = home();
        home.plant(&fixtures_dir().join("codex/0.166.0"), ".");
        let place = home.path().join("shop");
        std::fs::create_dir(&place).expect("made");
        let mut agent = home.command(&["demo-agent", "-p", "work there"]);
        assert!(
            agent
                .current_dir(&place)
                .stdout(std::process::Stdio::null())
                .status()
                .expect("runs")
                .success()
        );
        for columns in [60, 80, 120, 200] {
            let text = shown(&mut home, columns, &["list", "-a", "--since", "all"]);
            assert_eq!(text.lines().count(), 1 + 38 + 1, "{text}");
            for line in text.lines() {
                let width = line.chars().count();
                assert!(width <= usize::from(columns), "{width} of {columns}: {line}");
            }
            assert!(text.contains(" ~/shop "), "{text}");
        }
    });
}

#[test]
fn colour_is_extra_and_can_be_refused() {
    sandboxed(|| {
        let mut home = home();
        home.plant(&fixtures_dir().join("demo/0.1.0"), ".");
        let args = ["list", "-a", "--since", "all"];
        let plain = shown(&mut home, 100, &args);
        assert!(!plain.contains('\x1b'), "NO_COLOR: {plain}");
        home.set("NO_COLOR", "");
        let coloured = shown(&mut home, 100, &args);
        assert!(coloured.contains("\x1b["), "{coloured}");
        let mut bare = String::new();
        for part in coloured.split('\x1b') {
            bare.push_str(
                part.strip_prefix('[')
                    .and_then(|p| p.split_once('m'))
                    .map_or(part, |(_, rest)| rest),
            );
        }
        assert_eq!(bare, plain, "colour carries nothing of its own");
    });
}
