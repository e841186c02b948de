"""Kernel tests on Debian's unmodified kernels, in QEMU, without KVM.

`python -m scripts.vm` (or `make test-kernels`) builds a small Debian, fetches kernels, boots each with this
checkout mounted, runs `pytest tests/kernel` inside, and prints a table. `debian` fetches packages, `kernels`
and `userland` build the parts of a machine, `machine` boots it, and `results` keeps the results. `smoke` is
the short form, `wifi` has simulated Wi-Fi, `compose` containers; modules `*_inside` run in the machine.
"""
