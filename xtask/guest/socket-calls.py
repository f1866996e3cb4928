#!/usr/bin/python3
"""socket-calls.py PORT

Calls of sockets that programs make besides the usual ones. Each check holds for TCP and UDP, and so
it does for rsockets, by librspreload. PORT is one of the loopback addresses.
"""
import array
import ctypes
import errno
import fcntl
import os
import resource
import select
import signal
import socket
import struct
import sys
import termios
import threading
import time

PORT = int(sys.argv[1])
FIONBIO = 0x5421
libc = ctypes.CDLL(None, use_errno=True)


class PollFd(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]


class Time(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class EpollEvent(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("events", ctypes.c_uint32), ("data", ctypes.c_uint64)]


SECOND = ctypes.byref(Time(1, 0))
LONG = ctypes.byref(Time(3600, 0))
POLLIN = 1


def answer(value):
    """Of a call of the C library."""
    if value < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return value


def listener():
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", PORT))
    made.listen()
    return made


def pair():
    """The two ends of a connection."""
    accepted = []
    with listener() as listens:
        accepts = threading.Thread(target=lambda: accepted.append(listens.accept()[0]))
        accepts.start()
        client = socket.create_connection(("127.0.0.1", PORT))
        accepts.join()
    return client, accepted[0]


def wait_for(end, length):
    """Until so many bytes can be read."""
    while len(end.recv(length, socket.MSG_PEEK)) < length:
        pass


def unread(fd):
    count = array.array("i", [-1])
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return count[0]


def ioctls():
    client, server = pair()
    assert unread(server.fileno()) == 0
    client.sendall(b"x" * 5000)
    wait_for(server, 5000)
    assert unread(server.fileno()) == 5000
    assert server.recv(4000) == b"x" * 4000
    assert unread(server.fileno()) == 1000
    assert server.recv(4000) == b"x" * 1000
    fcntl.ioctl(server.fileno(), FIONBIO, struct.pack("i", 1))
    assert fcntl.fcntl(server.fileno(), fcntl.F_GETFL) & os.O_NONBLOCK
    try:
        os.read(server.fileno(), 1)
        raise AssertionError("there is nothing to read")
    except BlockingIOError:
        pass
    fcntl.ioctl(server.fileno(), FIONBIO, struct.pack("i", 0))
    assert not fcntl.fcntl(server.fileno(), fcntl.F_GETFL) & os.O_NONBLOCK


def duplicates():
    client, server = pair()
    free = os.open("/dev/null", os.O_RDONLY)
    for flags in (0, os.O_CLOEXEC):
        copy = answer(libc.dup3(server.fileno(), free, flags))
        assert copy == free
        assert bool(fcntl.fcntl(copy, fcntl.F_GETFD)) == bool(flags)
        client.sendall(b"abc")
        assert os.read(copy, 3) == b"abc"
        os.write(copy, b"def")
        assert client.recv(3) == b"def"
    # A descriptor that cannot be duplicated leaves the other one open.
    assert libc.dup2(9999, copy) == -1 and ctypes.get_errno() == errno.EBADF
    client.sendall(b"ghi")
    assert os.read(copy, 3) == b"ghi"
    assert libc.dup3(copy, copy, 0) == -1 and ctypes.get_errno() == errno.EINVAL
    # The connection ends with its last descriptor.
    server.close()
    client.sendall(b"jkl")
    assert os.read(copy, 3) == b"jkl"
    os.close(copy)
    assert client.recv(1) == b""


def fortified():
    client, server = pair()
    client.sendall(b"abcdef")
    wait_for(server, 6)
    room = ctypes.create_string_buffer(16)
    fd = server.fileno()
    assert answer(libc.__read_chk(fd, room, 2, ctypes.c_size_t(16))) == 2
    assert room.raw[:2] == b"ab"
    assert answer(libc.__recv_chk(fd, room, 2, ctypes.c_size_t(16), 0)) == 2
    assert room.raw[:2] == b"cd"
    polled = PollFd(fd, POLLIN, 0)
    size = ctypes.c_size_t(ctypes.sizeof(polled))
    assert answer(libc.__poll_chk(ctypes.byref(polled), 1, 0, size)) == 1
    assert answer(libc.__ppoll_chk(ctypes.byref(polled), 1, SECOND, None, size)) == 1
    got = libc.__recvfrom_chk(fd, room, 2, ctypes.c_size_t(16), 0, None, None)
    assert answer(got) == 2 and room.raw[:2] == b"ef"


def aborts(call):
    """Whether a forked child that makes the call ends by SIGABRT."""
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # The message.
        os.close(2)
        call()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGABRT


def overflows():
    room = ctypes.create_string_buffer(16)
    size = ctypes.c_size_t(8)
    polled = PollFd(0, POLLIN, 0)
    one = ctypes.c_size_t(ctypes.sizeof(polled))
    at = ctypes.byref(polled)
    for call in (
        lambda: libc.__read_chk(0, room, 9, size),
        lambda: libc.__recv_chk(0, room, 9, size, 0),
        lambda: libc.__recvfrom_chk(0, room, 9, size, 0, None, None),
        lambda: libc.__poll_chk(at, 2, 0, one),
        lambda: libc.__ppoll_chk(at, 2, SECOND, None, one),
    ):
        assert aborts(call)
    assert not aborts(lambda: libc.__poll_chk(at, 1, 0, one))


def replaced():
    """A number that dup2 gives another socket is never free."""
    client, server = pair()
    other, third = pair()
    number = other.detach()
    stop = threading.Event()
    opened = []

    def opens():
        while not stop.is_set():
            opened.append(os.open("/dev/null", os.O_RDONLY))
            os.close(opened[-1])

    lowest = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest)
    # Lower numbers are in use, so the number would be the next one that is given.
    filled = [os.open("/dev/null", os.O_RDONLY) for _ in range(lowest, number)]
    thread = threading.Thread(target=opens)
    thread.start()
    for _ in range(200):
        assert answer(libc.dup2(server.fileno(), number)) == number
    stop.set()
    thread.join()
    assert number not in opened
    assert third.recv(1) == b""
    client.sendall(b"abc")
    assert os.read(number, 3) == b"abc"
    for fd in filled + [number]:
        os.close(fd)


