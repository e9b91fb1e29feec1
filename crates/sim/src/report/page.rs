//! The report as one HTML file: no network, no script, and all that the plots show also in tables.
//!
//! It is a pure function of the runs, so the same runs give the same bytes.

mod curves;
mod over_time;
mod plot;
mod refused;
mod scale;
mod series;
mod summary;
mod table;
mod text;

use crate::load::Run;
use std::collections::BTreeSet;
use text::{escaped, put};

const STYLE: &str = include_str!("page/style.css");

/// A part of the page that can be gone to.
struct Section {
    id: &'static str,
    title: &'static str,
    body: String,
}

/// What the page begins with.
#[derive(Clone, Debug)]
pub struct Head {
    /// What was replayed.
    pub title: String,
    /// What else one has to know of the runs, as pairs of a word and its value.
    pub facts: Vec<(String, String)>,
}

/// The page of some runs, which had the same classes.
pub fn page(head: &Head, runs: &[Run]) -> String {
    let sections = [
        Some(summary::section(runs)),
        Some(curves::section(runs)),
        over_time::limit(runs),
        over_time::held(runs),
        over_time::tpot(runs),
        over_time::shares(runs),
        Some(refused::section(runs)),
    ];
    let sections: Vec<Section> = sections.into_iter().flatten().collect();
    let title = escaped(&head.title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{title} · Fairtide</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#summary\">Go to the figures</a>\n{}\n\
         <header>\n<h1>{title}</h1>\n<dl class=\"facts\">\n",
        plot::fills()
    );
    for (name, value) in &head.facts {
        put!(
            &mut page,
            "<div><dt>{}</dt><dd>{}</dd></div>\n",
            escaped(name),
            escaped(value)
        );
    }
    page += "</dl>\n<nav aria-label=\"Parts of the report\"><ul>\n";
    for section in &sections {
        put!(
            &mut page,
            "<li><a href=\"#{}\">{}</a></li>\n",
            section.id,
            section.title
        );
    }
    page += "</ul></nav>\n</header>\n<main>\n";
    for Section { id, title, body } in &sections {
        put!(
            &mut page,
            "<section id=\"{id}\" aria-labelledby=\"{id}-h\">\n<h2 id=\"{id}-h\">{title}</h2>\n{body}</section>\n"
        );
    }
    page + "</main>\n</body>\n</html>\n"
}

/// The names, in order, of the classes that had requests in any run.
fn class_names(runs: &[Run]) -> Vec<&str> {
    let classes = runs.iter().flat_map(|run| &run.classes);
    let asked = classes.filter(|(_, class)| class.offered > 0);
    let names: BTreeSet<&str> = asked.map(|(name, _)| name.as_str()).collect();
    names.into_iter().collect()
}

#[cfg(test)]
mod tests;
