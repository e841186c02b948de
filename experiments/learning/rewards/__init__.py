"""Rewards: files with one function, `reward`, which says how good intervals were.

    def reward(rows):       # (n,) with the fields of `experiments.learning.worlds.COLUMNS`
        return ...          # n finite numbers

`slides` is the default of the environment, `hyvar` what the shipped policy was trained with. `ccp train
reward NAME` prints one, `ccp train hyvar --reward FILE` takes one.
"""
