# The namespaces in which the node lives, and the one process that holds them.

# When a process started: a pid alone may be another's by now. Nothing once it is gone, and
# that is, for the first process inside, when all others inside are gone too.
started_at() {
	local stat
	read -r stat 2>/dev/null <"/proc/$1/stat" || return 0
	set -- ${stat##*) }
	echo "${20}"
}

is_up() {
	local pid at
	read -r pid at 2>/dev/null <"$state/outer" || return 1
	[ -n "$at" ] && [ "$(started_at "$pid")" = "$at" ] && [ -e "$state/ready" ]
}

# The first process inside, as it is seen from outside.
holder() {
	local pid at child
	read -r pid at <"$state/outer"
	read -r child <"/proc/$pid/task/$pid/children"
	echo "${child%% *}"
}

start_namespaces() {
	setsid "$here/node" __outer >"$state/log/init.log" 2>&1 </dev/null &
	local pid=$!
	disown "$pid"
	until [ -e "$state/ready" ]; do
		kill -0 "$pid" 2>/dev/null || die "can't make the node's namespaces, mounts and network:
$(tail -n 3 "$state/log/init.log")
In a container, run it privileged."
		sleep 0.05
	done
}

# Makes the namespaces. It leaves its mark before, so that whatever is killed at whatever
# moment, `down` finds it.
outer() {
	echo "$$ $(started_at $$)" >"$state/outer"
	exec unshare --mount --propagation private --net --pid --uts --ipc --fork --kill-child=KILL -- "$here/node" __init
}

# Process 1 inside goes with the one that made it, and takes all others along.
end_namespaces() {
	local pid at inside inside_at
	read -r pid at 2>/dev/null <"$state/outer" || return 0
	[ -n "$at" ] && [ "$(started_at "$pid")" = "$at" ] || return 0
	inside=$(holder) || inside= # it hasn't come that far
	inside_at=$(started_at "$inside")
	kill -KILL "$pid"
	while [ -n "$inside_at" ] && [ "$(started_at "$inside")" = "$inside_at" ]; do sleep 0.05; done
}

# Runs as process 1 inside, then becomes the holder.
init_node() {
	local setting file
	mount --make-rshared /
	mount -t proc proc /proc
	# A /sys of this network hides the cgroups: they are put back.
	mkdir -p "$state/cgroup"
	mount --rbind /sys/fs/cgroup "$state/cgroup"
	mount -t sysfs sysfs /sys
	mount --rbind "$state/cgroup" /sys/fs/cgroup
	mount -t tmpfs tmpfs /run
	mount -t tmpfs tmpfs /var/log
	mkdir -p /run/lock /run/netns
	hide_var_lib_kubelet
	# kubelet insists on these, which are the whole machine's: it is shown files.
	for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
		kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
		file=/run/$(echo "${setting%=*}" | tr / -)
		echo "${setting#*=}" >"$file"
		mount --bind "$file" "/proc/sys/${setting%=*}"
	done
	hostname "$node_name"
	printf '127.0.0.1 localhost\n%s %s\n' "$node_ip" "$node_name" >/run/hosts
	mount --bind /run/hosts /etc/hosts
	printf 'nameserver %s\n' "$node_ip" >"$state/etc/resolv.conf"
	ip link set lo up
	# The node's own address. The default route leads nowhere; it only makes the
	# addresses of Services routable.
	ip link add node0 type veth peer name node1
	ip addr add "$node_ip/24" dev node0
	ip link set node1 up
	ip link set node0 up
	ip route add default dev node0
	echo 1 >/proc/sys/net/ipv4/ip_forward
	if has_ipv6; then
		ip addr add "$node_ip6/64" dev node0 nodad
		ip -6 route add default dev node0
		echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
	fi
	touch "$state/ready"
	exec "$(dirname "$(PATH=$(cat "$state/path") command -v kubelet)")/holder"
}

# kubelet keeps the sockets of device plugins at this fixed path.
hide_var_lib_kubelet() {
	mkdir -p "$state/var-lib/upper" "$state/var-lib/work"
	mount -t overlay overlay -o "lowerdir=/var/lib,upperdir=$state/var-lib/upper,workdir=$state/var-lib/work" /var/lib
}

# The pods' branch of each cgroup hierarchy.
make_cgroups() {
	local tree
	if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
		make_cgroup "/sys/fs/cgroup/$name"
		return
	fi
	for tree in /sys/fs/cgroup/*/; do
		[ -e "$tree/cgroup.procs" ] || continue
		make_cgroup "$tree/$name"
		if [ -e "$tree/$name/cpuset.cpus" ]; then
			cat "$tree/cpuset.cpus" >"$tree/$name/cpuset.cpus"
			cat "$tree/cpuset.mems" >"$tree/$name/cpuset.mems"
		fi
	done
}

make_cgroup() {
	local said
	said=$(mkdir -p "$1" 2>&1) || die "can't make the cgroup of the pods ($said). In a container, run it privileged."
}

remove_cgroups() {
	local branch end=$((SECONDS + 60))
	for branch in /sys/fs/cgroup/"$name" /sys/fs/cgroup/*/"$name"; do
		# The killed take a moment to leave.
		while [ -d "$branch" ] && ! find "$branch" -depth -type d -exec rmdir {} + 2>/dev/null; do
			[ "$SECONDS" -lt "$end" ] || die "can't remove $branch: something still runs in there"
			sleep 0.05
		done
	done
}
