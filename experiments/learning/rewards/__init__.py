"""Rewards: files with one function, `reward`, that rates intervals.

    def reward(rows):       # (n,) with the fields of `experiments.learning.worlds.COLUMNS`
        return ...          # n finite numbers

`slides` is the default of the environment; the shipped policy was trained with `hyvar`. `ccp train reward
NAME` prints a shipped reward, `ccp train hyvar --reward FILE` uses another one.
"""
