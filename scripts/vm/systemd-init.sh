#!/bin/sh
# First process of a machine with systemd: makes folders writable, and becomes systemd, which runs the command as a
# service and then shuts down.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
for folder in etc var; do
	mkdir /mnt/$folder
	mount -t tmpfs $folder /mnt/$folder
	cp -a /$folder/. /mnt/$folder/
	mount --move /mnt/$folder /$folder
done
for folder in run tmp root; do
	mount -t tmpfs tmpfs /$folder
done
echo guest >/etc/hostname
: >/etc/machine-id
cat >/etc/profile-of-guest <<-'END'
	PATH=/mnt/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin
	LC_ALL=C.UTF-8
	HOME=/root
	PYTHONDONTWRITEBYTECODE=1
	PYTHONUNBUFFERED=1
	CCPLANE_EMULATED=1
END
mkdir -p /etc/systemd/system.conf.d
cat >/etc/systemd/system.conf.d/guest.conf <<-'END'
	[Manager]
	# The usual 90 s are for real processors.
	DefaultTimeoutStartSec=900s
END
units=/etc/systemd/system
cat >$units/guest.service <<-'END'
	[Unit]
	After=basic.target systemd-tmpfiles-setup.service
	Wants=basic.target
	SuccessAction=poweroff-immediate
	FailureAction=poweroff-immediate
	[Service]
	Type=oneshot
	EnvironmentFile=/etc/profile-of-guest
	WorkingDirectory=/mnt/checkout
	StandardOutput=tty
	StandardError=tty
	TTYPath=/dev/ttyS0
	ExecStart=/bin/sh -c 'sh /mnt/out/command; status=$$?; journalctl --no-pager >/mnt/out/journal.log; echo $$status >/mnt/out/status; sync'
END
cat >$units/guest.target <<-'END'
	[Unit]
	Requires=guest.service
	AllowIsolate=yes
END
ln -sf guest.target $units/default.target
for service in systemd-udevd systemd-udev-trigger systemd-timesyncd systemd-logind mosquitto systemd-random-seed \
	systemd-remount-fs fstrim.timer apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer; do
	case $service in *.*) unit=$service ;; *) unit=$service.service ;; esac
	ln -sf /dev/null $units/$unit
done
ln -sf /dev/null $units/systemd-udevd-kernel.socket
ln -sf /dev/null $units/systemd-udevd-control.socket
: >/etc/fstab
exec /lib/systemd/systemd --log-target=journal
