#!/bin/busybox sh
# First process of the machine: loads drivers, mounts the disk and the host's folders, and starts guest-init.sh.
B=/bin/busybox
$B mount -t proc proc /proc
$B mount -t sysfs sys /sys
$B mount -t devtmpfs dev /dev
for module in crc32c_generic virtio_pci virtio_blk ext4 ext2 9pnet_virtio 9p virtio_rng; do
	$B modprobe $module 2>/dev/null
done
i=0
while [ ! -e /dev/vda ] && [ $i -lt 100 ]; do
	$B sleep 0.1
	i=$((i + 1))
done
$B mount -o ro /dev/vda /newroot || $B reboot -f
# The disk is read only, so that machines can share it; writes go to memory.
$B mount -t tmpfs mnt /newroot/mnt
for folder in checkout venv out; do
	$B mkdir /newroot/mnt/$folder
done
share="trans=virtio,version=9p2000.L,msize=262144"
$B mount -t 9p -o ro,cache=loose,$share checkout /newroot/mnt/checkout
$B mount -t 9p -o ro,cache=loose,$share venv /newroot/mnt/venv
$B mount -t 9p -o $share out /newroot/mnt/out
$B mount -t tmpfs modules /newroot/usr/lib/modules
$B cp -a /lib/modules/. /newroot/usr/lib/modules/
for folder in proc sys dev; do
	$B mount --move /$folder /newroot/$folder
done
exec $B switch_root /newroot /bin/sh /mnt/out/guest-init.sh
