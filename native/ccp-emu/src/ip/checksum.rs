//! The Internet checksum (RFC 1071).

/// Ones' complement sum of 16-bit words, folded; an odd last byte is the upper half of a word.
pub fn sum(bytes: &[u8]) -> u16 {
    let mut total = 0u64;
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        // 32-bit words give the same sum after folding.
        total += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    }
    let mut last = [0; 4];
    for (to, from) in last.iter_mut().zip(words.remainder()) {
        *to = *from;
    }
    fold(total + u64::from(u32::from_be_bytes(last)))
}

/// Folds carries.
pub fn fold(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// A sum after a change of one word.
pub fn replace(sum: u16, old: u16, new: u16) -> u16 {
    fold(u64::from(sum) + u64::from(!old) + u64::from(new))
}

/// A word of a header; 0 beyond its end.
pub fn word(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |w| u16::from_be_bytes([w[0], w[1]]))
}

pub fn set_word(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// Sets the checksum of an IPv4 header.
pub fn set_ipv4(header: &mut [u8]) {
    set_word(header, 10, 0);
    let complement = !sum(header);
    set_word(header, 10, complement);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1071() {
        // Section 3: 0001 f203 f4f5 f6f7 gives ddf2.
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn an_odd_byte_is_an_upper_half() {
        assert_eq!(sum(&[0x12]), 0x1200);
        assert_eq!(sum(&[0x00, 0x01, 0x12, 0x34, 0x56]), 0x0001 + 0x1234 + 0x5600);
    }

    proptest! {
        #[test]
        fn a_replaced_word_gives_the_sum_of_the_new_bytes(
            mut bytes in prop::collection::vec(any::<u8>(), 4..64), at in 0usize..30, new in any::<u16>(),
        ) {
            let at = at * 2 % (bytes.len() / 2 * 2);
            let old = word(&bytes, at);
            let before = sum(&bytes);
            set_word(&mut bytes, at, new);
            // 0 and ffff are the same number in ones' complement.
            prop_assert_eq!(replace(before, old, new) % 0xffff, sum(&bytes) % 0xffff);
        }
    }
}
