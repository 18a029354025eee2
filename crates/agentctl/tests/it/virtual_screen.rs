//! A small terminal emulator: it shows what a person sees after the escape sequences of the program.

/// The two screens of a terminal.
#[derive(Clone, Debug)]
pub(crate) struct VirtualScreen {
    width: usize,
    height: usize,
    primary: Vec<Vec<char>>,
    alternate: Vec<Vec<char>>,
    is_alternate: bool,
    pub(crate) is_cursor_hidden: bool,
    at: (usize, usize),
    /// Lines that left the screen at the top.
    pub(crate) scrolled: usize,
    /// How often the alternate screen was entered.
    pub(crate) entered: usize,
}

impl VirtualScreen {
    /// Shows the output of a program on a terminal of this size.
    pub(crate) fn of(output: &str, width: usize, height: usize) -> Self {
        let blank = vec![Vec::new(); height];
        let mut screen = Self {
            width,
            height,
            primary: blank.clone(),
            alternate: blank,
            is_alternate: false,
            is_cursor_hidden: false,
            at: (0, 0),
            scrolled: 0,
            entered: 0,
        };
        let mut rest = output;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            if c != '\u{1b}' {
                screen.put(c);
                continue;
            }
            // A notification (OSC 9 or 777) changes nothing on the screen.
            if rest.starts_with(']') {
                rest = rest.split_once("\u{1b}\\").map_or("", |(_, after)| after);
                continue;
            }
            let end = rest.find(|c: char| c.is_ascii_alphabetic()).map_or(rest.len(), |at| at + 1);
            screen.obey(&rest[..end]);
            rest = &rest[end..];
        }
        screen
    }

    fn lines_mut(&mut self) -> &mut Vec<Vec<char>> {
        if self.is_alternate { &mut self.alternate } else { &mut self.primary }
    }

    fn put(&mut self, c: char) {
        match c {
            '\r' => self.at.1 = 0,
            '\u{7}' => {}
            '\n' if self.at.0 + 1 == self.height => {
                self.scrolled += 1;
                let lines = self.lines_mut();
                lines.remove(0);
                lines.push(Vec::new());
            }
            '\n' => self.at.0 += 1,
            c => {
                if self.at.1 >= self.width {
                    self.at.1 = 0;
                    self.put('\n');
                }
                let (row, column) = self.at;
                let line = &mut self.lines_mut()[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = c;
                self.at.1 += 1;
            }
        }
    }

    fn obey(&mut self, sequence: &str) {
        let (row, column) = self.at;
        match sequence {
            "[H" => self.at = (0, 0),
            "[2J" => self.lines_mut().iter_mut().for_each(Vec::clear),
            "[K" => self.lines_mut()[row].truncate(column),
            "[J" => {
                self.lines_mut()[row].truncate(column);
                self.lines_mut().iter_mut().skip(row + 1).for_each(Vec::clear);
            }
            "[?1049h" => (self.is_alternate, self.entered) = (true, self.entered + 1),
            "[?1049l" => self.is_alternate = false,
            "[?25l" => self.is_cursor_hidden = true,
            "[?25h" => self.is_cursor_hidden = false,
            colour if colour.ends_with('m') => {}
            other => panic!("an unknown sequence: ESC{other}"),
        }
    }

    /// Returns the lines that are seen, without the empty ones at the end.
    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = if self.is_alternate { &self.alternate } else { &self.primary };
        let text = |line: &Vec<char>| line.iter().collect::<String>().trim_end().to_owned();
        let mut lines: Vec<String> = lines.iter().map(text).collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }

    /// Says whether the alternate screen is seen.
    pub(crate) fn is_alternate(&self) -> bool {
        self.is_alternate
    }
}
