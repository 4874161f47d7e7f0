#!/bin/sh
# First process of a guest (uml.py): makes a node of a bare kernel whose root is the host's own file
# system, read-only. Kernel parameters: home= (folder of the host), node= (number), name=,
# subnet=, passwd= (a line for a plain user).
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for word in $(cat /proc/cmdline); do
    case $word in home=* | node=* | name=* | subnet=* | passwd=*) eval "$word" ;; esac
done
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
for folder in /tmp /run /root /var/log /var/lib/nfs /mnt /dev/shm; do
    [ -d $folder ] && mount -t tmpfs tmpfs $folder
done
chmod 1777 /tmp /dev/shm
mkdir -p /mnt/lab /mnt/data /mnt/shared /run/sshd /run/modules/lib/modules
mount -t hostfs -o "$home" hostfs /mnt/lab
exec 2>/mnt/lab/init.log
hostname "$name"
{ cat /etc/passwd; echo "$passwd"; } >/run/passwd
mount --bind /run/passwd /etc/passwd

# The kernel loads by itself what a command needs: queueing disciplines, mapper targets, NFS.
mount --bind /usr/lib/uml/modules /run/modules/lib/modules
printf '#!/bin/sh\nexec modprobe -d /run/modules "$@"\n' >/run/modprobe
chmod +x /run/modprobe
echo /run/modprobe >/proc/sys/kernel/modprobe

ip link set vec0 name eth0
ip link set lo up
ip link set eth0 up
ip address add "$subnet.$node/24" dev eth0

# The local disk hangs behind the device mapper, so that a fault can slow it under a mounted file system.
/run/modprobe dm-mod
dmsetup create --noudevsync disk --table "0 $(cat /sys/block/ubda/size) linear /dev/ubda 0"
dmsetup mknodes
mount /dev/mapper/disk /mnt/data

/usr/sbin/sshd -D -e -f /mnt/lab/sshd_config 2>/mnt/lab/sshd.log &

# The console: a number comes in, the script of that number runs, its number and exit status go out.
stty raw -echo </dev/ttyS0
exec </dev/ttyS0 >/dev/ttyS0
echo ready
while read -r number; do
    (
        setsid sh "/mnt/lab/console/$number" </dev/null >"/mnt/lab/console/$number.out" 2>&1
        echo "$number $?"
    ) &
done
