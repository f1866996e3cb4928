#!/bin/sh
# uninstall.sh
#
# Removes the installation of ferroverbs that this script belongs to, and the folders that it made, if
# they are empty then.
set -eu

own=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
prefix=${own%/share/ferroverbs}
list=$own/files
[ "$prefix" != "$own" ] && [ -f "$list" ] || {
	echo "uninstall.sh: $own has no list of installed files" >&2
	exit 1
}

while IFS= read -r file; do
	rm -f "$prefix/$file" "$prefix/$file.new"
done <"$list"
folders=$(sort -r "$own/folders")
rm -f "$own/files" "$own/folders" "$own/uninstall.sh"
printf '%s\n' "$folders" | while IFS= read -r folder; do
	# Others may have files in it by now.
	rmdir "$folder" 2>/dev/null || true
done
if [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then
	ldconfig 2>/dev/null || true
fi
