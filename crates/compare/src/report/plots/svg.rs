//! A drawing as SVG. Its own dashes, opacities and anchors do what is needed, so that no library draws; the reader's machine has
//! the font, and widths of words are estimates.

use std::fmt::Write as _;

use crate::report::markdown::printable;

pub(crate) const WIDTH: f64 = 920.0;
/// The size of most words.
pub(crate) const SIZE: f64 = 12.0;
/// How strongly a figure is drawn that decides nothing.
pub(crate) const PALE: f64 = 0.3;
/// How wide a letter is, as a part of its size.
const LETTER: f64 = 0.56;

pub(crate) const PAPER: &str = "#fffffe";
pub(crate) const TEXT: &str = "#1c1f24";
pub(crate) const QUIET: &str = "#626a75";
pub(crate) const GRID: &str = "#dfe3e8";

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

/// A place: from the left and from the top.
pub(crate) type Point = (f64, f64);

pub(crate) fn colour(system: usize) -> &'static str {
    SYSTEMS[system % SYSTEMS.len()]
}

pub(crate) fn dashes(system: usize) -> &'static str {
    DASHES[system / SAME_DASHES % DASHES.len()]
}

#[derive(Debug, Default)]
pub(crate) struct Svg {
    body: String,
}

impl Svg {
    pub(crate) fn line(&mut self, points: &[Point], colour: &str, width: f64, opacity: f64, dashes: &str) {
        let points = list(points);
        self.add(format_args!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-opacity=\"{opacity}\" \
             stroke-dasharray=\"{dashes}\"/>"
        ));
    }

    /// Adds a filled shape with an edge.
    pub(crate) fn area(&mut self, corners: &[Point], fill: (&str, f64), edge: (&str, f64)) {
        let corners = list(corners);
        self.add(format_args!(
            "<polygon points=\"{corners}\" fill=\"{}\" fill-opacity=\"{}\" stroke=\"{}\" stroke-opacity=\"{}\" stroke-width=\"1.5\"/>",
            fill.0, fill.1, edge.0, edge.1
        ));
    }

    pub(crate) fn thin(&mut self, ends: [Point; 2], colour: &str, opacity: f64) {
        self.line(&ends, colour, 1.0, opacity, "none");
    }

    /// Adds words whose "start", "middle" or "end" is at a point; vertically they stand in its middle.
    pub(crate) fn words(&mut self, text: &str, at: Point, anchor: &str, colour: &str) {
        self.sized(text, at, anchor, colour, SIZE);
    }

    /// The same of another size than most.
    pub(crate) fn sized(&mut self, text: &str, (x, y): Point, anchor: &str, colour: &str, size: f64) {
        let text = printable(text)
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        let y = y + size * 0.35;
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\" font-size=\"{size}\">{text}</text>"
        ));
    }

    /// Adds the title of the whole plot.
    pub(crate) fn title(&mut self, text: &str) {
        let text = fit(text, 15.0, WIDTH - 32.0);
        self.sized(&text, (16.0, 22.0), "start", TEXT, 15.0);
    }

    /// Adds a system's mark: its shape tells systems of similar colour apart, and it is hollow for a common client.
    pub(crate) fn mark(&mut self, system: usize, is_hollow: bool, (x, y): Point, opacity: f64) {
        /// Corners, the first one's angle in turns from the top, and the size that makes all look alike.
        const SHAPES: [(u32, f64, f64); 6] = [
            (20, 0.0, 4.2),
            (4, 0.125, 5.0),
            (3, 0.0, 5.2),
            (4, 0.0, 5.2),
            (3, 0.5, 5.2),
            (5, 0.0, 4.8),
        ];
        let (corners, turn, radius) = SHAPES[system % SHAPES.len()];
        let corner = |number: u32| {
            let angle = (f64::from(number) / f64::from(corners) + turn) * std::f64::consts::TAU;
            (x + radius * angle.sin(), y - radius * angle.cos())
        };
        let corners: Vec<Point> = (0..corners).map(corner).collect();
        let fill = if is_hollow { PAPER } else { colour(system) };
        self.area(&corners, (fill, opacity), (colour(system), opacity));
    }

    /// The whole of it, of a height.
    pub(crate) fn finish(self, height: f64) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
             font-family=\"sans-serif\">\n<polygon points=\"0,0 {WIDTH},0 {WIDTH},{height:.0} 0,{height:.0}\" fill=\"{PAPER}\"/>\n{}</svg>\n",
            self.body
        )
    }

    fn add(&mut self, shape: std::fmt::Arguments<'_>) {
        writeln!(self.body, "{shape}").expect("a string takes all");
    }
}

fn list(points: &[Point]) -> String {
    points
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// About how wide words are.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * LETTER
}

/// Words, or as many of their letters as fit into a width.
pub(crate) fn fit(text: &str, size: f64, room: f64) -> String {
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
        assert!(!colours.contains(PAPER));
        let kinds: BTreeSet<&str> = [0, 6, 12].map(dashes).into();
        assert_eq!((kinds.len(), dashes(0)), (3, "none"));
    }
}
