//! Markdown as reports write it. What came from outside is escaped: a title cannot open a table or a link.

/// A table. Cells are Markdown already; all columns but the first stand at the right, if they are figures.
pub(crate) fn table(titles: &[String], are_figures: bool, lines: &[Vec<String>]) -> String {
    let rule = if are_figures { "---:" } else { "---" };
    let mut rules = vec![rule.to_owned(); titles.len()];
    "---".clone_into(&mut rules[0]);
    let all = [titles, &rules]
        .into_iter()
        .chain(lines.iter().map(Vec::as_slice));
    all.map(|cells| format!("| {} |\n", cells.join(" | "))).collect()
}

pub(crate) fn strong(markdown: &str) -> String {
    format!("**{markdown}**")
}

/// Code within a line: between more backticks than it has in a row. A bar would still end a table's cell.
pub(crate) fn code(text: &str) -> String {
    let text = printable(text).replace('\n', " ").replace('|', "\\|");
    let ticks = "`".repeat(longest_run(&text) + 1);
    let space = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{ticks}{space}{text}{space}{ticks}")
}

/// What can be typed, as lines of their own.
pub(crate) fn fenced(text: &str) -> String {
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    format!("{fence}sh\n{}\n{fence}", printable(text).trim_end())
}

fn longest_run(text: &str) -> usize {
    text.split(|letter| letter != '`')
        .map(str::len)
        .max()
        .unwrap_or(0)
}

/// Control characters, which no page may have, as blanks.
pub(crate) fn printable(text: &str) -> String {
    let letters = text.chars();
    letters
        .map(|letter| {
            if letter.is_control() && letter != '\n' {
                ' '
            } else {
                letter
            }
        })
        .collect()
}

/// Text that means itself, in one line.
pub(crate) fn escape(text: &str) -> String {
    let letters: Vec<char> = printable(text).replace('\n', " ").chars().collect();
    let is_word = |at: Option<usize>| {
        at.and_then(|at| letters.get(at))
            .is_some_and(|letter| letter.is_alphanumeric())
    };
    let mut out = String::with_capacity(text.len());
    for (index, &letter) in letters.iter().enumerate() {
        let special = match letter {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '&' => true,
            '#' => index == 0,
            '_' => !(is_word(index.checked_sub(1)) && is_word(Some(index + 1))),
            _ => false,
        };
        if special {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

/// A name that is safe as a file's name: letters, digits and hyphens, and not empty.
pub(crate) fn slug(name: &str) -> String {
    let mut slug = String::new();
    for letter in name.chars().take(80) {
        if letter.is_ascii_alphanumeric() {
            slug.push(letter.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "unnamed" } else { slug }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::{code, escape, fenced};

    #[test]
    fn what_came_from_outside_means_itself() {
        assert_eq!(
            escape("a|b\n<i> p99_us _x_\u{1}"),
            "a\\|b \\<i\\> p99_us \\_x\\_ "
        );
        assert_eq!(code("a`b|"), "``a`b\\|``");
        assert_eq!(fenced("x ```"), "````sh\nx ```\n````");
    }
}
