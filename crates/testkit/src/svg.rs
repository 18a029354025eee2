//! Pictures of terminals as SVG: dark, readable on a light and on a dark page.

use crate::styled_screen::{CellStyle, Run, StyledScreen};

const FONT_SIZE: f64 = 14.0;
/// Width of a character. Each run is stretched to it, so that columns align in every font.
const CELL: f64 = 8.4;
const LINE: f64 = 20.0;
const MARGIN: f64 = 18.0;
/// From the top of a line to the foot of its letters.
const BASELINE: f64 = 14.5;
const BACKGROUND: &str = "#0d1117";
const FOREGROUND: &str = "#d6dde6";
/// The sixteen colours of the terminal.
const COLOURS: [&str; 16] = [
    "#5d6875", "#ff7b72", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#d6dde6",
    "#8b949e", "#ffa198", "#7ee787", "#f2cc60", "#a5d6ff", "#e2c5ff", "#b3f0ff", "#ffffff",
];

/// Draws a terminal. Several screens become a moving picture that shows each for `seconds`.
#[must_use]
pub fn drawn(title: &str, columns: usize, screens: &[StyledScreen], seconds: usize) -> String {
    let rows = screens.iter().map(StyledScreen::height).max().unwrap_or_default();
    let width = times(columns, CELL) + 2.0 * MARGIN;
    let height = times(rows, LINE) + 2.0 * MARGIN;
    let title = escaped(title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{title}\">\n\
         <title>{title}</title>\n<style>\n\
         text {{ font: {FONT_SIZE}px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', \
         'Liberation Mono', monospace; white-space: pre; fill: {FOREGROUND} }}\n"
    );
    let count = screens.len();
    if count > 1 {
        svg.push_str(&animation(count, seconds));
    }
    svg.push_str(&format!(
        "</style>\n<rect x=\"0.5\" y=\"0.5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"8\" fill=\"{BACKGROUND}\" \
         stroke=\"#3d444d\"/>\n",
        width - 1.0,
        height - 1.0
    ));
    for (number, screen) in screens.iter().enumerate() {
        let class = if count > 1 { format!(" class=\"f{number}\"") } else { String::new() };
        svg.push_str(&format!("<g{class}>\n"));
        for (row, line) in screen.runs().iter().enumerate() {
            for run in line {
                svg.push_str(&text(row, run));
            }
        }
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

/// The rules that show one screen after the other. A viewer that does not move pictures shows the last one.
fn animation(count: usize, seconds: usize) -> String {
    // The last screen stands still for a reader who does not want movement.
    let mut rules = String::new();
    let share = 100.0 / times(count, 1.0);
    for number in 0..count {
        let (from, to) = (times(number, share), times(number + 1, share));
        let rest = if number + 1 == count { "visible" } else { "hidden" };
        rules.push_str(&format!(
            ".f{number} {{ visibility: {rest}; animation: k{number} {}s step-end infinite }}\n\
             @keyframes k{number} {{ 0% {{ visibility: hidden }} {from:.2}% {{ visibility: visible }} \
             {to:.2}% {{ visibility: {rest} }} }}\n",
            seconds * count
        ));
    }
    rules
        .push_str("@media (prefers-reduced-motion: reduce) { g { animation: none !important } }\n");
    rules
}

/// Draws a run. Its words are placed one by one where two spaces divide them: not every viewer keeps spaces.
fn text(row: usize, run: &Run) -> String {
    let top = MARGIN + times(row, LINE);
    let mut drawn = String::new();
    if run.style.is_inverse {
        let (x, width) = (MARGIN + times(run.column, CELL), times(run.text.chars().count(), CELL));
        let fill = colour(run.style);
        drawn.push_str(&format!(
            "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{LINE}\" fill=\"{fill}\"/>\n"
        ));
    }
    let mut column = run.column;
    for part in run.text.split("  ") {
        let words = part.trim();
        let before = part.chars().count() - part.trim_start().chars().count();
        if !words.is_empty() {
            let x = MARGIN + times(column + before, CELL);
            let width = times(words.chars().count(), CELL);
            drawn.push_str(&format!(
                "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\"{}>{}</text>\n",
                top + BASELINE,
                attributes(run.style),
                escaped(words)
            ));
        }
        column += part.chars().count() + 2;
    }
    drawn
}

fn times(count: usize, unit: f64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or_default()) * unit
}

fn colour(style: CellStyle) -> &'static str {
    style.colour.and_then(|colour| COLOURS.get(usize::from(colour))).copied().unwrap_or(FOREGROUND)
}

/// Style attributes instead of attributes: the style sheet would win over attributes.
fn attributes(style: CellStyle) -> String {
    let mut rules = Vec::new();
    if style.is_inverse {
        rules.push(format!("fill:{BACKGROUND}"));
    } else if style.colour.is_some() {
        rules.push(format!("fill:{}", colour(style)));
    } else if style.is_dim {
        rules.push(format!("fill:{}", COLOURS[8]));
    }
    if style.is_dim && style.colour.is_some() {
        rules.push("opacity:.7".to_owned());
    }
    if style.is_bold {
        rules.push("font-weight:bold".to_owned());
    }
    if style.is_italic {
        rules.push("font-style:italic".to_owned());
    }
    if style.is_underlined {
        rules.push("text-decoration:underline".to_owned());
    }
    if rules.is_empty() { String::new() } else { format!(" style=\"{}\"", rules.join(";")) }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
