//! How the runs went, policy beside policy.

use super::{
    Section, class_names,
    plot::{Plot, fill_key, line_key},
    scale::Scale,
    series::Series,
    table::Table,
    text::{NOTHING, escaped, list, percent, short, time},
};
use crate::{load::Run, report::ClassTimeline};

/// Slots of a plot, and rows of a table.
const MOST_POINTS: usize = 120;
const MOST_ROWS: usize = 20;

/// One policy's plot: its lines, each of a class.
struct Panel<'a> {
    policy: &'a str,
    classes: Vec<Series>,
    limit: Option<Series>,
}

/// How a number is written.
type Word = fn(f64) -> String;

/// The limit, and what is in the engine under it.
pub(super) fn limit(runs: &[Run]) -> Option<Section> {
    let mut panels = panels(runs, |class, _| {
        class.in_flight.iter().copied().map(Some).collect()
    });
    for (panel, run) in panels.iter_mut().zip(runs) {
        let limit = &run.timeline.limit;
        let series =
            Series::new(run.timeline.slot_s, limit.iter().copied()).in_at_most(MOST_POINTS);
        panel.limit = (!limit.is_empty()).then_some(series);
    }
    let limited = panels.iter().any(|panel| panel.limit.is_some());
    let y_scale = |panel: &Panel<'_>| {
        let series = panel.classes.iter().chain(&panel.limit);
        Scale::amounts(most(series), |value| short(value, 2))
    };
    section(
        "limit",
        "The limit, and what is in the engine",
        "Requests that were let go to the engine, those that wait inside it included. The limit \
         is what the policy allowed, in requests; policies without one have no such line. Each \
         plot has its own scale.",
        &line_key(class_names(runs), limited.then_some("the limit")),
        &panels,
        Drawing {
            y_scale: &y_scale,
            y_label: "requests",
            word: |value| short(value, 1),
        },
        class_names(runs),
    )
}

/// What is held before the engine.
pub(super) fn held(runs: &[Run]) -> Option<Section> {
    let panels = panels(runs, |class, _| {
        class.queued.iter().copied().map(Some).collect()
    });
    let all = panels.iter().flat_map(|panel| &panel.classes);
    let scale = Scale::amounts(most(all), |value| short(value, 2));
    section(
        "held",
        "What is held before the engine",
        "Requests that wait for the policy to let them go.",
        &line_key(class_names(runs), None),
        &panels,
        Drawing {
            y_scale: &|_| scale.clone(),
            y_label: "requests",
            word: |value| short(value, 1),
        },
        class_names(runs),
    )
}

/// The time between tokens.
pub(super) fn tpot(runs: &[Run]) -> Option<Section> {
    let panels = panels(runs, |class, _| class.tpot_ms.clone());
    let values = panels.iter().flat_map(|panel| &panel.classes);
    let values = values.flat_map(Series::present);
    let least = values.clone().reduce(f64::min)?;
    let scale = Scale::times(least, values.fold(0.0, f64::max));
    section(
        "tpot",
        "Time per token",
        "The mean time between the tokens that came in a slot. The scale is \
         logarithmic.",
        &line_key(class_names(runs), None),
        &panels,
        Drawing {
            y_scale: &|_| scale.clone(),
            y_label: "per token",
            word: time,
        },
        class_names(runs),
    )
}

/// Who got the tokens.
pub(super) fn shares(runs: &[Run]) -> Option<Section> {
    let panels = panels(runs, |class, _| {
        class
            .output_tokens_per_s
            .iter()
            .copied()
            .map(Some)
            .collect()
    });
    let names = class_names(runs);
    let end = end(&panels)?;
    let mut cards = String::new();
    for (at, panel) in panels.iter().enumerate() {
        let fine = share_of(panel, MOST_POINTS);
        let (x, y) = (Scale::clock(end), Scale::percent());
        let mut plot = Plot::new(&x, &y, "", "of the tokens");
        for (style, _) in names.iter().enumerate() {
            for piece in bands(&fine, style) {
                plot.area(style, &piece);
            }
        }
        let words = names.iter().zip(&fine).map(|(name, share)| {
            let mean = share.mean().map_or(NOTHING.to_owned(), percent);
            format!("{name} has {mean} on average")
        });
        let words = format!("{}.", list(&words.collect::<Vec<_>>()));
        let title = format!("{}: shares of the tokens", panel.policy);
        let svg = plot.svg(&format!("shares-{at}"), &title, &words);
        let table = over(&title, &names, &share_of(panel, MOST_ROWS), None, percent);
        cards += &card(panel.policy, &svg, table);
    }
    Some(Section {
        id: "shares",
        title: "Shares",
        body: format!(
            "<p>Whose tokens the engine made. Where nobody got any there is a gap.</p>\n{}<div class=\"cards\">\n{cards}</div>\n",
            fill_key(names)
        ),
    })
}

/// Refusals, as a part of another section.
pub(super) fn refused(runs: &[Run]) -> Option<String> {
    let mut panels = panels(runs, |class, slot_s| {
        let counts = class.refused.iter();
        counts.map(|count| Some(*count as f64 / slot_s)).collect()
    });
    panels.retain(|panel| most(&panel.classes) > 0.0);
    let all = panels.iter().flat_map(|panel| &panel.classes);
    let scale = Scale::amounts(most(all), |value| short(value, 3));
    let section = section(
        "refusals",
        "Refusals per second",
        "When they were refused.",
        &line_key(class_names(runs), None),
        &panels,
        Drawing {
            y_scale: &|_| scale.clone(),
            y_label: "refused per second",
            word: |value| short(value, 2),
        },
        class_names(runs),
    )?;
    Some(section.body)
}

