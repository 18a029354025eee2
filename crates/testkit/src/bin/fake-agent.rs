//! A process that behaves like an agent where the kernel is concerned. Its arguments are its script:
//!
//! - `write PATH TEXT`: writes a file; `{pid}`, `{start}`, `{ns}`, `{machine}`, `{boot}` stand for its own
//! - `append PATH TEXT`: adds a line to a file
//! - `lock PATH`: opens a file and holds an exclusive `flock` on it
//! - `open PATH`: opens a file and holds it
//! - `remove PATH`: removes a file
//! - `say TEXT`: says so, then goes on
//! - `exit CODE`: ends
//! - `env NAME VALUE`: sets a variable for what it starts
//! - `start SCRIPT`: starts a shell with this script as a child and goes on
//! - `stay`: will stay when its stdin is closed, too
//! - `reaper`: becomes the one that orphans below it are given to
//!
//! At the end it says `ready <pid>` and stays until its stdin is closed or somebody kills it.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::print_stdout)]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Command, ExitCode, Stdio};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let mut held: Vec<File> = Vec::new();
    let mut env: Vec<(String, String)> = Vec::new();
    let mut stays = false;
    while let Some(verb) = args.next() {
        let mut word = || fill(&args.next().expect("an argument"));
        match verb.as_str() {
            "write" => {
                let path = word();
                std::fs::create_dir_all(std::path::Path::new(&path).parent().expect("a parent"))
                    .expect("made");
                std::fs::write(path, word()).expect("written");
            }
            "append" => {
                let path = word();
                let mut file =
                    OpenOptions::new().append(true).create(true).open(path).expect("open");
                writeln!(file, "{}", word()).expect("appended");
            }
            "lock" => {
                let path = word();
                std::fs::create_dir_all(std::path::Path::new(&path).parent().expect("a parent"))
                    .expect("made");
                let file = OpenOptions::new().create(true).append(true).open(path).expect("open");
                file.lock().expect("locked");
                held.push(file);
            }
            "open" => held.push(File::open(word()).expect("open")),
            "remove" => std::fs::remove_file(word()).expect("removed"),
            "say" => println!("{}", word()),
            "env" => env.push((word(), word())),
            "start" => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(word()).envs(env.iter().cloned());
                // It speaks to nobody: whoever waits for our words must not wait for its end.
                shell.stdin(Stdio::null()).stdout(Stdio::null());
                drop(shell.spawn().expect("started"));
            }
            "stay" => stays = true,
            "reaper" => {
                let me = Some(rustix::process::getpid());
                rustix::process::set_child_subreaper(me).expect("a reaper");
            }
            "exit" => return ExitCode::from(word().parse::<u8>().expect("a code")),
            // An argument an agent would take for itself: `app-server`, `-p`, …
            _ => {}
        }
    }
    println!("ready {}", std::process::id());
    std::io::stdout().flush().expect("heard");
    if stays {
        loop {
            std::thread::park();
        }
    }
    let mut rest = Vec::new();
    let _closed = std::io::stdin().read_to_end(&mut rest);
    drop(held);
    ExitCode::SUCCESS
}

fn fill(text: &str) -> String {
    let line = std::fs::read_to_string("/proc/self/stat").expect("a stat line");
    let start = line.rsplit(") ").next().and_then(|s| s.split(' ').nth(19)).expect("a start time");
    let ns = std::fs::read_link("/proc/self/ns/pid").expect("a namespace");
    let ns = ns.to_string_lossy().replace("pid:[", "").replace(']', "");
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id");
    text.replace("{pid}", &std::process::id().to_string())
        .replace("{start}", start)
        .replace("{ns}", &ns)
        .replace("{machine}", machine.trim())
        .replace("{boot}", boot.trim())
}
