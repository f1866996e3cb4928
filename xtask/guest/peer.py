"""Two processes of one program, of which the first started the second, and that take turns in lines of text."""

import random
import subprocess
import sys

MARK = "to the first: "


class Peer:
    """Another process of the program that uses this."""

    def __init__(self, *arguments):
        words = [sys.executable, sys.argv[0], *arguments]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(words, text=True, **pipes)

    def say(self, text):
        print(text, file=self.process.stdin, flush=True)

    def hear(self):
        # Lines logged by libraries are interspersed.
        for line in self.process.stdout:
            if line.startswith(MARK):
                return line.removeprefix(MARK).split()
        sys.exit("the other process is gone")

    def end(self):
        self.process.stdin.close()
        well(self.process.wait(), "the other process")


def say(text):
    """To the first process."""
    print(MARK + text, flush=True)


def hear():
    """From the first process."""
    line = sys.stdin.readline()
    if not line:
        sys.exit("the other process is gone")
    return line.split()


def well(status, what):
    if status != 0:
        sys.exit(f"{what}: {status}")


def pattern(seed, size):
    """Bytes that are others for each seed, and the same each time."""
    return random.Random(seed).randbytes(size)
