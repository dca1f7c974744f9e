//! A document as one HTML page that needs nothing else: its style and its plots are within it, and it has no script.

use super::document::{Block, Document, Line, Plot, Span, Table, Text};
use super::plots::ink;

/// The look, but for the colours of the plots.
const STYLE: &str = include_str!("style.css");

/// The whole page.
pub(crate) fn render(document: &Document) -> String {
    let title = escape(&document.title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}{}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n",
        ink::style_sheet()
    );
    push_contents(&mut out, document);
    for block in &document.blocks {
        push_block(&mut out, block);
    }
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

/// The table of contents: headings of level 2, those of level 3 below them.
fn push_contents(out: &mut String, document: &Document) {
    let mut is_within = false;
    out.push_str("<nav aria-label=\"Contents\">\n<details>\n<summary>Contents</summary>\n<ul>\n");
    let headings = document.blocks.iter().filter_map(|block| match block {
        Block::Heading(level, title, anchor) => Some((*level, title, anchor)),
        _ => None,
    });
    let mut is_first = true;
    for (level, title, anchor) in headings {
        let is_below = level > 2 && !is_first;
        match (is_below, is_within) {
            (true, false) => out.push_str("\n<ul>\n"),
            (false, true) => out.push_str("</li>\n</ul>\n</li>\n"),
            _ if !is_first => out.push_str("</li>\n"),
            _ => {}
        }
        (is_within, is_first) = (is_below, false);
        out.push_str(&format!(
            "<li><a href=\"#{}\">{}</a>",
            escape(anchor),
            escape(title)
        ));
    }
    if is_within {
        out.push_str("</li>\n</ul>\n");
    }
    out.push_str(if is_first { "" } else { "</li>\n" });
    out.push_str("</ul>\n</details>\n</nav>\n");
}

fn push_block(out: &mut String, block: &Block) {
    match block {
        Block::Heading(level, title, anchor) => {
            let (anchor, title) = (escape(anchor), escape(title));
            out.push_str(&format!("<h{level} id=\"{anchor}\">{title}</h{level}>\n"));
        }
        Block::Paragraph(text) => out.push_str(&format!("<p>{}</p>\n", inline(text))),
        Block::List(points) => {
            out.push_str("<ul>\n");
            for point in points {
                out.push_str(&format!("<li>{}</li>\n", inline(point)));
            }
            out.push_str("</ul>\n");
        }
        Block::Code(text) => out.push_str(&format!(
            "<pre tabindex=\"0\"><code>{}</code></pre>\n",
            escape(text)
        )),
        Block::Table(table) => push_table(out, table),
        Block::Plot(plot) => push_plot(out, plot),
    }
}

/// A table in a box of its own that scrolls sideways, and its notes below the box.
fn push_table(out: &mut String, table: &Table) {
    let kind = if table.figures { "figures" } else { "words" };
    out.push_str(&format!(
        "<div class=\"wide\" tabindex=\"0\">\n<table class=\"{kind}\">\n<thead>\n"
    ));
    push_titles(out, table);
    out.push_str("</thead>\n<tbody>\n");
    for (index, line) in table.lines.iter().enumerate() {
        match line {
            Line::Group(title) => {
                let between = if index == 0 { "" } else { "</tbody>\n<tbody>\n" };
                out.push_str(&format!(
                    "{between}<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{}\"><span>{}</span></th></tr>\n",
                    table.columns.len() + 1,
                    escape(title)
                ));
            }
            Line::Cells(label, cells) => {
                out.push_str(&format!("<tr><th scope=\"row\">{}</th>", inline(label)));
                for cell in cells {
                    out.push_str(&format!("<td>{}</td>", inline(cell)));
                }
                out.push_str("</tr>\n");
            }
        }
    }
    out.push_str("</tbody>\n</table>\n</div>\n");
    push_notes(out, &table.notes);
}

fn push_titles(out: &mut String, table: &Table) {
    let label = escape(&table.label);
    if table.groups.is_empty() {
        out.push_str(&format!("<tr><th scope=\"col\">{label}</th>"));
    } else {
        out.push_str(&format!("<tr><th rowspan=\"2\" scope=\"col\">{label}</th>"));
        for (title, columns) in &table.groups {
            let title = escape(title);
            out.push_str(&format!(
                "<th class=\"group\" scope=\"colgroup\" colspan=\"{columns}\"><span>{title}</span></th>"
            ));
        }
        out.push_str("</tr>\n<tr>");
    }
    for title in &table.columns {
        out.push_str(&format!("<th scope=\"col\">{}</th>", escape(title)));
    }
    out.push_str("</tr>\n");
}

fn push_notes(out: &mut String, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    out.push_str("<ol class=\"notes\">\n");
    for note in notes {
        out.push_str(&format!("<li>{}</li>\n", escape(note)));
    }
    out.push_str("</ol>\n");
}

/// A plot as it was drawn, broad and narrow, of which the page shows one; only their opening tags are replaced, by ones that say
/// what they show.
fn push_plot(out: &mut String, plot: &Plot) {
    let alternative = escape(&plot.alternative);
    let drawn = |svg: &str, kind: &str| {
        let tag = format!("<svg class=\"plot {kind}\" role=\"img\" aria-label=\"{alternative}\" ");
        svg.replacen("<svg ", &tag, 1)
    };
    out.push_str(&format!(
        "<figure>\n{}\n{}\n<figcaption>{}</figcaption>\n</figure>\n",
        drawn(&plot.svg, "broad"),
        drawn(&plot.narrow_svg, "narrow"),
        escape(&plot.caption)
    ));
}

fn inline(text: &Text) -> String {
    text.0
        .iter()
        .map(|span| match span {
            Span::Plain(text) => escape(text),
            Span::Strong(text) => format!("<strong>{}</strong>", escape(text)),
            Span::Quiet(text) => format!("<small>{}</small>", escape(text)),
            Span::Code(text) => format!("<code>{}</code>", escape(text)),
            Span::Note(number) => format!("<sup>{number}</sup>"),
        })
        .collect()
}

/// Text that means itself, in elements and in attributes. Control characters, which no page may have, become spaces.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push('\n'),
            _ if letter.is_control() => out.push(' '),
            _ => out.push(letter),
        }
    }
    out
}
