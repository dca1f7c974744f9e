//! The screen's content: a title, the figures, curves where there is room, the other nodes of the cluster, cores and groups.
//!
//! A short screen has no curves, a shorter one no empty lines, and then the longest tables are cut. Nothing here knows a terminal.
//! Names that come from elsewhere are cleaned: none may move the cursor.

use std::collections::VecDeque;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, RenderDirection, Sparkline, Widget};

use super::cluster::ClusterView;
use super::units::{self, time};
use super::view::View;
use crate::output::{cleaned, counted, table};
use crate::time::shown;

/// Looks that the curves remember: as many as the widest terminal shows.
const LOOKS_MAX: usize = 512;
/// Rows of a curve with its heading.
const CURVE_ROWS: u16 = 4;

/// Everything that is shown.
pub(super) struct Dashboard {
    http: String,
    view: Option<View>,
    /// Why the last look failed.
    error: Option<String>,
    paused: bool,
    /// Records appended in a thousand seconds, newest first.
    rates: VecDeque<u64>,
    /// The 99th percentile of answers in microseconds, newest first.
    answers: VecDeque<u64>,
}

impl Dashboard {
    pub(super) fn new(http: &str) -> Dashboard {
        Dashboard {
            http: http.to_owned(),
            view: None,
            error: None,
            paused: false,
            rates: VecDeque::new(),
            answers: VecDeque::new(),
        }
    }

    /// Takes what was seen, or why nothing was, unless it is paused.
    pub(super) fn take(&mut self, seen: Result<View, String>) {
        if self.paused {
            return;
        }
        match seen {
            Ok(view) => {
                push(&mut self.rates, view.appended_records.unwrap_or(0.0) * 1e3);
                push(
                    &mut self.answers,
                    view.answers.map_or(0.0, |answers| answers.p99) * 1e6,
                );
                self.view = Some(view);
                self.error = None;
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// Stops taking what is seen, or goes on.
    pub(super) fn toggle_pause(&mut self) {
        self.paused = !self.paused;
    }

    fn title(&self) -> Line<'static> {
        let at = |state| format!("ropewalk at {}  {state}", self.http);
        match (&self.error, &self.view) {
            (Some(error), _) => plain(error).red().into(),
            (None, Some(_)) if self.paused => plain(&at("paused")).yellow().into(),
            (None, Some(view)) => plain(&at(&shown(view.time_ms))).green().into(),
            (None, None) => plain(&at("looking")).green().into(),
        }
    }

    /// Draws the first `count` curves.
    fn draw_curves(&self, view: &View, count: usize, area: Rect, buffer: &mut Buffer) {
        let rate = view.appended_records.map_or_else(String::new, units::count);
        let p99 = view.answers.map_or_else(String::new, |answers| time(answers.p99));
        let curves = [
            (format!("records/s  {rate}"), &self.rates, Color::Green),
            (format!("answers, p99  {p99}"), &self.answers, Color::Yellow),
        ];
        let areas = Layout::vertical(vec![Constraint::Length(CURVE_ROWS); count]).split(area);
        for ((heading, values, color), area) in curves.into_iter().zip(areas.iter()) {
            Sparkline::default()
                .block(Block::new().title(heading.cyan()))
                // The greatest of those that are shown is as high as the curve.
                .data(values.iter().copied().take(area.width.into()))
                .direction(RenderDirection::RightToLeft)
                .style(color)
                .render(*area, buffer);
        }
    }
}

impl Widget for &Dashboard {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let [body, foot] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area);
        let room = usize::from(body.height);
        let Page {
            mut above,
            below,
            left_out,
        } = Page::of(self.title(), self.view.as_ref(), room);
        let lines = above.len() + below.len();
        // Tables say more than curves, which get what room is left after an empty line.
        let curves = (room.saturating_sub(lines + 1) / usize::from(CURVE_ROWS)).min(2);
        if curves > 0 {
            above.push(Line::default());
        }
        let [above_area, curves_area, below_area] = Layout::vertical([
            Constraint::Length(above.len().min(room) as u16),
            Constraint::Length(curves as u16 * CURVE_ROWS),
            Constraint::Fill(1),
        ])
        .areas(body);
        Text::from(above).render(above_area, buffer);
        if let Some(view) = &self.view {
            self.draw_curves(view, curves, curves_area, buffer);
        }
        Text::from(below).render(below_area, buffer);
        let mut last = "q ends  p pauses".to_owned();
        if left_out > 0 {
            last += &format!("  {}; --once shows all", counted(left_out, "more line"));
        }
        last.render(foot, buffer);
    }
}

