//! `agentctl web`: serves the page in the browser.

use std::net::SocketAddr;
use std::process::ExitCode;

use agentctl_core::host::Host;
use agentctl_core::inbox::Answerer;
use clap::{Args, Subcommand};

use crate::config::{Loaded, WebAddress, WebSettings, check_web_host};
use crate::daemon::service;
use crate::face::order_from_agent;
use crate::failure::{Failure, Kind, Outcome};
use crate::place::Place;
use crate::ui::Ui;
use crate::web::{self, Links};

/// Serve a page for the browser: asks, sessions, conversations
///
/// Prints a link that is good once, for 10 minutes. The page only shows, unless --allow-control is given. It listens on
/// this machine only; docs/WEB.md says how to reach it from a phone. Ctrl-C ends it, and no agent with it.
#[derive(Args)]
pub(super) struct WebArgs {
    #[command(subcommand)]
    command: Option<WebCommand>,
    /// The address, or unix:PATH for a proxy [default: 127.0.0.1:9210]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Let the page answer, send, stop and launch
    #[arg(long)]
    allow_control: bool,
    /// Print a new link of the server that is running
    #[arg(long)]
    link: bool,
    /// Show the link as a QR code
    #[arg(long)]
    qr: bool,
    /// The name of an https proxy in front of it (repeatable)
    #[arg(long, value_name = "HOST", value_parser = host_name)]
    name: Vec<String>,
    /// Listen on an address that other machines reach, without encryption
    #[arg(long)]
    insecure: bool,
    /// Print no link: the output of a service is kept in a log
    #[arg(long, hide = true)]
    service: bool,
}

#[derive(Subcommand)]
enum WebCommand {
    /// Install the page as a service of your user (systemd, launchd)
    ///
    /// The flags before `install` become those of the service. It prints no link: `agentctl web --link` does. Agents
    /// that the page starts have the environment of the service.
    Install {
        /// Print the service file instead of installing it
        #[arg(long)]
        print: bool,
    },
    /// Remove the service
    Uninstall,
}

fn host_name(text: &str) -> Result<String, String> {
    let checked = check_web_host(text).map(|()| text.to_owned());
    checked.map_err(|(why, hint)| format!("{why}: {hint}"))
}

