"""Learning congestion control: an environment on the simulator, training, evaluation.

Purpose: everything that makes the policy that `ccp_algs.hyvar` runs. Nothing of it is needed to run one.

Entry points: `experiments.learning.registration` (Gymnasium's `ccplane/CongestionControl-v0`),
`experiments.learning.worlds` (many worlds at once, without Gymnasium), `experiments.learning.training`,
`experiments.learning.evaluation`; `ccp train`.

Needs: Gymnasium for the environment (`pip install 'ccplane[env]'`), Stable-Baselines3 for training
(`'ccplane[train]'`). May import: every other package.
"""
