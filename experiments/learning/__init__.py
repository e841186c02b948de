"""Learning congestion control: an environment on the simulator, training, evaluation.

This package produces the policy of `ccp_algs.hyvar`; running a policy does not need this package.

Entry points: `experiments.learning.registration` (Gymnasium's `ccplane/CongestionControl-v0`),
`experiments.learning.worlds` (many worlds in parallel, without Gymnasium), `experiments.learning.training`,
`experiments.learning.evaluation`; `ccp train`.

The package needs Gymnasium for the environment (`pip install 'ccplane[env]'`) and Stable-Baselines3 for
training (`'ccplane[train]'`). This package may import every other package.
"""
