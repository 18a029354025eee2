//! Makes the pictures of the README: plays the demo in a private pid namespace and a temporary home, and draws
//! what the program prints on a terminal.
//!
//! `shots PROGRAM FOLDER [PICTURE]...`; `just shots` builds both programs and makes all pictures. Ids, pids, ages and
//! times are replaced by fixed ones of the same form, so that the same output gives the same file.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::print_stdout, clippy::exit)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use testkit::styled_screen::StyledScreen;
use testkit::{Changing, PseudoTerminal, TestHome, eventually, namespaced, replace_changing, svg};

const COLUMNS: u16 = 100;

/// Picture and arguments of the program.
const STILLS: [(&str, &[&str]); 4] = [
    ("list", &["list", "-a"]),
    ("why", &["why", "site"]),
    ("status", &["status", "infra"]),
    ("logs", &["logs", "infra"]),
];

/// The whole screen of `top`.
const TOP: &str = "top";
const TOP_LINES: u16 = 22;

/// The agents of the picture of `top`, each in a folder of the home: its name, its prompt, and the status that the
/// picture waits for. The last one is selected.
const TOP_AGENTS: [(&str, &str, &str); 4] = [
    ("notes", "Summarise yesterday's notes [[say:Three open points, all yours.]]", "1 idle"),
    ("api", "Run the test suite [[tool:echo running 214 tests; exec sleep 600]]", "1 running"),
    ("site", "Rename the brand everywhere [[ask:Also in the archived posts?]]", "1 waiting"),
    (
        "shop",
        "Fix the login test [[tool:cat login.test.ts]] \
         [[say:The test still uses the old cookie. I fix it and run it.]] \
         [[permit:npm test -- login]]",
        "2 waiting",
    ),
];

/// The moving picture.
const WATCH: &str = "watch";

fn main() {
    if let Some(status) = namespaced() {
        std::process::exit(status.code().unwrap_or(1));
    }
    let mut arguments = std::env::args().skip(1);
    let (Some(program), Some(folder)) = (arguments.next(), arguments.next()) else {
        println!("usage: shots PROGRAM FOLDER [PICTURE]...");
        std::process::exit(2);
    };
    let wanted: Vec<String> = arguments.collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let folder = PathBuf::from(folder);
    std::fs::create_dir_all(&folder).expect("the folder of the pictures");
    let program = std::fs::canonicalize(program).expect("the program");
    let mut stage = Stage::set(&program);
    for (name, arguments) in STILLS {
        if is_wanted(name) {
            let screen = stage.still(arguments);
            let title = format!("agentctl {}", arguments.join(" "));
            write((&folder, name, COLUMNS), &title, &[screen]);
        }
    }
    if is_wanted(WATCH) {
        let screens = stage.watched();
        let title = "agentctl list --watch: an agent is launched, works, asks";
        write((&folder, WATCH, COLUMNS), title, &screens);
    }
    if is_wanted(TOP) {
        let title = "agentctl top: an agent asks for a permission";
        write((&folder, TOP, COLUMNS), title, &[Stage::empty(&program).top()]);
    }
}

fn write((folder, name, columns): (&Path, &str, u16), title: &str, screens: &[StyledScreen]) {
    let path = folder.join(format!("{name}.svg"));
    let picture = svg::drawn(title, usize::from(columns), screens, 3);
    std::fs::write(&path, picture).expect("written");
    println!("{}", path.display());
}

/// A home in which the demo runs.
struct Stage {
    home: TestHome,
    /// Ids and their replacements.
    ids: BTreeMap<String, String>,
}

impl Stage {
    /// Makes a home without agents.
    fn empty(program: &Path) -> Self {
        let mut home = TestHome::new(program.to_str().expect("UTF-8"));
        home.set("COLUMNS", "");
        home.set("NO_COLOR", "");
        home.set("TERM", "xterm-256color");
        home.set("LANG", "C.UTF-8");
        home.set("PAGER", "cat");
        Self { home, ids: BTreeMap::new() }
    }

    /// Starts the demo.
    fn set(program: &Path) -> Self {
        let mut stage = Self::empty(program);
        let started = stage.home.run(&["demo"]);
        assert_eq!(started.code, Some(0), "{}", started.stderr);
        stage.learn_ids();
        stage
    }

    /// Gives each session a fixed id, made from its directory.
    fn learn_ids(&mut self) {
        for session in self.home.run(&["list", "-a", "--json"]).sessions() {
            let (Some(id), Some(cwd)) = (session["id"].as_str(), session["cwd"].as_str()) else {
                continue;
            };
            let name = cwd.rsplit('/').next().unwrap_or(cwd);
            self.ids.entry(id.to_owned()).or_insert_with(|| fixed_id(name));
        }
    }

    /// Draws a command and its output.
    fn still(&self, arguments: &[&str]) -> StyledScreen {
        let mut command = self.home.command(arguments);
        let output = PseudoTerminal::start(&mut command, COLUMNS, 50).ended();
        let prompt =
            format!("\u{1b}[90m$\u{1b}[0m \u{1b}[1magentctl {}\u{1b}[0m", arguments.join(" "));
        StyledScreen::of(&format!("{prompt}\n{}", self.fixed(&output)))
    }

