//! What the broker tells on stderr: of each matter and client one line in ten seconds, and how many more there were.

use std::collections::HashMap;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// For how long further lines of the same matter and client are only counted.
pub const INTERVAL: Duration = Duration::from_secs(10);

/// How many clients are told apart; the rest share what they have.
const MAX_SUBJECTS: usize = 256;

/// Lines that wait to be written; there is no telling more to who does not read.
const MAX_WAITING: usize = 100;

/// How much of a line is written [characters].
const MAX_LINE: usize = 500;

/// Writes a line to stderr, from a thread of its own: nobody waits for who reads it.
pub fn say(line: &str) {
    static LINES: OnceLock<SyncSender<String>> = OnceLock::new();
    let lines = LINES.get_or_init(|| {
        let (sender, lines) = sync_channel::<String>(MAX_WAITING);
        std::thread::spawn(move || {
            for line in lines {
                let _ = writeln!(std::io::stderr(), "{line}");
            }
        });
        sender
    });
    let _ = lines.try_send(printable(line));
}

/// One line of bounded length, whatever clients put into it.
fn printable(line: &str) -> String {
    let mut shown = String::new();
    for character in line.chars().take(MAX_LINE) {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[derive(Debug)]
struct Told {
    at: Instant,
    more: u64,
}

/// What was told of late.
#[derive(Debug, Default)]
pub struct Notices(HashMap<(&'static str, String), Told>);

impl Notices {
    /// Tells, unless it told the same of late.
    pub fn tell(&mut self, matter: &'static str, subject: &str, text: impl FnOnce() -> String) {
        if let Some(line) = self.line(matter, subject, Instant::now(), text) {
            say(&line);
        }
    }

    /// Tells what was only counted, once its interval is over.
    pub fn tick(&mut self) {
        for line in self.overdue(Instant::now()) {
            say(&line);
        }
    }

    fn line(
        &mut self,
        matter: &'static str,
        subject: &str,
        now: Instant,
        text: impl FnOnce() -> String,
    ) -> Option<String> {
        let mut key = (matter, subject.to_owned());
        if self.0.len() >= MAX_SUBJECTS && !self.0.contains_key(&key) {
            key.1 = String::new();
        }
        if let Some(told) = self.0.get_mut(&key) {
            told.more += 1;
            return None;
        }
        self.0.insert(key, Told { at: now, more: 0 });
        Some(format!("{matter}: {}", text()))
    }

    fn overdue(&mut self, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        self.0.retain(|(matter, subject), told| {
            if now.duration_since(told.at) < INTERVAL {
                return true;
            }
            if told.more > 0 {
                let who = if subject.is_empty() { "others" } else { subject };
                lines.push(format!("{matter}: {} more of {who}", told.more));
            }
            let again = told.more > 0;
            (told.at, told.more) = (now, 0);
            again
        });
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_itself_is_counted() {
        let (mut notices, start) = (Notices::default(), Instant::now());
        let mut tell =
            |subject: &str, now| notices.line("refused", subject, now, || format!("{subject} was"));
        assert_eq!(tell("anna", start).unwrap(), "refused: anna was");
        assert_eq!(tell("ben", start).unwrap(), "refused: ben was");
        assert_eq!(tell("anna", start), None);
        assert_eq!(tell("anna", start), None);
        assert!(notices.overdue(start).is_empty());
        assert_eq!(notices.overdue(start + INTERVAL), ["refused: 2 more of anna"]);
        assert!(notices.line("refused", "anna", start + INTERVAL, String::new).is_none());
        assert!(notices.line("refused", "ben", start + INTERVAL, String::new).is_some());
        assert_eq!(notices.overdue(start + 2 * INTERVAL), ["refused: 1 more of anna"]);
        assert!(notices.overdue(start + 3 * INTERVAL).is_empty());
        assert!(notices.0.is_empty());
    }

    #[test]
    fn clients_write_no_lines_of_their_own() {
        assert_eq!(printable("a\nrefused: b\u{1b}[0m ä"), "a\\nrefused: b\\u{1b}[0m ä");
        assert_eq!(printable(&"x".repeat(10_000)).len(), MAX_LINE);
    }

    #[test]
    fn many_clients_share_one_line() {
        let (mut notices, now) = (Notices::default(), Instant::now());
        let told = (0..10_000).filter_map(|n| notices.line("refused", &n.to_string(), now, String::new));
        assert_eq!(told.count(), MAX_SUBJECTS + 1);
        assert_eq!(notices.0.len(), MAX_SUBJECTS + 1);
        assert_eq!(
            notices.overdue(now + INTERVAL),
            [format!("refused: {} more of others", 9999 - MAX_SUBJECTS)]
        );
    }
}
