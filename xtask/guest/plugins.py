"""Loads every provider in C that is installed, one after the other, and lets go of it.

Each has to find all that it calls in the library, and to register with it.
"""

import ctypes
import glob
import os
import sys

libdl = ctypes.CDLL(None)
libdl.dlopen.restype = ctypes.c_void_p
libdl.dlopen.argtypes = [ctypes.c_char_p, ctypes.c_int]
libdl.dlclose.argtypes = [ctypes.c_void_p]
libdl.dlerror.restype = ctypes.c_char_p

ctypes.CDLL("libibverbs.so.1", mode=os.RTLD_NOW | os.RTLD_GLOBAL)
plugins = sorted(glob.glob("/usr/lib/*/libibverbs/lib*-rdmav*.so"))
wrong = 0
for path in plugins:
    name = os.path.basename(path)
    plugin = libdl.dlopen(path.encode(), os.RTLD_NOW)
    if plugin is None:
        print(libdl.dlerror().decode())
        wrong += 1
        continue
    if libdl.dlclose(plugin) != 0:
        print(f"{name} cannot be let go of")
        wrong += 1
        continue
    print(f"{name} loaded")
print(f"{len(plugins) - wrong} of {len(plugins)} loaded")
sys.exit(0 if plugins and not wrong else 1)
