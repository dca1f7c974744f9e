//! Paths inside a disk's tree: relative, plain names only, the same rule for the real and the simulated disk.
//!
//! A path that could climb out of the tree is refused before the file system sees it.

use std::io;
use std::path::{Component, Path};

/// The names along `path`; none for the root itself. `InvalidInput` for an absolute path, for `..`, and for names that
/// are not UTF-8.
pub(super) fn names(path: &Path) -> io::Result<Vec<&str>> {
    let refuse = |why: &str| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("path {} {why}", path.display()),
        )
    };
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_str().ok_or_else(|| refuse("is not UTF-8"))?),
            Component::CurDir => {}
            Component::ParentDir => return Err(refuse("climbs with ..")),
            Component::RootDir | Component::Prefix(_) => return Err(refuse("is absolute")),
        }
    }
    Ok(names)
}

/// The names above the last, and the last. `InvalidInput` also for the root, which is no file.
pub(super) fn parent_and_name(path: &Path) -> io::Result<(Vec<&str>, &str)> {
    let mut above = names(path)?;
    match above.pop() {
        Some(name) => Ok((above, name)),
        None => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the root is not a file",
        )),
    }
}

/// The name under which the new content of `name` is written before it takes its place. One that is left behind by a
/// crash is overwritten by the next replacement.
pub(super) fn replacement_name(name: &str) -> String {
    format!("{name}.replacing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_pass() {
        assert_eq!(names(Path::new("a/./b")).expect("plain"), ["a", "b"]);
        assert!(names(Path::new("")).expect("the root").is_empty());
        assert_eq!(
            parent_and_name(Path::new("a/b/c")).expect("plain"),
            (vec!["a", "b"], "c")
        );
    }

    #[test]
    fn climbing_and_absolute_paths_are_refused() {
        for path in ["/a", "..", "a/../b", "a/..", "../a"] {
            let error = names(Path::new(path)).expect_err(path);
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path}");
        }
        assert!(parent_and_name(Path::new(".")).is_err());
    }
}
