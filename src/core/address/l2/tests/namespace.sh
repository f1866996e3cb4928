# Two network namespaces with a cable between: this one, and the peer's. In the end the program
# "$1" is run here with the rest of the arguments.
set -eu
unshare -n sleep infinity &
peer=$!
trap 'kill $peer' EXIT
until [ "$(readlink /proc/$peer/ns/net)" != "$(readlink /proc/$$/ns/net)" ] &&
	[ "$(cat /proc/$peer/comm)" = sleep ]; do sleep 0.1; done
at_peer() { nsenter -t $peer -n "$@"; }

ip link set lo up
ip link add v0 address 02:00:00:00:00:0a type veth peer name v1 address 02:00:00:00:00:0b
ip link set v1 netns $peer
if ip link add link v0 name v0.5 type vlan id 5 2>/dev/null; then
	at_peer ip link add link v1 name v1.5 address 02:00:00:00:00:0c type vlan id 5
else
	# A kernel without VLANs: a second cable.
	export FERROVERBS_TEST_NO_VLAN=1
	ip link add v0.5 address 02:00:00:00:00:0a type veth \
		peer name v1.5 address 02:00:00:00:00:0c
	ip link set v1.5 netns $peer
fi
ip link set v0 up
ip link set v0.5 up
ip addr add 10.77.0.1/24 dev v0
ip addr add fd77::1/64 dev v0 nodad
ip addr add 10.78.0.1/24 dev v0.5
# One address on both.
ip addr add 10.79.0.1/32 dev v0
ip addr add 10.79.0.1/32 dev v0.5

at_peer ip link set lo up
at_peer ip link set v1 up
at_peer ip link set v1.5 up
at_peer ip addr add 10.77.0.2/24 dev v1
at_peer ip addr add fd77::2/64 dev v1 nodad
at_peer ip addr add 10.78.0.2/24 dev v1.5

ip route add 10.88.0.0/24 via 10.77.0.2
ip route add 10.89.0.0/24 via inet6 fd77::2 dev v0
ip -6 route add 2001:db8:1::/48 via fd77::2
ip route add prohibit 10.90.0.0/24
ip route add blackhole 10.91.0.0/24

# A neighbour that answers late.
(sleep 1; at_peer ip addr add 10.77.0.3/24 dev v1) &

"$@"
