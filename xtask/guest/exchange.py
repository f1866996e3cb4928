"""MPI ranks exchange data that each can check; rank 0 says so at the end.

usage: exchange.py EXCHANGE [RANKS], of which there are 2 by default.
"""

import sys

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
RANKS = WORLD.Get_size()
OTHERS = [other for other in range(RANKS) if other != RANK]
SIZES = (0, 1, 64, 1000, 8192, 65536, 300000)


def pattern(rank, size, turn):
    """Bytes that identify the sender and the turn."""
    # It repeats, and to reckon each byte takes seconds in emulation.
    once = bytes((rank * 101 + turn * 31 + i * 7) % 256 for i in range(256))
    return (once * (size // 256 + 1))[:size]


def pingpong():
    """Blocking and non-blocking messages of every size, both ways, with each of the others."""
    for step in range(1, RANKS):
        there, here = (RANK + step) % RANKS, (RANK - step) % RANKS
        for turn, size in enumerate(SIZES):
            got = bytearray(size)
            WORLD.Sendrecv(pattern(RANK, size, turn), there, turn, got, here, turn)
            assert got == pattern(here, size, turn), f"message of {size} bytes"
    messages = [(other, turn, size) for other in OTHERS for turn, size in enumerate(SIZES)]
    buffers = [bytearray(size) for _, _, size in messages]
    receives = [WORLD.Irecv(b, o, 100 + t) for b, (o, t, _) in zip(buffers, messages)]
    sends = [WORLD.Isend(pattern(RANK, s, t), o, 100 + t) for o, t, s in messages]
    MPI.Request.Waitall(receives + sends)
    for got, (other, turn, size) in zip(buffers, messages):
        assert got == pattern(other, size, turn), f"request of {size} bytes"


def collectives():
    """A few operations that all ranks take part in."""
    for turn in range(20):
        assert WORLD.allreduce(RANK + turn) == sum(rank + turn for rank in range(RANKS))
        assert WORLD.bcast(("word", turn) if RANK == 0 else None) == ("word", turn)
        assert WORLD.allgather(RANK * turn) == [rank * turn for rank in range(RANKS)]
        sent = [(RANK, to) for to in range(RANKS)]
        assert WORLD.alltoall(sent) == [(rank, RANK) for rank in range(RANKS)]
        WORLD.Barrier()


def one_sided():
    """Put, get and an atomic on the next one's memory."""
    size = 4096
    following, before = (RANK + 1) % RANKS, (RANK - 1) % RANKS
    window = MPI.Win.Allocate(size + 8, comm=WORLD)
    memory = window.tomemory()
    memory[:] = bytes(size + 8)
    window.Fence()
    # Read until the fence, and mpi4py keeps nothing alive for a Put.
    mine = pattern(RANK, size, 1)
    window.Put(mine, following, (0, size, MPI.BYTE))
    window.Fence()
    assert bytes(memory[:size]) == pattern(before, size, 1), "put"
    got = bytearray(size)
    window.Get(got, following, (0, size, MPI.BYTE))
    window.Fence()
    assert got == mine, "get"
    one, old = bytearray((1).to_bytes(8, "little")), bytearray(8)
    for _ in range(5):
        window.Lock(0, MPI.LOCK_SHARED)
        window.Fetch_and_op([one, MPI.INT64_T], [old, MPI.INT64_T], 0, size, MPI.SUM)
        window.Unlock(0)
    WORLD.Barrier()
    window.Fence()
    if RANK == 0:
        assert int.from_bytes(memory[size:], "little") == 5 * RANKS, "fetch and add"
    window.Free()


def main():
    """Runs the exchange that is named, on exactly as many ranks as are expected."""
    exchanges = {"pingpong": pingpong, "collectives": collectives, "one-sided": one_sided}
    expected = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    assert RANKS == expected, f"made for {expected} ranks"
    exchanges[sys.argv[1]]()
    if WORLD.allreduce(1) == RANKS and RANK == 0:
        print(f"{RANKS} ranks agree")


try:
    main()
except BaseException as problem:  # One rank alone would leave the other waiting.
    print(f"rank {RANK}: {problem!r}", file=sys.stderr, flush=True)
    WORLD.Abort(1)
