//! The environment of one scenario: a home, a working directory, a scripted model, the real agent, and
//! agentctl as a script would call it. It exists inside a private pid namespace that ends with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::install::Installed;
use crate::judge::{Check, Claim};
use crate::model::{Model, Options, Request};
use crate::process::{Held, Started};
use crate::terminal::Terminal;

/// Long enough for a loaded machine; nothing waits this long when all is well.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The limits for agentctl: the speed of this machine is not judged.
pub const LIMITS: &str =
    "[deadline]\nlive = \"20s\"\nall = \"20s\"\ngateway = \"20s\"\nlaunch = \"50s\"\n";

/// How long files stay as they are before they count as written.
const QUIET: Duration = Duration::from_millis(700);

/// Why a scenario could not be played to its end.
pub type Trouble = String;

/// The stage.
pub struct Stage {
    /// The home of everything that runs here.
    pub home: PathBuf,
    /// The scripted model.
    pub model: Model,
    /// The real agent.
    pub agent: Installed,
    /// The program that is judged.
    pub agentctl: PathBuf,
    checks: Vec<Check>,
    notes: Vec<String>,
    rounds: Option<usize>,
    terminals: usize,
    pub(crate) orders: std::cell::Cell<usize>,
}

impl Stage {
    /// Sets the stage below this folder.
    pub fn new(folder: &Path, agent: Installed, agentctl: PathBuf) -> Result<Self, Trouble> {
        let home = folder.join("home");
        fs::create_dir_all(&home).map_err(|e| e.to_string())?;
        let home = fs::canonicalize(&home).map_err(|e| e.to_string())?;
        let options = Options { usage: Some((1000, 50)), ..Options::default() };
        let model = Model::start(options).map_err(|e| format!("the model: {e}"))?;
        let stage = Self {
            home,
            model,
            agent,
            agentctl,
            checks: Vec::new(),
            notes: Vec::new(),
            rounds: None,
            terminals: 0,
            orders: 0.into(),
        };
        stage.write(".config/agentctl/config.toml", LIMITS)?;
        Ok(stage)
    }

    /// Sets the rounds of scenarios that count in rounds.
    pub fn set_rounds(&mut self, rounds: Option<usize>) {
        self.rounds = rounds;
    }

    /// Returns the rounds to play: those of the command line, or these.
    #[must_use]
    pub fn rounds(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(usual)
    }

    /// Returns a directory to work in, made if needed.
    pub fn directory(&self, name: &str) -> Result<PathBuf, Trouble> {
        let path = self.home.join("ws").join(name);
        fs::create_dir_all(&path).map_err(|e| e.to_string())?;
        Ok(path)
    }

    /// Writes a file below the home.
    pub fn write(&self, relative: &str, text: &str) -> Result<(), Trouble> {
        let path = self.home.join(relative);
        let parent = path.parent().unwrap_or(&self.home);
        fs::create_dir_all(parent).and_then(|()| fs::write(&path, text)).map_err(|e| e.to_string())
    }

