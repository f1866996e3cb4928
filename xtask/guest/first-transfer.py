#!/usr/bin/python3
"""first-transfer.py PORT

Connections that begin as TCP and become rsockets at their first transfer (RDMAV_FORK_SAFE), as far
as the server waits for the client: with a time, beside other descriptors, and for a client that
ends or has no rsockets. PORT is one of the loopback addresses.
"""

import array
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

PORT = int(sys.argv[1])
# A client that has no rsockets.
PLAIN = """
import socket, sys
end = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
end.sendall(b"plain")
sys.stdin.read()
end.shutdown(socket.SHUT_WR)
while end.recv(100):
    pass
"""


# A server that has no rsockets.
PLAIN_SERVER = """
import socket, sys
listens = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
end = listens.accept()[0]
end.sendall(b"ok")
end.recv(1)
"""


def listener():
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", PORT))
    made.listen()
    return made


def pair():
    """The two ends of a connection. The server's end is accepted, and not used yet."""
    with listener() as listens:
        client = socket.create_connection(("127.0.0.1", PORT))
        return client, listens.accept()[0]


def of_tcp():
    """How many connections of TCP have the port."""
    end = f":{PORT:04X}"
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table][1:]
    return sum(row[3] == "01" and end in row[1] + row[2] for row in rows)


def exchange(client, server):
    """Sends to both sides. The sockets are rsockets in the end."""
    sends = threading.Thread(target=client.sendall, args=(b"abc",))
    sends.start()
    assert server.recv(10) == b"abc"
    sends.join()
    server.sendall(b"defg")
    assert client.recv(10) == b"defg"
    assert of_tcp() == 0, "the connection goes by TCP"


def times():
    """A wait ends with its time, and with another descriptor, and the connection works then."""
    client, server = pair()
    unread = array.array("i", [-1])
    fcntl.ioctl(server.fileno(), termios.FIONREAD, unread)
    assert unread[0] == 0
    assert select.select([server], [], [], 0) == ([], [], [])
    assert select.select([server], [], [], 0.02) == ([], [], [])
    poll = select.poll()
    poll.register(server, select.POLLIN)
    assert poll.poll(0) == [] and poll.poll(20) == []
    reading, writing = os.pipe()
    os.write(writing, b"a")
    poll.register(reading, select.POLLIN)
    assert poll.poll() == [(reading, select.POLLIN)]
    poll.unregister(reading)
    sends = threading.Thread(target=client.sendall, args=(b"first",))
    sends.start()
    assert poll.poll() == [(server.fileno(), select.POLLIN)]
    sends.join()
    assert server.recv(10) == b"first"
    exchange(client, server)


def expect_again(call, *arguments):
    """The call ends with EAGAIN: what it waits for is not there."""
    try:
        call(*arguments)
    except BlockingIOError:
        return
    raise AssertionError("the call did not end with EAGAIN")


def bounded():
    """A transfer waits for the other side as long as the socket's timeout says, or not at all."""
    limit = struct.pack("ll", 0, 30000)
    client, server = pair()
    for end in client, server:
        expect_again(end.recv, 10, socket.MSG_DONTWAIT)
        end.setblocking(False)
        expect_again(end.recv, 10)
        end.setblocking(True)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        expect_again(end.recv, 10)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    expect_again(server.send, b"x")
    for end in client, server:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, bytes(16))
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bytes(16))
    exchange(client, server)


def short():
    """A server that has no rsockets sends less than an announcement has."""
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    command = [sys.executable, "-c", PLAIN_SERVER, str(PORT)]
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    assert server.stdout.readline() == b"listens\n"
    with socket.create_connection(("127.0.0.1", PORT)) as client:
        assert client.recv(10) == b"ok"
    assert server.wait() == 0


def members():
    """Sockets that are in a set before their first transfer are in it after that."""
    client, server = pair()
    epoll = select.epoll()
    with epoll:
        epoll.register(server, select.EPOLLOUT)
        epoll.register(client, select.EPOLLIN)
        assert epoll.poll() == [(server.fileno(), select.EPOLLOUT)]
        sends = threading.Thread(target=server.sendall, args=(b"greeting",))
        sends.start()
        assert client.recv(10) == b"greeting"
        sends.join()
        assert of_tcp() == 0, "the connection goes by TCP"
        # A wait for room begins when the socket is full.
        server.setblocking(False)
        sent = 0
        while (server.fileno(), select.EPOLLOUT) in epoll.poll(0):
            sent += server.send(b"x" * 65536)
        assert (client.fileno(), select.EPOLLIN) in epoll.poll()
        while sent:
            sent -= len(client.recv(min(sent, 65536)))
        assert epoll.poll() == [(server.fileno(), select.EPOLLOUT)]
        epoll.modify(server, select.EPOLLIN)
        assert epoll.poll(0) == []
        client.sendall(b"abc")
        assert epoll.poll() == [(server.fileno(), select.EPOLLIN)]
        epoll.unregister(server)
        epoll.unregister(client)
        assert epoll.poll(0) == []


