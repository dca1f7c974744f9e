//! The live view: a thread looks at the node, this one draws what it saw and listens to the keyboard.
//!
//! A look that fails is said on the screen, and the next one is tried: a node that is started again is watched on. However
//! it ends, the terminal is left as it was found.

use std::io::{self, Write, stdout};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::style::{Print, ResetColor, SetForegroundColor};
use crossterm::terminal::{self, ClearType};
use crossterm::{cursor, execute, queue};

use super::Watch;
use super::frame::{Frame, Line};
use super::view::View;

/// How long a key may wait before it is seen, and news before they are drawn.
const TURN: Duration = Duration::from_millis(50);
/// How long the watcher waits after a look that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Watches until the user has seen enough.
pub(super) fn run(watch: Watch, http: &str) -> Result<()> {
    let news = look_for_ever(watch)?;
    let _raw = RawTerminal::enter().context("this terminal cannot be drawn on; --once prints text")?;
    show(&news, Frame::new(http))
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

/// A terminal that shows nothing but us, until this goes out of scope.
struct RawTerminal;

impl RawTerminal {
    fn enter() -> io::Result<RawTerminal> {
        terminal::enable_raw_mode()?;
        // From here on what was changed is put back, also if the rest fails.
        let raw = RawTerminal;
        execute!(stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(raw)
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing more.
        let _ = execute!(stdout(), cursor::Show, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

/// Draws whenever there is something new, until a key ends it.
fn show(news: &Receiver<News>, mut frame: Frame) -> Result<()> {
    let mut changed = true;
    loop {
        match news.try_recv() {
            Ok(seen) => changed |= frame.take(seen),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => bail!("the thread that watches has ended"),
        }
        if changed {
            draw(&frame).context("the terminal cannot be drawn on")?;
            changed = false;
        }
        if !event::poll(TURN).context("the keyboard cannot be read")? {
            continue;
        }
        changed = true;
        if let Event::Key(key) = event::read().context("the keyboard cannot be read")? {
            match wish(key) {
                Some(Wish::End) => return Ok(()),
                Some(Wish::Pause) => frame.toggle_pause(),
                None => {}
            }
        }
    }
}

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    End,
    Pause,
}

fn wish(key: KeyEvent) -> Option<Wish> {
    if key.kind != KeyEventKind::Press {
        return None;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Some(Wish::End),
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Wish::End),
        KeyCode::Char('p' | ' ') => Some(Wish::Pause),
        _ => None,
    }
}

fn draw(frame: &Frame) -> io::Result<()> {
    let (width, height) = terminal::size()?;
    // In one write, so that no half of it is seen.
    let mut picture = Vec::new();
    write_lines(
        &mut picture,
        &frame.lines(usize::from(width), usize::from(height)),
    )?;
    let mut out = stdout().lock();
    out.write_all(&picture)?;
    out.flush()
}

/// Without colors where `NO_COLOR` is set: crossterm sees to that.
fn write_lines(out: &mut Vec<u8>, lines: &[Line]) -> io::Result<()> {
    for (row, line) in lines.iter().enumerate() {
        queue!(out, cursor::MoveTo(0, u16::try_from(row).unwrap_or(u16::MAX)))?;
        for span in line {
            match span.color {
                Some(color) => queue!(out, SetForegroundColor(color), Print(&span.text), ResetColor)?,
                None => queue!(out, Print(&span.text))?,
            }
        }
        queue!(out, terminal::Clear(ClearType::UntilNewLine))?;
    }
    queue!(out, terminal::Clear(ClearType::FromCursorDown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_end_and_pause() {
        let key = |code, modifiers| wish(KeyEvent::new(code, modifiers));
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Some(Wish::End));
        assert_eq!(key(KeyCode::Esc, KeyModifiers::NONE), Some(Wish::End));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Wish::End));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(key(KeyCode::Char('p'), KeyModifiers::NONE), Some(Wish::Pause));
    }

    #[test]
    fn each_line_is_written_where_it_belongs() {
        let mut out = Vec::new();
        write_lines(&mut out, &Frame::new("h:1").lines(40, 2)).expect("in memory");
        let text = String::from_utf8(out).expect("text");
        assert!(text.starts_with("\x1b[1;1H"), "{text:?}");
        assert!(text.contains("\x1b[2;1Hq ends  p pauses\x1b[K"), "{text:?}");
        assert!(text.ends_with("\x1b[J"), "{text:?}");
    }
}