    /// Returns the environment agents run in: this home, no account, nothing beyond loopback.
    #[must_use]
    pub fn environment(&self) -> Vec<(String, String)> {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.agent.bin.display());
        let fixed = [
            ("HOME", self.home.to_string_lossy().into_owned()),
            ("PATH", path),
            ("LANG", "C.UTF-8".into()),
            ("SHELL", "/bin/bash".into()),
            ("IS_SANDBOX", "1".into()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
            ("DISABLE_AUTOUPDATER", "1".into()),
            ("DISABLE_TELEMETRY", "1".into()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
        ];
        fixed.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
    }

    /// Starts a program of the agent without a terminal: a session of its own, output to a file.
    pub fn start(
        &self,
        cwd: &Path,
        env: &[(String, String)],
        argv: &[&str],
    ) -> Result<Started, Trouble> {
        use std::os::unix::process::CommandExt;
        let said =
            fs::OpenOptions::new().create(true).append(true).open(self.home.join("said.log"));
        let said = said.map_err(|e| e.to_string())?;
        let mut command = Command::new(self.agent.bin.join(argv[0]));
        command.args(&argv[1..]).env_clear().envs(self.environment()).envs(env.iter().cloned());
        command.current_dir(cwd).stdin(Stdio::null()).process_group(0);
        command.stdout(said.try_clone().map_err(|e| e.to_string())?).stderr(said);
        let child = command.spawn().map_err(|e| format!("{}: {e}", argv[0]))?;
        Started::new(child).map_err(|e| e.to_string())
    }

    /// Starts a program of the agent in a terminal of its own.
    pub fn terminal(
        &mut self,
        cwd: &Path,
        env: &[(String, String)],
        argv: &[&str],
    ) -> Result<Terminal, Trouble> {
        self.terminals += 1;
        let name = format!("t{}", self.terminals);
        let mut all = self.environment();
        all.extend(env.iter().cloned());
        // Beside the home: every stage is pid 1 of its namespace, so a pid would name them all alike.
        let socket = self.home.with_file_name("tmux");
        Terminal::start(&socket, &name, cwd, &all, argv).map_err(|e| e.to_string())
    }

    /// Waits until a condition holds; the error names the condition.
    pub fn until<T>(
        &self,
        what: &str,
        mut condition: impl FnMut() -> Option<T>,
    ) -> Result<T, Trouble> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(value) = condition() {
                return Ok(value);
            }
            if Instant::now() > end {
                return Err(format!("waited {} s in vain until {what}", PATIENCE.as_secs()));
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    /// Waits until the model was asked something that fits.
    pub fn until_asked(&self, what: &str, fits: impl Fn(&Request) -> bool) -> Result<(), Trouble> {
        if self.model.wait_for(PATIENCE, |requests| requests.iter().any(&fits)) {
            return Ok(());
        }
        Err(format!("the model was never asked: {what}"))
    }

    /// Waits until a process below this one has exactly this command line, and takes hold of it.
    pub fn until_below(&self, pid: u32, text: &str) -> Result<Held, Trouble> {
        self.until(&format!("`{text}` runs below pid {pid}"), || {
            let below = crate::process::descendants(pid);
            let pid = below.into_iter().find(|p| crate::process::command_line(*p) == text)?;
            Held::of(pid).ok()
        })
    }

    /// Returns agentctl in this home, ready to be run.
    #[must_use]
    pub fn agentctl(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.agentctl);
        command.args(args).env_clear().current_dir(&self.home);
        command.env("HOME", &self.home).env("PATH", "/usr/bin:/bin").env("LANG", "C.UTF-8");
        command
    }

    /// Runs agentctl in this home and returns its exit code, stdout and stderr.
    pub fn ask(&self, args: &[&str]) -> Result<(Option<i32>, String, String), Trouble> {
        let output = self.agentctl(args).output();
        let output = output.map_err(|e| format!("{}: {e}", self.agentctl.display()))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.status.code(), text(&output.stdout), text(&output.stderr)))
    }

    /// Returns the rows of `list --json` with these further arguments.
    pub fn rows(&self, args: &[&str]) -> Result<Vec<Value>, Trouble> {
        let all: Vec<&str> = ["list", "--json"].into_iter().chain(args.iter().copied()).collect();
        let (code, stdout, stderr) = self.ask(&all)?;
        let document: Value = serde_json::from_str(&stdout)
            .map_err(|e| format!("agentctl {} exited {code:?}: {e}: {stderr}", all.join(" ")))?;
        Ok(document["sessions"].as_array().cloned().unwrap_or_default())
    }

    /// Compares all answers of agentctl about a session with the scenario's claim.
    pub fn expect(&mut self, moment: &str, claim: &Claim) -> Result<(), Trouble> {
        let check = crate::judge::judge(self, moment, claim)?;
        self.checks.push(check);
        Ok(())
    }

    /// The same where several answers are right.
    pub fn expect_any(&mut self, moment: &str, claims: &[Claim]) -> Result<(), Trouble> {
        let check = crate::judge::judge_any(self, moment, claims)?;
        self.checks.push(check);
        Ok(())
    }

    /// Waits until this file, or everything below this folder, has been unchanged for a while: then an
    /// agent of any version has written everything about this moment.
    pub fn until_quiet(&self, folder: &Path) -> Result<(), Trouble> {
        let mut last = (Vec::new(), Instant::now());
        self.until(&format!("{} does not change", folder.display()), || {
            let now = footprint(folder);
            if now != last.0 {
                last = (now, Instant::now());
            }
            (last.1.elapsed() > QUIET).then_some(())
        })
    }

    /// Records a comparison that is no matter of one session's status.
    pub fn expect_that(&mut self, moment: &str, holds: bool, evidence: impl Into<String>) {
        self.add(Check::of(moment, holds, evidence.into()));
    }

    /// Adds a comparison.
    pub fn add(&mut self, check: Check) {
        self.checks.push(check);
    }

    /// Adds a sentence for the terminal, with numbers that were counted.
    pub fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    /// Returns the checks and the notes.
    #[must_use]
    pub fn into_results(self) -> (Vec<Check>, Vec<String>) {
        (self.checks, self.notes)
    }
}

/// Returns the name, size and time of a file, or of every file below a folder, in order.
fn footprint(place: &Path) -> Vec<(PathBuf, u64, Option<std::time::SystemTime>)> {
    let mut files = Vec::new();
    if let Ok(data) = fs::metadata(place)
        && data.is_file()
    {
        files.push((place.to_owned(), data.len(), data.modified().ok()));
    }
    let mut folders = vec![place.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(data) if data.is_dir() => folders.push(entry.path()),
                Ok(data) => files.push((entry.path(), data.len(), data.modified().ok())),
                Err(_) => {}
            }
        }
    }
    files.sort();
    files
}