# Signal masks as the C library takes them: 1024 bits.
NO_SIGNALS = ctypes.create_string_buffer(128)


def waits_of(fd):
    """Waits of one descriptor for reading, each a function of time and mask."""
    epoll = answer(libc.epoll_create1(0))
    event = EpollEvent(POLLIN, 7)
    answer(libc.epoll_ctl(epoll, 1, fd, ctypes.byref(event)))

    def ppoll(time, mask):
        polled = PollFd(fd, POLLIN, 0)
        return libc.ppoll(ctypes.byref(polled), 1, time, mask)

    def pselect(time, mask):
        bits = (ctypes.c_ulong * 16)()
        bits[fd // 64] = 1 << fd % 64
        return libc.pselect(fd + 1, bits, None, None, time, mask)

    def epoll_pwait(time, mask):
        found = EpollEvent()
        milliseconds = time._obj.seconds * 1000
        return libc.epoll_pwait(epoll, ctypes.byref(found), 1, milliseconds, mask)

    def epoll_pwait2(time, mask):
        found = EpollEvent()
        return libc.epoll_pwait2(epoll, ctypes.byref(found), 1, time, mask)

    return [ppoll, pselect, epoll_pwait, epoll_pwait2]


def masks():
    client, server = pair()
    handled = []
    signal.signal(signal.SIGUSR1, lambda *_: handled.append(1))
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    waits = waits_of(server.fileno())
    none = ctypes.byref(Time(0, 0))
    for wait in waits:
        for mask in (None, NO_SIGNALS):
            assert answer(wait(none, mask)) == 0
    # Signals without effect end no wait; epoll_pwait is the kernel's exception.
    for wait in waits[:2]:
        for ignored in (signal.SIGWINCH, signal.SIGUSR2):
            signal.pthread_kill(threading.get_ident(), ignored)
        assert answer(wait(ctypes.byref(Time(0, 20000000)), NO_SIGNALS)) == 0
    for count, wait in enumerate(waits, 1):
        # Pending before the wait.
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        assert wait(LONG, NO_SIGNALS) == -1 and ctypes.get_errno() == errno.EINTR
        assert len(handled) == 2 * count - 1, (wait, handled)
        # Sent during the wait, or just before it.
        sends = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGUSR1))
        sends.start()
        assert wait(LONG, NO_SIGNALS) == -1 and ctypes.get_errno() == errno.EINTR
        sends.join()
        assert len(handled) == 2 * count, (wait, handled)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == BLOCKED
    # A descriptor that is ready is reported, and the signal stays pending or was handled.
    client.sendall(b"a")
    for wait in waits:
        assert answer(wait(LONG, NO_SIGNALS)) == 1


