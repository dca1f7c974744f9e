//! The parts that all plots share: the template that draws them, colours and marks of systems, and how wide words are.

use minijinja::value::ViaDeserialize;
use minijinja::{Environment, Value, context};

use crate::report::columns::Column;
use crate::report::markdown::printable;

const TEMPLATE: &str = include_str!("plot.svg.jinja");

pub(crate) const WIDTH: f64 = 920.0;
/// The size of most words.
pub(crate) const SIZE: f64 = 12.0;
/// How wide a letter is, as a part of its size.
const LETTER: f64 = 0.56;

/// The colours of systems, told apart by colour-blind readers: after Okabe and Ito, the light ones darkened to be seen on white. Two of
/// different brightness follow each other.
const SYSTEMS: [&str; 14] = [
    "#005fa8", "#d55e00", "#008a64", "#c05a98", "#b88a00", "#3fa4dc", "#7a1f3d", "#59606b", "#5b3fa6",
    "#6e8b1e", "#00a3ad", "#8a5a2b", "#e0457b", "#1f3a5f",
];

/// How many systems have the same dashes, the second sign of systems whose colours are less unlike: first a whole line, then long
/// ones, then dots.
const SAME_DASHES: usize = 6;
const DASHES: [&str; 3] = ["none", "7 3", "2 2.5"];

/// Marks: corners, the first one's angle in turns from the top, and the size that makes all look alike.
const SHAPES: [(u32, f64, f64); 6] = [
    (20, 0.0, 4.2),
    (4, 0.125, 5.0),
    (3, 0.0, 5.2),
    (4, 0.0, 5.2),
    (3, 0.5, 5.2),
    (5, 0.0, 4.8),
];

/// A place: from the left and from the top.
type Point = (f64, f64);

/// How a column looks in plots.
pub(crate) fn look(column: &Column<'_>) -> Value {
    let system = column.ink;
    context! {
        system,
        title => column.title,
        colour => colour(system),
        dashes => dashes(system),
        is_hollow => !column.is_best_client,
    }
}

fn colour(system: usize) -> &'static str {
    SYSTEMS[system % SYSTEMS.len()]
}

fn dashes(system: usize) -> &'static str {
    DASHES[system / SAME_DASHES % DASHES.len()]
}

/// The plot that the template makes of this.
pub(crate) fn draw(plot: Value) -> String {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_keep_trailing_newline(true);
    environment.add_filter("px", |pixels: f64| format!("{pixels:.1}"));
    environment.add_filter("points", |points: ViaDeserialize<Vec<Point>>| {
        let points = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}"));
        points.collect::<Vec<_>>().join(" ")
    });
    environment.add_filter(
        "within",
        |parts: ViaDeserialize<Vec<Point>>, left: f64, right: f64, bottom: f64, top: f64| {
            let place = |(x, y): &Point| [left + (right - left) * x, bottom + (top - bottom) * y];
            Value::from_serialize(parts.iter().map(place).collect::<Vec<_>>())
        },
    );
    environment.add_filter("mark", |system: usize, x: f64, y: f64| {
        let (corners, turn, radius) = SHAPES[system % SHAPES.len()];
        let corner = |number: u32| {
            let angle = (f64::from(number) / f64::from(corners) + turn) * std::f64::consts::TAU;
            [x + radius * angle.sin(), y - radius * angle.cos()]
        };
        Value::from_serialize((0..corners).map(corner).collect::<Vec<_>>())
    });
    environment.add_filter("xml", |text: String| {
        let text = printable(&text).replace('&', "&amp;");
        text.replace('<', "&lt;").replace('>', "&gt;")
    });
    environment.add_filter("width", |text: String, size: f64| width(&text, size));
    environment.add_filter("fit", |text: String, size: f64, room: f64| fit(&text, size, room));
    environment
        .render_str(TEMPLATE, plot)
        .expect("the template is sound: tests draw each kind of plot")
}

/// About how wide words are.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * LETTER
}

/// Words, or as many of their letters as fit into a width.
fn fit(text: &str, size: f64, room: f64) -> String {
    let letters = (room / (size * LETTER)) as usize;
    match text.chars().count() <= letters {
        true => text.to_owned(),
        false => text
            .chars()
            .take(letters.saturating_sub(1))
            .chain(['…'])
            .collect(),
    }
}

/// Words in two lines, where one of that width is too short: the first takes as many of them as fit.
pub(crate) fn wrap(text: &str, size: f64, room: f64) -> Vec<String> {
    if width(text, size) <= room {
        return vec![text.to_owned()];
    }
    let mut blanks = text.match_indices(' ').map(|(place, _)| text.split_at(place));
    match blanks.rfind(|(first, _)| width(first, size) <= room) {
        Some((first, second)) => vec![first.to_owned(), fit(second.trim_start(), size, room)],
        None => vec![fit(text, size, room)],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn long_labels_take_a_second_line() {
        let title = "NATS JetStream, sync_interval always";
        let room = width("NATS JetStream, sync_interval", SIZE) + 1.0;
        assert_eq!(
            wrap(title, SIZE, room),
            ["NATS JetStream, sync_interval", "always"]
        );
        assert_eq!(wrap(title, SIZE, 1e4), [title]);
        assert_eq!(wrap("Unbreakable", SIZE, 30.0).len(), 1);
    }

    #[test]
    fn systems_of_one_plot_differ_in_colour_and_some_in_dashes() {
        let colours: BTreeSet<&str> = (0..SYSTEMS.len()).map(colour).collect();
        assert!(
            colours.len() == SYSTEMS.len() && colours.len() >= 12,
            "as many systems as there are"
        );
        assert!(!colours.contains("#fffffe"), "the paper's");
        let kinds: BTreeSet<&str> = [0, 6, 12].map(dashes).into();
        assert_eq!((kinds.len(), dashes(0)), (3, "none"));
    }
}
