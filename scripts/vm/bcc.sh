# Sourced in the machine: puts the kernel's headers, if any, where bcc looks for them.
release=$(uname -r)
if mount -t 9p -o ro,cache=loose,trans=virtio,version=9p2000.L,msize=262144 headers /usr/src 2>/dev/null; then
	ln -s /usr/src/linux-headers-$release /lib/modules/$release/build
	ln -s /usr/src/linux-headers-${release%-amd64}-common /lib/modules/$release/source
fi
