"""`ccp demo`: ccplane in a minute and one picture.

`command` has the command, with `ccp demo wifi` below it. `runs` runs the flows, `where` chooses the datapath,
`picture` draws. `wifi` and `wifi_picture` use `experiments.mininet_wifi`; the wheel lacks them.
"""
