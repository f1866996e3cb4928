"""Times what MPI ranks exchange; rank 0 prints the figure at the end.

usage: mpi-speed.py TEST SIZE COUNT

all-to-all  SIZE bytes from each rank to each: microseconds of one exchange
allreduce   the sum of SIZE bytes of 64-bit integers: microseconds of one reduction
bandwidth   COUNT messages of SIZE bytes from each rank of the first half to one of the second:
            mebibytes a second of all together
"""

import sys

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
RANKS = WORLD.Get_size()
# Messages that a sender has under way.
WINDOW = 16


def all_to_all(size, count):
    """Microseconds of an exchange. The last one's bytes are checked."""
    out = bytearray(b"".join(bytes([RANK * RANKS + to]) * size for to in range(RANKS)))
    into = bytearray(size * RANKS)
    seconds = timed(lambda: WORLD.Alltoall(out, into), count)
    expected = b"".join(bytes([rank * RANKS + RANK]) * size for rank in range(RANKS))
    assert into == expected, "all-to-all"
    return seconds / count * 1e6


def allreduce(size, count):
    """Microseconds of a reduction. The last one's sums are checked."""
    number = (RANK + 1).to_bytes(8, "little")
    out, into = bytearray(number * (size // 8)), bytearray(size)
    reduce = lambda: WORLD.Allreduce([out, MPI.INT64_T], [into, MPI.INT64_T], MPI.SUM)
    seconds = timed(reduce, count)
    total = sum(range(1, RANKS + 1)).to_bytes(8, "little")
    assert into == total * (size // 8), "allreduce"
    return seconds / count * 1e6


def bandwidth(size, count):
    """Mebibytes a second of all pairs. The last window's bytes are checked."""
    half = RANKS // 2
    buffers = [bytearray(bytes([RANK + 1]) * size) for _ in range(WINDOW)]

    def window():
        if RANK < half:
            requests = [WORLD.Isend(buffer, RANK + half) for buffer in buffers]
        else:
            requests = [WORLD.Irecv(buffer, RANK - half) for buffer in buffers]
        MPI.Request.Waitall(requests)

    seconds = timed(window, count // WINDOW)
    if RANK >= half:
        sender = bytes([RANK - half + 1]) * size
        assert all(buffer == sender for buffer in buffers), "bandwidth"
    return half * (count // WINDOW) * WINDOW * size / seconds / (1 << 20)


def timed(step, count):
    """Seconds that the slowest rank takes for so many steps, the first of which are not counted."""
    for _ in range(max(count // 10, 1)):
        step()
    WORLD.Barrier()
    began = MPI.Wtime()
    for _ in range(count):
        step()
    return WORLD.allreduce(MPI.Wtime() - began, MPI.MAX)


def main():
    """Runs the test that is named."""
    tests = {"all-to-all": all_to_all, "allreduce": allreduce, "bandwidth": bandwidth}
    figure = tests[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))
    if RANK == 0:
        print(f"figure {figure}")


try:
    main()
except BaseException as problem:  # One rank alone would leave the others waiting.
    print(f"rank {RANK}: {problem!r}", file=sys.stderr, flush=True)
    WORLD.Abort(1)
