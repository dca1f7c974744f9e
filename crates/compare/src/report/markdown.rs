//! A document as Markdown. What came from outside is escaped: a title cannot open a table or a link.

use std::fmt::Write as _;

use super::document::{Block, Document, Line, Span, Table, Text};

/// The whole document.
pub(crate) fn render(document: &Document) -> String {
    let mut out = format!("# {}\n", escape(&document.title));
    for block in &document.blocks {
        out.push('\n');
        push_block(&mut out, block);
    }
    out
}

fn push_block(out: &mut String, block: &Block) {
    match block {
        Block::Heading(level, title, _) => {
            push_line(
                out,
                &format!("{} {}", "#".repeat(usize::from(*level)), escape(title)),
            );
        }
        Block::Paragraph(text) => push_line(out, &inline(text)),
        Block::List(points) => {
            for point in points {
                push_line(out, &format!("- {}", inline(point)));
            }
        }
        Block::Code(text) => push_line(out, &fenced(text)),
        Block::Table(table) => push_table(out, table),
        Block::Plot(plot) => {
            let alternative = escape(&plot.alternative);
            push_line(out, &format!("![{alternative}](plots/{})\n", plot.file));
            push_line(out, &format!("*{}*", escape(&plot.caption)));
        }
    }
}

fn push_table(out: &mut String, table: &Table) {
    let mut titles = vec![escape(&table.label)];
    titles.extend(full_titles(table).iter().map(|title| escape(title)));
    push_cells(out, &titles);
    let rule = if table.figures { "---:" } else { "---" };
    let mut rules = vec!["---".to_owned()];
    rules.extend(table.columns.iter().map(|_| rule.to_owned()));
    push_cells(out, &rules);
    for line in &table.lines {
        let cells = match line {
            Line::Group(title) => {
                let mut cells = vec![inline(&Text::strong(title))];
                cells.extend(table.columns.iter().map(|_| String::new()));
                cells
            }
            Line::Cells(label, cells) => std::iter::once(label).chain(cells).map(inline).collect(),
        };
        push_cells(out, &cells);
    }
    if !table.notes.is_empty() {
        out.push('\n');
    }
    for (index, note) in table.notes.iter().enumerate() {
        push_line(out, &format!("- \\[{}\\] {}", index + 1, escape(note)));
    }
}

/// The titles of the columns, each with the title above it: Markdown's tables have one line of titles.
fn full_titles(table: &Table) -> Vec<String> {
    let above = table
        .groups
        .iter()
        .flat_map(|(title, columns)| std::iter::repeat_n(title.as_str(), *columns))
        .chain(std::iter::repeat(""));
    table
        .columns
        .iter()
        .zip(above)
        .map(|(title, above)| match (above, title.as_str()) {
            ("", title) => title.to_owned(),
            (above, "") => above.to_owned(),
            (above, title) => format!("{above}: {title}"),
        })
        .collect()
}

fn push_cells(out: &mut String, cells: &[String]) {
    push_line(out, &format!("| {} |", cells.join(" | ")));
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

fn inline(text: &Text) -> String {
    text.0.iter().fold(String::new(), |mut out, span| {
        let written = match span {
            Span::Plain(text) | Span::Quiet(text) => write!(out, "{}", escape(text)),
            Span::Strong(text) => write!(out, "{}", strong(text)),
            Span::Code(text) => write!(out, "{}", code(text)),
            Span::Note(number) => write!(out, " \\[{number}\\]"),
        };
        written.expect("a string takes all");
        out
    })
}

/// Strong text; a blank at its end stands outside, or the stars would mean themselves.
fn strong(text: &str) -> String {
    let words = text.trim_end();
    match words.is_empty() {
        true => escape(text),
        false => format!("**{}**{}", escape(words), &text[words.len()..]),
    }
}

/// Code within a line: between more backticks than it has in a row. A bar would still end a table's cell.
fn code(text: &str) -> String {
    let text = one_line(text).replace('|', "\\|");
    let ticks = "`".repeat(longest_run(&text) + 1);
    let space = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{ticks}{space}{text}{space}{ticks}")
}

fn fenced(text: &str) -> String {
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    format!("{fence}sh\n{}\n{fence}", text.trim_end())
}

fn longest_run(text: &str) -> usize {
    text.split(|letter| letter != '`')
        .map(str::len)
        .max()
        .unwrap_or(0)
}

fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).collect::<Vec<_>>().join(" ")
}

/// Text that means itself.
fn escape(text: &str) -> String {
    let text = one_line(text);
    let mut out = String::with_capacity(text.len());
    let letters: Vec<char> = text.chars().collect();
    for (index, &letter) in letters.iter().enumerate() {
        let special = match letter {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '&' => true,
            '#' => index == 0,
            '_' => !is_within_word(&letters, index),
            _ => false,
        };
        if special {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

fn is_within_word(letters: &[char], index: usize) -> bool {
    let is_word = |at: Option<usize>| {
        at.and_then(|at| letters.get(at))
            .is_some_and(|l| l.is_alphanumeric())
    };
    is_word(index.checked_sub(1)) && is_word(Some(index + 1))
}

#[cfg(test)]
mod tests {
    use super::{code, escape, fenced};

    #[test]
    fn what_came_from_outside_means_itself() {
        assert_eq!(escape("a|b\n<i> p99_us _x_"), "a\\|b \\<i\\> p99_us \\_x\\_");
        assert_eq!(code("a`b|"), "``a`b\\|``");
        assert_eq!(fenced("x ```"), "````sh\nx ```\n````");
    }
}
