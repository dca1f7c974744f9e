//! What is on the screen, as lines of text and color: a title, the figures, curves where there is room, cores and groups.
//!
//! Nothing here knows a terminal. Names that come from elsewhere are cleaned: none may move the cursor.

use std::collections::VecDeque;

use super::units::{count, time};
use super::view::{CORE_HEADING, GROUP_HEADING, View};
use crate::output::{cleaned, counted, table};
use crate::time::shown;

/// Looks that the curves remember: as many as the widest terminal shows.
const LOOKS_MAX: usize = 512;
/// How high a curve is.
const CURVE_ROWS: usize = 3;
/// Parts of a character's height.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One row of the screen.
pub(super) type Line = Vec<Span>;

/// What a text stands out in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Color {
    Red,
    Green,
    Yellow,
    Cyan,
}

/// Text of one color.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) text: String,
    pub(super) color: Option<Color>,
}

/// Everything that is shown.
pub(super) struct Frame {
    http: String,
    view: Option<View>,
    /// Why the last look failed.
    error: Option<String>,
    paused: bool,
    /// Records appended a second, oldest first.
    rates: VecDeque<f64>,
    /// The 99th percentile of answers in seconds, oldest first.
    answers: VecDeque<f64>,
}

impl Frame {
    pub(super) fn new(http: &str) -> Frame {
        Frame {
            http: http.to_owned(),
            view: None,
            error: None,
            paused: false,
            rates: VecDeque::new(),
            answers: VecDeque::new(),
        }
    }

    /// Takes what was seen, or why nothing was; tells whether that changes anything.
    pub(super) fn take(&mut self, seen: Result<View, String>) -> bool {
        if self.paused {
            return false;
        }
        match seen {
            Ok(view) => {
                push(&mut self.rates, view.appended_records.unwrap_or(0.0));
                push(&mut self.answers, view.answers.map_or(0.0, |answers| answers.p99));
                self.view = Some(view);
                self.error = None;
            }
            Err(error) => self.error = Some(error),
        }
        true
    }

    /// Stops taking what is seen, or goes on.
    pub(super) fn toggle_pause(&mut self) {
        self.paused = !self.paused;
    }

    /// The screen as lines, at most `height` of them and none wider than `width`.
    pub(super) fn lines(&self, width: usize, height: usize) -> Vec<Line> {
        // The last line is always there.
        let room = height.saturating_sub(1);
        let mut lines = vec![self.title()];
        if let Some(view) = &self.view {
            lines.push(Line::new());
            lines.extend(figures(view));
            let tables = tables(view);
            // Cores and groups say more than curves, which get what room is left.
            for curve in self.curves(view, width) {
                if lines.len() + curve.len() + tables.len() > room {
                    break;
                }
                lines.extend(curve);
            }
            lines.extend(tables);
        }
        let mut last = "q ends  p pauses".to_owned();
        let left_out = lines.len().saturating_sub(room);
        if left_out > 0 {
            last += &format!("  {}; --once shows all", counted(left_out, "more line"));
        }
        lines.truncate(room);
        lines.push(vec![plain(last)]);
        lines.into_iter().map(|line| clipped(line, width)).collect()
    }

    /// Each with its heading, and the first with a line before it.
    fn curves(&self, view: &View, width: usize) -> [Vec<Line>; 2] {
        let rate = view.appended_records.map_or_else(String::new, count);
        let p99 = view.answers.map_or_else(String::new, |answers| time(answers.p99));
        let mut rates = vec![
            Line::new(),
            vec![colored(format!("records/s  {rate}"), Color::Cyan)],
        ];
        rates.extend(curve(&self.rates, width, Color::Green));
        let mut answers = vec![vec![colored(format!("answers, p99  {p99}"), Color::Cyan)]];
        answers.extend(curve(&self.answers, width, Color::Yellow));
        [rates, answers]
    }

    fn title(&self) -> Line {
        let (text, color) = match (&self.error, &self.view) {
            (Some(error), _) => (error.clone(), Color::Red),
            (None, Some(_)) if self.paused => (format!("ropewalk at {}  paused", self.http), Color::Yellow),
            (None, Some(view)) => (
                format!("ropewalk at {}  {}", self.http, shown(view.time_ms)),
                Color::Green,
            ),
            (None, None) => (format!("ropewalk at {}  looking", self.http), Color::Green),
        };
        vec![colored(text, color)]
    }
}

fn figures(view: &View) -> impl Iterator<Item = Line> {
    let ailing = view.is_ailing();
    view.lines().into_iter().map(move |(word, figures)| {
        let figures = match word == "faults" && ailing {
            true => colored(figures, Color::Red),
            false => plain(figures),
        };
        vec![colored(format!("{word:9} "), Color::Cyan), figures]
    })
}

/// The cores and the groups.
fn tables(view: &View) -> Vec<Line> {
    let mut lines = vec![Line::new()];
    lines.extend(rows(&CORE_HEADING, view.core_rows()));
    if !view.lag.groups.is_empty() {
        lines.push(Line::new());
        lines.extend(rows(&GROUP_HEADING, view.group_rows()));
    }
    lines.extend(view.groups_note().map(|note| vec![plain(note)]));
    lines
}

fn rows(heading: &[&str], rows: Vec<Vec<String>>) -> Vec<Line> {
    let heading = heading.iter().map(|word| (*word).to_owned()).collect();
    let text = table(&[vec![heading], rows].concat());
    let line = |(index, line): (usize, &str)| match index {
        0 => vec![colored(line.to_owned(), Color::Cyan)],
        _ => vec![plain(line.to_owned())],
    };
    text.lines().enumerate().map(line).collect()
}

