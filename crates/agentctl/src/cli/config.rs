//! `agentctl config`: checks the configuration file, and shows the settings in force.

use std::process::ExitCode;

use agentctl_core::ask::{CheckState, DaemonState, WebContext};
use clap::{Args, Subcommand};

use crate::config::{self, ConfigSetting, Loaded, SettingSource};
use crate::failure::{Kind, Outcome};
use crate::text::{one_line, with_tilde};
use crate::ui::Ui;

/// Check the configuration file and show the settings in force
#[derive(Subcommand)]
pub(super) enum ConfigCommand {
    /// Check the configuration file
    ///
    /// Exit code 1 if a setting cannot be used; file, line and key are named. A home, secret, program or terminal
    /// that is not there is a warning.
    Check(CheckArgs),
    /// Print the path of the configuration file
    Path,
    /// Show the settings in force and where each comes from
    ///
    /// Secrets are not shown, and of a URL only the server.
    Show(ShowArgs),
}

#[derive(Args)]
pub(super) struct CheckArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct ShowArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn cmd_config(ui: &mut Ui, loaded: &Loaded, command: &ConfigCommand) -> Outcome {
    match command {
        ConfigCommand::Check(args) => check(ui, loaded, args.json),
        ConfigCommand::Path => {
            ui.line(&config::path(&loaded.host).to_string_lossy())?;
            ui.flush()?;
            Ok(ExitCode::SUCCESS)
        }
        ConfigCommand::Show(args) => show(ui, loaded, args.json),
    }
}

fn check(ui: &mut Ui, loaded: &Loaded, json: bool) -> Outcome {
    let path = config::path(&loaded.host);
    if json {
        ui.json(&loaded.settings())?;
    }
    for finding in &loaded.findings {
        ui.error(&finding.to_string());
        if let Some(hint) = &finding.hint {
            ui.hint(hint);
        }
    }
    // The same checks as those of `doctor`.
    let checks = loaded
        .fleet()
        .configuration_checks(&loaded.doctor_context((DaemonState::Absent, WebContext::default())));
    for check in checks.iter().filter(|check| check.state == CheckState::Failed) {
        ui.warn(&format!("{}: {}: {}", path.display(), check.name, check.detail));
    }
    for warning in &loaded.warnings {
        ui.warn(warning);
    }
    let broken = !loaded.findings.is_empty();
    if broken {
        return Ok(ExitCode::from(Kind::Failed.exit_code()));
    }
    if !json {
        // The whole path, as in the errors and in `config path`.
        let shown = path.display();
        let found = if path.exists() { "no errors" } else { "no such file: defaults are used" };
        ui.line(&format!("{shown}: {found}"))?;
        ui.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(ui: &mut Ui, loaded: &Loaded, json: bool) -> Outcome {
    let document = loaded.settings();
    if json {
        ui.json(&document)?;
    } else {
        let row = |setting: &ConfigSetting| {
            let source = match (setting.source, setting.line) {
                (SettingSource::File, Some(line)) => format!("line {line}"),
                (SettingSource::File, None) => "file".to_owned(),
                (SettingSource::Environment, _) => "environment".to_owned(),
                (SettingSource::Default, _) => "default".to_owned(),
            };
            let value = setting.value.as_deref().unwrap_or("-");
            [one_line(&setting.key), source, one_line(value)]
        };
        let rows: Vec<[String; 3]> = document.settings.iter().map(row).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let (key_width, source_width) = (width(0), width(1));
        let file = with_tilde(&loaded.host.home, &document.file.to_string_lossy());
        let missing = if document.exists { "" } else { " (no such file)" };
        ui.line(&format!("file: {}{missing}", one_line(&file)))?;
        for [key, source, value] in &rows {
            ui.line(&format!("{key:key_width$}  {source:source_width$}  {value}"))?;
        }
        ui.flush()?;
    }
    super::warn_of_settings(ui, loaded);
    let code = if document.findings.is_empty() { 0 } else { Kind::Unanswered.exit_code() };
    Ok(ExitCode::from(code))
}