/// What the plots of a section have in common.
struct Drawing<'a> {
    y_scale: &'a dyn Fn(&Panel<'_>) -> Scale,
    y_label: &'a str,
    word: Word,
}

/// A section of lines; none where nothing ever was.
fn section(
    id: &'static str,
    title: &'static str,
    about: &str,
    key: &str,
    panels: &[Panel<'_>],
    drawing: Drawing<'_>,
    names: Vec<&str>,
) -> Option<Section> {
    let all = panels.iter().flat_map(|panel| &panel.classes);
    if most(all) <= 0.0 {
        return None;
    }
    let x = Scale::clock(end(panels)?);
    let mut cards = String::new();
    for (at, panel) in panels.iter().enumerate() {
        let y = (drawing.y_scale)(panel);
        let mut plot = Plot::new(&x, &y, "", drawing.y_label);
        for (style, class) in panel.classes.iter().enumerate() {
            plot.line(style, class.points());
        }
        if let Some(limit) = &panel.limit {
            plot.limit(limit.points());
        }
        let words = names.iter().zip(&panel.classes);
        let words = words.filter_map(|(name, class)| {
            let word = drawing.word;
            let (least, most, mean) = (class.least()?, class.most()?, class.mean()?);
            Some(format!(
                "{name}: from {} to {}, {} on average",
                word(least),
                word(most),
                word(mean)
            ))
        });
        let words = format!("{}.", list(&words.collect::<Vec<_>>()));
        let heading = format!("{}: {title}", panel.policy);
        let svg = plot.svg(&format!("{id}-{at}"), &heading, &words);
        let rows: Vec<Series> = panel
            .classes
            .iter()
            .map(|class| class.in_at_most(MOST_ROWS))
            .collect();
        let limit = panel
            .limit
            .as_ref()
            .map(|limit| limit.in_at_most(MOST_ROWS));
        let table = over(&heading, &names, &rows, limit.as_ref(), drawing.word);
        cards += &card(panel.policy, &svg, table);
    }
    Some(Section {
        id,
        title,
        body: format!("<p>{about}</p>\n{key}<div class=\"cards\">\n{cards}</div>\n"),
    })
}

fn card(policy: &str, svg: &str, table: Table) -> String {
    format!(
        "<figure><figcaption>{}</figcaption>{svg}{}</figure>\n",
        escaped(policy),
        table.folded()
    )
}

fn panels(
    runs: &[Run],
    values: impl Fn(&ClassTimeline, f64) -> Vec<Option<f64>>,
) -> Vec<Panel<'_>> {
    let names = class_names(runs);
    let panels = runs.iter().map(|run| {
        let classes = names.iter().map(|name| {
            let class = run.timeline.classes.get(*name);
            let width = run.timeline.slot_s;
            let values = class.map(|class| values(class, width));
            Series::new(width, values.unwrap_or_default()).in_at_most(MOST_POINTS)
        });
        Panel {
            policy: &run.policy,
            classes: classes.collect(),
            limit: None,
        }
    });
    panels.collect()
}

/// A table with a row for each slot.
fn over(
    caption: &str,
    names: &[&str],
    classes: &[Series],
    limit: Option<&Series>,
    word: Word,
) -> Table {
    let limit_name = limit.map(|_| "the limit");
    let columns = std::iter::once("From").chain(names.iter().copied());
    let mut table = Table::new(caption, 1, columns.chain(limit_name));
    let slots = classes.iter().map(|class| class.values.len()).max();
    let width = classes.first().map_or(0.0, |class| class.width_s);
    for slot in 0..slots.unwrap_or(0) {
        let from = format!("{} s", short(slot as f64 * width, 2));
        let cells = classes.iter().chain(limit).map(|series| {
            let value = series.values.get(slot).copied().flatten();
            value.map_or(NOTHING.to_owned(), word)
        });
        table.row(std::iter::once(from).chain(cells));
    }
    table
}

/// What share of all tokens each class got.
fn share_of(panel: &Panel<'_>, most: usize) -> Vec<Series> {
    let classes: Vec<Series> = panel
        .classes
        .iter()
        .map(|class| class.in_at_most(most))
        .collect();
    let value = |class: &Series, at: usize| class.values.get(at).copied().flatten().unwrap_or(0.0);
    let shares = classes.iter().map(|class| {
        let slots = (0..class.values.len()).map(|at| {
            let all: f64 = classes.iter().map(|class| value(class, at)).sum();
            (all > 0.0).then(|| value(class, at) / all)
        });
        Series::new(class.width_s, slots)
    });
    shares.collect()
}

/// Where the band of one class lies upon those before it; in pieces, where nobody got any tokens
/// between them.
fn bands(shares: &[Series], class: usize) -> Vec<Vec<(f64, f64, f64)>> {
    let mut pieces = vec![Vec::new()];
    let width = shares[class].width_s;
    for (slot, share) in shares[class].values.iter().enumerate() {
        let Some(share) = share else {
            pieces.push(Vec::new());
            continue;
        };
        let below = shares[..class].iter();
        let below: f64 = below.filter_map(|series| series.values[slot]).sum();
        let band = |at: f64| (at * width, below, below + share);
        if let Some(piece) = pieces.last_mut() {
            piece.extend([band(slot as f64), band(slot as f64 + 1.0)]);
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

fn most<'a>(series: impl IntoIterator<Item = &'a Series>) -> f64 {
    series
        .into_iter()
        .filter_map(Series::most)
        .fold(0.0, f64::max)
}

/// When the longest of all ends.
fn end(panels: &[Panel<'_>]) -> Option<f64> {
    let all = panels.iter().flat_map(|panel| &panel.classes);
    all.map(Series::end_s).reduce(f64::max)
}
