//! SIGINT, SIGTERM and SIGHUP.
//!
//! Promises that the first signal drops the work where it waits, and that later signals do not cut
//! its clean-up short: every step of a clean-up has a time limit of its own. SIGHUP stays ignored
//! where it was (nohup).

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal asked the program to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// The signal's name.
    pub name: &'static str,
    /// Its number.
    pub number: i32,
}

/// Does the work to its end, or until the first signal, which drops it.
///
/// # Errors
/// Which signal it was.
///
/// # Panics
/// When the system does not let a program listen to signals.
pub async fn interruptible<T>(work: impl Future<Output = T>) -> Result<T, Interrupted> {
    let mut interrupt = listen(SignalKind::interrupt());
    let mut terminate = listen(SignalKind::terminate());
    let mut hangup = (!hangup_is_ignored()).then(|| listen(SignalKind::hangup()));
    let hung_up = async {
        match &mut hangup {
            Some(hangup) => hangup.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        done = work => Ok(done),
        _ = interrupt.recv() => Err(Interrupted { name: "SIGINT", number: 2 }),
        _ = terminate.recv() => Err(Interrupted { name: "SIGTERM", number: 15 }),
        _ = hung_up => Err(Interrupted { name: "SIGHUP", number: 1 }),
    }
}

fn listen(kind: SignalKind) -> Signal {
    signal(kind).expect("signals can be listened to")
}

fn hangup_is_ignored() -> bool {
    let status = procfs::process::Process::myself().and_then(|own| own.status());
    status.is_ok_and(|status| status.sigign & 1 != 0)
}
