//! New values of a flow's registers, as an agent sets them.

use ccp_lang::MAX_REGISTERS;
use ccp_lang::wire::{Field, Settable};

/// New values of a flow's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    control: [u64; MAX_REGISTERS],
    /// Bit i: `control[i]` is set.
    controls: u64,
    /// [bytes]; 0 leaves the window as it is.
    pub cwnd_bytes: u64,
    /// [bytes/s]; 0 leaves the rate as it is.
    pub rate_bytes_per_s: u64,
}

impl Default for Values {
    fn default() -> Self {
        Values { control: [0; MAX_REGISTERS], controls: 0, cwnd_bytes: 0, rate_bytes_per_s: 0 }
    }
}

impl Values {
    /// Reads what a message sets, or says which of it cannot be set.
    pub fn read(fields: &[Field]) -> Result<Values, String> {
        let mut values = Values::default();
        for field in fields {
            match field.settable()? {
                Settable::Cwnd => values.cwnd_bytes = field.value,
                Settable::Rate => values.rate_bytes_per_s = field.value,
                Settable::Control(index) => {
                    let place = values.control.get_mut(index as usize);
                    *place.ok_or_else(|| format!("no program has control register {index}"))? = field.value;
                    values.controls |= 1 << index;
                }
            }
        }
        Ok(values)
    }

    /// Takes over what `later` sets.
    pub fn merge(&mut self, later: &Values) {
        later.write(&mut self.control);
        self.controls |= later.controls;
        for (value, new) in
            [(&mut self.cwnd_bytes, later.cwnd_bytes), (&mut self.rate_bytes_per_s, later.rate_bytes_per_s)]
        {
            if new != 0 {
                *value = new;
            }
        }
    }

    /// Puts new values into a flow's control registers.
    pub fn write(&self, control: &mut [u64; MAX_REGISTERS]) {
        for (i, value) in control.iter_mut().enumerate() {
            if self.controls >> i & 1 == 1 {
                *value = self.control[i];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(fields: &[(u8, u32, u64)]) -> Result<Values, String> {
        let fields: Vec<_> =
            fields.iter().map(|&(kind, index, value)| Field { kind, index, value }).collect();
        Values::read(&fields)
    }

    #[test]
    fn later_values_go_over_those_before() {
        let mut merged = values(&[(0, 0, 7), (8, 1, 8), (2, 4, 14480), (2, 5, 9)]).unwrap();
        merged.merge(&values(&[(0, 1, 0), (2, 4, 0), (2, 5, 3)]).unwrap());
        let mut control = [1; MAX_REGISTERS];
        merged.write(&mut control);
        assert_eq!((control[0], control[1], control[2]), (7, 0, 1));
        assert_eq!((merged.cwnd_bytes, merged.rate_bytes_per_s), (14480, 3));
    }

    #[test]
    fn what_no_program_has_is_refused() {
        for field in [(0, MAX_REGISTERS as u32, 1), (5, 0, 1), (2, 3, 1)] {
            assert!(values(&[field]).is_err(), "{field:?}");
        }
    }
}
