#!/usr/bin/env python3
"""migrate.py ADDRESS [CAPABILITY]

Two of QEMU's machines, and a move of the first one's memory to the second by RDMA, from an address to
itself. A part of the memory is random; what the second has in the end is compared with all of the first.
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

MEMORY = 16 << 20
RANDOM_AT = 2 << 20
RANDOM = 8 << 20
PORT = 4444
# The processors do not run.
MACHINE = (
    "qemu-system-x86_64 -accel tcg -machine isapc -cpu 486 -m 16 -nodefaults -display none -S"
).split()


class Machine:
    """A process of QEMU, and the socket of its commands."""

    def __init__(self, directory, name, *more):
        path = directory / f"{name}.qmp"
        control = ["-qmp", f"unix:{path},server=on,wait=off"]
        self.memory = directory / f"{name}.memory"
        self.process = subprocess.Popen([*MACHINE, *control, *more])
        self.lines = self.connect(path).makefile("rw")
        self.lines.readline()
        self.command("qmp_capabilities")

    def connect(self, path):
        while self.process.poll() is None:
            try:
                control = socket.socket(socket.AF_UNIX)
                control.connect(str(path))
                return control
            except (FileNotFoundError, ConnectionRefusedError):
                control.close()
                time.sleep(0.1)
        raise SystemExit(f"QEMU ended with {self.process.returncode}")

    def command(self, command, **arguments):
        """Gives a command, and its answer."""
        print(json.dumps({"execute": command, "arguments": arguments}), file=self.lines, flush=True)
        for line in self.lines:
            answer = json.loads(line)
            if "error" in answer:
                raise SystemExit(f"{command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]
        raise SystemExit(f"{command}: no answer")

    def dump(self):
        """All of its memory."""
        self.command("pmemsave", val=0, size=MEMORY, filename=str(self.memory))
        return self.memory.read_bytes()

    def end(self):
        self.process.kill()
        self.process.wait()


def wait_for_the_end(source):
    """Until the move has ended, well or not."""
    while True:
        state = source.command("query-migrate")
        if state.get("status") not in ("none", "setup", "active", "device"):
            return state
        time.sleep(0.2)


def move(directory, address, capabilities):
    content = directory / "content"
    content.write_bytes(os.urandom(RANDOM))
    uri = f"rdma:{address}:{PORT}"
    load = f"loader,file={content},addr={RANDOM_AT},force-raw=on"
    machines = []
    try:
        for arguments in [("-incoming", "defer"), ("-device", load)]:
            name = f"machine{len(machines)}"
            machines.append(Machine(directory, name, *arguments))
        target, source = machines
        wanted = [{"capability": name, "state": True} for name in capabilities]
        for machine in machines:
            machine.command("migrate-set-capabilities", capabilities=wanted)
        target.command("migrate-incoming", uri=uri)
        before = source.dump()
        if content.read_bytes() not in before:
            raise SystemExit("the random part is not in the memory")
        source.command("migrate", uri=uri)
        state = wait_for_the_end(source)
        print(json.dumps(state))
        if state["status"] != "completed":
            raise SystemExit("the move failed")
        if target.dump() != before:
            raise SystemExit("the memory is another one")
        print("the same memory")
    finally:
        for machine in machines:
            machine.end()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        move(pathlib.Path(place), sys.argv[1], sys.argv[2:])
