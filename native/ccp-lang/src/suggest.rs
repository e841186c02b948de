//! "Did you mean": finds the known name nearest to an unknown one.

/// Returns the candidate with the fewest edits from `name`, if that is few enough for a typing error.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.len() / 3).max(1);
    let folded = name.to_ascii_lowercase();
    candidates
        .map(|c| (distance(&folded, &c.to_ascii_lowercase()), c))
        .filter(|&(edits, _)| edits <= limit)
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, c)| c)
}

/// Number of insertions, removals, replacements and swaps of neighbours that turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + (a[i - 1] != b[j - 1]) as usize;
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("acked", "acked"), 0);
        assert_eq!(distance("acekd", "acked"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn nearest_offers_slips_only() {
        let known = ["Flow.rtt_sample_us", "Flow.was_timeout"];
        assert_eq!(nearest("Flow.rtt_sample_ms", known.into_iter()), Some("Flow.rtt_sample_us"));
        assert_eq!(nearest("flow.WAS_timeout", known.into_iter()), Some("Flow.was_timeout"));
        assert_eq!(nearest("bananas", known.into_iter()), None);
    }
}
