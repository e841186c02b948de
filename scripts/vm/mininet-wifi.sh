#!/bin/sh
# In the machine: gets ready what Mininet-WiFi expects, and runs the commands that it is given. The share `mininet` has
# its Python packages and programs.
set -e
mkdir /mnt/mininet
mount -t 9p -o ro,cache=loose,trans=virtio,version=9p2000.L,msize=262144 mininet /mnt/mininet
export PATH=/mnt/mininet/bin:$PATH PYTHONPATH=/mnt/mininet/python
# Open vSwitch writes where the disk is read only.
for folder in /etc/openvswitch /var/lib/openvswitch /var/log; do
	mount -t tmpfs tmpfs $folder
done
mkdir /var/log/openvswitch
/usr/share/openvswitch/scripts/ovs-ctl start --system-id=random
cd /tmp # where it may write, too
for command; do
	sh -c "$command"
done
