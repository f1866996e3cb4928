"""Runs the connection manager tests of rdma-core's suite, also on a device without a parent.

The suite looks for a device's network interface at `device/net`, a link that only hardware has, and
skips its connection manager tests without it. Every RoCE device names its interface in sysfs with
its GIDs as well; here the suite gets that name. The tests themselves run as they are.

Started in the directory above `tests`, with the arguments of `tests/run_tests.py`.
"""

import os
import sys
import unittest

sys.path[0:0] = [os.getcwd(), os.path.join(os.getcwd(), "tests")]

from args_parser import parser  # noqa: E402
from tests import base  # noqa: E402

PARENT = "/sys/class/infiniband/{}/device/net/"
GID_INTERFACE = "/sys/class/infiniband/{}/ports/{}/gid_attrs/ndevs/{}"


def add_gid(case, device, port, index):
    """Adds a GID with the address of its interface to what a test may choose from."""
    with open(GID_INTERFACE.format(device, port, index), encoding="ascii") as file:
        interface = file.read().strip()
    address, mac = case.get_ip_mac_address(interface)
    case.args.append([device, port, index, address, mac])


parser.parse_args()
if not os.path.exists(PARENT.format(parser.get_config()["dev"])):
    base.RDMATestCase._get_ip_mac = add_gid
unittest.main(module="tests.test_rdmacm")
