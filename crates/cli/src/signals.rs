//! SIGINT and SIGTERM: the first asks the node to stop in order, the second ends the process at once.

use std::io;
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

/// What shells give a process that was interrupted.
const INTERRUPTED: i32 = 130;

/// Watches for signals from now on. `tell` is called with the first one's name, and says whether anybody listens.
pub(crate) fn watch(tell: impl Fn(&'static str) -> bool + Send + 'static) -> Result<()> {
    let (ready, watching) = mpsc::channel();
    let watch = move || match prepare() {
        Ok(watcher) => {
            let _ = ready.send(Ok(()));
            watcher.run(tell);
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
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

fn prepare() -> io::Result<Watcher> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let entered = runtime.enter();
    let interrupt = signal(SignalKind::interrupt())?;
    let terminate = signal(SignalKind::terminate())?;
    drop(entered);
    Ok(Watcher {
        runtime,
        interrupt,
        terminate,
    })
}

impl Watcher {
    fn run(mut self, tell: impl Fn(&'static str) -> bool) {
        let runtime = self.runtime;
        runtime.block_on(async {
            let mut asked = false;
            loop {
                let name = tokio::select! {
                    _ = self.interrupt.recv() => "SIGINT",
                    _ = self.terminate.recv() => "SIGTERM",
                };
                // Also when nobody waits to be told any more: then the process is ending, and this hastens it.
                if asked || !tell(name) {
                    std::process::exit(INTERRUPTED);
                }
                asked = true;
            }
        });
    }
}
