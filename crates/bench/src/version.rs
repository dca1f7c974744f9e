//! The version of this program, and the commit it was built from. The build script asks git; without git the commit is unknown,
//! and these say so.

/// One line: the number, the short commit and its day.
pub const SHORT: &str = env!("ROPEWALK_VERSION");
/// The day of the commit, or that it is unknown.
pub const DAY: &str = env!("ROPEWALK_DAY");
/// The number, and on a line of its own the whole commit and its time.
pub const LONG: &str = concat!(env!("CARGO_PKG_VERSION"), "\n", env!("ROPEWALK_ORIGIN"));
/// The short commit, and whether the sources differ from it; empty where it is unknown.
pub const COMMIT: &str = env!("ROPEWALK_COMMIT");
