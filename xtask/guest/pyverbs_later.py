"""Runs the suite of a later release of rdma-core than this machine's.

Some of its tests start processes that share their objects, which is what Python did until 3.14 and
does now if it is asked. Those of the connection manager are skipped where librdmacm finds none. The
tests themselves run as they are.

Started in the directory above `tests`, with the arguments of `tests/run_tests.py`.
"""

import ctypes
import multiprocessing
import os
import sys
import unittest

sys.path[0:0] = [os.getcwd(), os.path.join(os.getcwd(), "tests")]

import tests  # noqa: E402
from args_parser import parser  # noqa: E402
from tests import test_rdmacm  # noqa: E402


def connects():
    """Whether librdmacm finds a connection manager, of the kernel or of uroce."""
    manager = ctypes.CDLL("librdmacm.so.1", use_errno=True)
    manager.rdma_create_event_channel.restype = ctypes.c_void_p
    channel = manager.rdma_create_event_channel()
    if channel:
        manager.rdma_destroy_event_channel(ctypes.c_void_p(channel))
    return bool(channel)


multiprocessing.set_start_method("fork")
if not connects():
    cases = [case for case in vars(test_rdmacm).values() if isinstance(case, type)]
    for case in cases:
        if issubclass(case, unittest.TestCase) and case.__module__ == test_rdmacm.__name__:
            unittest.skip("there is no connection manager")(case)
parser.parse_args()
unittest.main(module=tests)
