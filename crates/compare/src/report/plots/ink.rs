//! The colours of plots, in light and in dark: told apart by colour-blind readers. Each system of a plot has one of its own; a
//! second sign, the dashes of its line, tells those apart whose colours are less unlike.
//!
//! Plots are drawn in the light colours; in the page, the style sheet replaces each of them where dark is preferred.

use std::fmt::Write as _;

/// What something is drawn with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    /// The ground.
    Paper,
    /// Words.
    Text,
    /// Words of less weight.
    Quiet,
    /// Lines that help the eye.
    Grid,
    /// The system of this place among those of the plot.
    System(usize),
}

/// Light and dark.
type Pair = (u32, u32);

const PAPER: Pair = (0xFFFFFE, 0x14171B);
const TEXT: Pair = (0x1C1F24, 0xE6E9EE);
const QUIET: Pair = (0x626A75, 0x9AA4B1);
const GRID: Pair = (0xDFE3E8, 0x30363F);

/// After Okabe and Ito, the light ones darkened to be seen on white. Two of different brightness follow each other.
const SYSTEMS: [Pair; 14] = [
    (0x005FA8, 0x4DA6F0),
    (0xD55E00, 0xFF8A3C),
    (0x008A64, 0x2CC798),
    (0xC05A98, 0xEB8FC6),
    (0xB88A00, 0xE8C23A),
    (0x3FA4DC, 0x9BD6F7),
    (0x7A1F3D, 0xD96A8C),
    (0x59606B, 0xB4BCC7),
    (0x5B3FA6, 0xA990F5),
    (0x6E8B1E, 0xB3D357),
    (0x00A3AD, 0x5FE0E8),
    (0x8A5A2B, 0xD3A06A),
    (0xE0457B, 0xFF8FB0),
    (0x1F3A5F, 0x7E9CC8),
];

/// How many systems have the same dashes: first a whole line, then long ones, then dots.
const SAME_DASHES: usize = 6;

/// The lengths of a dash and of the gap behind it.
pub(crate) type Dash = (f64, f64);

const DASHES: [Option<Dash>; 3] = [None, Some((7.0, 3.0)), Some((2.0, 2.5))];

impl Ink {
    /// Red, green and blue on white.
    pub(crate) fn light(self) -> (u8, u8, u8) {
        let [_, red, green, blue] = self.pair().0.to_be_bytes();
        (red, green, blue)
    }

    /// How a line of it is broken; none if it is whole.
    pub(crate) fn dash(self) -> Option<Dash> {
        match self {
            Self::System(number) => DASHES[number / SAME_DASHES % DASHES.len()],
            _ => None,
        }
    }

    fn pair(self) -> Pair {
        match self {
            Self::Paper => PAPER,
            Self::Text => TEXT,
            Self::Quiet => QUIET,
            Self::Grid => GRID,
            Self::System(number) => SYSTEMS[number % SYSTEMS.len()],
        }
    }
}

/// The style sheet of plots: variables for each colour, and rules that put them in place of the drawn colours.
pub(crate) fn style_sheet() -> String {
    let inks = || [PAPER, TEXT, QUIET, GRID].into_iter().chain(SYSTEMS).enumerate();
    let variables = |choose: fn(Pair) -> u32| {
        inks().fold(String::new(), |mut all, (number, pair)| {
            write!(all, "--ink-{number}:#{:06x};", choose(pair)).expect("a string takes all");
            all
        })
    };
    let rules = inks().fold(String::new(), |mut all, (number, (light, _))| {
        let drawn = format!("{light:06X}");
        writeln!(
            all,
            ".plot [fill=\"#{drawn}\"]{{fill:var(--ink-{number})}}.plot [stroke=\"#{drawn}\"]{{stroke:var(--ink-{number})}}"
        )
        .expect("a string takes all");
        all
    });
    format!(
        ".plot{{{}}}\n@media (prefers-color-scheme:dark){{.plot{{{}}}}}\n{rules}",
        variables(|pair| pair.0),
        variables(|pair| pair.1)
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Ink, PAPER, SYSTEMS};

    #[test]
    fn systems_of_one_plot_differ_in_colour_and_some_in_dashes() {
        let light: BTreeSet<_> = (0..SYSTEMS.len())
            .map(|number| Ink::System(number).light())
            .collect();
        let dark: BTreeSet<u32> = SYSTEMS.iter().map(|pair| pair.1).collect();
        assert_eq!((light.len(), dark.len()), (SYSTEMS.len(), SYSTEMS.len()));
        assert!(SYSTEMS.len() >= 12, "as many systems as there are");
        assert!(Ink::System(0).dash().is_none() && Ink::Grid.dash().is_none());
        assert_ne!(Ink::System(0).dash(), Ink::System(6).dash());
        assert_ne!(Ink::System(6).dash(), Ink::System(12).dash());
        assert!(SYSTEMS.iter().all(|pair| pair.0 != PAPER.0));
    }
}
