//! How times are distributed: for each class and each kind of time, all policies in one plot.

use super::{
    Section, class_names,
    plot::{Plot, line_key},
    scale::Scale,
    table::Table,
    text::{NOTHING, escaped, list, percent, put, time},
};
use crate::{
    load::{ClassRun, Objectives, Run},
    report::{Curve, Curves},
};

/// A kind of time.
struct Kind {
    name: &'static str,
    curve: fn(&Curves) -> &Curve,
    objective: fn(Objectives) -> Option<f64>,
    /// Of what the shares are.
    of: &'static str,
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "Time to the first token",
        curve: |curves| &curves.ttft_ms,
        objective: |objectives| objectives.ttft_ms,
        of: "of all offered",
    },
    Kind {
        name: "Mean time per token",
        curve: |curves| &curves.tpot_ms,
        objective: |objectives| objectives.tpot_ms,
        of: "of the answers",
    },
    Kind {
        name: "Time to the end of the answer",
        curve: |curves| &curves.latency_ms,
        objective: |_| None,
        of: "of all offered",
    },
];

/// The shares in the tables.
const SHARES: [f64; 8] = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0];

pub(super) fn section(runs: &[Run]) -> Section {
    let mut body = String::from(
        "<p>How many had at most which time, on a logarithmic scale. Those that were refused, failed \
         or left have none: a line that stays below 100 % lost the rest.</p>\n",
    );
    body += &line_key(runs.iter().map(|run| run.policy.as_str()), None);
    for (at, name) in class_names(runs).into_iter().enumerate() {
        let classes: Vec<(&str, &ClassRun)> = runs
            .iter()
            .filter_map(|run| Some((run.policy.as_str(), run.classes.get(name)?)))
            .collect();
        put!(
            &mut body,
            "<h3>{}</h3>\n<div class=\"cards\">\n",
            escaped(name)
        );
        for (nth, kind) in KINDS.iter().enumerate() {
            body += &figure(&format!("cdf-{at}-{nth}"), name, kind, &classes);
        }
        body += "</div>\n";
    }
    Section {
        id: "times",
        title: "How long it took",
        body,
    }
}

fn figure(id: &str, class: &str, kind: &Kind, classes: &[(&str, &ClassRun)]) -> String {
    let curves: Vec<(&str, &Curve)> = classes
        .iter()
        .map(|(policy, class)| (*policy, (kind.curve)(&class.curves)))
        .collect();
    let heading = format!("<figcaption>{}</figcaption>", kind.name);
    let objective = classes
        .first()
        .and_then(|(_, class)| (kind.objective)(class.objectives));
    let values = curves.iter().flat_map(|(_, curve)| &curve.0);
    let values = values.map(|point| point[0]).chain(objective);
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(0.0, f64::max);
    if curves.iter().all(|(_, curve)| curve.0.is_empty()) {
        return format!("<figure>{heading}<p class=\"none\">There is none.</p></figure>\n");
    }
    let (x, y) = (Scale::times(least, most), Scale::percent());
    let mut plot = Plot::new(&x, &y, "", kind.of);
    if let Some(objective) = objective {
        plot.mark(objective, &format!("wanted: {}", time(objective)));
    }
    let mut words = Vec::new();
    let columns = SHARES.iter().map(|share| percent(*share));
    let columns: Vec<String> = std::iter::once("Policy".to_owned())
        .chain(columns)
        .collect();
    let mut table = Table::new(
        &format!("{class}: {}, by share {}", kind.name, kind.of),
        1,
        columns.iter().map(String::as_str),
    );
    for (style, (policy, curve)) in curves.into_iter().enumerate() {
        let points = curve.0.iter().map(|point| (point[0], Some(point[1])));
        // It goes on at its height: what is missing never comes.
        let last = curve.0.last().map(|point| (f64::MAX, Some(point[1])));
        plot.line(style, points.chain(last));
        let at = |share| curve.at(share).map_or(NOTHING.to_owned(), time);
        words.push(format!(
            "{policy}: half within {}, 99 % within {}",
            at(0.5),
            at(0.99)
        ));
        let cells = SHARES.iter().map(|share| at(*share));
        table.row(std::iter::once(policy.to_owned()).chain(cells));
    }
    let svg = plot.svg(
        id,
        &format!("{class}: {}", kind.name),
        &format!("{}.", list(&words)),
    );
    format!("<figure>{heading}{svg}{}</figure>\n", table.folded())
}
