//! A real terminal for the agents that want one: tmux, on a socket of the stage's own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::Held;

/// One window of a private tmux server.
#[derive(Debug)]
pub struct Terminal {
    socket: PathBuf,
    name: String,
}

impl Terminal {
    /// Starts a program in a new terminal of 120 by 40.
    pub fn start(
        socket: &Path,
        name: &str,
        cwd: &Path,
        env: &[(String, String)],
        argv: &[&str],
    ) -> std::io::Result<Self> {
        let terminal = Self { socket: socket.to_owned(), name: name.to_owned() };
        let mut words =
            vec!["exec".to_owned(), "env".into(), "-i".into(), "TERM=xterm-256color".into()];
        words.extend(env.iter().map(|(k, v)| quote(&format!("{k}={v}"))));
        words.extend(argv.iter().map(|a| quote(a)));
        let line = format!("cd {} && {}", quote(&cwd.to_string_lossy()), words.join(" "));
        terminal.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-s",
            name,
            "-x",
            "120",
            "-y",
            "40",
            &line,
        ])?;
        Ok(terminal)
    }

    /// Types a text and presses Enter.
    pub fn type_line(&self, text: &str) -> std::io::Result<()> {
        self.tmux(&["send-keys", "-t", &self.name, "-l", text])?;
        // Long texts are taken for pasted; the program must have them before the key.
        let shown = text.chars().take(12).collect::<String>();
        for _ in 0..200 {
            if self.screen()?.contains(&shown) {
                break;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(25));
        }
        self.press("Enter")
    }

    /// Pastes a text as a terminal does, waits until it is shown, and presses Enter: a program that
    /// watches for fast typing cannot take that key for a part of the text.
    pub fn paste_line(&self, text: &str) -> std::io::Result<()> {
        self.tmux(&["set-buffer", "-b", &self.name, text])?;
        self.tmux(&["paste-buffer", "-p", "-d", "-b", &self.name, "-t", &self.name])?;
        let shown = text.chars().take(12).collect::<String>();
        for _ in 0..2000 {
            if self.screen()?.contains(&shown) {
                return self.press("Enter");
            }
            std::thread::park_timeout(std::time::Duration::from_millis(25));
        }
        Err(std::io::Error::other(format!("`{shown}` was never shown")))
    }

    /// Presses one key, as tmux names it.
    pub fn press(&self, key: &str) -> std::io::Result<()> {
        self.tmux(&["send-keys", "-t", &self.name, key]).map(drop)
    }

    /// Returns the content of the screen.
    pub fn screen(&self) -> std::io::Result<String> {
        self.tmux(&["capture-pane", "-p", "-t", &self.name])
    }

    /// Returns the process that runs in it.
    pub fn process(&self) -> std::io::Result<Held> {
        let text = self.tmux(&["display-message", "-p", "-t", &self.name, "#{pane_pid}"])?;
        let pid = text.trim().parse().map_err(|_| std::io::Error::other("no pane"))?;
        Held::of(pid)
    }

    fn tmux(&self, args: &[&str]) -> std::io::Result<String> {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(args).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LANG", "C.UTF-8");
        let output = command.output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(std::io::Error::other(format!("tmux {}: {}", args.join(" "), said.trim())));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
