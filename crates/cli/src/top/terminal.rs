//! The terminal: taken for ourselves and given back as it was, its size, its keys, and how lines get on it.
//!
//! What every terminal has understood for decades suffices (ECMA-48), so no library stands between.

use std::fs::File;
use std::io::{self, BufReader, Read, Write, stdout};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

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

/// A terminal that shows nothing but us, until this goes out of scope.
pub(super) struct Terminal {
    /// The keyboard, also where standard input is something else.
    keyboard: File,
    before: Termios,
    colored: bool,
}

impl Terminal {
    /// Takes the terminal of this process.
    ///
    /// # Errors
    /// Those of the system: above all there is none.
    pub(super) fn enter() -> io::Result<Terminal> {
        let keyboard = File::open("/dev/tty")?;
        let before = tcgetattr(&keyboard)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&keyboard, OptionalActions::Now, &raw)?;
        // From here on what was changed is put back, also if the rest fails.
        let terminal = Terminal {
            keyboard,
            before,
            colored: std::env::var_os("NO_COLOR").is_none(),
        };
        write_now(ENTER.as_bytes())?;
        Ok(terminal)
    }

    /// Columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.keyboard) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => USUAL_SIZE,
        }
    }

    /// The bytes that are typed, until the terminal is gone.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn keys(&self) -> io::Result<Receiver<u8>> {
        let (give, take) = channel();
        let keyboard = self.keyboard.try_clone()?;
        let read = move || {
            for key in BufReader::new(keyboard).bytes().map_while(Result::ok) {
                if give.send(key).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("keys".to_owned()).spawn(read)?;
        Ok(take)
    }

    /// Shows these lines and nothing else: in one write, so that no half of it is seen.
    ///
    /// # Errors
    /// Those of standard output.
    pub(super) fn draw(&self, lines: &[Line]) -> io::Result<()> {
        write_now(picture(lines, self.colored).as_bytes())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing more.
        let _ = write_now(LEAVE.as_bytes());
        let _ = tcsetattr(&self.keyboard, OptionalActions::Now, &self.before);
    }
}

fn write_now(bytes: &[u8]) -> io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(bytes)?;
    out.flush()
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
    use super::super::frame::Frame;
    use super::*;

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
