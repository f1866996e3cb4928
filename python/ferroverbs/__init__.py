"""libibverbs, librdmacm and the RDMA device uroce, with the command that puts them under a program.

The folder `path()` has `libibverbs.so.1`, `librdmacm.so.1` and `rsocket/librspreload.so`.
"""

import os

__all__ = ["environment", "path"]

_HERE = os.path.dirname(os.path.abspath(__file__))
_VERBS = "libibverbs.so.1"
_SOCKETS = os.path.join("rsocket", "librspreload.so")
# Between the names in LD_PRELOAD and the folders in LD_LIBRARY_PATH; `$` begins `$ORIGIN`.
_SEPARATORS = {"LD_PRELOAD": " :$", "LD_LIBRARY_PATH": ":;$"}


def path():
    """The folder of the libraries."""
    return os.path.join(_HERE, "lib")


def environment(environ=None, sockets=False):
    """A copy of `environ`, or of this process's environment, with which a program has this library.

    `LD_LIBRARY_PATH` names the folder: programs linked with libibverbs or librdmacm find these.
    `LD_PRELOAD` names the library: it comes first also where a package brings a libibverbs under
    another name, or a program names the folder of one. What both variables had is kept behind.

    With `sockets`, the program's sockets become those of librdmacm, too.

    Raises ValueError if the dynamic linker cannot be told the folder.
    """
    env = dict(os.environ if environ is None else environ)
    folder = path()
    if _has_separator("LD_LIBRARY_PATH", folder):
        raise ValueError(f"{folder}: LD_LIBRARY_PATH cannot name a folder with ':', ';' or '$'")
    _put_first(env, "LD_LIBRARY_PATH", ":", [folder])
    preloaded = [_VERBS, _SOCKETS] if sockets else [_VERBS]
    _put_first(env, "LD_PRELOAD", " ", [_preloaded(folder, name) for name in preloaded])
    return env


def _preloaded(folder, name):
    """The full path stays right if the program changes LD_LIBRARY_PATH."""
    full = os.path.join(folder, name)
    if not _has_separator("LD_PRELOAD", full):
        return full
    if os.path.dirname(name):
        raise ValueError(f"{full}: LD_PRELOAD cannot name a file with a space")
    return name


def _has_separator(variable, name):
    return any(separator in name for separator in _SEPARATORS[variable])


def _put_first(env, variable, separator, names):
    first, others = separator.join(names), env.get(variable)
    if not others:
        env[variable] = first
    elif others != first and not others.startswith(first + separator):
        env[variable] = first + separator + others
