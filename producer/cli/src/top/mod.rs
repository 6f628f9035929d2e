//! `top`: the overview in a terminal, as it changes.
//!
//! Owns the terminal while it runs. Promises that the terminal is as it was when the command has
//! ended, however it ends; that it shows what is known while a server is away, with its age, and
//! goes on when the server is back; and that it ends at once on `q`, `^C` and SIGTERM. Fails when
//! standard output is no terminal, and says what to run then.

mod screen;
mod words;

use std::io::{IsTerminal, Write, stdout};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use crossterm::event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use futures_util::StreamExt;
use ledger::remedy::Remedy;
use ledger::shell::laid_out;
use overview::{Answers, Sampler};
use ratatui::DefaultTerminal;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::exit::{Error, Exit};

/// What stands below the help.
pub const HELP: &str = "\
Keys: q or ^C ends.

Examples:
  producer top
  producer top --once                     one look as plain text, for a script or a report
  producer top --json | jq .rate          a line of JSON for each look";

/// The screen is drawn anew so often, also when nothing has come, because ages grow.
const REDRAW_EVERY: Duration = Duration::from_secs(1);

/// How to show.
#[derive(Args, Clone, Debug)]
pub struct TopArgs {
    /// Look once, print plain text, and end
    #[arg(long)]
    pub once: bool,
    /// Print each look as a line of JSON; with --once, one line
    #[arg(long)]
    pub json: bool,
}

impl TopArgs {
    /// Whether it takes the terminal over, so that nothing else may write to it.
    #[must_use]
    pub fn draws(&self) -> bool {
        !self.once && !self.json
    }
}

/// Shows until it is told to end.
///
/// # Errors
/// When standard output is no terminal, or can't be written.
pub async fn run(
    context: &Context,
    args: &TopArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    if args.draws() && !stdout().is_terminal() {
        let problem = format!(
            "standard output is no terminal: {} prints the overview as text, {} and {} print it for \
             programs",
            Remedy::TopOnce,
            Remedy::TopJson,
            Remedy::StatsJson
        );
        return Err(Error::BadInput(laid_out(&problem)));
    }
    let stop = context.advice.ends_by_itself();
    let sampler = Arc::new(Sampler::new(context.client.clone()));
    let looking = tokio::spawn({
        let (sampler, stop) = (sampler.clone(), stop.clone());
        async move { sampler.run(stop).await }
    });
    let name = context.client.database().to_owned();
    let shown = match args {
        TopArgs { json: true, once } => lines(&sampler, *once, &stop, out).await,
        TopArgs { once: true, .. } => once(&sampler, &name, &stop, out).await,
        TopArgs { .. } => draw(&sampler, &name, &stop).await,
    };
    stop.cancel();
    drop(looking.await);
    shown.map(|()| Exit::Ok)
}

/// One look as text.
async fn once(
    sampler: &Sampler,
    name: &str,
    stop: &CancellationToken,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let looking = async {
        sampler.overview().await;
        // Of one look nobody knows a rate.
        another(&mut sampler.answers()).await;
        sampler.overview_from(0).0
    };
    let Some(overview) = stop.run_until_cancelled(looking).await else { return Ok(()) };
    out.write_all(words::page(&overview, name).as_bytes()).map_err(Error::output)
}

/// A line of JSON for each look.
async fn lines(
    sampler: &Sampler,
    once: bool,
    stop: &CancellationToken,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let mut answers = sampler.answers();
    let Some((mut overview, mut next)) = stop.run_until_cancelled(sampler.overview()).await else {
        return Ok(());
    };
    loop {
        let line = serde_json::to_string(&overview).expect("numbers are finite");
        writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Error::output)?;
        if once || stop.run_until_cancelled(another(&mut answers)).await.is_none() {
            return Ok(());
        }
        (overview, next) = sampler.overview_from(next);
    }
}

/// Waits for the next look, but not for ever: ages grow.
async fn another(answers: &mut watch::Receiver<Answers>) {
    let seen = answers.borrow_and_update().looks;
    let next = answers.wait_for(|answers| answers.looks != seen);
    drop(tokio::time::timeout(2 * overview::EVERY, next).await);
}

/// The terminal, which is as it was when this is dropped.
struct Screen(DefaultTerminal);

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

async fn draw(sampler: &Sampler, name: &str, stop: &CancellationToken) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::Failed(format!("the terminal: {error}"));
    // Also restores the terminal when something panics.
    let mut screen = Screen(ratatui::try_init().map_err(failed)?);
    let mut events = EventStream::new();
    let mut redraw = tokio::time::interval(REDRAW_EVERY);
    let mut answers = sampler.answers();
    loop {
        let (overview, _) = sampler.overview_from(0);
        screen.0.draw(|frame| screen::draw(frame, &overview, name)).map_err(failed)?;
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            _ = redraw.tick() => {}
            _ = answers.changed() => {}
            event = events.next() => match event {
                Some(Ok(event)) if ends(&event) => return Ok(()),
                // Another size: everything is drawn anew. Other keys mean nothing.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(failed(error)),
                // The terminal is gone.
                None => return Ok(()),
            },
        }
    }
}

/// While the terminal is in raw mode, `^C` is a key like others.
fn ends(event: &Event) -> bool {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else {
        return false;
    };
    match code {
        KeyCode::Char('q') | KeyCode::Esc => true,
        KeyCode::Char('c') => modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    }
}