def two():
    """Two accepted sockets: the port is in use for the first one."""
    clients, servers = zip(pair(), pair())
    assert select.select(servers, [], [], 0.02) == ([], [], [])
    sends = [threading.Thread(target=end.sendall, args=(b"abc",)) for end in clients]
    for thread in sends:
        thread.start()
    while servers:
        readable = select.select(servers, [], [])[0]
        for end in readable:
            assert end.recv(3) == b"abc"
        servers = [end for end in servers if end not in readable]
    for thread in sends:
        thread.join()
    assert of_tcp() == 0, "a connection goes by TCP"


def idle():
    """A client without a transfer holds up no set of its server, and connects later."""
    client, server = pair()
    server.setblocking(False)
    with select.epoll() as epoll:
        epoll.register(server, select.EPOLLIN | select.EPOLLET)
        assert epoll.poll(0) == []
        for data in b"first", b"second":
            sends = threading.Thread(target=client.sendall, args=(data,))
            sends.start()
            got = b""
            while got != data:
                # TCP has ended when the client has connected.
                assert [end for end, _ in epoll.poll()] == [server.fileno()]
                try:
                    got += server.recv(10)
                except BlockingIOError:
                    pass
            sends.join()
        assert of_tcp() == 0, "the connection goes by TCP"
        # No end of TCP is left in the set.
        epoll.modify(server, select.EPOLLIN)
        assert epoll.poll(0) == []


def after_idle():
    """A socket joins a set when the client of another member is done with the port."""
    (client, server), (other, accepted) = pair(), pair()
    with select.epoll() as epoll:
        epoll.register(server, select.EPOLLIN)
        sends = [threading.Thread(target=end.sendall, args=(b"abc",)) for end in (client, other)]
        for thread in sends:
            thread.start()
        # Nothing but this call sees that the first client connects.
        epoll.register(accepted, select.EPOLLIN)
        for end in server, accepted:
            assert end.recv(3) == b"abc"
    for thread in sends:
        thread.join()
    assert of_tcp() == 0, "a connection goes by TCP"


def counts():
    """Unread bytes of a client whose server has not used the connection."""
    client, server = pair()
    unread = array.array("i", [-1])
    fcntl.ioctl(client.fileno(), termios.FIONREAD, unread)
    assert unread[0] == 0
    exchange(client, server)


def late():
    """A transfer that waits for the port longer than most clients need is served in the end."""
    (client, server), (other, accepted) = pair(), pair()
    assert select.select([server], [], [], 0) == ([], [], [])
    got = []
    sends = threading.Thread(target=other.sendall, args=(b"other",))
    waits = threading.Thread(target=lambda: got.append(accepted.recv(10)))
    sends.start()
    waits.start()
    time.sleep(6)
    assert not got
    client.sendall(b"abc")
    assert server.recv(10) == b"abc"
    waits.join()
    sends.join()
    assert got == [b"other"]
    assert of_tcp() == 0, "a connection goes by TCP"


def leaves():
    """A client that ends without a transfer."""
    for wait in (lambda end: select.select([end], [], []), lambda end: None):
        client, server = pair()
        client.close()
        wait(server)
        assert server.recv(1) == b""


def plain():
    """A client that has no rsockets: the connection continues as TCP."""
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    for wait in (lambda end: select.select([end], [], []), lambda end: None):
        with listener() as listens:
            command = [sys.executable, "-c", PLAIN, str(PORT)]
            client = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE)
            server = listens.accept()[0]
        wait(server)
        assert server.recv(10) == b"plain"
        client.stdin.close()
        assert server.recv(10) == b""
        server.close()
        assert client.wait() == 0


def signals():
    """Signals during the wait for the first transfer, of both sides."""
    client, server = pair()
    handled = []
    enough = threading.Event()

    def handle(*_):
        handled.append(1)
        if len(handled) == 20:
            enough.set()

    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)

    def send():
        enough.wait()
        client.sendall(b"abc")

    sends = threading.Thread(target=send)
    sends.start()
    # In the main thread, which takes the signals.
    got = server.recv(10)
    signal.setitimer(signal.ITIMER_REAL, 0)
    sends.join()
    assert got == b"abc", got
    exchange(client, server)


def threads():
    """Several threads use the sockets first at the same moment."""
    for _ in range(10):
        client, server = pair()
        start = threading.Barrier(6)
        got = []

        def send(end):
            start.wait()
            end.sendall(b"ab")

        def receive(end):
            start.wait()
            data = end.recv(1)
            got.append((end, data))

        calls = [(send, client), (receive, client), (receive, client)]
        calls += [(send, server), (receive, server), (receive, server)]
        made = [threading.Thread(target=call, args=(end,)) for call, end in calls]
        for thread in made:
            thread.start()
        for thread in made:
            thread.join()
        for end in (client, server):
            assert sorted(data for of, data in got if of is end) == [b"a", b"b"], got
        assert of_tcp() == 0, "the connection goes by TCP"


CHECKS = [times, bounded, short, members, idle, after_idle, counts, two, late, leaves, plain]
CHECKS += [signals, threads]
for check in CHECKS:
    check()
    print(check.__name__)
