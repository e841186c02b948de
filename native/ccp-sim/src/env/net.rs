//! The policy of the connections beside the learner's: a small network, as `ccp_algs/hyvar/policy.py` evaluates it.

use serde::Deserialize;

use crate::Result;
use crate::env::bad;
use crate::env::interval::FEATURES;

/// A layer: a row of weights and a bias for each output.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layer {
    weight: Vec<Vec<f32>>,
    bias: Vec<f32>,
}

/// Layers with tanh between them; the last has one output, the action.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct Net {
    layers: Vec<Layer>,
}

impl Net {
    /// Reads layers.
    ///
    /// # Errors
    ///
    /// `learning.bad_domain` if they do not fit each other, the observation, or one action.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        let net: Net =
            serde_json::from_slice(json).map_err(|e| bad("the policy of peers cannot be read").why(e))?;
        let mut n_in = FEATURES;
        for layer in &net.layers {
            if layer.weight.len() != layer.bias.len() || layer.weight.iter().any(|row| row.len() != n_in) {
                return Err(bad("layers of a policy of peers do not fit each other"));
            }
            n_in = layer.bias.len();
        }
        if n_in == 1 { Ok(net) } else { Err(bad(format!("a policy of peers has 1 action, not {n_in}"))) }
    }

    /// The action, from -1 to 1.
    #[must_use]
    pub fn action(&self, observation: &[f32; FEATURES]) -> f64 {
        let mut values = observation.to_vec();
        for (index, layer) in self.layers.iter().enumerate() {
            let sum = |(row, bias): (&Vec<f32>, &f32)| {
                bias + row.iter().zip(&values).map(|(weight, value)| weight * value).sum::<f32>()
            };
            let sums = layer.weight.iter().zip(&layer.bias).map(sum);
            let last = index + 1 == self.layers.len();
            values = sums.map(|sum| if last { sum.clamp(-1.0, 1.0) } else { sum.tanh() }).collect();
        }
        f64::from(values[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_sums_and_tanh() {
        let net = Net::from_json(
            br#"[{"weight": [[1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, -2]], "bias": [0.5, 0]},
                {"weight": [[0.5, 1]], "bias": [0.1]}]"#,
        )
        .unwrap();
        let action = net.action(&[0.25, 9.0, 9.0, 9.0, 9.0, 9.0, -0.1]);
        assert!((action - (0.1 + 0.5 * 0.75_f64.tanh() + 0.2_f64.tanh())).abs() < 1e-6, "{action}");
        assert_eq!(net.action(&[9.0, 0.0, 0.0, 0.0, 0.0, 0.0, -9.0]), 1.0);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for json in [
            r#"[{"weight": [[1, 2]], "bias": [0]}]"#,
            r#"[{"weight": [[1, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]], "bias": [0, 0]}]"#,
            r"[]",
            r"{}",
        ] {
            assert_eq!(Net::from_json(json.as_bytes()).unwrap_err().slug, "learning.bad_domain");
        }
    }
}
