//! A plot as shapes on a plane, drawn once and rendered twice: as SVG for the page and as PNG beside it.
//!
//! Lengths are in the pixels of a plot as it is shown; both renderings are finer than that. The font is our own: a machine
//! without fonts draws the same plot.

use std::sync::OnceLock;

use anyhow::{Context, anyhow};
use plotters::backend::DrawingBackend;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{PathElement, Polygon, Rectangle, Text};
use plotters::prelude::{BitMapBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontStyle, IntoFont, RGBAColor, RGBColor, ShapeStyle, TextStyle, register_font,
};

use super::dashes::broken;
use super::ink::Ink;

/// The width of plots.
pub(crate) const WIDTH: f64 = 920.0;

/// Their width on a narrow screen.
pub(crate) const NARROW: f64 = 360.0;

/// The size of most words.
pub(crate) const SIZE: f64 = 12.0;

/// The width of curves.
const CURVE: f64 = 2.0;

/// How many units of the SVG a pixel has: its coordinates are whole numbers.
const SVG_SCALE: u32 = 10;

/// How many dots of the PNG a pixel has each way, and how many drawn dots make one of those.
const PNG_SCALE: u32 = 2;
const SAMPLES: u32 = 2;

/// The bitmaps' words stand too high by this part of their size.
const BITMAP_DROP: f64 = 0.22;

/// The letters.
static FONT: &[u8] = include_bytes!("../font/plot.ttf");

/// A plot.
#[derive(Debug, Default)]
pub(crate) struct Scene {
    /// Its width: `WIDTH` or `NARROW`.
    pub(crate) width: f64,
    /// Its height.
    pub(crate) height: f64,
    /// What is drawn, first things first.
    pub(crate) shapes: Vec<Shape>,
}

/// A place: from the left and from the top.
pub(crate) type Point = (f64, f64);

/// One thing that is drawn.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// A line through points.
    Line {
        points: Vec<Point>,
        ink: Ink,
        width: f64,
        opacity: f64,
    },
    /// A filled shape with an edge of the same or another ink.
    Area {
        points: Vec<Point>,
        fill: Ink,
        edge: Ink,
        opacity: f64,
    },
    /// A bar from the upper left to the lower right.
    Bar {
        corners: [Point; 2],
        ink: Ink,
        opacity: f64,
    },
    /// Words.
    Words {
        text: String,
        at: Point,
        size: f64,
        ink: Ink,
        side: Side,
    },
}

/// Where words stand beside their point; all stand in its middle vertically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// To its right: it is their beginning.
    Right,
    /// To its left: it is their end.
    Left,
    /// Around it.
    Around,
}

impl Scene {
    /// An empty one.
    pub(crate) fn of_width(width: f64) -> Self {
        Self {
            width,
            ..Self::default()
        }
    }

    /// How many panels have room beside each other.
    pub(crate) fn panels_across(&self) -> usize {
        if self.width < WIDTH { 1 } else { 2 }
    }

    /// A line.
    pub(crate) fn line(&mut self, points: Vec<Point>, ink: Ink, width: f64) {
        let opacity = 1.0;
        self.shapes.push(Shape::Line {
            points,
            ink,
            width,
            opacity,
        });
    }

    /// A curve of a system, broken as its ink is.
    pub(crate) fn curve(&mut self, points: &[Point], ink: Ink, opacity: f64) {
        let parts = match ink.dash() {
            None => vec![points.to_vec()],
            Some(dash) => broken(points, dash),
        };
        self.shapes.extend(parts.into_iter().map(|points| Shape::Line {
            points,
            ink,
            width: CURVE,
            opacity,
        }));
    }

    /// Words of a size.
    pub(crate) fn words(&mut self, text: impl Into<String>, at: Point, side: Side, ink: Ink, size: f64) {
        let text = text.into();
        self.shapes.push(Shape::Words {
            text,
            at,
            size,
            ink,
            side,
        });
    }

    /// As SVG, with a view box instead of a size: the page decides how wide it is.
    pub(crate) fn svg(&self) -> anyhow::Result<String> {
        let size = self.size(SVG_SCALE);
        let mut svg = String::new();
        self.render(SVGBackend::with_string(&mut svg, size), f64::from(SVG_SCALE), 0.0)?;
        let body = svg.split_once('>').context("an SVG without an opening tag")?.1;
        Ok(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\">{}",
            size.0,
            size.1,
            body.trim_end()
        ))
    }

    /// As PNG.
    pub(crate) fn png(&self) -> anyhow::Result<Vec<u8>> {
        let scale = PNG_SCALE * SAMPLES;
        let size = self.size(scale);
        let mut drawn = vec![0; size.0 as usize * size.1 as usize * 3];
        self.render(
            BitMapBackend::with_buffer(&mut drawn, size),
            f64::from(scale),
            BITMAP_DROP,
        )?;
        let (width, height) = (size.0 / SAMPLES, size.1 / SAMPLES);
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&averaged(&drawn, size))?;
        writer.finish()?;
        Ok(file)
    }

    fn size(&self, scale: u32) -> (u32, u32) {
        ((self.width as u32) * scale, (self.height.ceil() as u32) * scale)
    }

    /// `drop` is how far words have to be lowered to stand in the middle of their point, in parts of their size.
    fn render<B: DrawingBackend>(&self, backend: B, scale: f64, drop: f64) -> anyhow::Result<()> {
        prepare_font()?;
        let area = backend.into_drawing_area();
        area.fill(&colour(Ink::Paper, 1.0))
            .map_err(|e| anyhow!("drawing the ground: {e}"))?;
        for shape in &self.shapes {
            draw(&area, shape, scale, drop).map_err(|e| anyhow!("drawing a shape: {e}"))?;
        }
        area.present().map_err(|e| anyhow!("finishing a plot: {e}"))
    }
}

