"""A new version of an algorithm gets some of the new flows first, and is judged by how these fare.

    ccp canary start cubic --share 5%

`lottery` says which flows, `ranks` and `trial` judge, `canaries` starts and ends it on a running agent.
"""
