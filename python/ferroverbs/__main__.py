"""The command `ferroverbs`, and the commands of the programs that come with the library."""

import os
import signal
import sys

import ferroverbs

USAGE = """\
ferroverbs run [--sockets] [--] PROGRAM [ARGUMENT...]
    Runs a program over this libibverbs and librdmacm. UROCE_DEVICES=lo gives it a device without
    RDMA hardware.
    --sockets  its sockets are those of librdmacm, too
ferroverbs path
    Prints the folder of libibverbs.so.1, librdmacm.so.1 and rsocket/librspreload.so.
ferroverbs --version"""

# As in shells: what the program's status cannot be.
CANNOT_RUN, NOT_FOUND = 126, 127
# Of wrong arguments.
MISUSED = 2


def main():
    """The command `ferroverbs`."""
    words = sys.argv[1:]
    if words in (["--help"], ["-h"]):
        print(USAGE)
    elif words == ["--version"]:
        from importlib.metadata import version

        print("ferroverbs", version("ferroverbs"))
    elif words == ["path"]:
        print(ferroverbs.path())
    elif words[:1] == ["run"]:
        sys.exit(_run(words[1:]))
    else:
        sys.exit(_misused())


def program():
    """Runs the program of the wheel that this command is named after."""
    name = os.path.basename(sys.argv[0])
    file = os.path.join(os.path.dirname(ferroverbs.path()), "bin", name)
    sys.exit(_become(file, sys.argv, sockets=False))


def _run(words):
    sockets = words[:1] == ["--sockets"]
    if sockets:
        words = words[1:]
    if words[:1] == ["--"]:
        words = words[1:]
    elif words[:1] and words[0].startswith("-"):
        return _misused()
    if not words:
        return _misused()
    return _become(words[0], words, sockets)


def _misused():
    print(USAGE, file=sys.stderr)
    return MISUSED


def _become(file, words, sockets):
    """Replaces this process, so that signals and the status are the program's. Returns on failure."""
    try:
        env = ferroverbs.environment(_given(), sockets)
    except ValueError as error:
        print("ferroverbs:", error, file=sys.stderr)
        return CANNOT_RUN
    _restore_signals()
    try:
        os.execvpe(file, words, env)
    except FileNotFoundError:
        print(f"ferroverbs: {file}: not found", file=sys.stderr)
        return NOT_FOUND
    except OSError as error:
        print(f"ferroverbs: {file}: {error.strerror}", file=sys.stderr)
        return CANNOT_RUN


def _given():
    """The environment without the LC_CTYPE that Python adds where the locale is C (PEP 538)."""
    env = dict(os.environb)
    try:
        with open("/proc/self/environ", "rb") as file:
            begun_with = file.read().split(b"\0")
    except OSError:
        begun_with = [b"LC_CTYPE="]
    if not any(entry.startswith(b"LC_CTYPE=") for entry in begun_with):
        env.pop(b"LC_CTYPE", None)
    return {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()}


def _restore_signals():
    """Python ignores these, and a program would inherit that."""
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)


if __name__ == "__main__":
    main()
