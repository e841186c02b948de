//! Mosquitto's access lists: who may read and write which topics.
//!
//! `user NAME` begins the lines of a user, `topic [read|write|readwrite|deny] FILTER` is one of them (before any
//! `user`: of clients without a user), `pattern ...` is for everybody, with `%u` and `%c` for user and client. What
//! no line allows is forbidden. The order is Mosquitto's: the user's own lines before patterns, `deny` before the
//! rest, and the first line that fits decides.

use std::collections::HashMap;
use std::rc::Rc;

use mqtt_proto::TopicFilter;

use crate::topic;

/// A line that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct AclError {
    /// Which line, from 1.
    pub line: usize,
    /// Why not.
    pub why: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Deny,
    Read,
    Write,
    ReadWrite,
}

#[derive(Clone, Debug)]
struct Rule {
    access: Access,
    filter: String,
}

/// Rules of everybody.
#[derive(Debug, Default)]
pub struct Acl {
    own: HashMap<Option<String>, Vec<Rule>>,
    patterns: Vec<Rule>,
}

/// What a client may do.
#[derive(Clone, Debug)]
pub struct Rights(Option<Rc<[Rule]>>);

impl Acl {
    /// Reads an access list.
    ///
    /// # Errors
    /// The first line that Mosquitto would not take either.
    pub fn parse(text: &str) -> Result<Self, AclError> {
        let mut acl = Self::default();
        let mut user = None;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let refuse = |why| AclError { line: index + 1, why };
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let rest = rest.trim();
            match word {
                "user" if rest.is_empty() => return Err(refuse("no name after `user`")),
                "user" => user = Some(rest.to_owned()),
                "topic" => acl.own.entry(user.clone()).or_default().push(parse_rule(rest).map_err(refuse)?),
                "pattern" => acl.patterns.push(parse_rule(rest).map_err(refuse)?),
                _ => return Err(refuse("it starts with none of `user`, `topic`, `pattern` and `#`")),
            }
        }
        Ok(acl)
    }

    /// Returns what a client may do; `%u` and `%c` are put in here.
    pub fn rights(&self, user: Option<&str>, client: &str) -> Rights {
        let own = self.own.get(&user.map(str::to_owned)).map_or(&[][..], Vec::as_slice);
        let mut rules: Vec<Rule> = deny_first(own).cloned().collect();
        // A name with these would be more than a name in a pattern.
        let wild = |name: &str| name.contains(['+', '#', '/']);
        if !wild(client) && !user.is_some_and(wild) {
            rules.extend(deny_first(&self.patterns).filter_map(|rule| rule.for_client(user, client)));
        }
        Rights(Some(rules.into()))
    }
}

fn deny_first(rules: &[Rule]) -> impl Iterator<Item = &Rule> {
    let denies = |rule: &&Rule| rule.access == Access::Deny;
    rules.iter().filter(denies).chain(rules.iter().filter(move |rule| !denies(rule)))
}

impl Rule {
    fn for_client(&self, user: Option<&str>, client: &str) -> Option<Self> {
        if user.is_none() && self.filter.contains("%u") {
            return None;
        }
        let mut filter = String::new();
        let mut rest = self.filter.as_str();
        while let Some(at) = rest.find('%') {
            let (before, after) = rest.split_at(at);
            filter.push_str(before);
            let put = match after.as_bytes().get(1) {
                Some(b'u') => user.unwrap_or_default(),
                Some(b'c') => client,
                _ => {
                    filter.push('%');
                    rest = &after[1..];
                    continue;
                }
            };
            filter.push_str(put);
            rest = &after[2..];
        }
        filter.push_str(rest);
        Some(Self { access: self.access, filter })
    }
}

fn parse_rule(text: &str) -> Result<Rule, &'static str> {
    let (access, filter) = match text.split_once(' ') {
        None => (Access::ReadWrite, text),
        Some((word, filter)) => {
            let access = match word {
                "read" => Access::Read,
                "write" => Access::Write,
                "readwrite" => Access::ReadWrite,
                "deny" => Access::Deny,
                _ => return Err("the access is none of `read`, `write`, `readwrite` and `deny`"),
            };
            (access, filter.trim())
        }
    };
    if TopicFilter::is_invalid(filter).0 {
        return Err("it does not end with a topic, or with a filter of topics");
    }
    Ok(Rule { access, filter: filter.to_owned() })
}

impl Rights {
    /// Returns the rights of those who may do everything, where there is no access list.
    pub fn all() -> Self {
        Self(None)
    }

    /// Whether messages of this topic may be delivered.
    pub fn may_read(&self, topic: &str) -> bool {
        self.allow(topic, Access::Read)
    }

    /// Whether messages of this topic may be published.
    pub fn may_write(&self, topic: &str) -> bool {
        self.allow(topic, Access::Write)
    }

    /// Whether any topic of this filter may be read; which ones, each delivery asks for itself.
    pub fn may_subscribe(&self, filter: &str) -> bool {
        self.0.as_ref().is_none_or(|rules| {
            rules
                .iter()
                .filter(|rule| matches!(rule.access, Access::Read | Access::ReadWrite))
                .any(|rule| topic::overlap(&rule.filter, filter))
        })
    }

