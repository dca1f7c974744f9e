//! The colours of plots, in light and in dark: told apart by colour-blind readers, and the same for a system everywhere.
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
    /// The system of this number.
    System(usize),
}

/// Light and dark.
type Pair = (u32, u32);

const PAPER: Pair = (0xFFFFFE, 0x14171B);
const TEXT: Pair = (0x1C1F24, 0xE6E9EE);
const QUIET: Pair = (0x626A75, 0x9AA4B1);
const GRID: Pair = (0xDFE3E8, 0x30363F);

/// After Okabe and Ito, the light ones darkened to be seen on white. Two of different brightness follow each other.
const SYSTEMS: [Pair; 10] = [
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
];

impl Ink {
    /// Red, green and blue on white.
    pub(crate) fn light(self) -> (u8, u8, u8) {
        let [_, red, green, blue] = self.pair().0.to_be_bytes();
        (red, green, blue)
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
