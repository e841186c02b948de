//! Topics and filters: MQTT 5, section 4.7.

/// Whether a filter matches a topic.
///
/// A wildcard at the first level does not match what starts with `$`, and `a/#` matches `a`, too.
pub fn matches(filter: &str, topic: &str) -> bool {
    if hides(filter, topic) {
        return false;
    }
    let mut topic = topic.split('/');
    for wanted in filter.split('/') {
        if wanted == "#" {
            return true;
        }
        match topic.next() {
            Some(level) if wanted == "+" || wanted == level => {}
            _ => return false,
        }
    }
    topic.next().is_none()
}

/// Whether there is a topic that both filters match.
pub fn overlap(one: &str, other: &str) -> bool {
    if hides(one, other) || hides(other, one) {
        return false;
    }
    let (mut one, mut other) = (one.split('/'), other.split('/'));
    loop {
        match (one.next(), other.next()) {
            (Some("#"), _) | (_, Some("#")) | (None, None) => return true,
            (Some(a), Some(b)) if a == "+" || b == "+" || a == b => {}
            _ => return false,
        }
    }
}

fn hides(filter: &str, topic: &str) -> bool {
    topic.starts_with('$') && filter.starts_with(['+', '#'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same by the words of the standard: each level of the filter against all there is.
    fn naive(filter: &[&str], topic: &[&str]) -> bool {
        match (filter.first(), topic.first()) {
            (Some(&"#"), _) => true,
            (Some(&wanted), Some(&level)) => {
                (wanted == "+" || wanted == level) && naive(&filter[1..], &topic[1..])
            }
            (None, None) => true,
            _ => false,
        }
    }

    fn naive_matches(filter: &str, topic: &str) -> bool {
        let first_is_wild = filter.starts_with('+') || filter.starts_with('#');
        if topic.starts_with('$') && first_is_wild {
            return false;
        }
        naive(&filter.split('/').collect::<Vec<_>>(), &topic.split('/').collect::<Vec<_>>())
    }

    /// All topics of up to four levels of these names: enough to tell filters of up to three levels apart.
    fn all_topics() -> Vec<String> {
        let names = ["", "a", "b", "$s", "z"];
        let mut topics: Vec<String> = names.iter().map(|&n| n.to_owned()).collect();
        let mut longest = topics.clone();
        for _ in 0..3 {
            longest = longest.iter().flat_map(|t| names.iter().map(move |n| format!("{t}/{n}"))).collect();
            topics.extend_from_slice(&longest);
        }
        topics
    }

    fn filter() -> impl Strategy<Value = String> {
        let level = prop_oneof![Just(""), Just("a"), Just("b"), Just("$s"), Just("+")];
        (prop::collection::vec(level, 1..4), any::<bool>()).prop_map(|(mut levels, all)| {
            if all {
                *levels.last_mut().unwrap() = "#";
            }
            levels.join("/")
        })
    }

    #[test]
    fn the_standard_s_own_examples() {
        for (filter, topic, expected) in [
            ("sport/tennis/player1/#", "sport/tennis/player1", true),
            ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true),
            ("sport/#", "sport", true),
            ("#", "sport", true),
            ("sport/tennis/+", "sport/tennis/player1", true),
            ("sport/tennis/+", "sport/tennis/player1/ranking", false),
            ("sport/+", "sport", false),
            ("sport/+", "sport/", true),
            ("+/+", "/finance", true),
            ("/+", "/finance", true),
            ("+", "/finance", false),
            ("#", "$SYS/broker", false),
            ("+/monitor/Clients", "$SYS/monitor/Clients", false),
            ("$SYS/#", "$SYS/broker", true),
            ("ACCOUNTS", "Accounts", false),
        ] {
            assert_eq!(matches(filter, topic), expected, "{filter} {topic}");
        }
    }

    proptest! {
        #[test]
        fn matching_is_what_the_standard_says(
            filter in filter(),
            topic in prop::collection::vec(prop_oneof![Just(""), Just("a"), Just("b"), Just("$s")], 1..5),
        ) {
            let topic = topic.join("/");
            prop_assert_eq!(matches(&filter, &topic), naive_matches(&filter, &topic));
        }

        #[test]
        fn filters_overlap_if_some_topic_matches_both(one in filter(), other in filter()) {
            prop_assume!(!one.is_empty() && !other.is_empty());
            // The empty topic is among them, though nobody can publish to it.
            let both = all_topics().iter().any(|t| naive_matches(&one, t) && naive_matches(&other, t));
            prop_assert_eq!(overlap(&one, &other), both, "{} {}", one, other);
        }
    }
}