    /// Draws `list --watch` while an agent is launched, runs a tool and asks.
    fn watched(&mut self) -> Vec<StyledScreen> {
        let folder = self.home.path();
        let go = folder.join("go");
        let tool = format!("#!/bin/sh\nuntil [ -e {} ]; do sleep 0.05; done\n", go.display());
        let tool = self.home.write("bin/make", tool);
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(tool, executable).expect("executable");
        let mut command = self.home.command(&["list", "--watch"]);
        let mut terminal = PseudoTerminal::start(&mut command, COLUMNS, 9);
        let first = shows(&terminal, "Summarise");
        let scratch = folder.join(".local/share/agentctl-demo/scratch/infra");
        let prompt = "Move the router to axum [[tool:make test]] [[ask:Drop the old routes?]]";
        let place = scratch.to_str().expect("UTF-8");
        let launch = ["launch", "demo", "--name", "axum", "--cwd", place, "-p", prompt];
        let launched = self.home.run(&launch);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        self.ids.insert(launched.stdout.trim().to_owned(), fixed_id("axum"));
        let second = shows(&terminal, "make test");
        std::fs::write(go, "").expect("the tool may end");
        let third = shows(&terminal, "Drop the old");
        terminal.press("q");
        let _left = terminal.ended();
        let screens = [first, second, third];
        screens.iter().map(|screen| StyledScreen::of(&self.fixed(screen))).collect()
    }

    /// Draws `top` while an agent asks for a permission.
    fn top(&mut self) -> StyledScreen {
        self.home.write("shop/login.test.ts", "expect(cookie).toBe('sid')\n");
        let mut command = self.home.command(&["top"]);
        let mut terminal = PseudoTerminal::start(&mut command, COLUMNS, TOP_LINES);
        let until = |terminal: &PseudoTerminal, text: &str| {
            eventually(&format!("top shows {text}"), || {
                let screen = StyledScreen::of(&terminal.output());
                screen.text().contains(text).then_some(screen)
            })
        };
        for (name, prompt, status) in TOP_AGENTS {
            let place = self.home.path().join(name);
            std::fs::create_dir_all(&place).expect("a directory");
            let place = place.to_str().expect("UTF-8");
            let kept = if status == "1 idle" { &["--keep"][..] } else { &[] };
            let launch = ["launch", "demo", "--name", name, "--cwd", place, "-p", prompt];
            let launched = self.home.run(&[&launch, kept].concat());
            assert_eq!(launched.code, Some(0), "{}", launched.stderr);
            self.ids.insert(launched.stdout.trim().to_owned(), fixed_id(name));
            until(&terminal, status);
        }
        terminal.press("g");
        until(&terminal, "npm test -- login");
        terminal.press("\r");
        let screen = until(&terminal, "Esc back to the list");
        terminal.press("q");
        let _left = terminal.ended();
        StyledScreen::of(&self.fixed(&screen.printed()))
    }

    /// Replaces what differs from run to run. A session that began and ended at the age that is shown lasted no second.
    fn fixed(&self, output: &str) -> String {
        let lines = output.split_inclusive('\n');
        let age = |line: &str| if line.contains("duration") { "0s" } else { "3s" };
        lines.map(|line| self.fixed_line(line, age(line))).collect()
    }

    fn fixed_line(&self, line: &str, age: &str) -> String {
        replace_changing(line, |kind, value| match kind {
            Changing::Id => self.fixed_form_of(value),
            Changing::Pid => "4127".to_owned(),
            Changing::Tick => "1204733".to_owned(),
            // Filled up to the width that the table has given to it.
            Changing::Age => format!("{age:<0$}", value.len()),
            Changing::Date if value.len() > 10 => "2026-11-16T09:41:07.120Z".to_owned(),
            Changing::Date => "2026-11-16".to_owned(),
            Changing::Clock => "09:41:07"[..value.len()].to_owned(),
            Changing::Size => value.to_owned(),
        })
    }

    fn fixed_form_of(&self, value: &str) -> String {
        let known = self.ids.iter().find(|(id, _)| id.starts_with(value));
        let id = known.map_or_else(|| fixed_id(""), |(_, fixed)| fixed.clone());
        id[..value.len().min(id.len())].to_owned()
    }
}

/// Waits until the newest whole screen has a text, and returns the output up to it.
fn shows(terminal: &PseudoTerminal, text: &str) -> String {
    const SCREEN_END: &str = "\u{1b}[J";
    eventually(&format!("the list shows {text}"), || {
        let output = terminal.output();
        let end = output.rfind(SCREEN_END)? + SCREEN_END.len();
        let screen = output[..end].replace("\r\n", "\n");
        StyledScreen::of(&screen).text().contains(text).then_some(screen)
    })
}

/// Makes an id of a word: the same for the same word.
fn fixed_id(word: &str) -> String {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    let mut digits = String::new();
    while digits.len() < 32 {
        for byte in word.bytes().chain(*b"id") {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        digits.push_str(&format!("{state:016x}"));
    }
    let part = |from: usize, to: usize| &digits[from..to];
    format!("{}-{}-4{}-a{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}
