//! Values of things that have names, in groups, with their spread.

use plotters::chart::{ChartBuilder, LabelAreaPosition};
use plotters::element::{EmptyElement, PathElement, Rectangle, Text};
use plotters::prelude::DrawingBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor};

use super::COLORS;
use super::page::{Area, Drawn, GRID, INK, RIGHT_PX, number, text};

/// The part of a group's width that its bars fill.
const FILLED: f64 = 0.86;

/// Bars in groups: each group has at most one bar of each series.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// What the vertical axis counts; it stands beside the panel's title.
    pub y_label: String,
    /// The names of the series, as the legend shows them.
    pub series: Vec<String>,
    /// From left to right.
    pub groups: Vec<BarGroup>,
    /// Whether every step of the axis is ten times the one before. Values must then be above 0.
    pub logarithmic: bool,
}

/// Bars that stand together.
#[derive(Clone, Debug)]
pub struct BarGroup {
    /// What stands below them.
    pub name: String,
    /// One for each series, in their order; `None` leaves the place empty.
    pub bars: Vec<Option<Bar>>,
}

/// One bar.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    /// Its height.
    pub value: f64,
    /// The lowest value that was seen.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

impl Bar {
    /// A bar without spread.
    #[must_use]
    pub fn exactly(value: f64) -> Bar {
        Bar { value, low: value, high: value }
    }
}

impl Bars {
    pub(super) fn names(&self) -> Vec<(&str, RGBColor)> {
        let colors = COLORS.iter().copied().cycle();
        self.series.iter().map(String::as_str).zip(colors).collect()
    }

    fn scaled(&self, value: f64) -> f64 {
        if self.logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { value }
    }

    fn shown(&self, scaled: f64) -> String {
        number(if self.logarithmic { 10_f64.powf(scaled) } else { scaled })
    }

    /// Where the vertical axis begins and ends.
    fn range(&self) -> (f64, f64) {
        let bars = || self.groups.iter().flat_map(|group| group.bars.iter().flatten());
        let high = bars().map(|bar| self.scaled(bar.high)).fold(f64::NEG_INFINITY, f64::max);
        let low = bars().map(|bar| self.scaled(bar.low)).fold(f64::INFINITY, f64::min);
        match (high.is_finite(), self.logarithmic) {
            (false, _) => (0.0, 1.0),
            (true, false) => (0.0, high.max(f64::MIN_POSITIVE) * 1.12),
            (true, true) => ((low - 0.3).floor(), high + 0.3),
        }
    }

    pub(super) fn draw<B: DrawingBackend>(&self, area: &Area<B>, left: u32) -> Drawn<B> {
        let (bottom, top) = self.range();
        let decades = (top - bottom).ceil() as usize;
        let groups = self.groups.len().max(1) as f64;
        let mut chart = ChartBuilder::on(area)
            .set_label_area_size(LabelAreaPosition::Left, left)
            .margin_bottom(34)
            .margin_right(RIGHT_PX)
            .margin_top(6)
            .build_cartesian_2d(0.0..groups, bottom..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .axis_style(INK)
            .bold_line_style(GRID)
            .light_line_style(GRID.mix(0.0))
            .label_style(text(13))
            .axis_desc_style(text(13))
            .y_label_formatter(&|y| self.shown(*y))
            .y_labels(if self.logarithmic { decades + 1 } else { 6 })
            .draw()?;
        let below = text(13).pos(Pos::new(HPos::Center, VPos::Top));
        let above = text(11).pos(Pos::new(HPos::Center, VPos::Bottom));
        for (at, group) in self.groups.iter().enumerate() {
            let name = EmptyElement::at((at as f64 + 0.5, bottom))
                + Text::new(group.name.clone(), (0, 8), below.clone());
            chart.draw_series([name])?;
            let width = FILLED / self.series.len().max(1) as f64;
            for (index, (bar, color)) in group.bars.iter().zip(COLORS.iter().cycle()).enumerate() {
                let Some(bar) = bar else { continue };
                let from = at as f64 + (1.0 - FILLED) / 2.0 + index as f64 * width;
                let (value, middle) = (self.scaled(bar.value), from + width / 2.0);
                let corners = [(from + width * 0.06, bottom), (from + width * 0.94, value)];
                chart.draw_series([Rectangle::new(corners, color.filled())])?;
                let (low, high) = (self.scaled(bar.low), self.scaled(bar.high));
                let spread = PathElement::new(vec![(middle, low), (middle, high)], INK);
                chart.draw_series([spread])?;
                let text = Text::new(number(bar.value), (0, -4), above.clone());
                chart.draw_series([EmptyElement::at((middle, high.max(value))) + text])?;
            }
        }
        Ok(())
    }
}