    fn allow(&self, topic: &str, asked: Access) -> bool {
        let Some(rules) = &self.0 else { return true };
        let decides = |rule: &&Rule| {
            (rule.access == asked || matches!(rule.access, Access::Deny | Access::ReadWrite))
                && topic::matches(&rule.filter, topic)
        };
        rules.iter().find(decides).is_some_and(|rule| rule.access != Access::Deny)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHIPPED: &str = include_str!("../../../broker/mosquitto/acl");

    fn rights(text: &str, user: Option<&str>) -> Rights {
        Acl::parse(text).unwrap().rights(user, "client-1")
    }

    #[test]
    fn by_the_shipped_list_everybody_speaks_in_their_own_name() {
        let rights = rights(SHIPPED, Some("recv-b"));
        assert!(rights.may_write("ccp/v1/signal/recv-b/10.0.0.1"));
        assert!(rights.may_write("ccp/v1/status/recv-b"));
        assert!(!rights.may_write("ccp/v1/signal/recv-c/10.0.0.1"));
        assert!(!rights.may_write("ccp/v1/signal/recv-b/10.0.0.1/more"));
        assert!(!rights.may_write("other"));
        assert!(rights.may_read("ccp/v1/signal/recv-c/10.0.0.1"));
        assert!(!rights.may_read("other"));
        assert!(rights.may_subscribe("ccp/v1/+/+"));
        assert!(rights.may_subscribe("#"));
        assert!(!rights.may_subscribe("other/#"));
    }

    #[test]
    fn users_have_lines_of_their_own() {
        let text = "topic read open\nuser anna\ntopic a/b\ntopic deny a/c\ntopic read a/#\n\n# ben\nuser ben\n\
                    topic write a/ b c\npattern write p/%u/%c\npattern read 100%/%";
        let (nobody, anna, ben) = (rights(text, None), rights(text, Some("anna")), rights(text, Some("ben")));
        assert!(nobody.may_read("open") && !anna.may_read("open"));
        assert!(anna.may_read("a/b") && anna.may_write("a/b"));
        assert!(anna.may_read("a/d") && !anna.may_write("a/d"));
        assert!(!anna.may_read("a/c"));
        assert!(ben.may_write("a/ b c") && !ben.may_read("a/ b c"));
        assert!(ben.may_write("p/ben/client-1") && !anna.may_write("p/ben/client-1"));
        assert!(!nobody.may_write("p//client-1"));
        assert!(nobody.may_read("100%/%"));
    }

    #[test]
    fn a_name_with_wildcards_gets_nothing_by_patterns() {
        let acl = Acl::parse("pattern readwrite p/%u\nuser +\ntopic own").unwrap();
        for (user, client) in [("+", "c"), ("#", "c"), ("a/b", "c"), ("anna", "+"), ("anna", "a/b")] {
            let rights = acl.rights(Some(user), client);
            assert!(!rights.may_write(&format!("p/{user}")), "{user} {client}");
            assert!(!rights.may_write("p/anna"), "{user} {client}");
        }
        assert!(acl.rights(Some("+"), "c").may_write("own"));
        assert!(acl.rights(Some("anna"), "c").may_write("p/anna"));
    }

    #[test]
    fn without_a_list_everything_is_allowed() {
        let all = Rights::all();
        assert!(all.may_read("a") && all.may_write("b") && all.may_subscribe("#"));
    }

    #[test]
    fn a_line_that_cannot_be_used_is_named() {
        for (line, part) in [
            ("user", "name"),
            ("topic", "topic"),
            ("topic reads a", "access"),
            ("topic read a#", "filter"),
            ("pattern write a/#/b", "filter"),
            ("allow a", "user"),
        ] {
            let error = Acl::parse(&format!("# list\n{line}\n")).unwrap_err();
            assert_eq!(error.line, 2, "{line}");
            assert!(error.why.contains(part), "{line}: {error}");
        }
    }

    proptest! {
        /// Against the words of the module: collect what fits, then decide.
        #[test]
        fn the_first_line_that_fits_decides(
            lines in prop::collection::vec(
                (
                    any::<bool>(),
                    prop_oneof![Just("read"), Just("write"), Just("readwrite"), Just("deny")],
                    prop_oneof![Just("#"), Just("a"), Just("a/#"), Just("a/+"), Just("+"), Just("%u"), Just("a/%u")],
                ),
                0..6,
            ),
            topic in prop_oneof![Just("a"), Just("a/b"), Just("anna"), Just("a/anna"), Just("b/c/d")],
            write in any::<bool>(),
        ) {
            let text: String = lines
                .iter()
                .map(|(own, access, filter)| format!("{} {access} {filter}\n", if *own { "topic" } else { "pattern" }))
                .collect();
            let rights = rights(&format!("user anna\n{text}"), Some("anna"));
            let asked = if write { "write" } else { "read" };
            let verdict = |own: bool| {
                let put = |filter: &str| if own { filter.to_owned() } else { filter.replace("%u", "anna") };
                let fitting: Vec<&str> = lines
                    .iter()
                    .filter(|(o, _, filter)| *o == own && topic::matches(&put(filter), topic))
                    .map(|(_, access, _)| *access)
                    .collect();
                if fitting.contains(&"deny") {
                    Some(false)
                } else {
                    fitting.iter().any(|&a| a == asked || a == "readwrite").then_some(true)
                }
            };
            let expected = verdict(true).or_else(|| verdict(false)).unwrap_or(false);
            prop_assert_eq!(if write { rights.may_write(topic) } else { rights.may_read(topic) }, expected, "{}", text);
        }
    }
}
