//! When something was the case: one row for each thing, a mark for each time.

use plotters::chart::{ChartBuilder, LabelAreaPosition};
use plotters::element::{EmptyElement, Rectangle, Text};
use plotters::prelude::{DrawingBackend, PathElement};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor};

use super::page::{Area, Drawn, GRID, RIGHT_PX, text};

/// Rows over one horizontal axis, whose numbers stand below another panel.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    /// Where the axis ends.
    pub x_max: f64,
    /// From top to bottom.
    pub lanes: Vec<Lane>,
}

/// One row.
#[derive(Clone, Debug)]
pub struct Lane {
    /// What stands before it.
    pub name: String,
    /// Its colour.
    pub color: RGBColor,
    /// From when to when; a moment has both alike and is drawn all the same.
    pub spans: Vec<(f64, f64)>,
}

impl Lanes {
    pub(super) fn draw<B: DrawingBackend>(&self, area: &Area<B>, left: u32) -> Drawn<B> {
        let x_end = if self.x_max > 0.0 { self.x_max } else { 1.0 };
        let rows = self.lanes.len().max(1) as f64;
        let mut chart = ChartBuilder::on(area)
            .set_label_area_size(LabelAreaPosition::Left, left)
            .margin_right(RIGHT_PX)
            .margin_top(4)
            .margin_bottom(4)
            .build_cartesian_2d(0.0..x_end, 0.0..rows)?;
        let before = text(12).pos(Pos::new(HPos::Right, VPos::Center));
        for (index, lane) in self.lanes.iter().enumerate() {
            let middle = rows - index as f64 - 0.5;
            let rule = PathElement::new(vec![(0.0, middle), (x_end, middle)], GRID);
            chart.draw_series([rule])?;
            let name = EmptyElement::at((0.0, middle))
                + Text::new(lane.name.clone(), (-10, 0), before.clone());
            chart.draw_series([name])?;
            let marks = lane.spans.iter().map(|(from, to)| {
                let corners = [(*from, middle + 0.32), (*to, middle - 0.32)];
                Rectangle::new(corners, lane.color.mix(0.55).filled())
            });
            chart.draw_series(marks)?;
            let begins = lane.spans.iter().map(|(from, _)| {
                let ends = vec![(*from, middle + 0.38), (*from, middle - 0.38)];
                PathElement::new(ends, lane.color.stroke_width(2))
            });
            chart.draw_series(begins)?;
        }
        Ok(())
    }
}
