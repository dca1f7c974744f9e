//! A report as one HTML page that needs nothing else: its style and its plots are within it, and it has no script. It is made of the
//! Markdown, on demand.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};

use super::plots::Drawn;

const STYLE: &str = include_str!("style.css");

pub(crate) fn of(markdown: &str, plots: &[&Drawn]) -> String {
    let mut is_within_image = false;
    let events = Parser::new_ext(markdown, Options::ENABLE_TABLES).filter_map(|event| match event {
        Event::Start(Tag::Image { dest_url, .. }) => {
            is_within_image = true;
            let plot = plots.iter().find(|plot| dest_url.ends_with(&plot.file))?;
            Some(Event::InlineHtml(plot.svg.trim_end().to_owned().into()))
        }
        Event::End(TagEnd::Image) => {
            is_within_image = false;
            None
        }
        _ if is_within_image => None,
        event => Some(event),
    });
    let mut body = String::new();
    html::push_html(&mut body, events);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>System comparison</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}
