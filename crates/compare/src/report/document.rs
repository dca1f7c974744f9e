//! What a report is made of, before it is Markdown or HTML: blocks of text, tables and plots.

/// One report.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// Its title.
    pub(crate) title: String,
    /// Its blocks, in order.
    pub(crate) blocks: Vec<Block>,
}

/// One block.
#[derive(Debug)]
pub(crate) enum Block {
    /// A heading of level 2 or 3, with its anchor.
    Heading(u8, String, String),
    /// A paragraph.
    Paragraph(Text),
    /// A list of points.
    List(Vec<Text>),
    /// What can be typed.
    Code(String),
    /// A table.
    Table(Table),
    /// A plot.
    Plot(Plot),
}

/// Text in parts of different weight.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) Vec<Span>);

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Span {
    /// As it is.
    Plain(String),
    /// What should be seen first.
    Strong(String),
    /// What should be seen last.
    Quiet(String),
    /// A name of a setting or command.
    Code(String),
    /// The number of a note below the table.
    Note(usize),
}

/// A table whose first column says what each line is.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// The title of the first column.
    pub(crate) label: String,
    /// Titles above several columns each, with how many; none or for all columns.
    pub(crate) groups: Vec<(String, usize)>,
    /// The titles of the columns.
    pub(crate) columns: Vec<String>,
    /// The lines.
    pub(crate) lines: Vec<Line>,
    /// Whether the cells are figures, which stand at the right.
    pub(crate) figures: bool,
    /// The notes that the cells refer to, from 1.
    pub(crate) notes: Vec<String>,
}

/// A line of a table.
#[derive(Debug)]
pub(crate) enum Line {
    /// The title of the lines below.
    Group(String),
    /// A label and a cell for each column.
    Cells(Text, Vec<Text>),
}

/// A plot, drawn twice.
#[derive(Debug)]
pub(crate) struct Plot {
    /// The file's name below `plots`.
    pub(crate) file: String,
    /// What it shows, for those who do not see it.
    pub(crate) alternative: String,
    /// The line below it.
    pub(crate) caption: String,
    /// As SVG.
    pub(crate) svg: String,
    /// The same for a narrow screen: its panels stand below each other.
    pub(crate) narrow_svg: String,
    /// As PNG.
    pub(crate) png: Vec<u8>,
}

impl Document {
    /// Adds a heading.
    pub(crate) fn heading(&mut self, level: u8, title: &str, anchor: &str) {
        self.blocks
            .push(Block::Heading(level, title.to_owned(), anchor.to_owned()));
    }

    /// Adds a paragraph, if there is anything to say.
    pub(crate) fn paragraph(&mut self, text: impl Into<Text>) {
        let text = text.into();
        if !text.is_empty() {
            self.blocks.push(Block::Paragraph(text));
        }
    }

    /// Adds a list, if it has points.
    pub(crate) fn list(&mut self, points: Vec<Text>) {
        if !points.is_empty() {
            self.blocks.push(Block::List(points));
        }
    }
}

impl Text {
    /// Adds a part and gives the text back.
    pub(crate) fn with(mut self, span: Span) -> Self {
        self.0.push(span);
        self
    }

    /// Adds plain text and gives the text back.
    pub(crate) fn and(self, text: impl Into<String>) -> Self {
        self.with(Span::Plain(text.into()))
    }

    /// A text that begins with what should be seen first.
    pub(crate) fn strong(text: impl Into<String>) -> Self {
        Self(vec![Span::Strong(text.into())])
    }

    /// Whether there is nothing to read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|span| match span {
            Span::Plain(text) | Span::Strong(text) | Span::Quiet(text) | Span::Code(text) => text.is_empty(),
            Span::Note(_) => false,
        })
    }
}

impl<T: Into<String>> From<T> for Text {
    fn from(text: T) -> Self {
        Self(vec![Span::Plain(text.into())])
    }
}

/// A name that is safe as a file's name and as an anchor: letters, digits, dots and hyphens, and not empty.
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
