#!/bin/sh
# install.sh [--prefix DIR]
#
# Installs the files beside this script below DIR (default: /usr/local), each whole or not at all,
# and writes their list to DIR/share/ferroverbs/files. DIR/share/ferroverbs/uninstall.sh removes
# them. An earlier installation of ferroverbs is replaced, also one that was interrupted; files of
# others never are: the libraries of the system belong to its packages.
set -eu
# Other users have to be able to read the libraries.
umask 022

usage="usage: install.sh [--prefix DIR]"

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

prefix=/usr/local
while [ $# -gt 0 ]; do
	case $1 in
	--prefix=*) prefix=${1#--prefix=} ;;
	--prefix)
		[ $# -gt 1 ] || fail "$usage"
		prefix=$2
		shift
		;;
	-h | --help)
		echo "$usage"
		exit 0
		;;
	*) fail "unknown word $1; $usage" ;;
	esac
	shift
done
case $prefix in
*[!A-Za-z0-9/._+~:-]*) fail "$prefix: a pkg-config file can name only letters, digits and /._-+~:" ;;
/*) ;;
*) fail "$prefix: not an absolute path" ;;
esac
prefix=${prefix%/}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
files=$here/files
[ -f "$files" ] && [ -d "$here/tree" ] || fail "the files are not beside this script"
own=$prefix/share/ferroverbs
list=$own/files

# Before anything is written: no file of others is in the way.
while IFS= read -r file; do
	[ -e "$prefix/$file" ] || [ -L "$prefix/$file" ] || continue
	[ -f "$list" ] && grep -qxF -- "$file" "$list" ||
		fail "$prefix/$file is there and not of ferroverbs; use the packages, or another --prefix"
done <"$files"

# The script of this archive: that of an interrupted installation may be incomplete.
[ ! -f "$list" ] || {
	cp "$here/uninstall.sh" "$own/uninstall.sh"
	sh "$own/uninstall.sh"
}

# The folder, and those above it, that are not there.
missing() {
	folder=${1%/}
	while [ ! -d "$folder" ]; do
		echo "$folder"
		folder=$(dirname "$folder")
	done
}
folders=$({
	# The folders of an installation that was interrupted before its list was there.
	[ ! -f "$own/folders" ] || cat "$own/folders"
	missing "$own"
	sed 's|[^/]*$||' "$files" | sort -u | while IFS= read -r folder; do
		missing "$prefix/$folder"
	done
} | sort -u)

# Each step is recorded before it is taken, so that an interrupted installation can be removed and
# repeated. The list of files comes last, because their removal needs the rest.
mkdir -p "$own"
printf '%s\n' "$folders" >"$own/folders"
cp "$here/uninstall.sh" "$own/uninstall.sh"
cp "$files" "$list"
# The archive may have been unpacked with a narrower umask.
chmod a+rX "$own/uninstall.sh" "$list"
while IFS= read -r file; do
	name=${file##*/}
	folder=$prefix/${file%"$name"}
	mkdir -p "$folder"
	new=$folder.$name.ferroverbs-new
	# A link in its place would be followed.
	rm -f "$new"
	case $file in
	*.pc) sed "1s|^prefix=.*|prefix=$prefix|" "$here/tree/$file" >"$new" ;;
	*) cp -P "$here/tree/$file" "$new" ;;
	esac
	[ -L "$new" ] || chmod a+rX "$new"
	mv -f "$new" "$prefix/$file"
done <"$files"

# Whether the dynamic linker searches the folder of the libraries by its cache.
is_cached() {
	[ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null || return 1
	ldconfig -v -N -X 2>/dev/null | sed -n 's|^\(/[^:]*\):.*|\1|p' | grep -qxF -- "$prefix/lib"
}

echo "installed $(wc -l <"$files") files below ${prefix:-/}; $own/uninstall.sh removes them"
if is_cached && ldconfig 2>/dev/null && ldconfig -p | grep -qF " $prefix/lib/libibverbs.so.1"; then
	echo "try: UROCE_DEVICES=lo $prefix/bin/ibv_devinfo"
else
	echo "try: export LD_LIBRARY_PATH=$prefix/lib UROCE_DEVICES=lo; $prefix/bin/ibv_devinfo"
fi
