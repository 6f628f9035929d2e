//! Values over a numeric axis.

use plotters::chart::ChartBuilder;
use plotters::element::Circle;
use plotters::prelude::DrawingBackend;
use plotters::series::LineSeries;
use plotters::style::{Color, RGBColor};

use super::page::{Area, Drawn, GRID, INK, RIGHT_PX, number, text};

const DOT_PX: i32 = 4;

/// Lines that share their axes.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// What the horizontal axis counts.
    pub x_label: String,
    /// What the vertical axis counts; it stands beside the panel's title.
    pub y_label: String,
    /// Where the horizontal axis ends at least.
    pub x_max: f64,
    /// Where the vertical axis ends at least.
    pub y_max: f64,
    /// Whether every step of the vertical axis is ten times the one before. Values must then be
    /// above 0, and the axis begins below the lowest one.
    pub logarithmic: bool,
    /// Whether each point has a dot, for lines of few points.
    pub dotted: bool,
    /// In the order of drawing: the last one is on top.
    pub lines: Vec<Line>,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    /// What the legend calls it.
    pub name: String,
    /// Its colour.
    pub color: RGBColor,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

impl Lines {
    pub(super) fn names(&self) -> Vec<(&str, RGBColor)> {
        self.lines.iter().map(|line| (line.name.as_str(), line.color)).collect()
    }

    pub(super) fn draw<B: DrawingBackend>(&self, area: &Area<B>, left: u32) -> Drawn<B> {
        let x_max = self.points().map(|(x, _)| *x).fold(self.x_max, f64::max);
        let (x_end, (y_begin, y_end)) = (at_least(x_max, 1.0), self.range());
        let decades = (y_end - y_begin).ceil() as usize;
        let mut chart = ChartBuilder::on(area)
            .set_label_area_size(plotters::chart::LabelAreaPosition::Left, left)
            .set_label_area_size(plotters::chart::LabelAreaPosition::Bottom, 44)
            .margin_right(RIGHT_PX)
            .margin_top(6)
            .build_cartesian_2d(0.0..x_end, y_begin..y_end)?;
        chart
            .configure_mesh()
            .axis_style(INK)
            .bold_line_style(GRID)
            .light_line_style(GRID.mix(0.0))
            .label_style(text(13))
            .axis_desc_style(text(13))
            .x_desc(&self.x_label)
            .x_label_formatter(&|x| number(*x))
            .y_label_formatter(&|y| number(if self.logarithmic { 10_f64.powf(*y) } else { *y }))
            .y_labels(if self.logarithmic { decades + 1 } else { 6 })
            .draw()?;
        for line in &self.lines {
            let points = || line.points.iter().map(|(x, y)| (*x, self.scaled(*y)));
            let style = line.color.stroke_width(2);
            chart.draw_series(LineSeries::new(points(), style))?;
            if self.dotted {
                let dot = |point| Circle::new(point, DOT_PX, line.color.filled());
                chart.draw_series(points().map(dot))?;
            }
        }
        Ok(())
    }

    fn points(&self) -> impl Iterator<Item = &(f64, f64)> {
        self.lines.iter().flat_map(|line| &line.points)
    }

    fn scaled(&self, value: f64) -> f64 {
        if self.logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { value }
    }

    /// Where the vertical axis begins and ends.
    fn range(&self) -> (f64, f64) {
        let values = || self.points().map(|(_, y)| *y);
        let high = values().fold(self.y_max, f64::max);
        if !self.logarithmic {
            return (0.0, at_least(high * 1.06, 1.0));
        }
        match values().reduce(f64::min) {
            Some(low) => ((self.scaled(low) - 0.1).floor(), self.scaled(high) + 0.1),
            None => (0.0, 1.0),
        }
    }
}

/// An axis that ends where it begins can't be drawn.
fn at_least(value: f64, least: f64) -> f64 {
    if value > 0.0 { value } else { least }
}
