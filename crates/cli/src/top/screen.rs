//! The live view: one thread looks at the node, one listens to the keyboard, one to signals, this one draws.
//!
//! A look that fails is said on the screen, and the next one is tried: a node that is started again is watched on.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use ratatui::crossterm::event::{self, KeyCode, KeyEvent, KeyModifiers};

use super::Watch;
use super::dashboard::Dashboard;
use super::terminal::{Screen, Terminal};
use super::view::View;
use crate::signals::{self, Watched};

/// The time that the watcher waits after a look that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// The most events that are not drawn yet.
const EVENTS_MAX: usize = 16;

/// Something to draw, or a reason to end.
enum Event {
    /// A view of the node, or the reason why there is none.
    Seen(Box<Result<View, String>>),
    Key(KeyEvent),
    Resized,
    /// A signal asks for the end, or the terminal is gone.
    End,
}

/// Watches until the user has seen enough.
pub(super) fn run(watch: Watch, http: &str) -> Result<()> {
    let cannot = "this terminal cannot be drawn on; --once prints text";
    let terminal = Arc::new(Terminal::open().context(cannot)?);
    let (give, events) = sync_channel(EVENTS_MAX);
    // Before it is taken: from then on no signal may end this process without giving it back.
    watch_signals(terminal.clone(), give.clone())?;
    let shown = terminal.take().context(cannot).and_then(|screen| {
        start("keys", give.clone(), listen)?;
        start("watcher", give, |give| look_for_ever(watch, &give))?;
        show(screen, &events, Dashboard::new(http))
    });
    terminal.give_back();
    shown
}

/// The first signal ends the view in order, the next one ends the process at once; so does the first where events wait in vain,
/// as on a terminal that takes nothing.
fn watch_signals(terminal: Arc<Terminal>, give: SyncSender<Event>) -> Result<()> {
    let tell = move |_| give.try_send(Event::End).is_ok();
    signals::watch(Watched::AskedOrAlone, tell, move || terminal.give_back())
}

/// Runs `work` on a thread of its own.
fn start(
    name: &str,
    give: SyncSender<Event>,
    work: impl FnOnce(SyncSender<Event>) + Send + 'static,
) -> Result<()> {
    let thread = thread::Builder::new().name(name.to_owned());
    let started = thread.spawn(move || work(give));
    started.with_context(|| format!("the thread {name:?} could not be started"))?;
    Ok(())
}

/// Looks until nobody takes what is seen.
fn look_for_ever(mut watch: Watch, give: &SyncSender<Event>) {
    loop {
        let seen = watch.next().map_err(|error| error.to_string());
        let failed = seen.is_err();
        if give.send(Event::Seen(Box::new(seen))).is_err() {
            return;
        }
        if failed {
            thread::sleep(PAUSE);
        }
    }
}

/// Hands on what the terminal tells, until it is gone.
///
/// On some terminals that are gone crossterm reads without end; then a signal or a picture that cannot be drawn is the end.
fn listen(give: SyncSender<Event>) {
    loop {
        let event = match event::read() {
            Ok(event::Event::Key(key)) => Event::Key(key),
            Ok(event::Event::Resize(..)) => Event::Resized,
            Ok(_) => continue,
            Err(_) => Event::End,
        };
        let is_last = matches!(event, Event::End);
        if give.send(event).is_err() || is_last {
            return;
        }
    }
}

/// Draws whenever something happens, until that is enough.
fn show(mut screen: Screen, events: &Receiver<Event>, mut dashboard: Dashboard) -> Result<()> {
    loop {
        let drawn = screen.draw(|frame| frame.render_widget(&dashboard, frame.area()));
        drawn.context("the terminal cannot be drawn on")?;
        match events.recv() {
            Ok(Event::Seen(seen)) => dashboard.take(*seen),
            Ok(Event::Key(key)) if is_end(key) => return Ok(()),
            Ok(Event::Key(key)) if matches!(key.code, KeyCode::Char('p' | ' ')) => dashboard.toggle_pause(),
            Ok(Event::Key(_) | Event::Resized) => {}
            Ok(Event::End) | Err(_) => return Ok(()),
        }
    }
}

/// Says if a key ends the view: `q`, or Ctrl-C, of which a terminal that is taken makes no signal.
fn is_end(key: KeyEvent) -> bool {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    key.code == KeyCode::Char('q') || (is_control && key.code == KeyCode::Char('c'))
}
