//! The live view: one thread looks at the node, one listens to the keyboard, one to signals, this one draws.
//!
//! A look that fails is said on the screen, and the next one is tried: a node that is started again is watched on.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Watch;
use super::frame::Frame;
use super::terminal::{Terminal, Wish, give_back_on_panic};
use super::view::View;
use crate::signals::{self, Watched};

/// How long news may wait before they are drawn.
const TURN: Duration = Duration::from_millis(50);
/// How long the watcher waits after a look that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// What Ctrl-C types where the terminal makes no signal of it.
const INTERRUPT: u8 = 3;

/// Watches until the user has seen enough.
pub(super) fn run(watch: Watch, http: &str) -> Result<()> {
    let news = look_for_ever(watch)?;
    let cannot = "this terminal cannot be drawn on; --once prints text";
    let terminal = Arc::new(Terminal::open().context(cannot)?);
    let (give, wishes) = channel();
    // Before it is taken: from then on nothing may end this process without giving it back.
    give_back_on_panic(terminal.clone());
    watch_signals(terminal.clone(), give.clone())?;
    let taken = terminal.take().and_then(|()| terminal.listen(give));
    let shown = taken
        .context(cannot)
        .and_then(|()| show(&news, &wishes, &terminal, Frame::new(http)));
    terminal.give_back();
    shown
}

/// The first signal ends the view in order, the next one ends the process at once.
fn watch_signals(terminal: Arc<Terminal>, give: Sender<Wish>) -> Result<()> {
    let tell = move |_| give.send(Wish::End).is_ok();
    signals::watch(Watched::AskedOrAlone, tell, move || terminal.give_back())
}

type News = Result<View, String>;

/// Looks on a thread of its own until nobody takes what it sees.
fn look_for_ever(mut watch: Watch) -> Result<Receiver<News>> {
    let (give, take) = sync_channel(1);
    let look = move || {
        loop {
            let seen = watch.next().map_err(|error| error.to_string());
            let failed = seen.is_err();
            if give.send(seen).is_err() {
                return;
            }
            if failed {
                thread::sleep(PAUSE);
            }
        }
    };
    let thread = thread::Builder::new().name("watcher".to_owned()).spawn(look);
    thread.context("a thread that watches could not be started")?;
    Ok(take)
}

/// Draws whenever there is something new, until that is enough.
fn show(news: &Receiver<News>, wishes: &Receiver<Wish>, terminal: &Terminal, mut frame: Frame) -> Result<()> {
    let mut drawn_size = None;
    loop {
        let size = terminal.size();
        let mut changed = drawn_size != Some(size);
        match news.try_recv() {
            Ok(seen) => changed |= frame.take(seen),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => bail!("the thread that watches has ended"),
        }
        if changed {
            let drawn = terminal.draw(&frame.lines(size.0, size.1));
            drawn.context("the terminal cannot be drawn on")?;
            drawn_size = Some(size);
        }
        match wishes.recv_timeout(TURN) {
            Ok(Wish::Key(b'q' | INTERRUPT) | Wish::End) | Err(RecvTimeoutError::Disconnected) => {
                return Ok(());
            }
            Ok(Wish::Key(b'p' | b' ')) => {
                frame.toggle_pause();
                drawn_size = None;
            }
            Ok(Wish::Key(_)) | Err(RecvTimeoutError::Timeout) => {}
        }
    }
}