type Drawn<B> = Result<(), plotters::drawing::DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

fn draw<B: DrawingBackend>(
    area: &DrawingArea<B, plotters::coord::Shift>,
    shape: &Shape,
    scale: f64,
    drop: f64,
) -> Drawn<B> {
    let place = |point: &Point| ((point.0 * scale).round() as i32, (point.1 * scale).round() as i32);
    let places = |points: &[Point]| points.iter().map(place).collect::<Vec<_>>();
    let stroke = |ink, width: f64, opacity| ShapeStyle {
        color: colour(ink, opacity),
        filled: false,
        stroke_width: (width * scale).round().max(1.0) as u32,
    };
    match shape {
        Shape::Line {
            points,
            ink,
            width,
            opacity,
        } => area.draw(&PathElement::new(places(points), stroke(*ink, *width, *opacity))),
        Shape::Area {
            points,
            fill,
            edge,
            opacity,
        } => {
            area.draw(&Polygon::new(places(points), colour(*fill, *opacity).filled()))?;
            let mut outline = places(points);
            outline.extend(outline.first().copied());
            area.draw(&PathElement::new(outline, stroke(*edge, 1.6, *opacity)))
        }
        Shape::Bar {
            corners,
            ink,
            opacity,
        } => {
            let corners = [place(&corners[0]), place(&corners[1])];
            area.draw(&Rectangle::new(corners, colour(*ink, *opacity).filled()))
        }
        Shape::Words {
            text,
            at,
            size,
            ink,
            side,
        } => {
            let horizontally = match side {
                Side::Right => HPos::Left,
                Side::Left => HPos::Right,
                Side::Around => HPos::Center,
            };
            let ink = colour(*ink, 1.0);
            let style = TextStyle::from(("sans-serif", size * EM * scale).into_font())
                .color(&ink)
                .pos(Pos::new(horizontally, VPos::Center));
            let at = (at.0, at.1 + size * drop);
            area.draw(&Text::new(printable(text), place(&at), style))
        }
    }
}

/// What the size of a font is to the size of its letters, in the library's reckoning.
const EM: f64 = 1.24;

fn colour(ink: Ink, opacity: f64) -> RGBAColor {
    let (red, green, blue) = ink.light();
    RGBColor(red, green, blue).mix(opacity)
}

/// Control characters may not stand in an SVG.
fn printable(text: &str) -> String {
    let text = text.chars();
    text.map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

/// Registers the font, once.
fn prepare_font() -> anyhow::Result<()> {
    static IS_READY: OnceLock<bool> = OnceLock::new();
    let is_ready = IS_READY.get_or_init(|| register_font("sans-serif", FontStyle::Normal, FONT).is_ok());
    is_ready
        .then_some(())
        .context("the font of the plots is damaged: build again from a clean source tree")
}

/// How wide words are.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    // Measured large: the library counts in whole pixels.
    const LARGE: f64 = 16.0;
    let measured = prepare_font().ok().and_then(|()| {
        let font = ("sans-serif", size * EM * LARGE).into_font();
        font.layout_box(&printable(text)).ok()
    });
    measured.map_or(
        text.chars().count() as f64 * size * 0.6,
        |((left, _), (right, _))| f64::from(right - left) / LARGE,
    )
}

/// Words, or as many of their letters as fit into a width.
pub(crate) fn fit(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut letters: Vec<char> = text.chars().take(200).collect();
    while !letters.is_empty() {
        letters.pop();
        let short = format!("{}…", letters.iter().collect::<String>().trim_end());
        if width(&short, size) <= room {
            return short;
        }
    }
    String::new()
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

/// Each dot the mean of a square of drawn ones, so that edges are smooth. There are millions of them: plain loops over rows are
/// quick in unoptimised builds, too.
fn averaged(drawn: &[u8], (width, _): (u32, u32)) -> Vec<u8> {
    const CHANNELS: usize = 3;
    let samples = SAMPLES as usize;
    let row_bytes = width as usize * CHANNELS;
    let mut sums = vec![[0u16; CHANNELS]; width as usize / samples];
    let mut dots = Vec::with_capacity(drawn.len() / (samples * samples));
    for rows in drawn.chunks_exact(row_bytes * samples) {
        sums.fill([0; CHANNELS]);
        for row in rows.chunks_exact(row_bytes) {
            for (sum, square) in sums.iter_mut().zip(row.chunks_exact(CHANNELS * samples)) {
                for dot in square.chunks_exact(CHANNELS) {
                    sum[0] += u16::from(dot[0]);
                    sum[1] += u16::from(dot[1]);
                    sum[2] += u16::from(dot[2]);
                }
            }
        }
        for sum in &sums {
            dots.extend(sum.map(|channel| (channel / (SAMPLES * SAMPLES) as u16) as u8));
        }
    }
    dots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dot_is_the_mean_of_its_square() {
        // Two dots of two by two drawn ones each; the channels must not mix.
        let drawn = [
            [0, 10, 255, 4, 10, 255, 100, 0, 1, 100, 0, 1],
            [8, 10, 255, 12, 10, 255, 100, 0, 1, 100, 0, 2],
        ];
        assert_eq!(averaged(drawn.as_flattened(), (4, 2)), [6, 10, 255, 100, 0, 1]);
    }

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
}
