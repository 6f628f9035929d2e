//! Charts as SVG, drawn by the server, so that they are there without JavaScript. A table with the
//! same numbers stands behind each for those who do not see it.

use maud::{Markup, html};
use serde_json::Value;

use super::html::{grouped, moment, rounded, table};

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 150.0;
/// The most rows of the table behind a chart.
const ROWS_MAX: usize = 30;

/// A line: the field of a point, and its name.
pub type Line = (&'static str, &'static str);

/// A chart of points with the fields that the lines name. `null` is a gap.
pub fn chart(title: &str, unit: &str, points: &[Value], lines: &[Line]) -> Markup {
    let values =
        points.iter().flat_map(|point| lines.iter().filter_map(|(key, _)| point[key].as_f64()));
    let top = ceiling(values.fold(0.0, f64::max));
    let every = points.len().div_ceil(ROWS_MAX).max(1);
    let heads: Vec<&str> =
        ["Time"].into_iter().chain(lines.iter().map(|(_, name)| *name)).collect();
    html! {
        figure {
            figcaption {
                b { (title) } " "
                @for (at, (key, name)) in lines.iter().enumerate() {
                    span.legend.{ "line" (at) } { (name) " " b { (latest(points, key)) } " " (unit) }
                }
            }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label={ (title) ", the last 15 minutes" } {
                @for part in [0.0, 0.5, 1.0] {
                    line.grid x1="0" x2=(WIDTH) y1=(HEIGHT * part) y2=(HEIGHT * part) {}
                }
                @for (at, (key, _)) in lines.iter().enumerate() {
                    path.{ "line" (at) } d=(path(points, key, top)) fill="none" {}
                }
                text x="4" y="12" { (grouped(top as u64)) " " (unit) }
            }
            details {
                summary { "Numbers of the chart: " (title) }
                (table(title, &heads, html! {
                    @for point in points.iter().rev().step_by(every) {
                        tr {
                            td { (moment(point["at"].as_str().unwrap_or_default())) }
                            @for (key, _) in lines { td.number { (rounded(&point[key])) } }
                        }
                    }
                }))
            }
        }
    }
}

/// The newest number of a field.
fn latest(points: &[Value], key: &str) -> String {
    points.last().map_or_else(|| "–".to_owned(), |point| rounded(&point[key]))
}

/// The next larger number with one digit of 1, 2 or 5, so that the scale jumps rarely.
fn ceiling(value: f64) -> f64 {
    let mut step = 1.0;
    while step < value {
        let next = [2.0, 5.0, 10.0].into_iter().map(|factor| step * factor);
        let found = next.clone().find(|candidate| *candidate >= value);
        match found {
            Some(found) => return found,
            None => step *= 10.0,
        }
    }
    step
}

/// The path of a line; it is lifted at gaps.
fn path(points: &[Value], key: &str, top: f64) -> String {
    let step = WIDTH / (points.len().max(2) - 1) as f64;
    let (mut path, mut is_down) = (String::new(), false);
    for (at, point) in points.iter().enumerate() {
        let Some(value) = point[key].as_f64() else {
            is_down = false;
            continue;
        };
        let (x, y) = (at as f64 * step, HEIGHT - value / top * (HEIGHT - 16.0));
        let letter = if is_down { 'L' } else { 'M' };
        path.push_str(&format!("{letter}{x:.1} {y:.1}"));
        is_down = true;
    }
    path
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_line_is_drawn_across_a_gap_and_none_leaves_the_chart() {
        let points = [json!({"n": 0}), json!({"n": 7}), json!({"n": null}), json!({"n": 10})];
        assert_eq!(path(&points, "n", 10.0), "M0.0 150.0L200.0 56.2M600.0 16.0");
        for (value, top) in [(0.0, 1.0), (1.5, 2.0), (40.0, 50.0), (4_120.5, 5_000.0), (1e6, 1e6)] {
            assert!((ceiling(value) - top).abs() < 1e-6, "{value}");
        }
    }
}
