#!/usr/bin/env python3
"""pack.py FOLDER WHEEL: packs the files of a wheel, with their RECORD (PEP 427).

Two runs over the same files give the same bytes: the order, times and modes are fixed.
"""

import base64
import csv
import hashlib
import io
import os
import sys
import zipfile

# The earliest that a zip file can name.
TIME = (1980, 1, 1, 0, 0, 0)
FILE, PROGRAM = 0o100644, 0o100755


def files(folder):
    """The names below a folder, those of `*.dist-info` last, as the format recommends."""
    found = []
    for place, _, names in os.walk(folder):
        found += [os.path.relpath(os.path.join(place, name), folder) for name in names]
    return sorted(found, key=lambda name: (".dist-info/" in name, name))


def add(archive, name, data, mode):
    info = zipfile.ZipInfo(name, TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    # Unix, so that the mode counts.
    info.create_system = 3
    info.external_attr = mode << 16
    archive.writestr(info, data)


def main(folder, wheel):
    names = files(folder)
    about = next(os.path.dirname(name) for name in names if name.endswith(".dist-info/WHEEL"))
    record = f"{about}/RECORD"
    lines = io.StringIO()
    table = csv.writer(lines, lineterminator="\n")
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                data = file.read()
            add(archive, name, data, PROGRAM if os.access(path, os.X_OK) else FILE)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
            table.writerow([name, f"sha256={digest.decode()}", len(data)])
        table.writerow([record, "", ""])
        add(archive, record, lines.getvalue().encode(), FILE)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[0])
    main(*sys.argv[1:])
