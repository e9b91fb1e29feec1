//! One plot: an SVG whose title and description say in words what it shows.

use super::{
    scale::Scale,
    text::{escaped, put},
};

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 36.0;

/// Colours and dashes there are; more lines than these repeat them.
const STYLES: usize = 11;

/// Lines are told apart without colour as well.
const DASHES: [&str; STYLES] = [
    "",
    "7 3",
    "2 3",
    "9 3 2 3",
    "12 4",
    "1 3",
    "5 2 1 2 1 2",
    "14 3 4 3",
    "4 4",
    "8 2 2 2 2 2",
    "3 1",
];

/// A plot that is being drawn.
pub(super) struct Plot<'a> {
    pub x: &'a Scale,
    pub y: &'a Scale,
    pub x_label: &'a str,
    pub y_label: &'a str,
    body: String,
}

// === impl Plot ===

impl<'a> Plot<'a> {
    pub fn new(x: &'a Scale, y: &'a Scale, x_label: &'a str, y_label: &'a str) -> Self {
        Self {
            x,
            y,
            x_label,
            y_label,
            body: String::new(),
        }
    }

    /// A line through points; where a value isn't there the line has a gap.
    pub fn line(&mut self, style: usize, points: impl IntoIterator<Item = (f64, Option<f64>)>) {
        let path = self.path(points);
        let (colour, dash) = (style % STYLES, DASHES[style % STYLES]);
        put!(
            &mut self.body,
            "<path class=\"curve\" style=\"stroke:var(--c{colour})\" stroke-dasharray=\"{dash}\" d=\"{path}\"/>"
        );
    }

    /// The line of the limit.
    pub fn limit(&mut self, points: impl IntoIterator<Item = (f64, Option<f64>)>) {
        let path = self.path(points);
        put!(&mut self.body, "<path class=\"limit\" d=\"{path}\"/>");
    }

    /// What lies between two lines of the same places, from the lower to the upper one.
    pub fn area(&mut self, style: usize, points: &[(f64, f64, f64)]) {
        let upper = points.iter().map(|point| (point.0, point.2));
        let lower = points.iter().rev().map(|point| (point.0, point.1));
        let mut path = String::new();
        for (at, (x, y)) in upper.chain(lower).enumerate() {
            let (x, y) = (self.across(x), self.up(y));
            put!(
                &mut path,
                "{}{x:.1} {y:.1}",
                if at == 0 { "M" } else { "L" }
            );
        }
        let style = style % STYLES;
        put!(
            &mut self.body,
            "<path class=\"area\" fill=\"url(#fill{style})\" d=\"{path}Z\"/>"
        );
    }

    /// A line across at a value of x, with a word at its top.
    pub fn mark(&mut self, x: f64, word: &str) {
        let x = self.across(x);
        let (anchor, at) = match x > WIDTH / 2.0 {
            true => ("end", x - 4.0),
            false => ("start", x + 4.0),
        };
        put!(
            &mut self.body,
            "<path class=\"mark\" d=\"M{x:.1} {TOP}V{}\"/><text class=\"mark-text\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM - 6.0,
            escaped(word)
        );
    }

    /// The whole of it. `id` is not used twice on a page.
    pub fn svg(self, id: &str, title: &str, description: &str) -> String {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let mut svg = String::new();
        put!(
            &mut svg,
            "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
            escaped(title),
            escaped(description)
        );
        for (value, name) in &self.y.ticks {
            let y = self.up(*value);
            put!(
                &mut svg,
                "<path class=\"grid-line\" d=\"M{LEFT} {y:.1}H{right}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 5.0,
                y + 4.0,
                escaped(name)
            );
        }
        for (value, name) in &self.x.ticks {
            let x = self.across(*value);
            // The last one must not be cut off by the edge.
            let anchor = if x > right - 8.0 { "end" } else { "middle" };
            let at = if x > right - 8.0 { right + 8.0 } else { x };
            put!(
                &mut svg,
                "<path class=\"grid-line\" d=\"M{x:.1} {TOP}V{bottom}\"/><text x=\"{at:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
                bottom + 14.0,
                escaped(name)
            );
        }
        put!(
            &mut svg,
            "{}<path class=\"frame\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>",
            self.body
        );
        put!(
            &mut svg,
            "<text x=\"4\" y=\"12\">{}</text><text x=\"{right}\" y=\"{}\" text-anchor=\"end\">{}</text></svg>",
            escaped(self.y_label),
            HEIGHT - 6.0,
            escaped(self.x_label)
        );
        svg
    }

