"""Canary trials: a new version of an algorithm is first tried on a share of the new flows.

    ccp canary start cubic --share 5%

`assignment` assigns flows at random, `ranks` and `trial` compare both versions, `canaries` runs trials.
"""
