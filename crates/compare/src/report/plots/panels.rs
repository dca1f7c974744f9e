//! Lines over logarithmic axes, in panels side by side that share both axes.

use super::axis::Axis;
use super::ink::Ink;
use super::legend;
use super::scene::{Point, SIZE, Scene, Shape, Side, fit};
use crate::report::columns::Column;
use bench::number;

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
    /// Its curves.
    pub(crate) curves: Vec<Curve>,
}

/// One system's line through a panel.
pub(crate) struct Curve {
    /// The column's place in the legend.
    pub(crate) column: usize,
    /// What it goes through, from the left on.
    pub(crate) readings: Vec<Reading>,
}

/// One figure of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reading {
    /// Where it is.
    pub(crate) at: Point,
    /// The least and the most, if there were several.
    pub(crate) range: Option<(f64, f64)>,
    /// Whether it says too little to decide anything.
    pub(crate) is_guess: bool,
}

const LEFT: f64 = 62.0;
const RIGHT: f64 = 34.0;
const HEIGHT: f64 = 250.0;
const ABOVE: f64 = 34.0;
const BELOW: f64 = 52.0;
/// What is next to a guess is pale.
pub(crate) const PALE: f64 = 0.3;
/// Whiskers are behind the curves.
const WHISKER: f64 = 0.5;

impl Panels<'_> {
    /// The whole plot of a width; none if there is no point to draw.
    pub(crate) fn scene(&self, width: f64) -> Option<Scene> {
        let readings = || {
            self.panels
                .iter()
                .flat_map(|panel| &panel.curves)
                .flat_map(|curve| &curve.readings)
        };
        let x_ends = Axis::around(readings().map(|reading| reading.at.0))?;
        let heights = readings().flat_map(|reading| {
            let (least, most) = reading.range.unwrap_or((reading.at.1, reading.at.1));
            [reading.at.1, least, most]
        });
        let y_ends = Axis::around(heights)?;
        let mut scene = Scene::of_width(width);
        let across = self.panels.len().min(scene.panels_across());
        let room = width / across as f64;
        let height = if self.panels.len() == 1 {
            HEIGHT + 70.0
        } else {
            HEIGHT
        };
        scene.words(
            fit(self.title, 15.0, width - 32.0),
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
            self.draw_curves(&mut scene, panel, &x, &y);
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

    fn draw_curves(&self, scene: &mut Scene, panel: &Panel, x: &Axis, y: &Axis) {
        let place = |reading: &Reading| (x.place(reading.at.0), y.place(reading.at.1));
        for curve in &panel.curves {
            let column = &self.columns[curve.column];
            for reading in &curve.readings {
                whisker(scene, column, reading, (x, y));
            }
            for (part, opacity) in parts(&curve.readings) {
                let points: Vec<Point> = part.iter().map(place).collect();
                scene.curve(&points, Ink::System(column.ink), opacity);
            }
            let last_sure = curve.readings.iter().rposition(|reading| !reading.is_guess);
            for (index, reading) in curve.readings.iter().enumerate() {
                if self.has_marks || last_sure == Some(index) {
                    let opacity = if reading.is_guess { PALE } else { 1.0 };
                    legend::mark(scene, column, place(reading), opacity);
                }
            }
        }
    }
}

/// A curve in parts, each with how strongly it is drawn: what leads to a guess is pale, and so is what comes from one.
fn parts(readings: &[Reading]) -> Vec<(&[Reading], f64)> {
    let is_pale = |pair: usize| readings[pair].is_guess || readings[pair + 1].is_guess;
    let pairs = readings.len().saturating_sub(1);
    let mut parts = Vec::new();
    let mut first = 0;
    for pair in 0..pairs {
        if pair + 1 == pairs || is_pale(pair + 1) != is_pale(first) {
            let opacity = if is_pale(first) { PALE } else { 1.0 };
            parts.push((&readings[first..=pair + 1], opacity));
            first = pair + 1;
        }
    }
    parts
}

/// From the least to the most.
fn whisker(scene: &mut Scene, column: &Column, reading: &Reading, (x, y): (&Axis, &Axis)) {
    let Some((least, most)) = reading.range else {
        return;
    };
    let (middle, ink) = (x.place(reading.at.0), Ink::System(column.ink));
    let opacity = if reading.is_guess { PALE } else { WHISKER };
    let ends = [least, most].map(|value| y.place_within(value));
    let mut line = |points| {
        scene.shapes.push(Shape::Line {
            points,
            ink,
            width: 1.0,
            opacity,
        });
    };
    line(vec![(middle, ends[0]), (middle, ends[1])]);
    for end in ends {
        line(vec![(middle - 3.0, end), (middle + 3.0, end)]);
    }
}

#[cfg(test)]
mod tests {
    use super::{PALE, Reading, parts};

    #[test]
    fn what_leads_to_a_guess_and_from_it_is_pale() {
        let readings = [false, false, true, false, false].map(|is_guess| Reading {
            at: (1.0, 1.0),
            range: None,
            is_guess,
        });
        let lengths = |guesses: &[Reading]| -> Vec<(usize, f64)> {
            parts(guesses)
                .iter()
                .map(|(part, opacity)| (part.len(), *opacity))
                .collect()
        };
        assert_eq!(lengths(&readings), [(2, 1.0), (3, PALE), (2, 1.0)]);
        assert_eq!(lengths(&readings[..2]), [(2, 1.0)]);
        assert!(lengths(&readings[..1]).is_empty() && lengths(&[]).is_empty());
    }
}
