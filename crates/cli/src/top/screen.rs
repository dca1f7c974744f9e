//! The live view: a thread looks at the node, this one draws what it saw and listens to the keyboard.
//!
//! A look that fails is said on the screen, and the next one is tried: a node that is started again is watched on.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};

use super::Watch;
use super::view::{CORE_HEADING, GROUP_HEADING, View};
use crate::time::shown;

/// How long a key may wait before it is seen, and news before they are drawn.
const TURN: Duration = Duration::from_millis(50);
/// Looks that the curves remember: as many as the widest terminal shows.
const LOOKS_MAX: usize = 512;
/// How long the watcher waits after a look that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Watches until the user has seen enough.
pub(super) fn run(watch: Watch, http: &str) -> Result<()> {
    let news = look_for_ever(watch)?;
    let mut screen = Screen::new(http, std::env::var_os("NO_COLOR").is_none());
    let mut terminal = ratatui::try_init().context("this terminal cannot be drawn on; --once prints text")?;
    let outcome = screen.show(&news, |screen| {
        let drawn = terminal.draw(|frame| screen.draw(frame));
        drawn.map(|_| ()).context("the terminal cannot be drawn on")
    });
    ratatui::restore();
    outcome
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

/// What is on the screen.
struct Screen {
    http: String,
    colored: bool,
    view: Option<View>,
    /// Why the last look failed.
    error: Option<String>,
    paused: bool,
    /// Records appended a second, oldest first.
    rates: VecDeque<u64>,
    /// The 99th percentile of answers in microseconds, oldest first.
    answers: VecDeque<u64>,
}

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    End,
    Pause,
}

impl Screen {
    fn new(http: &str, colored: bool) -> Screen {
        Screen {
            http: http.to_owned(),
            colored,
            view: None,
            error: None,
            paused: false,
            rates: VecDeque::new(),
            answers: VecDeque::new(),
        }
    }

    /// Draws whenever there is something new, until a key ends it.
    fn show(&mut self, news: &Receiver<News>, mut draw: impl FnMut(&Screen) -> Result<()>) -> Result<()> {
        let mut drawn: Option<Instant> = None;
        loop {
            let mut changed = drawn.is_none();
            loop {
                match news.try_recv() {
                    Ok(seen) => changed |= self.take(seen),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => bail!("the thread that watches has ended"),
                }
            }
            if changed {
                draw(self)?;
                drawn = Some(Instant::now());
            }
            if !event::poll(TURN).context("the keyboard cannot be read")? {
                continue;
            }
            match event::read().context("the keyboard cannot be read")? {
                Event::Key(key) => match wish(key) {
                    Some(Wish::End) => return Ok(()),
                    Some(Wish::Pause) => self.paused = !self.paused,
                    None => {}
                },
                Event::Resize(..) => {}
                _ => continue,
            }
            drawn = None;
        }
    }

    /// Takes what was seen; tells whether that changes the screen.
    fn take(&mut self, seen: News) -> bool {
        if self.paused {
            return false;
        }
        match seen {
            Ok(view) => {
                push(&mut self.rates, view.appended_records.unwrap_or(0.0));
                let p99 = view.answers.map_or(0.0, |answers| answers.p99);
                push(&mut self.answers, p99 * 1e6);
                self.view = Some(view);
                self.error = None;
            }
            Err(error) => self.error = Some(error),
        }
        true
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let lines = self.view.as_ref().map(View::lines).unwrap_or_default();
        let figures_height = lines.len() as u16 + 2;
        let [title, figures, curves, tables, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(figures_height),
            Constraint::Length(6),
            Constraint::Min(3),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(self.title(), title);
        let ailing = self.view.as_ref().is_some_and(View::is_ailing);
        let lines = lines.into_iter().map(|(word, figures)| {
            let alarm = word == "faults" && ailing;
            let word = Span::styled(format!("{word:9} "), self.style(Color::Cyan));
            let style = if alarm {
                self.style(Color::Red)
            } else {
                Style::new()
            };
            Line::from(vec![word, Span::styled(figures, style)])
        });
        frame.render_widget(
            Paragraph::new(lines.collect::<Vec<_>>()).block(Block::bordered().title(" now ")),
            figures,
        );
        self.draw_curves(frame, curves);
        self.draw_tables(frame, tables);
        frame.render_widget(Paragraph::new("q ends  p pauses"), foot);
    }

    fn title(&self) -> Paragraph<'_> {
        let (text, color) = match (&self.error, &self.view) {
            (Some(error), _) => (error.clone(), Color::Red),
            (None, Some(_)) if self.paused => (format!("ropewalk {}  paused", self.http), Color::Yellow),
            (None, Some(view)) => (
                format!("ropewalk {}  {}", self.http, shown(view.time_ms)),
                Color::Green,
            ),
            (None, None) => (format!("ropewalk {}  looking", self.http), Color::Green),
        };
        Paragraph::new(Span::styled(text, self.style(color).add_modifier(Modifier::BOLD)))
    }

