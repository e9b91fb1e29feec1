# IPv4 and IPv6.

has_ipv6() { [ "$(cat /proc/sys/net/ipv6/conf/all/disable_ipv6 2>/dev/null)" = 0 ]; }

# Of a setting for IPv4 and the same for IPv6: those that the node has, its first kind first.
of_families() {
	has_ipv6 || {
		echo "$1"
		return
	}
	case ${FAIRTIDE_NODE_FIRST:-4} in
	4) echo "$1,$2" ;;
	6) echo "$2,$1" ;;
	*) die "FAIRTIDE_NODE_FIRST is $FAIRTIDE_NODE_FIRST: write 4 or 6" ;;
	esac
}
