#!/bin/sh
# uninstall.sh
#
# Removes the installation of ferroverbs that this script belongs to, and the folders that it made, if
# they are empty then.
set -eu

own=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
prefix=${own%/share/ferroverbs}
list=$own/files
[ "$prefix" != "$own" ] && { [ -f "$list" ] || [ -f "$own/folders" ]; } || {
	echo "uninstall.sh: $own has no list of installed files" >&2
	exit 1
}

# Whether the dynamic linker searches the folder of the libraries by its cache.
is_cached() {
	[ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null || return 1
	ldconfig -v -N -X 2>/dev/null | sed -n 's|^\(/[^:]*\):.*|\1|p' | grep -qxF -- "$prefix/lib"
}
# The folder may be gone afterwards.
cached=$(! is_cached || echo yes)

# An installation that was interrupted may lack either list.
{ [ ! -f "$list" ] || cat "$list"; } | while IFS= read -r file; do
	name=${file##*/}
	rm -f "$prefix/$file" "$prefix/${file%"$name"}.$name.ferroverbs-new"
done
folders=$({
	[ ! -f "$own/folders" ] || cat "$own/folders"
	echo "$own"
} | sort -ru)
rm -f "$own/files" "$own/folders" "$own/uninstall.sh"
printf '%s\n' "$folders" | while IFS= read -r folder; do
	# Others may have files in it by now.
	rmdir "$folder" 2>/dev/null || true
done
[ -z "$cached" ] || ldconfig 2>/dev/null || true
