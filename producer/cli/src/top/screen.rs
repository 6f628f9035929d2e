//! A frame of the screen: what stands where, at any size. Pure: it draws into a buffer.

use overview::types::{Activity, Overview, Point, Severity};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph, Row, Sparkline, Table, Wrap};

use super::words::{self, HEADINGS};

/// Below this the charts and the table are left out.
const SMALL: (u16, u16) = (60, 16);

/// The most lines of problems.
const PROBLEM_LINES_MAX: u16 = 8;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, overview: &Overview, name: &str) {
    let area = frame.area();
    if area.width < SMALL.0 || area.height < SMALL.1 {
        return draw_small(frame, overview, name);
    }
    let troubles = problems(overview);
    let lines = troubles.iter().map(|line| line.width() as u16 / area.width + 1);
    let most = PROBLEM_LINES_MAX.min(area.height / 3);
    let [title, wrong, figures, charts, workers, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(lines.sum::<u16>().min(most)),
        Constraint::Length(8),
        Constraint::Length(if area.height < 27 { 0 } else { 6 }),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .areas(area);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Line::styled(words::title(overview, name), bold), title);
    frame.render_widget(Paragraph::new(troubles).wrap(Wrap { trim: false }), wrong);
    draw_figures(frame, overview, figures);
    draw_charts(frame, overview, charts);
    draw_workers(frame, overview, workers);
    let faint = Style::new().add_modifier(Modifier::DIM);
    frame.render_widget(Line::styled("q ends", faint), keys);
}

/// The most important, from above: a small terminal cuts the rest.
fn draw_small(frame: &mut Frame<'_>, overview: &Overview, name: &str) {
    let mut lines = vec![Line::from(words::title(overview, name))];
    lines.extend(problems(overview));
    lines.extend(words::figures(overview).map(Line::from));
    lines.push(Line::from(words::queues(overview)));
    lines.push(Line::from(format!("workers    {}", overview.workers.len())));
    frame.render_widget(Paragraph::new(lines), frame.area());
}

/// A style by severity: bold and a mark in the text, so that nothing rests on color alone.
fn problems(overview: &Overview) -> Vec<Line<'static>> {
    let style = |severity| match severity {
        Some(Severity::Critical) => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        Some(Severity::Warning) => Style::new().fg(Color::Yellow),
        Some(Severity::Info) => Style::new(),
        None => Style::new().fg(Color::Green),
    };
    let problems = words::problems(overview, str::to_owned).into_iter();
    problems.map(|(severity, words)| Line::styled(words, style(severity))).collect()
}

fn draw_figures(frame: &mut Frame<'_>, overview: &Overview, area: Rect) {
    let mut lines: Vec<Line<'_>> = words::figures(overview).map(Line::from).into();
    lines.extend([Line::from(words::queues(overview)), Line::from(words::refusals(overview))]);
    frame.render_widget(Paragraph::new(lines).block(Block::new().borders(Borders::TOP)), area);
}

/// What a chart shows of each point.
struct Chart {
    what: &'static str,
    value: fn(&Point) -> Option<f64>,
}

fn draw_charts(frame: &mut Frame<'_>, overview: &Overview, area: Rect) {
    let halves: [Rect; 2] = Layout::horizontal([Constraint::Fill(1); 2]).areas(area);
    let settled = Chart { what: "settled a second", value: |point| point.settled };
    let latency = Chart { what: "submission to final, p99 in ms", value: |point| point.p99 };
    for (Chart { what, value }, area) in [settled, latency].into_iter().zip(halves) {
        let room = usize::from(area.width.saturating_sub(2));
        let skipped = overview.points.len().saturating_sub(room);
        let points = &overview.points[skipped..];
        let most = points.iter().filter_map(value).fold(0.0, f64::max);
        let title = format!("{what}, at most {most:.0}");
        let bars = points.iter().map(|point| value(point).map(|value| value.round() as u64));
        let chart = Sparkline::default().block(Block::bordered().title(title)).data(bars);
        frame.render_widget(chart.absent_value_symbol("·"), area);
    }
}

fn draw_workers(frame: &mut Frame<'_>, overview: &Overview, area: Rect) {
    let rows = overview.workers.iter().map(|worker| {
        let style = match worker.activity {
            Activity::Silent => Style::new().fg(Color::Red),
            Activity::Working | Activity::Standby if !worker.broker => {
                Style::new().fg(Color::Yellow)
            }
            Activity::Paused | Activity::Drained => Style::new().fg(Color::Yellow),
            Activity::Working | Activity::Standby | Activity::Draining => Style::new(),
            Activity::Stopped => Style::new().add_modifier(Modifier::DIM),
        };
        Row::new(words::cells(worker)).style(style)
    });
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(9),
        Constraint::Fill(1),
        Constraint::Length(7),
        Constraint::Length(9),
        Constraint::Length(10),
        Constraint::Length(9),
    ];
    let header = Row::new(HEADINGS).style(Style::new().add_modifier(Modifier::BOLD));
    frame.render_widget(Table::new(rows, widths).header(header), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use overview::example;

    fn drawn(width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a buffer");
        terminal.draw(|frame| draw(frame, &example(), "bank")).expect("a buffer");
        terminal.backend().to_string()
    }

    #[test]
    fn what_is_wrong_stands_above_the_numbers_and_the_numbers_above_the_workers() {
        let screen = drawn(140, 40);
        let at = |words: &str| screen.find(words).unwrap_or_else(|| panic!("{words}:\n{screen}"));
        assert!(at("has fallen silent") < at("settled    4120.5/s"));
        assert!(at("settled    4120.5/s") < at("SETTLES/S"));
        assert!(at("SETTLES/S") < at("SILENT"));
        assert!(
            screen.contains("scheduled 320   held 1,204   due 12, the first for 1 s"),
            "{screen}"
        );
        assert!(screen.contains("100,000+") && screen.contains("AWAY, data 31 s old"), "{screen}");
    }

    #[test]
    fn every_size_of_a_terminal_is_drawn_without_a_panic_and_the_first_line_is_there() {
        for width in [1, 2, 5, 20, 59, 60, 61, 80, 300] {
            for height in [1, 2, 5, 15, 16, 17, 25, 26, 100] {
                let screen = drawn(width, height);
                let first: String = "Tandem".chars().take(width.into()).collect();
                assert!(screen.contains(&first), "{width} × {height}:\n{screen}");
            }
        }
    }
}
