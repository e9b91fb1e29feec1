//! Tables that can be read by keyboard and by ear: with a caption, and heads for rows and columns.

use super::text::{escaped, put};

/// A table that is being filled.
pub(super) struct Table {
    caption: String,
    /// How many cells at the left of a row are its head.
    heads: usize,
    html: String,
}

// === impl Table ===

impl Table {
    pub fn new<'a>(
        caption: &str,
        heads: usize,
        columns: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut html = String::from("<thead><tr>");
        for (at, column) in columns.into_iter().enumerate() {
            let kind = if at < heads { " class=\"word\"" } else { "" };
            put!(
                &mut html,
                "<th scope=\"col\"{kind}>{}</th>",
                escaped(column)
            );
        }
        html += "</tr></thead><tbody>";
        Self {
            caption: caption.to_owned(),
            heads,
            html,
        }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.html += "<tr>";
        for (at, cell) in cells.into_iter().enumerate() {
            let cell = escaped(&cell);
            match at < self.heads {
                true => put!(&mut self.html, "<th scope=\"row\">{cell}</th>"),
                false => put!(&mut self.html, "<td>{cell}</td>"),
            }
        }
        self.html += "</tr>";
    }

    /// The table, which scrolls by itself where it is too wide.
    pub fn html(self) -> String {
        let caption = escaped(&self.caption);
        format!(
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\"><table><caption><span>{caption}</span></caption>{}</tbody></table></div>\n",
            self.html
        )
    }

    /// The same, behind a button.
    pub fn folded(self) -> String {
        format!(
            "<details><summary>As a table</summary>{}</details>\n",
            self.html()
        )
    }
}
