//! Which mark is which system: above the plot, in as many lines as it takes.

use super::ink::Ink;
use super::scene::{Point, SIZE, Scene, Shape, Side, fit, width};
use crate::report::columns::Column;

const LEFT: f64 = 16.0;
const LINE: f64 = 22.0;
const MARK: f64 = 30.0;
const GAP: f64 = 22.0;

/// Draws the legend from a height on, and says where it ends.
pub(crate) fn draw(scene: &mut Scene, columns: &[Column], top: f64) -> f64 {
    let (mut left, mut middle) = (LEFT, top + LINE / 2.0);
    for column in columns {
        let text = fit(&column.title, SIZE, scene.width - 2.0 * LEFT - MARK);
        let room = MARK + width(&text, SIZE);
        if left > LEFT && left + room > scene.width - LEFT {
            (left, middle) = (LEFT, middle + LINE);
        }
        let ink = Ink::System(column.ink);
        scene.curve(&[(left, middle), (left + MARK - 8.0, middle)], ink, 1.0);
        mark(scene, column, (left + (MARK - 8.0) / 2.0, middle), 1.0);
        scene.words(text, (left + MARK, middle), Side::Right, Ink::Text, SIZE);
        left += room + GAP;
    }
    middle + LINE / 2.0
}

/// A system's mark: its shape tells systems of similar colour apart, and it is hollow for a common client.
pub(crate) fn mark(scene: &mut Scene, column: &Column, (x, y): Point, opacity: f64) {
    /// Corners, the first one's angle in turns from the top, and the size that makes all look alike.
    const SHAPES: [(u32, f64, f64); 6] = [
        (20, 0.0, 4.2),
        (4, 0.125, 5.0),
        (3, 0.0, 5.2),
        (4, 0.0, 5.2),
        (3, 0.5, 5.2),
        (5, 0.0, 4.8),
    ];
    let (corners, turn, radius) = SHAPES[column.ink % SHAPES.len()];
    let corner = |number: u32| {
        let angle = (f64::from(number) / f64::from(corners) + turn) * std::f64::consts::TAU;
        (x + radius * angle.sin(), y - radius * angle.cos())
    };
    let ink = Ink::System(column.ink);
    scene.shapes.push(Shape::Area {
        points: (0..corners).map(corner).collect(),
        fill: if column.is_best_client { ink } else { Ink::Paper },
        edge: ink,
        opacity,
    });
}
