//! Lines over logarithmic axes, in panels side by side that share both axes.

use super::axis::Axis;
use super::ink::Ink;
use super::legend;
use super::scene::{Point, SIZE, Scene, Shape, Side, WIDTH, fit};
use crate::compare::report::columns::Column;
use crate::compare::report::number;

/// What all panels share.
pub(crate) struct Panels<'a> {
    /// The plot's title.
    pub(crate) title: &'a str,
    /// What lies along x.
    pub(crate) x: String,
    /// What lies along y.
    pub(crate) y: String,
    /// The values along x that are written, with their words.
    pub(crate) x_ticks: Vec<(f64, String)>,
    /// Whether each point has its mark.
    pub(crate) has_marks: bool,
    /// The systems of the legend.
    pub(crate) columns: Vec<Column>,
    /// The panels.
    pub(crate) panels: Vec<Panel>,
}

/// One panel.
pub(crate) struct Panel {
    /// What it shows.
    pub(crate) title: String,
    /// Its lines: the column's place in the legend, the points, and how many of them are more than guesses.
    pub(crate) lines: Vec<(usize, Vec<Point>, usize)>,
}

const LEFT: f64 = 62.0;
const RIGHT: f64 = 34.0;
const HEIGHT: f64 = 250.0;
const ABOVE: f64 = 34.0;
const BELOW: f64 = 52.0;

impl Panels<'_> {
    /// The whole plot; none if there is no point to draw.
    pub(crate) fn scene(&self) -> Option<Scene> {
        let points = || {
            self.panels
                .iter()
                .flat_map(|panel| &panel.lines)
                .flat_map(|line| &line.1)
        };
        let x_ends = Axis::around(points().map(|point| point.0))?;
        let y_ends = Axis::around(points().map(|point| point.1))?;
        let across = if self.panels.len() == 1 { 1 } else { 2 };
        let room = WIDTH / across as f64;
        let height = if across == 1 { HEIGHT + 70.0 } else { HEIGHT };
        let mut scene = Scene::default();
        scene.words(
            fit(self.title, 15.0, WIDTH - 32.0),
            (16.0, 22.0),
            Side::Right,
            Ink::Text,
            15.0,
        );
        let top = legend::draw(&mut scene, &self.columns, 38.0) + 6.0;
        for (index, panel) in self.panels.iter().enumerate() {
            let left = room * (index % across) as f64;
            let top = top + (height + ABOVE + BELOW) * (index / across) as f64 + ABOVE;
            let x = Axis::new(x_ends, left + LEFT, left + room - RIGHT);
            let y = Axis::new(y_ends, top + height, top);
            self.draw_frame(&mut scene, panel, &x, &y, (left, room));
            self.draw_lines(&mut scene, panel, &x, &y);
        }
        scene.height = top + (height + ABOVE + BELOW) * self.panels.len().div_ceil(across) as f64;
        Some(scene)
    }

    fn draw_frame(&self, scene: &mut Scene, panel: &Panel, x: &Axis, y: &Axis, (left, room): (f64, f64)) {
        let (first, last) = (left + LEFT, left + room - RIGHT);
        let ends = y.top_and_bottom();
        for tick in y.ticks() {
            let height = y.place(tick);
            scene.line(vec![(first, height), (last, height)], Ink::Grid, 1.0);
            scene.words(
                number::tick(tick),
                (first - 8.0, height),
                Side::Left,
                Ink::Quiet,
                SIZE,
            );
        }
        let mut taken = f64::NEG_INFINITY;
        for (tick, words) in &self.x_ticks {
            let place = x.place(*tick);
            if place < first - 0.5 || place > last + 0.5 {
                continue;
            }
            scene.line(vec![(place, ends.0), (place, ends.1)], Ink::Grid, 1.0);
            let half = super::scene::width(words, SIZE) / 2.0;
            if place - half > taken + 6.0 {
                let side = Side::Around;
                scene.words(words, (place, ends.1 + 14.0), side, Ink::Quiet, SIZE);
                taken = place + half;
            }
        }
        scene.words(
            &self.y,
            (left + 16.0, ends.0 - 14.0),
            Side::Right,
            Ink::Quiet,
            SIZE,
        );
        let title_room = room - LEFT - RIGHT - super::scene::width(&self.y, SIZE);
        let title = fit(&panel.title, 13.0, title_room);
        scene.words(title, (last, ends.0 - 14.0), Side::Left, Ink::Text, 13.0);
        scene.words(
            &self.x,
            ((first + last) / 2.0, ends.1 + 34.0),
            Side::Around,
            Ink::Quiet,
            SIZE,
        );
    }

    fn draw_lines(&self, scene: &mut Scene, panel: &Panel, x: &Axis, y: &Axis) {
        let place = |point: &Point| (x.place(point.0), y.place(point.1));
        for (number, points, sure) in &panel.lines {
            let column = &self.columns[*number];
            let ink = Ink::System(column.number);
            let places: Vec<Point> = points.iter().map(place).collect();
            let (sure, guessed) = (&places[..*sure], &places[sure.saturating_sub(1)..]);
            for (part, opacity) in [(sure, 1.0), (guessed, 0.3)] {
                if part.len() > 1 {
                    let points = part.to_vec();
                    scene.shapes.push(Shape::Line {
                        points,
                        ink,
                        width: 2.0,
                        opacity,
                    });
                }
            }
            let marked = if self.has_marks {
                &places[..]
            } else {
                &sure[sure.len().saturating_sub(1)..]
            };
            for at in marked {
                legend::mark(scene, column, *at);
            }
        }
    }
}
