//! A line in dashes: the second sign of systems whose colours are less unlike.

use super::ink::Dash;
use super::scene::Point;

/// The dashes of a line through points, which go on around its corners.
pub(crate) fn broken(points: &[Point], (dash, gap): Dash) -> Vec<Vec<Point>> {
    let mut parts: Vec<Vec<Point>> = Vec::new();
    let (mut is_drawn, mut left) = (true, dash);
    parts.extend(points.first().map(|first| vec![*first]));
    for ends in points.windows(2) {
        let (mut from, to) = (ends[0], ends[1]);
        loop {
            let length = (to.0 - from.0).hypot(to.1 - from.1);
            let is_whole = length <= left || !length.is_finite();
            let part = if is_whole { 1.0 } else { left / length };
            let end = (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part);
            if let (true, Some(line)) = (is_drawn, parts.last_mut()) {
                line.push(end);
            }
            if is_whole {
                left -= length;
                break;
            }
            is_drawn = !is_drawn;
            if is_drawn {
                parts.push(vec![end]);
            }
            (from, left) = (end, if is_drawn { dash } else { gap });
        }
    }
    // A dash that begins in the last point has no length.
    parts.retain(|part| part.len() > 1);
    parts
}

#[cfg(test)]
mod tests {
    use super::broken;

    #[test]
    fn dashes_go_on_around_corners() {
        let parts = broken(&[(0.0, 0.0), (5.0, 0.0), (5.0, 5.0)], (4.0, 2.0));
        assert_eq!(
            parts,
            [vec![(0.0, 0.0), (4.0, 0.0)], vec![(5.0, 1.0), (5.0, 5.0)],]
        );
        let around = broken(&[(0.0, 0.0), (3.0, 0.0), (3.0, 9.0)], (4.0, 2.0));
        assert_eq!(around[0], [(0.0, 0.0), (3.0, 0.0), (3.0, 1.0)]);
        assert!(broken(&[(1.0, 1.0)], (4.0, 2.0)).is_empty());
    }
}
