#!/bin/sh
# First process of the machine after its disk is mounted: prepares it, runs the command, writes its status, shuts down.
export PATH=/mnt/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LC_ALL=C.UTF-8
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
export HYPOTHESIS_STORAGE_DIRECTORY=/tmp/hypothesis # the checkout is read only
export CCPLANE_EMULATED=1 # skips tests with this mark
export CCPLANE_LAB_BURST_S=0.02 # timers of an emulated processor are late by more than a millisecond
for folder in run tmp root var/tmp; do
	mount -t tmpfs tmpfs /$folder
done
mkdir -p /run/netns /run/lock /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t debugfs debug /sys/kernel/debug
mount -t bpf bpf /sys/fs/bpf
modprobe -q -a tcp_bbr tun # not loaded automatically
ip link set lo up
echo guest >/proc/sys/kernel/hostname # the agent's name on a telemetry bus
echo "guest: up after $(cut -d' ' -f1 /proc/uptime) s, Linux $(uname -r)"
cd /mnt/checkout
/bin/sh /mnt/out/command
status=$?
echo "guest: status $status after $(cut -d' ' -f1 /proc/uptime) s"
echo $status >/mnt/out/status
sync
echo b >/proc/sysrq-trigger # -no-reboot: the machine ends here
sleep 60
