//! SIGINT and SIGTERM, and where it is wanted SIGHUP (the terminal was closed): the first asks for an end in order, the second ends
//! the process at once.

use std::fmt;
use std::io;
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result};
use tokio::signal::unix::{self, SignalKind};

/// The number that shells add to a signal's for a process that it ended.
const ENDED_BY: i32 = 128;

/// One that asks for the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Interrupt,
    Terminate,
    Hangup,
}

impl Signal {
    /// The exit code of a process that it ended.
    pub(crate) fn exit_code(self) -> u8 {
        let kind = match self {
            Signal::Interrupt => SignalKind::interrupt(),
            Signal::Terminate => SignalKind::terminate(),
            Signal::Hangup => SignalKind::hangup(),
        };
        u8::try_from(ENDED_BY + kind.as_raw_value()).expect("signals have small numbers")
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Signal::Interrupt => "SIGINT",
            Signal::Terminate => "SIGTERM",
            Signal::Hangup => "SIGHUP",
        })
    }
}

/// Which signals are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watched {
    /// Those that ask for an end.
    Asked,
    /// And that of a terminal that goes away, unless it is ignored (nohup): for a program that must end what it started or put
    /// back what it changed.
    AskedOrAlone,
}

/// Watches for signals from now on. `tell` is called with the first one, and says whether anybody listens; `end` is called
/// just before the process ends at once.
pub(crate) fn watch(
    watched: Watched,
    tell: impl Fn(Signal) -> bool + Send + 'static,
    end: impl Fn() + Send + 'static,
) -> Result<()> {
    let (ready, watching) = mpsc::channel();
    let watch = move || match prepare(watched) {
        Ok(watcher) => {
            let _ = ready.send(Ok(()));
            watcher.run(tell, end);
        }
        Err(error) => {
            let _ = ready.send(Err(error));
        }
    };
    let thread = thread::Builder::new().name("signals".to_owned()).spawn(watch);
    thread.context("a thread for signals could not be started")?;
    let outcome = watching.recv().expect("the thread tells how it went");
    outcome.context("signals cannot be watched")
}

struct Watcher {
    runtime: tokio::runtime::Runtime,
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: Option<unix::Signal>,
}

fn prepare(watched: Watched) -> io::Result<Watcher> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let entered = runtime.enter();
    let interrupt = unix::signal(SignalKind::interrupt())?;
    let terminate = unix::signal(SignalKind::terminate())?;
    let is_hangup_wanted = watched == Watched::AskedOrAlone && !platform::process::ignores_hangup()?;
    let hangup = is_hangup_wanted
        .then(|| unix::signal(SignalKind::hangup()))
        .transpose()?;
    drop(entered);
    Ok(Watcher {
        runtime,
        interrupt,
        terminate,
        hangup,
    })
}

impl Watcher {
    fn run(mut self, tell: impl Fn(Signal) -> bool, end: impl Fn()) {
        let runtime = self.runtime;
        runtime.block_on(async {
            let mut asked = false;
            loop {
                let signal = tokio::select! {
                    biased;
                    _ = self.interrupt.recv() => Signal::Interrupt,
                    _ = self.terminate.recv() => Signal::Terminate,
                    () = received(&mut self.hangup) => Signal::Hangup,
                };
                // Also when nobody waits to be told any more: then the process is ending, and this hastens it.
                if asked || !tell(signal) {
                    end();
                    std::process::exit(signal.exit_code().into());
                }
                asked = true;
            }
        });
    }
}

/// The next of these signals; never, if they are not watched.
async fn received(signal: &mut Option<unix::Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_signal_ended_at_once_exits_as_shells_have_it() {
        assert_eq!(Signal::Interrupt.exit_code(), 130);
        assert_eq!(Signal::Terminate.exit_code(), 143);
    }
}
