//! The terminal: taken for ourselves and given back as it was, its size, its keys, and how lines get on it.
//!
//! What every terminal has understood for decades suffices (ECMA-48), so no library stands between. A shell can do little
//! with a terminal that was not given back, so that must not depend on `drop`, which a panic that aborts does not run.

use std::fs::File;
use std::io::{self, BufReader, Read, Write, stdout};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::{panic, thread};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::frame::{Color, Line};

/// The alternate screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const CLEAR_LINE_REST: &str = "\x1b[K";
const CLEAR_SCREEN_REST: &str = "\x1b[J";
const NO_COLOR: &str = "\x1b[0m";
/// The columns and rows of a terminal that does not know its own.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// The terminal of this process.
pub(super) struct Terminal {
    /// The keyboard, also where standard input is something else.
    keyboard: File,
    /// Standard output without its lock, which a thread that panics may hold.
    screen: File,
    before: Termios,
    colored: bool,
    is_taken: AtomicBool,
}

/// What whoever looks at the screen wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// What this key stands for.
    Key(u8),
    /// The end: a signal said so, or the terminal is gone.
    End,
}

impl Terminal {
    /// The terminal as it is. Nothing is changed yet.
    ///
    /// # Errors
    /// Those of the system: above all there is none.
    pub(super) fn open() -> io::Result<Terminal> {
        let screen = stdout().as_fd().try_clone_to_owned()?;
        Terminal::of(File::open("/dev/tty")?, File::from(screen))
    }

    fn of(keyboard: File, screen: File) -> io::Result<Terminal> {
        let before = tcgetattr(&keyboard)?;
        Ok(Terminal {
            keyboard,
            screen,
            before,
            colored: std::env::var_os("NO_COLOR").is_none(),
            is_taken: AtomicBool::new(false),
        })
    }

    /// Takes it: it shows nothing but us, and keys come as they are typed. Also where this fails it is to be given back.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn take(&self) -> io::Result<()> {
        let mut raw = self.before.clone();
        raw.make_raw();
        self.is_taken.store(true, Ordering::SeqCst);
        tcsetattr(&self.keyboard, OptionalActions::Now, &raw)?;
        self.write(ENTER)
    }

    /// Gives it back as it was, if it was taken and not given back.
    pub(super) fn give_back(&self) {
        if self.is_taken.swap(false, Ordering::SeqCst) {
            // A terminal that is gone needs nothing more.
            let _ = self.write(LEAVE);
            let _ = tcsetattr(&self.keyboard, OptionalActions::Now, &self.before);
        }
    }

    /// Columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.keyboard) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => USUAL_SIZE,
        }
    }

    /// Hands on what is typed, until the terminal is gone.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn listen(&self, give: Sender<Wish>) -> io::Result<()> {
        let keyboard = self.keyboard.try_clone()?;
        let read = move || {
            for key in BufReader::new(keyboard).bytes().map_while(Result::ok) {
                if give.send(Wish::Key(key)).is_err() {
                    return;
                }
            }
            // Nobody takes it if this is the end already.
            let _ = give.send(Wish::End);
        };
        thread::Builder::new().name("keys".to_owned()).spawn(read)?;
        Ok(())
    }

    /// Shows these lines and nothing else: in one write, so that no half of it is seen.
    ///
    /// # Errors
    /// Those of the screen.
    pub(super) fn draw(&self, lines: &[Line]) -> io::Result<()> {
        self.write(&picture(lines, self.colored))
    }

    fn write(&self, text: &str) -> io::Result<()> {
        (&self.screen).write_all(text.as_bytes())
    }
}

/// From now on a panic gives the terminal back before it says what is wrong.
pub(super) fn give_back_on_panic(terminal: Arc<Terminal>) {
    let say = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        terminal.give_back();
        say(what);
    }));
}

fn picture(lines: &[Line], colored: bool) -> String {
    let mut picture = String::new();
    for (index, line) in lines.iter().enumerate() {
        picture.push_str(&format!("\x1b[{};1H", index + 1));
        for span in line {
            match span.color.filter(|_| colored) {
                Some(color) => {
                    picture.push_str(&format!("\x1b[{}m{}{NO_COLOR}", code(color), span.text));
                }
                None => picture.push_str(&span.text),
            }
        }
        picture.push_str(CLEAR_LINE_REST);
    }
    picture.push_str(CLEAR_SCREEN_REST);
    picture
}

fn code(color: Color) -> u8 {
    match color {
        Color::Red => 31,
        Color::Green => 32,
        Color::Yellow => 33,
        Color::Cyan => 36,
    }
}

#[cfg(test)]
mod tests {
    use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};

    use super::super::frame::Frame;
    use super::*;

    /// A terminal, and where what is written to it comes out.
    fn pseudo_terminal() -> (Arc<Terminal>, File) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let far_end = openpt(flags).expect("there is room for one");
        unlockpt(&far_end).expect("it is ours");
        let near_end = File::from(ioctl_tiocgptpeer(&far_end, flags).expect("Linux has it"));
        let keyboard = near_end.try_clone().expect("a file");
        let terminal = Terminal::of(keyboard, near_end).expect("a terminal");
        (Arc::new(terminal), File::from(far_end))
    }

    /// What has come out, once it ends as expected.
    fn read_to(far_end: &mut File, end: &str) -> String {
        let mut text = String::new();
        let mut chunk = [0; 256];
        while !text.ends_with(end) {
            let count = far_end.read(&mut chunk).expect("its near end is open");
            text.push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
        text
    }

    #[test]
    fn a_panic_gives_the_terminal_back() {
        let (terminal, mut far_end) = pseudo_terminal();
        let modes = || tcgetattr(&terminal.keyboard).expect("a terminal").local_modes;
        let before = modes();
        give_back_on_panic(terminal.clone());
        terminal.take().expect("a terminal");
        assert_ne!(modes(), before);
        assert_eq!(read_to(&mut far_end, ENTER), ENTER);
        let outcome: thread::Result<()> = thread::spawn(|| panic!("planned")).join();
        drop(panic::take_hook());
        assert!(outcome.is_err());
        assert_eq!(modes(), before);
        assert_eq!(read_to(&mut far_end, LEAVE), LEAVE);
    }

    #[test]
    fn a_terminal_is_given_back_once() {
        let (terminal, mut far_end) = pseudo_terminal();
        terminal.give_back();
        terminal.take().expect("a terminal");
        terminal.give_back();
        terminal.give_back();
        terminal.write("$ ").expect("a terminal");
        assert_eq!(read_to(&mut far_end, "$ "), format!("{ENTER}{LEAVE}$ "));
    }

    #[test]
    fn each_line_is_written_where_it_belongs_and_colored_if_wanted() {
        let lines = Frame::new("h:1").lines(40, 2);
        assert_eq!(
            picture(&lines, false),
            "\x1b[1;1Hropewalk at h:1  looking\x1b[K\x1b[2;1Hq ends  p pauses\x1b[K\x1b[J"
        );
        let colored = picture(&lines, true);
        assert!(
            colored.starts_with("\x1b[1;1H\x1b[32mropewalk at h:1  looking\x1b[0m\x1b[K"),
            "{colored:?}"
        );
    }
}
