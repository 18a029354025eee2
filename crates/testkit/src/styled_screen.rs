//! A terminal screen with colours, drawn from a program's escape sequences.
//!
//! It knows the sequences that agentctl prints. An unknown one is a panic: a picture must not be wrong in
//! silence.

/// A colour and its effects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellStyle {
    /// The number of the foreground colour, 0 to 15.
    pub colour: Option<u8>,
    /// Bold.
    pub is_bold: bool,
    /// Dim.
    pub is_dim: bool,
    /// Italic.
    pub is_italic: bool,
    /// Underlined.
    pub is_underlined: bool,
    /// Foreground and background exchanged.
    pub is_inverse: bool,
}

/// Characters of one style that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The column of the first character.
    pub column: usize,
    /// The characters, each one column wide.
    pub text: String,
    /// Their style.
    pub style: CellStyle,
}

/// The screen.
#[derive(Clone, Debug, Default)]
pub struct StyledScreen {
    lines: Vec<Vec<(char, CellStyle)>>,
    row: usize,
    column: usize,
    style: CellStyle,
}

impl StyledScreen {
    /// Draws the output of a program on a screen without a lower end.
    #[must_use]
    pub fn of(output: &str) -> Self {
        let mut screen = Self::default();
        let mut rest = output;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            match c {
                '\u{1b}' if rest.starts_with('[') => {
                    let end = rest.find(|c: char| c.is_ascii_alphabetic());
                    let end = end.map_or(rest.len(), |at| at + 1);
                    screen.obey(&rest[1..end]);
                    rest = &rest[end..];
                }
                '\u{1b}' => panic!("an unknown sequence: {:?}", rest.get(..8).unwrap_or(rest)),
                '\r' => screen.column = 0,
                '\n' => (screen.row, screen.column) = (screen.row + 1, 0),
                c => screen.put(c),
            }
        }
        screen
    }

    fn put(&mut self, c: char) {
        let (row, column) = (self.row, self.column);
        self.lines.resize_with(self.lines.len().max(row + 1), Vec::new);
        let line = &mut self.lines[row];
        line.resize(line.len().max(column + 1), (' ', CellStyle::default()));
        line[column] = (c, self.style);
        self.column += 1;
    }

    fn obey(&mut self, sequence: &str) {
        let (row, column) = (self.row, self.column);
        match sequence {
            "H" => (self.row, self.column) = (0, 0),
            "2J" | "?1049h" => self.lines.clear(),
            "K" => self.lines.iter_mut().skip(row).take(1).for_each(|line| line.truncate(column)),
            "J" => {
                self.lines.truncate(row + 1);
                self.lines.iter_mut().skip(row).for_each(|line| line.truncate(column));
            }
            "?1049l" | "?25l" | "?25h" | "?2004h" | "?2004l" => {}
            place if place.ends_with('H') => {
                let (row, column) = place.trim_end_matches('H').split_once(';').expect("a place");
                let number = |text: &str| text.parse::<usize>().expect("a number").max(1) - 1;
                (self.row, self.column) = (number(row), number(column));
            }
            other => match other.strip_suffix('m') {
                Some(codes) => codes.split(';').for_each(|code| self.paint(code)),
                None => panic!("an unknown sequence: ESC[{other}"),
            },
        }
    }

    fn paint(&mut self, code: &str) {
        let style = &mut self.style;
        match code.parse().unwrap_or(0_u8) {
            0 => *style = CellStyle::default(),
            1 => style.is_bold = true,
            2 => style.is_dim = true,
            3 => style.is_italic = true,
            4 => style.is_underlined = true,
            7 => style.is_inverse = true,
            22 => (style.is_bold, style.is_dim) = (false, false),
            code @ 30..=37 => style.colour = Some(code - 30),
            code @ 90..=97 => style.colour = Some(code - 90 + 8),
            39 => style.colour = None,
            other => panic!("an unknown colour: {other}"),
        }
    }

    /// Returns the number of lines.
    #[must_use]
    pub fn height(&self) -> usize {
        self.lines.len()
    }

    /// Returns the lines, each as runs of one style. Spaces at the end are left out.
    #[must_use]
    pub fn runs(&self) -> Vec<Vec<Run>> {
        self.lines.iter().map(|line| runs_of(line)).collect()
    }

    /// Returns the lines as a program would print them one after another.
    #[must_use]
    pub fn printed(&self) -> String {
        let mut text = String::new();
        for runs in self.runs() {
            let mut at = 0;
            for run in runs {
                text.push_str(&" ".repeat(run.column - at));
                text.push_str(&format!("\u{1b}[{}m{}\u{1b}[0m", codes(run.style), run.text));
                at = run.column + run.text.chars().count();
            }
            text.push('\n');
        }
        text
    }

    /// Returns the text of the screen.
    #[must_use]
    pub fn text(&self) -> String {
        let line = |line: &Vec<(char, CellStyle)>| line.iter().map(|(c, _)| c).collect::<String>();
        self.lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Returns the codes that set a style.
fn codes(style: CellStyle) -> String {
    let effects = [
        (style.is_bold, "1"),
        (style.is_dim, "2"),
        (style.is_italic, "3"),
        (style.is_underlined, "4"),
        (style.is_inverse, "7"),
    ];
    let set = effects.iter().filter(|(is_set, _)| *is_set).map(|(_, code)| (*code).to_owned());
    let colour = style.colour.map(|colour| {
        if colour < 8 { (30 + colour).to_string() } else { (82 + colour).to_string() }
    });
    std::iter::once("0".to_owned()).chain(set).chain(colour).collect::<Vec<_>>().join(";")
}

fn runs_of(line: &[(char, CellStyle)]) -> Vec<Run> {
    let mut runs = Vec::<Run>::new();
    for (column, (c, style)) in line.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if run.style == *style => run.text.push(*c),
            _ => runs.push(Run { column, text: c.to_string(), style: *style }),
        }
    }
    for run in &mut runs {
        if !run.style.is_inverse && !run.style.is_underlined {
            run.text.truncate(run.text.trim_end().len());
        }
    }
    runs.retain(|run| !run.text.is_empty());
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_redrawing_are_understood() {
        let screen = StyledScreen::of(
            "\u{1b}[?1049h\u{1b}[Hold\u{1b}[H\u{1b}[1;33m! waiting\u{1b}[0m  x\u{1b}[K\nend\u{1b}[J",
        );
        assert_eq!(screen.text(), "! waiting  x\nend");
        let waiting = CellStyle { colour: Some(3), is_bold: true, ..CellStyle::default() };
        let line = &screen.runs()[0];
        assert_eq!(line[0], Run { column: 0, text: "! waiting".into(), style: waiting });
        assert_eq!(line[1], Run { column: 9, text: "  x".into(), style: CellStyle::default() });
    }
}