    fn path(&self, points: impl IntoIterator<Item = (f64, Option<f64>)>) -> String {
        let mut path = String::new();
        let mut is_down = false;
        let mut last = None;
        for (x, y) in points {
            let Some(y) = y else {
                is_down = false;
                last = None;
                continue;
            };
            let place = format!("{:.1} {:.1}", self.across(x), self.up(y));
            if last.as_ref() == Some(&place) {
                continue;
            }
            put!(&mut path, "{}{place}", if is_down { "L" } else { "M" });
            if !is_down {
                // A single point would be invisible.
                put!(&mut path, "h.1");
            }
            is_down = true;
            last = Some(place);
        }
        path
    }

    fn across(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (WIDTH - LEFT - RIGHT)
    }

    fn up(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.place(value) * (HEIGHT - TOP - BOTTOM)
    }
}

/// The fills of areas: hatched in different ways, so that they are told apart without colour.
pub(super) fn fills() -> String {
    let mut defs = String::from(
        "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\" focusable=\"false\"><defs>",
    );
    // A path in a tile of 8, and how much colour lies under it.
    let hatches = [
        ("", 0.85),
        ("M0 8L8 0", 0.3),
        ("M4 3v2", 0.3),
        ("M0 4h8", 0.3),
        ("M0 0L8 8", 0.3),
        ("M4 0v8", 0.3),
        ("M0 0L8 8M0 8L8 0", 0.2),
        ("M0 4h8M4 0v8", 0.2),
        ("M2 2h1M6 6h1", 0.3),
        ("", 0.5),
        ("M0 2h4", 0.3),
    ];
    for (style, (hatch, under)) in hatches.into_iter().enumerate() {
        put!(
            &mut defs,
            "<pattern id=\"fill{style}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><rect width=\"8\" height=\"8\" style=\"fill:var(--c{style})\" fill-opacity=\"{under}\"/><path d=\"{hatch}\" style=\"stroke:var(--c{style})\" stroke-width=\"2\" stroke-linecap=\"square\"/></pattern>"
        );
    }
    defs + "</defs></svg>"
}

/// What lines stand for what names.
pub(super) fn line_key<'a>(
    names: impl IntoIterator<Item = &'a str>,
    limit: Option<&str>,
) -> String {
    let mut key = String::from("<ul class=\"key\">");
    for (at, name) in names.into_iter().enumerate() {
        let (colour, dash) = (at % STYLES, DASHES[at % STYLES]);
        put!(
            &mut key,
            "<li><svg viewBox=\"0 0 38 14\" aria-hidden=\"true\"><path class=\"curve\" style=\"stroke:var(--c{colour})\" stroke-dasharray=\"{dash}\" d=\"M0 7H38\"/></svg>{}</li>",
            escaped(name)
        );
    }
    if let Some(limit) = limit {
        put!(
            &mut key,
            "<li><svg viewBox=\"0 0 38 14\" aria-hidden=\"true\"><path class=\"limit\" d=\"M0 7H38\"/></svg>{}</li>",
            escaped(limit)
        );
    }
    key + "</ul>"
}

/// What fills stand for what names.
pub(super) fn fill_key<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut key = String::from("<ul class=\"key\">");
    for (at, name) in names.into_iter().enumerate() {
        let style = at % STYLES;
        put!(
            &mut key,
            "<li><svg viewBox=\"0 0 38 14\" aria-hidden=\"true\"><rect width=\"38\" height=\"14\" fill=\"url(#fill{style})\"/></svg>{}</li>",
            escaped(name)
        );
    }
    key + "</ul>"
}