def times():
    """A negative time is invalid."""
    _, server = pair()
    fd = server.fileno()
    bits = (ctypes.c_ulong * 16)()
    bits[fd // 64] = 1 << fd % 64
    before = ctypes.byref(Time(-1, 0))
    epoll = answer(libc.epoll_create1(0))
    answer(libc.epoll_ctl(epoll, 1, fd, ctypes.byref(EpollEvent(POLLIN, 7))))
    polled = PollFd(fd, POLLIN, 0)
    found = EpollEvent()
    for call in (
        lambda: libc.select(fd + 1, bits, None, None, before),
        lambda: libc.pselect(fd + 1, bits, None, None, before, None),
        lambda: libc.ppoll(ctypes.byref(polled), 1, before, None),
        lambda: libc.epoll_pwait2(epoll, ctypes.byref(found), 1, before, None),
    ):
        assert call() == -1 and ctypes.get_errno() == errno.EINVAL


def ports():
    """A port is free when its last socket is closed, whatever else happens at that moment."""
    for _ in range(50):
        client, server = pair()
        client.close()
        server.close()
    for _ in range(50):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
            made.bind(("127.0.0.1", PORT))
            made.sendto(b"a", ("127.0.0.1", PORT))


def datagrams():
    """A socket of both families, which hosts of IPv4 reach, too."""
    server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.bind(("::", PORT))
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.connect(("127.0.0.1", PORT))
    for turn in range(50):
        client.send(b"to %d" % turn)
        data, address = server.recvfrom(100)
        assert data == b"to %d" % turn
        assert address[0] == "::ffff:127.0.0.1" and address[1] == client.getsockname()[1]
        if turn == 25:
            server.connect(address)
        server.send(b"back") if turn >= 25 else server.sendto(b"back", address)
        assert client.recv(100) == b"back"


def nowhere():
    """An address that no interface has."""
    for family, address in ((socket.AF_INET, "198.51.100.7"), (socket.AF_INET6, "2001:db8::7")):
        with socket.socket(family) as made:
            try:
                made.bind((address, PORT))
                raise AssertionError("no interface has the address")
            except OSError as error:
                assert error.errno == errno.EADDRNOTAVAIL, error
            made.bind(("127.0.0.1" if family == socket.AF_INET else "::1", PORT))
            made.listen()
            assert made.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)


TENTH = struct.pack("qq", 0, 100000)


def expires(call):
    """A call that waits for longer than its socket allows."""
    try:
        call()
    except BlockingIOError:
        return True
    return False


def timeouts():
    client, server = pair()
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        assert server.getsockopt(socket.SOL_SOCKET, option, 16) == bytes(16)
        server.setsockopt(socket.SOL_SOCKET, option, TENTH)
        assert server.getsockopt(socket.SOL_SOCKET, option, 16) == TENTH
        for wrong, number in (
            (struct.pack("qq", 0, 1000000), errno.EDOM),
            (TENTH[:8], errno.EINVAL),
        ):
            try:
                server.setsockopt(socket.SOL_SOCKET, option, wrong)
                raise AssertionError("the time is invalid")
            except OSError as error:
                assert error.errno == number
    assert expires(lambda: server.recv(1))
    # What has arrived is returned.
    client.sendall(b"abc")
    assert server.recv(10, socket.MSG_WAITALL) == b"abc"
    assert expires(lambda: [server.send(b"x" * 65536) for _ in range(100000)])
    # The peer is not bounded, and finds the rest.
    server.close()
    with client.makefile("rb") as rest:
        assert not rest.read().strip(b"x")
    with listener() as listens:
        listens.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, TENTH)
        assert expires(listens.accept)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", PORT))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, TENTH)
        assert expires(lambda: made.recv(1))


