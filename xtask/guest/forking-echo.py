"""A server that forks for each connection and sends back what it gets, and its client.

usage: forking-echo.py server|client PORT
"""

import socket
import socketserver
import sys

CONNECTIONS = 3
BLOCK = bytes((i * 7) % 251 for i in range(200000))


class Echo(socketserver.BaseRequestHandler):
    """One connection, in a process of its own."""

    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)


class Server(socketserver.ForkingTCPServer):
    allow_reuse_address = True


def established(port):
    """How many connections of TCP have the port at one end."""
    ends = f":{port:04X}"
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table][1:]
    return sum(row[3] == "01" and (row[1] + row[2]).find(ends) >= 0 for row in rows)


def client(port):
    """Several connections, each used before the next is made: a server is at its port with one."""
    connections = []
    for turn in range(CONNECTIONS):
        connection = socket.create_connection(("127.0.0.1", port))
        connections.append(connection)
        sent = BLOCK[turn:]
        for begin in range(0, len(sent), 50000):
            piece = sent[begin : begin + 50000]
            connection.sendall(piece)
            got = b""
            while len(got) < len(piece):
                got += connection.recv(65536)
            assert got == piece, f"connection {turn}"
    assert established(port) == 0, "a connection goes by TCP"
    for connection in connections:
        connection.close()


def main():
    """Serves, or connects."""
    port = int(sys.argv[2])
    if sys.argv[1] == "client":
        client(port)
        return
    with Server(("127.0.0.1", port), Echo) as server:
        server.serve_forever()


main()