pub(super) fn cmd_web(ui: &mut Ui, args: &WebArgs) -> Outcome {
    check_combination(args)?;
    let loaded = crate::config::load_all()?;
    let is_uninstall = matches!(args.command, Some(WebCommand::Uninstall));
    // A setting that makes it fail is not warned of as well.
    if !args.link && !is_uninstall {
        loaded.check_web()?;
    }
    super::warn_of_settings(ui, &loaded);
    if args.link {
        let links = web::link::ask(&loaded.host)?;
        show(ui, &links, args.qr)?;
        return Ok(ExitCode::SUCCESS);
    }
    if is_uninstall {
        return super::service::uninstall(ui, &loaded.host, &service::web(Vec::new()));
    }
    let settings = settings(&loaded, args)?;
    if let Some(WebCommand::Install { print }) = &args.command {
        let service = service::web(flags(args));
        if *print {
            return super::service::print(ui, &loaded.host, &service);
        }
        super::service::write(&loaded.host, &service)?;
        return super::service::enable(ui, &loaded.host, &service, "`agentctl web`");
    }
    let place = Place::of_web(&loaded.host);
    let Some(right) = place.take()? else {
        return Err(running_already(&loaded.host));
    };
    let (is_service, qr, control) = (args.service, args.qr, settings.control);
    web::run(loaded, settings, (&place, &right), |links, address| {
        if let Some(address) = address {
            warn_of_address(ui, address, links);
        }
        if is_service {
            return Ok(());
        }
        show(ui, links, qr)?;
        if ui.shows_progress() {
            ui.note(if control {
                "the page also acts: it answers, sends, stops and launches; Ctrl-C ends it, and no agent"
            } else {
                "the page only shows: --allow-control lets it act; Ctrl-C ends it, and no agent"
            });
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Warns of an address that other machines reach.
fn warn_of_address(ui: &mut Ui, address: SocketAddr, links: &Links) {
    if address.ip().is_loopback() {
        return;
    }
    ui.warn(&format!("{address}: the token and all conversations cross the network in clear text"));
    if address.ip().is_unspecified() && links.is_for_this_machine() {
        ui.hint("the link opens on this machine only: for another one, listen on its own address, or name an https proxy with --name HOST");
    }
}

/// Refuses flags and subcommands that cannot have an effect together.
fn check_combination(args: &WebArgs) -> Result<(), Failure> {
    let serves = [
        ("--listen", args.listen.is_some()),
        ("--allow-control", args.allow_control),
        ("--name", !args.name.is_empty()),
        ("--insecure", args.insecure),
    ];
    let serving = serves.iter().find(|(_, is_given)| *is_given).map(|(flag, _)| *flag);
    let (link, qr) = (args.link.then_some("--link"), args.qr.then_some("--qr"));
    let (what, other) = match &args.command {
        None if args.link => ("--link", serving),
        None => return Ok(()),
        Some(WebCommand::Install { .. }) => ("install", link.or(qr)),
        Some(WebCommand::Uninstall) => ("uninstall", link.or(qr).or(serving)),
    };
    let Some(other) = other else { return Ok(()) };
    let failure = Failure::new(Kind::Usage, format!("{other} cannot be used with {what}"));
    Err(if what == "--link" {
        failure.hint("the server that runs keeps its settings; end it and start it with the flags")
    } else {
        failure
    })
}

/// Names the server that runs, and how its settings can be changed.
fn running_already(host: &Host) -> Failure {
    let what = "a server of the page is running already";
    let failure = match web::link::running(host) {
        Ok(server) => {
            let mode = if server.control { "with control" } else { "without control" };
            let pid = server.pid;
            let what = format!("{what}: {}, {mode}, process {pid}", server.address);
            Failure::new(Kind::Refused, what).hint(format!(
                "to start it with other flags, end it first: Ctrl-C, `kill {pid}`, or `agentctl web uninstall` for the service"
            ))
        }
        Err(_) => Failure::new(Kind::Refused, what),
    };
    failure.hint("`agentctl web --link` prints a link of it")
}

/// Returns the flags of a service that serves as this command would.
fn flags(args: &WebArgs) -> Vec<String> {
    let mut flags = Vec::new();
    if let Some(listen) = &args.listen {
        flags.extend(["--listen".to_owned(), listen.clone()]);
    }
    for (flag, is_given) in [("--allow-control", args.allow_control), ("--insecure", args.insecure)]
    {
        flags.extend(is_given.then(|| flag.to_owned()));
    }
    flags.extend(args.name.iter().flat_map(|name| ["--name".to_owned(), name.clone()]));
    flags
}

/// Returns the settings: the configuration, and what the flags change.
fn settings(loaded: &Loaded, args: &WebArgs) -> Result<WebSettings, Failure> {
    let mut settings = loaded.web.clone();
    if let Some(text) = &args.listen {
        settings.listen = WebAddress::parse(&loaded.host, text).map_err(|why| {
            Failure::new(Kind::Usage, format!("--listen: {why}"))
                .hint("write it like 127.0.0.1:9210 or unix:/run/user/1000/page")
        })?;
    }
    settings.control |= args.allow_control;
    settings.hosts.extend(args.name.iter().cloned());
    if let WebAddress::Tcp(address) = &settings.listen
        && !address.ip().is_loopback()
        && !args.insecure
    {
        let what = format!("{address} can be reached from other machines");
        return Err(Failure::new(Kind::Refused, what).hint(
            "put an https proxy in front of 127.0.0.1 (docs/WEB.md), or add --insecure: then the token crosses the network in clear text",
        ));
    }
    if settings.control {
        let answerer = Answerer::this_process(&loaded.fleet());
        if !answerer.is_person() {
            return Err(order_from_agent(&answerer));
        }
    }
    Ok(settings)
}

/// Prints links, one a line, and the code for a camera.
fn show(ui: &mut Ui, links: &Links, qr: bool) -> std::io::Result<()> {
    for link in &links.links {
        ui.line(link)?;
    }
    if qr {
        ui.drawn(&web::link::qr(links.for_other_device()))?;
        if links.is_for_this_machine() {
            ui.hint(
                "a phone cannot open this link: name an https proxy with --name HOST (docs/WEB.md)",
            );
        }
    }
    ui.flush()
}
