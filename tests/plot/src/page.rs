//! The page: title, panels, legends, and the two file formats.

use std::io;
use std::sync::Once;

use harness::figures::thousands;
use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::{
    BitMapBackend, DrawingArea, DrawingBackend, IntoDrawingArea, Rectangle, SVGBackend, Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, IntoFont, RGBColor, TextStyle, WHITE, register_font};

use super::{Chart, Figure, Panel};

pub(super) type Area<B> = DrawingArea<B, Shift>;
pub(super) type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// The height of the figure's own title.
pub(super) const TITLE_PX: u32 = 44;
/// The height of a panel's title and legend.
const HEAD_PX: u32 = 30;
/// Where axes begin, for panels under one another to have them in one line.
pub(super) const LEFT_PX: u32 = 90;
const LEFT_WITH_LANES_PX: u32 = 190;
pub(super) const RIGHT_PX: i32 = 24;

const FONT: &str = "sans-serif";
pub(super) const INK: RGBColor = RGBColor(40, 40, 40);
pub(super) const GRID: RGBColor = RGBColor(225, 225, 225);

pub(super) fn svg(figure: &Figure) -> String {
    load_font();
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size(figure)).into_drawing_area();
        // Only I/O can fail, and there is none.
        page(&root, figure).and_then(|()| root.present()).expect("a string can be drawn to");
    }
    text
}

pub(super) fn png(figure: &Figure) -> io::Result<Vec<u8>> {
    load_font();
    let (width, height) = size(figure);
    let mut pixels = vec![0; width as usize * height as usize * 3];
    {
        let root = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        page(&root, figure).and_then(|()| root.present()).map_err(io::Error::other)?;
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(bytes)
}

fn size(figure: &Figure) -> (u32, u32) {
    (figure.width, TITLE_PX + figure.panels.iter().map(|panel| panel.height).sum::<u32>())
}

/// Makes the font that the program carries known under the name that browsers know as well.
fn load_font() {
    static LOADED: Once = Once::new();
    LOADED.call_once(|| {
        for (style, bytes) in
            [(FontStyle::Normal, dejavu::sans::regular()), (FontStyle::Bold, dejavu::sans::bold())]
        {
            assert!(register_font(FONT, style, bytes).is_ok(), "the font is whole");
        }
    });
}

/// Text of a size in pixels.
pub(super) fn text(size: u32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

fn page<B: DrawingBackend>(root: &Area<B>, figure: &Figure) -> Drawn<B> {
    root.fill(&WHITE)?;
    let (head, mut rest) = root.split_vertically(TITLE_PX);
    let bold: TextStyle = (FONT, 20, FontStyle::Bold).into_font().color(&INK);
    head.draw(&Text::new(figure.title.clone(), (16, 14), bold))?;
    let lanes = figure.panels.iter().any(|panel| matches!(panel.chart, Chart::Lanes(_)));
    let left = if lanes { LEFT_WITH_LANES_PX } else { LEFT_PX };
    for one in &figure.panels {
        let (area, below) = rest.split_vertically(one.height);
        panel(&area, one, left)?;
        rest = below;
    }
    Ok(())
}

fn panel<B: DrawingBackend>(area: &Area<B>, panel: &Panel, left: u32) -> Drawn<B> {
    let (head, body) = area.split_vertically(HEAD_PX);
    let bold: TextStyle = (FONT, 15, FontStyle::Bold).into_font().color(&INK);
    head.draw(&Text::new(panel.title.clone(), (16, 8), bold.clone()))?;
    let (title, _) = head.estimate_text_size(&panel.title, &bold)?;
    let after = 16 + i32::try_from(title).unwrap_or(0) + 14;
    let unit = |label: &str| head.draw(&Text::new(label.to_owned(), (after, 9), text(13)));
    match &panel.chart {
        Chart::Lines(lines) => {
            unit(&lines.y_label)?;
            legend(&head, &lines.names())?;
            lines.draw(&body, left)
        }
        Chart::Bars(bars) => {
            unit(&bars.y_label)?;
            legend(&head, &bars.names())?;
            bars.draw(&body, left)
        }
        Chart::Lanes(lanes) => lanes.draw(&body, left),
    }
}

/// Names beside their colours, from the right edge to the left.
fn legend<B: DrawingBackend>(head: &Area<B>, names: &[(&str, RGBColor)]) -> Drawn<B> {
    const SQUARE_PX: i32 = 11;
    const GAP_PX: i32 = 18;
    let style = text(13).pos(Pos::new(HPos::Left, VPos::Center));
    let (width, _) = head.dim_in_pixel();
    let mut right = i32::try_from(width).unwrap_or(i32::MAX) - RIGHT_PX;
    let middle = 16;
    for (name, color) in names.iter().rev() {
        let (length, _) = head.estimate_text_size(name, &style)?;
        right -= i32::try_from(length).unwrap_or(0);
        head.draw(&Text::new((*name).to_owned(), (right, middle), style.clone()))?;
        right -= SQUARE_PX + 5;
        let top = middle - SQUARE_PX / 2;
        let square = [(right, top), (right + SQUARE_PX, top + SQUARE_PX)];
        head.draw(&Rectangle::new(square, color.filled()))?;
        right -= GAP_PX;
    }
    Ok(())
}

/// A number as people read it: `12,000`, `3.5`, `0.04`.
pub(super) fn number(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 100.0 || value.fract() == 0.0 {
        return thousands(value.round());
    }
    let text = if magnitude >= 1.0 { format!("{value:.1}") } else { format!("{value:.3}") };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_read_them() {
        for (value, text) in [
            (0.0, "0"),
            (1_234_567.0, "1,234,567"),
            (-1_500.4, "-1,500"),
            (999.0, "999"),
            (3.46, "3.5"),
            (20.0, "20"),
            (0.04, "0.04"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
