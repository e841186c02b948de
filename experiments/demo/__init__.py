"""`ccp demo`: ccplane in one minute and one picture.

Entry point: `app`, the command, with its subcommand `ccp demo wifi`. `runs` does the measurements, `where`
chooses the datapath, `picture` draws. `wifi` and `wifi_picture` use `experiments.mininet_wifi`; the wheel
omits them.
"""