def kinds():
    client, server = pair()
    with listener() as listens, socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as datagrams:
        for made, expected in (
            (client, (socket.SOCK_STREAM, socket.AF_INET, socket.IPPROTO_TCP, 0)),
            (server, (socket.SOCK_STREAM, socket.AF_INET, socket.IPPROTO_TCP, 0)),
            (listens, (socket.SOCK_STREAM, socket.AF_INET, socket.IPPROTO_TCP, 1)),
            (datagrams, (socket.SOCK_DGRAM, socket.AF_INET6, socket.IPPROTO_UDP, 0)),
        ):
            options = (
                socket.SO_TYPE,
                socket.SO_DOMAIN,
                socket.SO_PROTOCOL,
                socket.SO_ACCEPTCONN,
            )
            assert tuple(made.getsockopt(socket.SOL_SOCKET, n) for n in options) == expected


def both_families():
    """A socket of IPv6 reaches hosts of IPv4, and is reached by them."""
    loopback = "::ffff:127.0.0.1"
    for bound in ("::", loopback):
        listens = socket.socket(socket.AF_INET6)
        listens.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listens.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listens.bind((bound, PORT))
        listens.listen()
        assert listens.getsockname()[:2] == (bound, PORT)
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, loopback)):
            client = socket.socket(family)
            client.connect((address, PORT))
            server, peer = listens.accept()
            assert server.getsockname()[:2] == (loopback, PORT)
            assert peer == server.getpeername()
            assert peer[:2] == (loopback, client.getsockname()[1])
            assert client.getpeername()[:2] == (address, PORT)
            assert client.getsockname()[0] == address
            client.sendall(b"abc")
            assert server.recvfrom(3)[0] == b"abc"
            client.close()
            server.close()
        listens.close()
    alone = socket.socket(socket.AF_INET6)
    alone.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    for call, number in ((alone.bind, errno.EINVAL), (alone.connect, errno.ENETUNREACH)):
        try:
            call((loopback, PORT))
            raise AssertionError("the socket is of IPv6 alone")
        except OSError as error:
            assert error.errno == number, error


def sets():
    """A socket that joins a set ends the waits of the threads that wait for the set already."""
    for _ in range(20):
        reading, writing = os.pipe()
        epoll = select.epoll()
        epoll.register(reading, select.EPOLLIN)
        found = []
        waiting = [threading.Thread(target=lambda: found.append(epoll.poll())) for _ in range(2)]
        for thread in waiting:
            thread.start()
        time.sleep(0.01)
        client, server = pair()
        epoll.register(server, select.EPOLLIN)
        client.sendall(b"abc")
        for thread in waiting:
            thread.join()
        assert found == [[(server.fileno(), select.EPOLLIN)]] * 2
        assert server.recv(3) == b"abc"
        # Both kinds of members are found afterwards.
        assert epoll.poll(0) == []
        os.write(writing, b"a")
        assert epoll.poll() == [(reading, select.EPOLLIN)]
        os.close(reading)
        os.close(writing)
        epoll.close()
        client.close()
        server.close()


CHECKS = [
    kinds,
    nowhere,
    sets,
    both_families,
    timeouts,
    ioctls,
    duplicates,
    replaced,
    fortified,
    overflows,
    masks,
    times,
    ports,
    datagrams,
]

# In all threads: one that is ending would take the signal otherwise.
BLOCKED = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH}
signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
for check in CHECKS:
    check()
    print(check.__name__)
