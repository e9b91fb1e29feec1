//! What was refused or failed, by which rule and when.

use super::{
    Section, class_names, over_time,
    table::Table,
    text::{count, percent},
};
use crate::load::{ClassRun, Run};

pub(super) fn section(runs: &[Run]) -> Section {
    let columns = [
        "Class",
        "Policy",
        "What",
        "By which rule, or why",
        "Requests",
        "Of those offered",
    ];
    let mut table = Table::new("What was not served, and why", 4, columns);
    let mut is_empty = true;
    for name in class_names(runs) {
        for run in runs {
            for (what, why, number) in run.classes.get(name).map(losses).unwrap_or_default() {
                is_empty = false;
                let offered = run.classes[name].offered;
                table.row([
                    name.to_owned(),
                    run.policy.clone(),
                    what,
                    why,
                    count(number),
                    percent(number as f64 / offered as f64),
                ]);
            }
        }
    }
    let body = match is_empty {
        true => "<p>Nothing: every request was answered in full.</p>\n".to_owned(),
        false => format!(
            "<p>Outcomes and reasons are those of the headers <code>x-fairtide-outcome</code> and \
             <code>x-fairtide-reason</code>.</p>\n{}{}",
            table.html(),
            over_time::refused(runs).unwrap_or_default()
        ),
    };
    Section {
        id: "refused",
        title: "What was refused, and why",
        body,
    }
}

/// What, why and how many.
fn losses(class: &ClassRun) -> Vec<(String, String, u64)> {
    let refused = class.refused_why.iter().flat_map(|(outcome, reasons)| {
        let reasons = reasons.iter();
        reasons.map(|(reason, number)| (outcome.clone(), reason.clone(), *number))
    });
    let failed = class.failed_why.iter();
    let failed = failed.map(|(why, number)| ("failed".to_owned(), why.clone(), *number));
    let left = (class.cancelled > 0).then(|| {
        let why = "unfinished when its client left, or the run ended";
        ("left".to_owned(), why.to_owned(), class.cancelled)
    });
    refused.chain(failed).chain(left).collect()
}
