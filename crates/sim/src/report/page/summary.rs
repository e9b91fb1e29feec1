//! The figures, policy by policy under each class.

use super::{
    Section, class_names,
    table::Table,
    text::{NOTHING, count, percent, short, time},
};
use crate::load::{ClassRun, Objectives, Run};

pub(super) fn section(runs: &[Run]) -> Section {
    let mut body = String::from(
        "<p>“Served well” counts the requests, of all that were offered, that were answered in full \
         and within the objectives of their class.</p>\n",
    );
    for name in class_names(runs) {
        let classes = runs
            .iter()
            .filter_map(|run| Some((run, run.classes.get(name)?)));
        let objectives = classes.clone().next().map(|(_, class)| class.objectives);
        let caption = format!("{name}: {}", wanted(objectives.unwrap_or_default()));
        let columns = [
            "Policy",
            "Served well",
            "First token, half within",
            "First token, 99 % within",
            "Per token, half within",
            "Per token, 99 % within",
            "Held, 99 % within",
            "Tokens per second",
            "Offered",
            "Refused",
            "Failed",
            "Left",
        ];
        let mut table = Table::new(&caption, 1, columns);
        for (run, class) in classes {
            table.row(row(run, class));
        }
        body += &table.html();
    }
    let mut engines = Table::new("The engines", 1, ["Policy", "Busy", "Tokens per second"]);
    for run in runs {
        let rate = run.engine.output_tokens_per_s;
        engines.row([
            run.policy.clone(),
            run.engine.busy.map_or(NOTHING.to_owned(), percent),
            rate.map_or(NOTHING.to_owned(), |rate| count(rate.round() as u64)),
        ]);
    }
    body += &engines.html();
    Section {
        id: "summary",
        title: "Figures",
        body,
    }
}

fn row(run: &Run, class: &ClassRun) -> [String; 12] {
    let some = |ms: Option<f64>| ms.map_or(NOTHING.to_owned(), time);
    [
        run.policy.clone(),
        class.slo_attained.map_or(NOTHING.to_owned(), percent),
        some(class.ttft_ms.p50),
        some(class.ttft_ms.p99),
        some(class.tpot_ms.p50),
        some(class.tpot_ms.p99),
        some(class.queue_ms.p99),
        short(class.output_tokens_per_s, 1),
        count(class.offered),
        count(class.refused.values().sum()),
        count(class.failed),
        count(class.cancelled),
    ]
}

fn wanted(objectives: Objectives) -> String {
    match (objectives.ttft_ms, objectives.tpot_ms) {
        (None, None) => "no objectives".to_owned(),
        (Some(first), None) => format!("first token within {}", time(first)),
        (None, Some(each)) => format!("each further token within {}", time(each)),
        (Some(first), Some(each)) => format!(
            "first token within {}, each further one within {}",
            time(first),
            time(each)
        ),
    }
}
