"""Two MPI ranks exchange data that each can check; rank 0 says so at the end."""

import sys

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
OTHER = 1 - RANK
SIZES = (0, 1, 64, 1000, 8192, 65536, 300000)


def pattern(rank, size, turn):
    """Bytes that tell who sent them, and in which turn."""
    return bytes((rank * 101 + turn * 31 + i * 7) % 256 for i in range(size))


def pingpong():
    """Blocking and non-blocking messages of every size, both ways."""
    for turn, size in enumerate(SIZES):
        got = bytearray(size)
        WORLD.Sendrecv(pattern(RANK, size, turn), OTHER, turn, got, OTHER, turn)
        assert got == pattern(OTHER, size, turn), f"message of {size} bytes"
    buffers = [bytearray(size) for size in SIZES]
    receives = [WORLD.Irecv(b, OTHER, 100 + t) for t, b in enumerate(buffers)]
    sends = [WORLD.Isend(pattern(RANK, s, t), OTHER, 100 + t) for t, s in enumerate(SIZES)]
    MPI.Request.Waitall(receives + sends)
    for turn, size in enumerate(SIZES):
        assert buffers[turn] == pattern(OTHER, size, turn), f"request of {size} bytes"


def collectives():
    """A few operations that both ranks take part in."""
    for turn in range(20):
        assert WORLD.allreduce(RANK + turn) == 2 * turn + 1
        assert WORLD.bcast(("word", turn) if RANK == 0 else None) == ("word", turn)
        assert WORLD.allgather(RANK * turn) == [0, turn]
        assert WORLD.alltoall([(RANK, 0), (RANK, 1)]) == [(0, RANK), (1, RANK)]
        WORLD.Barrier()


def one_sided():
    """Put, get and an atomic on the other's memory."""
    size = 4096
    window = MPI.Win.Allocate(size + 8, comm=WORLD)
    memory = window.tomemory()
    memory[:] = bytes(size + 8)
    window.Fence()
    window.Put(pattern(RANK, size, 1), OTHER, (0, size, MPI.BYTE))
    window.Fence()
    assert bytes(memory[:size]) == pattern(OTHER, size, 1), "put"
    got = bytearray(size)
    window.Get(got, OTHER, (0, size, MPI.BYTE))
    window.Fence()
    assert got == pattern(RANK, size, 1), "get"
    one, before = bytearray((1).to_bytes(8, "little")), bytearray(8)
    for _ in range(5):
        window.Lock(0, MPI.LOCK_SHARED)
        window.Fetch_and_op([one, MPI.INT64_T], [before, MPI.INT64_T], 0, size, MPI.SUM)
        window.Unlock(0)
    WORLD.Barrier()
    window.Fence()
    if RANK == 0:
        assert int.from_bytes(memory[size:], "little") == 10, "fetch and add"
    window.Free()


def main():
    """Runs the exchange that is named, on exactly two ranks."""
    exchanges = {"pingpong": pingpong, "collectives": collectives, "one-sided": one_sided}
    assert WORLD.Get_size() == 2, "made for two ranks"
    exchanges[sys.argv[1]]()
    if WORLD.allreduce(1) == 2 and RANK == 0:
        print("2 ranks agree")


try:
    main()
except BaseException as problem:  # One rank alone would leave the other waiting.
    print(f"rank {RANK}: {problem!r}", file=sys.stderr, flush=True)
    WORLD.Abort(1)