/// Bars as high as their values, the greatest as high as the curve; the newest stands at the right edge.
fn curve(values: &VecDeque<f64>, width: usize, color: Color) -> Vec<Line> {
    let shown: Vec<f64> = values
        .iter()
        .skip(values.len().saturating_sub(width))
        .copied()
        .collect();
    let greatest = shown.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let parts = (BARS.len() - 1) * CURVE_ROWS;
    let heights: Vec<usize> = shown
        .iter()
        .map(|value| (value / greatest * parts as f64).round() as usize)
        .collect();
    let row = |row: usize| {
        let below = row * (BARS.len() - 1);
        let bars = heights
            .iter()
            .map(|height| BARS[height.saturating_sub(below).min(BARS.len() - 1)]);
        let pad = " ".repeat(width.saturating_sub(heights.len()));
        vec![colored(pad.chars().chain(bars).collect(), color)]
    };
    (0..CURVE_ROWS).rev().map(row).collect()
}

/// The line as far as it fits, without anything that a terminal would obey.
fn clipped(line: Line, width: usize) -> Line {
    let mut left = width;
    let mut clipped = Line::new();
    for span in line {
        let text: String = cleaned(&span.text).chars().take(left).collect();
        left -= text.chars().count();
        clipped.push(Span { text, ..span });
    }
    clipped
}

fn colored(text: String, color: Color) -> Span {
    Span {
        text,
        color: Some(color),
    }
}

fn plain(text: String) -> Span {
    Span { text, color: None }
}

fn push(values: &mut VecDeque<f64>, value: f64) {
    if values.len() == LOOKS_MAX {
        values.pop_front();
    }
    values.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::a_view;
    use super::*;

    fn text_of(lines: &[Line]) -> Vec<String> {
        let text = |line: &Line| line.iter().map(|span| span.text.as_str()).collect();
        lines.iter().map(text).collect()
    }

    fn drawn(frame: &Frame) -> String {
        text_of(&frame.lines(120, 40)).join("\n")
    }

    #[test]
    fn a_view_is_shown_and_an_error_is_said() {
        let mut frame = Frame::new("h:1");
        assert!(drawn(&frame).contains("ropewalk at h:1  looking"));
        assert!(frame.take(Ok(a_view())));
        let text = drawn(&frame);
        for part in [
            "1 k records/s",
            "billing  Stable  42",
            "1 (silent)",
            "7 more groups",
            "q ends",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert!(frame.take(Err("gone".to_owned())));
        let text = drawn(&frame);
        assert!(
            text.starts_with("gone") && text.contains("1 k records/s"),
            "{text}"
        );
        frame.take(Ok(a_view()));
        assert!(!drawn(&frame).contains("gone"));
    }

    #[test]
    fn any_screen_is_large_enough() {
        let mut frame = Frame::new("h:1");
        for _ in 0..2 * LOOKS_MAX {
            frame.take(Ok(a_view()));
        }
        assert_eq!(frame.rates.len(), LOOKS_MAX);
        for (width, height) in [(1, 1), (3, 40), (200, 3), (20, 10), (600, 100), (0, 0)] {
            let lines = text_of(&frame.lines(width, height));
            assert!(lines.len() <= height.max(1), "{width}x{height}");
            assert!(
                lines.iter().all(|line| line.chars().count() <= width),
                "{width}x{height}"
            );
        }
    }

    #[test]
    fn curves_get_the_room_that_cores_and_groups_leave() {
        let mut frame = Frame::new("h:1");
        frame.take(Ok(a_view()));
        for (height, curves) in [(24, 0), (28, 1), (32, 2), (40, 2)] {
            let text = text_of(&frame.lines(80, height)).join("\n");
            assert_eq!(
                text.matches('█').count(),
                curves * CURVE_ROWS,
                "{height}:\n{text}"
            );
            assert!(
                text.contains("billing") && text.ends_with("7 more groups\nq ends  p pauses"),
                "{height}:\n{text}"
            );
        }
        let lines = text_of(&frame.lines(80, 20));
        assert_eq!(lines.len(), 20);
        assert_eq!(lines[19], "q ends  p pauses  3 more lines; --once shows all");
    }

    #[test]
    fn a_paused_frame_stays_as_it_is() {
        let mut frame = Frame::new("h:1");
        frame.take(Ok(a_view()));
        frame.toggle_pause();
        assert!(!frame.take(Err("gone".to_owned())));
        assert!(drawn(&frame).contains("paused"));
        frame.toggle_pause();
        assert!(frame.take(Err("gone".to_owned())));
    }

    #[test]
    fn a_curve_is_as_high_as_its_greatest_value() {
        let values = VecDeque::from([9.0, 0.0, 1.0, 2.0, 4.0]);
        let lines = text_of(&curve(&values, 4, Color::Green));
        assert_eq!(lines, ["   █", "  ▄█", " ▆██"], "the oldest has no room");
        let wide = text_of(&curve(&VecDeque::from([0.0]), 3, Color::Green));
        assert_eq!(wide, ["   "; CURVE_ROWS], "nothing is no division by nothing");
    }

    #[test]
    fn a_name_cannot_move_the_cursor() {
        let line = clipped(vec![plain("a\x1b[2Jb\n".to_owned())], 20);
        assert_eq!(text_of(&[line]), ["a?[2Jb?"]);
    }
}