/// The lines of a screen, which curves may come between.
struct Page {
    above: Vec<Line<'static>>,
    below: Vec<Line<'static>>,
    /// Lines that there is no room for.
    left_out: usize,
}

impl Page {
    /// Lines for `room` rows. The title and the figures may be more: the screen cuts them off.
    fn of(title: Line<'static>, view: Option<&View>, room: usize) -> Page {
        let mut above = vec![title];
        let mut below = Vec::new();
        let mut left_out = 0;
        if let Some(view) = view {
            let figures: Vec<Line<'_>> = figures(view).collect();
            let mut tables = tables(view);
            let lines = above.len() + figures.len() + lines_of(&tables);
            let gaps = 1 + tables.len();
            let gap = (lines + gaps <= room).then(Line::default);
            above.extend(gap.clone());
            above.extend(figures);
            cut(&mut tables, room.saturating_sub(above.len()));
            left_out = (lines - lines_of(&tables)).saturating_sub(above.len().min(room));
            for table in tables {
                below.extend(gap.clone());
                below.extend(table);
            }
        }
        Page {
            above,
            below,
            left_out,
        }
    }
}

fn figures(view: &View) -> impl Iterator<Item = Line<'static>> {
    let is_node_ailing = view.is_ailing();
    let is_cluster_ailing = view.cluster.as_ref().is_some_and(ClusterView::is_ailing);
    view.lines().into_iter().map(move |(word, figures)| {
        let is_ailing = match word {
            "faults" => is_node_ailing,
            "cluster" => is_cluster_ailing,
            _ => false,
        };
        let figures = match is_ailing {
            true => plain(&figures).red(),
            false => plain(&figures),
        };
        Line::from(vec![format!("{word:9} ").cyan(), figures])
    })
}

/// The other nodes, the cores and the groups: a heading and its rows each.
fn tables(view: &View) -> Vec<Vec<Line<'static>>> {
    let lines = |rows: Vec<Vec<String>>| -> Vec<Line<'static>> {
        let text = table(&rows);
        let mut lines: Vec<Line<'_>> = text.lines().map(|line| plain(line).into()).collect();
        lines[0] = std::mem::take(&mut lines[0]).cyan();
        lines
    };
    let mut tables: Vec<_> = view.tables().into_iter().map(lines).collect();
    if let (Some(note), Some(last)) = (view.groups_note(), tables.last_mut()) {
        last.push(plain(&note).into());
    }
    tables
}

fn lines_of(tables: &[Vec<Line<'static>>]) -> usize {
    tables.iter().map(Vec::len).sum()
}

/// Cuts the longest table again and again until all have room, so that short ones stay whole. A heading without a row is of no
/// use: where all are that short, the last table goes.
fn cut(tables: &mut Vec<Vec<Line<'static>>>, room: usize) {
    while lines_of(tables) > room {
        match tables.iter_mut().max_by_key(|table| table.len()) {
            Some(longest) if longest.len() > 2 => drop(longest.pop()),
            _ => drop(tables.pop()),
        }
    }
}

/// Text without anything that a terminal would obey.
fn plain(text: &str) -> Span<'static> {
    cleaned(text).into()
}

