//! Figures for reports: panels of lines, bars or lanes under one another, written as SVG and PNG.
//!
//! Owns the look of the figures; the caller gives the data. The font is part of the program, so a
//! figure looks the same on a machine without fonts. Fails only if a file can't be written; a panel
//! without data is drawn empty.

mod bars;
mod lanes;
mod lines;
mod page;

use std::io;
use std::path::Path;

use plotters::style::RGBColor;

pub use bars::{Bar, BarGroup, Bars};
pub use lanes::{Lane, Lanes};
pub use lines::{Line, Lines};

/// Colours that people with any colour vision can tell apart (Okabe and Ito's).
pub const COLORS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(110, 110, 110),
    RGBColor(170, 150, 0),
];

/// A picture.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What stands above everything.
    pub title: String,
    /// Its width in pixels.
    pub width: u32,
    /// From top to bottom.
    pub panels: Vec<Panel>,
}

/// One part of a picture.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What stands above it.
    pub title: String,
    /// Its height in pixels, title included.
    pub height: u32,
    /// What it shows.
    pub chart: Chart,
}

/// What a panel shows.
#[derive(Clone, Debug)]
pub enum Chart {
    /// Values over time, or over anything that is a number.
    Lines(Lines),
    /// Values of things that have names, in groups.
    Bars(Bars),
    /// When something was the case, one row for each thing.
    Lanes(Lanes),
}

impl Figure {
    /// Writes it twice: to `path` with the ending `svg`, and with the ending `png`.
    ///
    /// # Errors
    /// When a file can't be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path.with_extension("svg"), self.svg())?;
        std::fs::write(path.with_extension("png"), self.png()?)
    }

    /// It as SVG text.
    #[must_use]
    pub fn svg(&self) -> String {
        page::svg(self)
    }

    /// It as the bytes of a PNG file.
    ///
    /// # Errors
    /// When it is too large to be encoded.
    pub fn png(&self) -> io::Result<Vec<u8>> {
        page::png(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let line =
            Line { name: "done".into(), color: COLORS[0], points: vec![(0.0, 1.0), (9.0, 400.0)] };
        let lines = Lines {
            x_label: "seconds".into(),
            y_label: "a second".into(),
            lines: vec![line],
            ..Lines::default()
        };
        let steep =
            Line { name: "p99".into(), color: COLORS[1], points: vec![(1.0, 4.0), (5.0, 700.0)] };
        let curve =
            Lines { logarithmic: true, dotted: true, lines: vec![steep], ..Lines::default() };
        let lanes = Lanes {
            x_max: 9.0,
            lanes: vec![Lane {
                name: "worker killed".into(),
                color: COLORS[5],
                spans: vec![(1.0, 1.0), (3.0, 6.0)],
            }],
        };
        let bar = |value: f64| Bar { value, low: value * 0.9, high: value * 1.1 };
        let group = |name: &str| BarGroup {
            name: name.into(),
            bars: vec![Some(bar(900.0)), None, Some(bar(12_000.0))],
        };
        let bars = Bars {
            y_label: "transfers a second".into(),
            series: ["articles", "native", "tandem"].map(str::to_owned).to_vec(),
            groups: vec![group("uniform"), group("half-hot")],
            logarithmic: true,
        };
        let panel = |title: &str, chart| Panel { title: title.into(), height: 240, chart };
        Figure {
            title: "A figure".into(),
            width: 1_000,
            panels: vec![
                panel("Throughput", Chart::Lines(lines)),
                panel("Latency", Chart::Lines(curve)),
                panel("Faults", Chart::Lanes(lanes)),
                panel("Contenders", Chart::Bars(bars)),
                panel("Nothing yet", Chart::Lines(Lines::default())),
            ],
        }
    }

    #[test]
    fn the_svg_names_everything_it_shows() {
        let svg = figure().svg();
        for text in
            ["A figure", "Throughput", "worker killed", "half-hot", "tandem", "12,000", "p99"]
        {
            assert!(svg.contains(text), "{text} is not in the SVG");
        }
        assert!(svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn the_png_has_ink_where_the_title_stands() {
        let bytes = figure().png().expect("it can be encoded");
        let mut reader = png::Decoder::new(io::Cursor::new(bytes)).read_info().expect("a PNG");
        let mut pixels = vec![0; reader.output_buffer_size().expect("a small picture")];
        let info = reader.next_frame(&mut pixels).expect("a whole PNG");
        assert_eq!((info.width, info.height), (1_000, 5 * 240 + page::TITLE_PX));
        let title_rows = info.width as usize * 3 * page::TITLE_PX as usize;
        let dark = pixels[..title_rows].iter().filter(|value| **value < 100).count();
        assert!(dark > 100, "{dark} dark values where the title should stand");
    }
}
