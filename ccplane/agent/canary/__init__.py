"""Canary trials: a new version of an algorithm first gets a share of the new flows, which are compared.

    ccp canary start cubic --share 5%

`assignment` assigns flows at random, `ranks` and `trial` compare both versions, `canaries` runs trials.
"""
