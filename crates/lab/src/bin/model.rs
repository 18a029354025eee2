//! Runs the scripted model server by itself, until a signal ends it.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Parser;
use lab::model::{Model, Options};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// A scripted model on 127.0.0.1, for real agents to talk to.
#[derive(Parser)]
#[command(name = "model")]
struct Args {
    /// Port to listen on; 0 for any free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// File to write the port to once it is open
    #[arg(long, value_name = "F")]
    port_file: Option<PathBuf>,
    /// File to append one line of JSON per request to
    #[arg(long, value_name = "F")]
    log: Option<PathBuf>,
    /// Tokens to report in every answer
    #[arg(long, value_name = "IN,OUT", value_parser = usage)]
    usage: Option<(u64, u64)>,
}

fn usage(text: &str) -> Result<(u64, u64), String> {
    let numbers = text.split_once(',').map(|(input, output)| (input.parse(), output.parse()));
    match numbers {
        Some((Ok(input), Ok(output))) => Ok((input, output)),
        _ => Err("two numbers are wanted, as in 100,20".to_owned()),
    }
}

fn main() -> io::Result<()> {
    let args = Args::parse();
    // Registered before the address is printed, so that a signal sent after that is received.
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let model = Model::start(Options { port: args.port, log: args.log, usage: args.usage })?;
    if let Some(path) = &args.port_file {
        write_whole(path, &model.port().to_string())?;
    }
    writeln!(io::stdout(), "{}", model.url())?;
    signals.forever().next();
    Ok(())
}

/// Puts the file in place by renaming, so that a reader never sees half of it.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    fs::write(&beside, text)?;
    fs::rename(&beside, path)
}
