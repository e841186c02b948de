//! Parses text to nested lists with places. Comments extend from `#` to the end of the line.

use crate::error::{Pos, Problem};

/// Maximum nesting of parentheses. The parser recurses once per level.
const MAX_DEPTH: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Atom(String, Pos),
    List(Vec<Form>, Pos),
}

impl Form {
    pub fn at(&self) -> Pos {
        match self {
            Form::Atom(_, at) | Form::List(_, at) => *at,
        }
    }

    pub fn atom(&self) -> Option<&str> {
        match self {
            Form::Atom(text, _) => Some(text),
            Form::List(..) => None,
        }
    }
}

/// FNV-1a of no bytes.
pub(crate) const FNV: u32 = 0x811c_9dc5;

/// Continues FNV-1a over `octets`.
pub(crate) fn fnv(hash: u32, raw: impl IntoIterator<Item = u8>) -> u32 {
    raw.into_iter().fold(hash, |h, byte| (h ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Returns a hash (FNV-1a) of a text without comments and layout; never 0.
pub(crate) fn hash(forms: &[Form]) -> u32 {
    fn add(hash: u32, word: &str) -> u32 {
        fnv(hash, word.bytes().chain([b' ']))
    }
    fn add_all(hash: u32, forms: &[Form]) -> u32 {
        forms.iter().fold(hash, |h, form| match form {
            Form::Atom(text, _) => add(h, text),
            Form::List(items, _) => add(add_all(add(h, "("), items), ")"),
        })
    }
    add_all(FNV, forms).max(1)
}

pub(crate) fn read(text: &str) -> Result<Vec<Form>, Problem> {
    // The open lists, outermost first; the program itself is the outermost.
    let mut open: Vec<(Vec<Form>, Pos)> = vec![(Vec::new(), Pos { line: 1, column: 1 })];
    for token in Tokens::new(text) {
        let (token, at) = token?;
        match token {
            "(" if open.len() > MAX_DEPTH => {
                return Err(Problem::new(
                    "lang.limit",
                    at,
                    format!("parentheses nest deeper than {MAX_DEPTH}"),
                    "the depth is limited by the compiler's stack",
                    "bind a part of the expression to a register of its own",
                ));
            }
            "(" => open.push((Vec::new(), at)),
            ")" => {
                let (items, start) = open.pop().expect("the outermost list is never closed");
                let Some((outer, _)) = open.last_mut() else {
                    return Err(Problem::new(
                        "lang.syntax",
                        at,
                        "`)` without `(`",
                        "every list before it is already closed",
                        "remove it, or look for a superfluous `)` further up",
                    ));
                };
                outer.push(Form::List(items, start));
            }
            text => open.last_mut().expect("never empty").0.push(Form::Atom(text.to_string(), at)),
        }
    }
    let (forms, start) = open.pop().expect("never empty");
    if open.is_empty() {
        return Ok(forms);
    }
    Err(Problem::new(
        "lang.syntax",
        start,
        "`(` is never closed",
        "the program ends inside this list",
        "add the missing `)`",
    ))
}

struct Tokens<'a> {
    rest: &'a str,
    at: Pos,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Self {
        Tokens { rest: text, at: Pos { line: 1, column: 1 } }
    }

    fn take(&mut self, n: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(n);
        self.rest = rest;
        for c in taken.chars() {
            if c == '\n' {
                self.at = Pos { line: self.at.line + 1, column: 1 };
            } else {
                self.at.column += 1;
            }
        }
        taken
    }

    fn skip_blanks(&mut self) {
        while let Some(c) = self.rest.chars().next() {
            match c {
                ' ' | '\t' | '\r' | '\n' => self.take(1),
                '#' => self.take(self.rest.find('\n').unwrap_or(self.rest.len())),
                _ => break,
            };
        }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Result<(&'a str, Pos), Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        self.skip_blanks();
        let at = self.at;
        let first = self.rest.chars().next()?;
        if first == '(' || first == ')' {
            return Some(Ok((self.take(1), at)));
        }
        let ends = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n' | '#' | '(' | ')');
        let token = self.take(self.rest.find(ends).unwrap_or(self.rest.len()));
        Some(match token.char_indices().find(|(_, c)| !c.is_ascii_graphic()) {
            None => Ok((token, at)),
            Some((i, c)) => Err(Problem::new(
                "lang.syntax",
                Pos { column: at.column + token[..i].chars().count() as u32, ..at },
                format!("the character {c:?} is not allowed here"),
                "programs are ASCII, except for comments",
                "remove it; it may come from copy and paste",
            )),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_from_one_and_comments_skipped() {
        let forms = read("(a # no ( here é\n  (b))\n").unwrap();
        let Form::List(items, at) = &forms[0] else { panic!("a list") };
        assert_eq!((at.line, at.column), (1, 1));
        assert_eq!(items[0], Form::Atom("a".into(), Pos { line: 1, column: 2 }));
        assert_eq!(items[1].at(), Pos { line: 2, column: 3 });
    }

    #[test]
    fn a_comment_may_end_the_text() {
        assert_eq!(read("# nothing else").unwrap(), vec![]);
    }

    #[test]
    fn columns_count_characters() {
        let problem = read("(ab\u{e9})").unwrap_err();
        assert_eq!((problem.at.line, problem.at.column), (1, 4));
    }
}