/// Curves are drawn of whole numbers.
fn push(values: &mut VecDeque<u64>, value: f64) {
    values.truncate(LOOKS_MAX - 1);
    values.push_front(value.round() as u64);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::cluster::tests::a_cluster;
    use super::super::view::tests::a_view;
    use super::*;

    /// The screen of a terminal of this size.
    fn screen(dashboard: &Dashboard, width: u16, height: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory");
        let drawn = terminal.draw(|frame| frame.render_widget(dashboard, frame.area()));
        drawn.expect("memory").buffer.clone()
    }

    /// Its rows, without the spaces at their ends.
    fn rows_of(screen: &Buffer) -> Vec<String> {
        let width = usize::from(screen.area.width);
        let rows = screen.content.chunks(width);
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>())
            .map(|row| row.trim_end().to_owned())
            .collect()
    }

    fn drawn(dashboard: &Dashboard) -> String {
        rows_of(&screen(dashboard, 120, 40)).join("\n")
    }

    /// The color in which `text` begins.
    fn color_of(screen: &Buffer, text: &str) -> Color {
        let rows = rows_of(screen);
        let found = rows.iter().enumerate().find_map(|(row, line)| {
            let (before, _) = line.split_once(text)?;
            Some((before.chars().count() as u16, row as u16))
        });
        screen[found.expect("it is shown")].fg
    }

    #[test]
    fn a_view_is_shown_and_an_error_is_said() {
        let mut dashboard = Dashboard::new("h:1");
        assert!(drawn(&dashboard).contains("ropewalk at h:1  looking"));
        dashboard.take(Ok(a_view()));
        let text = drawn(&dashboard);
        for part in [
            "1 k records/s",
            "billing  Stable  42",
            "1 (silent)",
            "7 more groups",
            "q ends",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        dashboard.take(Err("gone".to_owned()));
        let text = drawn(&dashboard);
        assert!(
            text.starts_with("gone") && text.contains("1 k records/s"),
            "{text}"
        );
        dashboard.take(Ok(a_view()));
        assert!(!drawn(&dashboard).contains("gone"));
    }

    #[test]
    fn headings_and_errors_stand_out() {
        let mut dashboard = Dashboard::new("h:1");
        dashboard.take(Ok(a_view()));
        let seen = screen(&dashboard, 120, 40);
        for (text, color) in [
            ("ropewalk at", Color::Green),
            ("appends", Color::Cyan),
            ("1 k records/s", Color::Reset),
            ("records/s  1 k", Color::Cyan),
            ("█", Color::Green),
            ("core", Color::Cyan),
            ("billing", Color::Reset),
        ] {
            assert_eq!(color_of(&seen, text), color, "{text}");
        }
        dashboard.take(Err("gone".to_owned()));
        assert_eq!(color_of(&screen(&dashboard, 120, 40), "gone"), Color::Red);
    }

    #[test]
    fn any_screen_is_large_enough() {
        let mut dashboard = Dashboard::new("h:1");
        for _ in 0..2 * LOOKS_MAX {
            dashboard.take(Ok(a_view()));
        }
        assert_eq!(dashboard.rates.len(), LOOKS_MAX);
        for (width, height) in [(1, 1), (3, 40), (200, 3), (20, 10), (600, 100), (0, 0)] {
            screen(&dashboard, width, height);
        }
        assert_eq!(rows_of(&screen(&dashboard, 6, 1)), ["q ends"]);
    }

    #[test]
    fn curves_get_the_room_that_cores_and_groups_leave() {
        let mut dashboard = Dashboard::new("h:1");
        dashboard.take(Ok(a_view()));
        for (height, curves) in [(24, 0), (28, 1), (32, 2), (40, 2)] {
            let text = rows_of(&screen(&dashboard, 80, height)).join("\n");
            let bars = curves * usize::from(CURVE_ROWS - 1);
            assert_eq!(text.matches('█').count(), bars, "{height}:\n{text}");
            assert!(
                text.contains("billing") && text.ends_with("q ends  p pauses"),
                "{height}:\n{text}"
            );
        }
        let rows = rows_of(&screen(&dashboard, 80, 18));
        assert_eq!(rows[17], "q ends  p pauses  2 more lines; --once shows all");
    }

    /// The first words of the rows, and the last row whole.
    fn words_of(dashboard: &Dashboard, height: u16) -> (Vec<String>, String) {
        let mut rows = rows_of(&screen(dashboard, 80, height));
        let last = rows.pop().expect("it has a height");
        let begins = |row: &String| row.split(' ').next().unwrap_or_default().to_owned();
        (rows.iter().map(begins).collect(), last)
    }

    #[test]
    fn a_cluster_has_room_on_a_usual_terminal() {
        let mut dashboard = Dashboard::new("h:1");
        let mut view = a_view();
        view.cluster = Some(a_cluster());
        view.lag.left_out = 0;
        dashboard.take(Ok(view.clone()));
        let (words, last) = words_of(&dashboard, 24);
        let tables = [
            "cluster", "led", "node", "2", "3", "core", "0", "1", "group", "billing",
        ];
        assert_eq!(words[13..], tables, "without empty lines");
        assert_eq!(last, "q ends  p pauses");
        let seen = screen(&dashboard, 80, 24);
        assert_eq!(color_of(&seen, "3 nodes  1 away"), Color::Red);
        assert_eq!(color_of(&seen, "connections  sent/s"), Color::Cyan);
        assert_eq!(
            words_of(&dashboard, 30).0[13..17],
            ["faults", "cluster", "led", ""]
        );
    }

    #[test]
    fn the_longest_table_is_cut_first_and_no_heading_is_left_alone() {
        let mut dashboard = Dashboard::new("h:1");
        let mut view = a_view();
        view.cluster = Some(a_cluster());
        view.cores = vec![view.cores[0].clone(); 8];
        view.lag.groups = vec![view.lag.groups[0].clone(); 30];
        dashboard.take(Ok(view));
        for (height, tables, left_out) in [
            (30, [3, 6, 5], 30),
            (24, [3, 3, 2], 36),
            (22, [2, 2, 2], 38),
            (21, [2, 2, 0], 40),
            (17, [0, 0, 0], 44),
            (10, [0, 0, 0], 50),
        ] {
            let (words, last) = words_of(&dashboard, height);
            // The title and the line `node` come first.
            let tables_of = words.iter().skip(2);
            let found = [&["node", "2", "3"][..], &["core", "0"], &["group", "billing"]];
            let found = found.map(|words| {
                tables_of
                    .clone()
                    .filter(|word| words.contains(&word.as_str()))
                    .count()
            });
            assert_eq!(found, tables, "{height}: {words:?}");
            let note = format!("q ends  p pauses  {left_out} more lines; --once shows all");
            assert_eq!(last, note, "{height}");
        }
    }

    #[test]
    fn a_paused_dashboard_stays_as_it_is() {
        let mut dashboard = Dashboard::new("h:1");
        dashboard.take(Ok(a_view()));
        dashboard.toggle_pause();
        dashboard.take(Err("gone".to_owned()));
        let text = drawn(&dashboard);
        assert!(text.contains("paused") && !text.contains("gone"), "{text}");
        dashboard.toggle_pause();
        dashboard.take(Err("gone".to_owned()));
        assert!(drawn(&dashboard).contains("gone"));
    }

    #[test]
    fn a_curve_is_as_high_as_its_greatest_value() {
        let curve = |values: &[f64], width| {
            let mut dashboard = Dashboard::new("h:1");
            dashboard.view = Some(a_view());
            for value in values {
                push(&mut dashboard.rates, *value);
            }
            let rows = rows_of(&screen(&dashboard, width, 40));
            let heading = rows.iter().position(|row| row.starts_with("reco"));
            let first = heading.expect("there is room") + 1;
            rows[first..first + 3].to_vec()
        };
        let shown = curve(&[9.0, 0.0, 1.0, 2.0, 4.0], 4);
        assert_eq!(shown, ["   █", "  ▄█", " ▆██"], "the oldest has no room");
        assert_eq!(curve(&[0.0], 4), [""; 3], "nothing is no division by nothing");
    }

    #[test]
    fn a_name_cannot_move_the_cursor() {
        let mut dashboard = Dashboard::new("h:1");
        let mut view = a_view();
        view.lag.error = Some("a\x1b[2Jb\n".to_owned());
        view.version = "1\n2".to_owned();
        dashboard.take(Ok(view));
        let text = drawn(&dashboard);
        assert!(
            text.contains("known: a?[2Jb?") && text.contains("1?2, up"),
            "{text}"
        );
        dashboard.take(Err("c\x1bd".to_owned()));
        assert!(drawn(&dashboard).starts_with("c?d"));
    }
}