    fn draw_curves(&self, frame: &mut Frame<'_>, area: Rect) {
        let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(area);
        for (area, title, values, color) in [
            (left, " records/s ", &self.rates, Color::Green),
            (right, " answers p99, µs ", &self.answers, Color::Yellow),
        ] {
            // The newest stand at the right edge.
            let width = usize::from(area.width.saturating_sub(2));
            let skipped = values.len().saturating_sub(width);
            let curve = Sparkline::default()
                .data(values.iter().skip(skipped).copied())
                .style(self.style(color))
                .block(Block::bordered().title(title));
            frame.render_widget(curve, area);
        }
    }

    fn draw_tables(&self, frame: &mut Frame<'_>, area: Rect) {
        let Some(view) = &self.view else { return };
        let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(area);
        let cores = [Constraint::Length(11); 5];
        self.draw_table(
            frame,
            left,
            " cores ".to_owned(),
            &CORE_HEADING,
            view.core_rows(),
            &cores,
        );
        let title = match view.groups_note() {
            Some(note) => format!(" groups: {note} "),
            None => " groups ".to_owned(),
        };
        let groups = [
            Constraint::Fill(1),
            Constraint::Length(12),
            Constraint::Length(12),
        ];
        self.draw_table(frame, right, title, &GROUP_HEADING, view.group_rows(), &groups);
    }

    fn draw_table(
        &self,
        frame: &mut Frame<'_>,
        area: Rect,
        title: String,
        heading: &[&'static str],
        rows: Vec<Vec<String>>,
        widths: &[Constraint],
    ) {
        let heading = Row::new(heading.to_vec()).style(self.style(Color::Cyan));
        let table = Table::new(rows.into_iter().map(Row::new), widths)
            .header(heading)
            .block(Block::bordered().title(title));
        frame.render_widget(table, area);
    }

    fn style(&self, color: Color) -> Style {
        match self.colored {
            true => Style::new().fg(color),
            false => Style::new(),
        }
    }
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

fn push(values: &mut VecDeque<u64>, value: f64) {
    if values.len() == LOOKS_MAX {
        values.pop_front();
    }
    // A curve has no use for parts of one.
    values.push_back(value as u64);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::view::tests::a_view;
    use super::*;

    fn drawn(screen: &Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("in memory");
        terminal.draw(|frame| screen.draw(frame)).expect("in memory");
        terminal.backend().to_string()
    }

    #[test]
    fn a_view_is_drawn_and_an_error_is_said() {
        let mut screen = Screen::new("h:1", true);
        assert!(drawn(&screen, 80, 30).contains("ropewalk h:1  looking"));
        assert!(screen.take(Ok(a_view())));
        let text = drawn(&screen, 120, 30);
        for part in [
            "1 k records/s",
            "billing",
            "42",
            "1 (silent)",
            "groups: 7 more groups",
            "q ends",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert!(screen.take(Err("gone".to_owned())));
        let text = drawn(&screen, 120, 30);
        assert!(text.contains("gone") && text.contains("1 k records/s"), "{text}");
        screen.take(Ok(a_view()));
        assert!(!drawn(&screen, 120, 30).contains("gone"));
    }

    #[test]
    fn any_terminal_is_wide_enough() {
        let mut screen = Screen::new("h:1", false);
        for _ in 0..2 * LOOKS_MAX {
            screen.take(Ok(a_view()));
        }
        assert_eq!(screen.rates.len(), LOOKS_MAX);
        for (width, height) in [(1, 1), (3, 40), (200, 3), (20, 10), (600, 100)] {
            drawn(&screen, width, height);
        }
    }

    #[test]
    fn a_paused_screen_stays_as_it_is() {
        let mut screen = Screen::new("h:1", true);
        screen.take(Ok(a_view()));
        screen.paused = true;
        assert!(!screen.take(Err("gone".to_owned())));
        assert!(drawn(&screen, 80, 30).contains("paused"));
    }

    #[test]
    fn keys_end_and_pause() {
        let key = |code, modifiers| wish(KeyEvent::new(code, modifiers));
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Some(Wish::End));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Wish::End));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(key(KeyCode::Char('p'), KeyModifiers::NONE), Some(Wish::Pause));
    }
}
