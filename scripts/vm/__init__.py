"""Kernel tests on other kernels: Debian's, unmodified, in QEMU, without KVM.

`python -m scripts.vm` (or `make test-kernels`) builds a small Debian, fetches kernels, boots each with this
checkout mounted, runs `pytest tests/kernel` inside, and prints a table. `places` says where all that is kept.

`debian` fetches packages, `kernels` and `userland` make what a machine boots from, `machine` boots it,
`__main__` puts them together, and `results` keeps what came out. `smoke` is the short form
(`smoke_inside` runs in the machine), `wifi` one with simulated Wi-Fi, `compose` one with containers, whose
`images` are built here.
"""
