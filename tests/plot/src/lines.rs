//! Values over a numeric axis.

use plotters::chart::ChartBuilder;
use plotters::prelude::DrawingBackend;
use plotters::series::LineSeries;
use plotters::style::{Color, RGBColor};

use super::page::{Area, Drawn, GRID, INK, RIGHT_PX, number, text};

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
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x_max = points().map(|(x, _)| *x).fold(self.x_max, f64::max);
        let y_max = points().map(|(_, y)| *y).fold(self.y_max, f64::max);
        let (x_end, y_end) = (at_least(x_max, 1.0), at_least(y_max * 1.06, 1.0));
        let mut chart = ChartBuilder::on(area)
            .set_label_area_size(plotters::chart::LabelAreaPosition::Left, left)
            .set_label_area_size(plotters::chart::LabelAreaPosition::Bottom, 44)
            .margin_right(RIGHT_PX)
            .margin_top(6)
            .build_cartesian_2d(0.0..x_end, 0.0..y_end)?;
        chart
            .configure_mesh()
            .axis_style(INK)
            .bold_line_style(GRID)
            .light_line_style(GRID.mix(0.0))
            .label_style(text(13))
            .axis_desc_style(text(13))
            .x_desc(&self.x_label)
            .x_label_formatter(&|x| number(*x))
            .y_label_formatter(&|y| number(*y))
            .y_labels(6)
            .draw()?;
        for line in &self.lines {
            let style = line.color.stroke_width(2);
            chart.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
        }
        Ok(())
    }
}

/// An axis that ends where it begins can't be drawn.
fn at_least(value: f64, least: f64) -> f64 {
    if value > 0.0 { value } else { least }
}
