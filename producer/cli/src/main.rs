//! The binary: parses, runs, and turns the outcome into an exit code.
//!
//! On SIGINT or SIGTERM, a command that can end by itself (a server, a listener) is told to end.
//! Any other command is dropped, and the program prints what the command advises for this case. It
//! ends in good order if that takes no longer than [`TIDY_UP_LIMIT`], and at once on a second
//! signal.

use std::io::{BufWriter, IsTerminal, Write};
use std::time::Duration;

use clap::Parser;
use producer_cli::{Advice, Cli, Exit, run};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// How long the command may take to end after a signal. A command that is blocked, because nobody
/// reads its output, would otherwise never end.
const TIDY_UP_LIMIT: Duration = Duration::from_secs(5);

fn main() {
    let cli = match settings::secret_files::of_process() {
        Ok(arguments) => Cli::parse_from(arguments),
        Err(problem) => {
            say(&problem);
            std::process::exit(Exit::BadInput.code().into());
        }
    };
    let exit = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let exit = runtime.block_on(run_or_interrupt(&cli));
            // The runtime is never dropped. Dropping it would wait for a thread that reads standard
            // input, and would stop the driver's background tasks midway, which panics.
            std::mem::forget(runtime);
            exit
        }
        Err(error) => {
            say(&format!("no threads: {error}"));
            Exit::Failed
        }
    };
    std::process::exit(exit.code().into());
}

async fn run_or_interrupt(cli: &Cli) -> Exit {
    // A line of the log would stand in the middle of the picture.
    let is_silent = cli.draws() && std::io::stderr().is_terminal();
    let logging = if is_silent { Ok(()) } else { flags::init_logging(&cli.log) };
    if let Err(problem) = logging {
        say(&problem);
        return Exit::BadInput;
    }
    let signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            say(&format!("can't listen for signals: {error}"));
            return Exit::Failed;
        }
    };
    let advice = Advice::default();
    let (interrupt, interrupted) = oneshot::channel();
    tokio::spawn(end_on_signal(signals, advice.clone(), interrupt));

    let mut out = BufWriter::new(std::io::stdout());
    let ran = tokio::select! {
        ran = run(cli, &advice, &mut out) => ran,
        Ok(exit) = interrupted => return exit,
    };
    match ran {
        Ok(exit) => exit,
        Err(error) => {
            if let Some(told) = error.told(&advice) {
                say(&told);
            }
            error.exit()
        }
    }
}

/// Waits for a signal, prints the advice, and has the command dropped. Runs beside the command and
/// never blocks, so that it sees a second signal even while everything else is blocked.
async fn end_on_signal(mut signals: Signals, advice: Advice, interrupt: oneshot::Sender<Exit>) {
    let exit = signals.next().await;
    if let Some(stop) = advice.stop() {
        stop.cancel();
        let exit = signals.next().await;
        std::process::exit(exit.code().into());
    }
    let saying = tokio::task::spawn_blocking(move || say(&format!("interrupted; {advice}")));
    let in_good_order = async {
        // Both fail only if the command has ended at this moment.
        let _ = saying.await;
        let _ = interrupt.send(exit);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = in_good_order => {}
        () = tokio::time::sleep(TIDY_UP_LIMIT) => {}
        _ = signals.next() => {}
    }
    std::process::exit(exit.code().into());
}

/// The signals that interrupt a command.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Signals> {
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        Ok(Signals { interrupt, terminate })
    }

    /// Waits for the next one; returns the exit code that goes with it.
    async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }
}

/// A closed standard error must not end the process in a panic.
fn say(problem: &str) {
    drop(writeln!(std::io::stderr(), "producer: {problem}"));
}
