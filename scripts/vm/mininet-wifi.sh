#!/bin/sh
# In the machine: prepares Mininet-WiFi, and runs the given commands. The share `mininet` has its Python packages and
# programs.
set -e
mkdir /mnt/mininet
mount -t 9p -o ro,cache=loose,trans=virtio,version=9p2000.L,msize=262144 mininet /mnt/mininet
export PATH=/mnt/mininet/bin:$PATH PYTHONPATH=/mnt/mininet/python
# Open vSwitch writes to folders of the read-only disk.
for folder in /etc/openvswitch /var/lib/openvswitch /var/log; do
	mount -t tmpfs tmpfs $folder
done
mkdir /var/log/openvswitch
/usr/share/openvswitch/scripts/ovs-ctl start --system-id=random
cd /tmp # writable
for command; do
	sh -c "$command"
done
