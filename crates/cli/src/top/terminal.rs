//! The terminal: taken for ourselves, and given back as it was.
//!
//! A shell can do little with a terminal that was not given back, so that must not depend on `drop`, which a panic that aborts
//! does not run.

use std::fs::File;
use std::io::{self, BufWriter, stdout};
use std::os::fd::AsFd;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use ratatui::layout::Rect;
use ratatui::{TerminalOptions, Viewport};

/// That of a terminal that does not know its own.
const USUAL_SIZE: Rect = Rect::new(0, 0, 80, 24);
/// More than any picture takes: it is written at once, so that no half of it is seen.
const PICTURE_BYTES: usize = 64 << 10;

/// The screen of a terminal that is taken.
pub(super) type Screen = ratatui::Terminal<CrosstermBackend<BufWriter<File>>>;

/// The terminal of this process.
pub(super) struct Terminal {
    /// Standard output without its lock, which a thread that panics may hold.
    output: File,
    is_taken: AtomicBool,
}

impl Terminal {
    /// The terminal as it is. Nothing is changed yet.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn open() -> io::Result<Terminal> {
        let output = stdout().as_fd().try_clone_to_owned()?;
        Ok(Terminal {
            output: File::from(output),
            is_taken: AtomicBool::new(false),
        })
    }

    /// Takes it: it shows nothing but us, and keys come as they are typed. From now on a panic gives it back. Also where this fails
    /// it is to be given back.
    ///
    /// # Errors
    /// Those of the system: above all there is no terminal.
    pub(super) fn take(self: &Arc<Terminal>) -> io::Result<Screen> {
        give_back_on_panic(Arc::clone(self));
        self.is_taken.store(true, Ordering::SeqCst);
        enable_raw_mode()?;
        execute!(&self.output, EnterAlternateScreen)?;
        let output = BufWriter::with_capacity(PICTURE_BYTES, self.output.try_clone()?);
        let viewport = match size() {
            Ok((columns, rows)) if columns > 0 && rows > 0 => Viewport::Fullscreen,
            _ => Viewport::Fixed(USUAL_SIZE),
        };
        Screen::with_options(CrosstermBackend::new(output), TerminalOptions { viewport })
    }

    /// Gives it back as it was, if it was taken and not given back.
    pub(super) fn give_back(&self) {
        if self.is_taken.swap(false, Ordering::SeqCst) {
            // A terminal that is gone needs nothing more.
            let _ = execute!(&self.output, Show, LeaveAlternateScreen);
            let _ = disable_raw_mode();
        }
    }
}

/// Has a panic give the terminal back before it says what is wrong.
fn give_back_on_panic(terminal: Arc<Terminal>) {
    let say = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        terminal.give_back();
        say(what);
    }));
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const ENTER: &str = "\x1b[?1049h";
    const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
    /// Set where the test runs as its own child, on a terminal that `script` (of util-linux) makes for it.
    const IS_CHILD: &str = "ROPEWALK_TEST_ON_A_TERMINAL";

    /// Runs `on_a_terminal` in a child of this test; returns what came out there, and the terminal's settings before and after.
    fn on_a_terminal(test: &str, child: impl FnOnce()) -> Option<(String, Vec<String>)> {
        if std::env::var_os(IS_CHILD).is_some() {
            child();
            return None;
        }
        let program = std::env::current_exe().expect("a test's binary");
        let command = format!(
            "stty -g; {} --exact top::terminal::tests::{test} --nocapture; stty -g",
            program.display()
        );
        let script = Command::new("script")
            .args(["-q", "-c", &command, "/dev/null"])
            .env(IS_CHILD, "1")
            .env("SHELL", "/bin/sh")
            .output()
            .expect("this test needs script");
        let text = String::from_utf8_lossy(&script.stdout).into_owned();
        let is_mode = |letter: char| letter.is_ascii_hexdigit() || letter == ':';
        let modes = text.lines().map(str::trim_end).map(str::to_owned);
        let modes = modes.filter(|line| line.contains(':') && line.chars().all(is_mode));
        Some((text.clone(), modes.collect()))
    }

    #[test]
    fn a_panic_gives_the_terminal_back() {
        let run = on_a_terminal("a_panic_gives_the_terminal_back", || {
            let terminal = Arc::new(Terminal::open().expect("standard output"));
            terminal.take().expect("a terminal");
            panic!("planned");
        });
        let Some((text, modes)) = run else { return };
        let left = text
            .split_once(ENTER)
            .and_then(|(_, rest)| rest.split_once(LEAVE));
        assert!(left.is_some_and(|(_, said)| said.contains("planned")), "{text:?}");
        assert!(modes.len() == 2 && modes[0] == modes[1], "{text:?}");
    }

    #[test]
    fn a_terminal_is_given_back_once() {
        let run = on_a_terminal("a_terminal_is_given_back_once", || {
            let terminal = Arc::new(Terminal::open().expect("standard output"));
            terminal.give_back();
            drop(terminal.take().expect("a terminal"));
            terminal.give_back();
            terminal.give_back();
        });
        let Some((text, modes)) = run else { return };
        assert_eq!(text.matches(ENTER).count(), 1, "{text:?}");
        assert_eq!(text.matches(LEAVE).count(), 1, "{text:?}");
        assert!(modes.len() == 2 && modes[0] == modes[1], "{text:?}");
    }
}
