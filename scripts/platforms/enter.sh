#!/bin/sh
# Runs a command on another platform: enter.sh PLATFORM ARCHIVES CHANGES COMMAND...
#
# unshare(1) gives this script name spaces of its own, in which it may mount without being root, and
# whose mounts nobody else sees. In them:
# - changes to the repository go to the folder CHANGES, so that npm can install other packages there
# - musl: the folder of libraries also has musl's loader, and ldd is musl's, by which programs
#   recognise the C library
# - arm64: the kernel runs programs for arm64 by qemu. QEMU_LD_PREFIX has their libraries
set -eu
platform=$1
archives=$2
changes=$3
shift 3

root=$PWD
mkdir -p "$changes/upper" "$changes/work"
mount -t overlay overlay -o "userxattr,lowerdir=$root,upperdir=$changes/upper,workdir=$changes/work" "$root"
cd "$root"

case $platform in
  musl)
    printf '#!/bin/sh\nexec /lib/ld-musl-x86_64.so.1 --list "$@"\n' >"$changes/ldd"
    chmod +x "$changes/ldd"
    mount -t overlay overlay -o "lowerdir=$archives/usr/lib:/usr/lib" /usr/lib
    mount --bind "$changes/ldd" /usr/bin/ldd
    ;;
  arm64)
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
    # The first bytes of a program for arm64, and which of their bits count.
    magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    printf '%s' ":arm64:M::$magic:$mask:$archives/usr/bin/qemu-aarch64:F" >/proc/sys/fs/binfmt_misc/register
    export QEMU_LD_PREFIX="$archives/usr/aarch64-linux-gnu"
    ;;
esac
exec "$@"
