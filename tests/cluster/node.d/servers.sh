# The servers of the node, each with a script that starts it and a log.

start_servers() {
	local keys=$state/keys etcd=http://127.0.0.1:2379 node_ips services
	node_ips=$(of_families "$node_ip" "$node_ip6")
	services=$(of_families 10.96.0.0/16 fd00:96::/112)
	server etcd etcd --name=node --data-dir="$state/etcd" --unsafe-no-fsync --log-level=warn \
		--listen-client-urls="$etcd" --advertise-client-urls="$etcd" --listen-peer-urls=http://127.0.0.1:2380 \
		--initial-advertise-peer-urls=http://127.0.0.1:2380 --initial-cluster=node=http://127.0.0.1:2380
	server containerd containerd -c "$state/etc/containerd.toml"
	server apiserver kube-apiserver --etcd-servers="$etcd" --advertise-address="${node_ips%,*}" --secure-port=6443 \
		--bind-address="$(has_ipv6 && echo :: || echo 0.0.0.0)" \
		--tls-cert-file="$keys/apiserver.crt" --tls-private-key-file="$keys/apiserver.key" --client-ca-file="$keys/ca.crt" \
		--service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$keys/accounts.pub" \
		--service-account-signing-key-file="$keys/accounts.key" --service-cluster-ip-range="$services" \
		--authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged --profiling=false \
		--requestheader-client-ca-file="$keys/ca.crt" --requestheader-allowed-names=front-proxy \
		--requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
		--requestheader-extra-headers-prefix=X-Remote-Extra- \
		--proxy-client-cert-file="$keys/front-proxy.crt" --proxy-client-key-file="$keys/front-proxy.key" \
		--kubelet-client-certificate="$keys/admin.crt" --kubelet-client-key="$keys/admin.key" \
		--kubelet-certificate-authority="$keys/ca.crt" --kubelet-preferred-address-types=InternalIP
	until_true 30 "containerd answers" in_node ctr version
	import_pause_image
	until_true 120 "the API server is ready" in_node kubectl get --raw /readyz
	# Else its many clients share twenty requests a second, and the first pod waits for its
	# ServiceAccount.
	controller kube-controller-manager --kube-api-qps=300 --kube-api-burst=600 --use-service-account-credentials \
		--service-account-private-key-file="$keys/accounts.key" --root-ca-file="$keys/ca.crt" \
		--cluster-signing-cert-file="$keys/ca.crt" --cluster-signing-key-file="$keys/ca.key" \
		--allocate-node-cidrs --cluster-cidr="$(of_families 10.244.0.0/16 fd00:244::/48)" --service-cluster-ip-range="$services" --node-monitor-period=2s
	controller kube-scheduler
	server kubelet kubelet --config="$state/etc/kubelet.yaml" --kubeconfig="$keys/kubelet.kubeconfig" \
		--root-dir="$state/kubelet" --hostname-override="$node_name" --node-ip="$node_ips"
	server proxy kube-proxy --config="$state/etc/proxy.yaml"
	server dns cluster-dns --kubeconfig="$keys/admin.kubeconfig" --address="$node_ip:53"
	until_true 120 "the node is ready" in_node kubectl wait --for=condition=Ready "node/$node_name" --timeout=60s
	until_true 60 "namespace default has its ServiceAccount" in_node kubectl get serviceaccount default
}

controller() { # PROGRAM ARGS...
	local config=$state/keys/$1.kubeconfig
	server "${1#kube-}" "$@" --kubeconfig="$config" --authentication-kubeconfig="$config" \
		--authorization-kubeconfig="$config" --requestheader-client-ca-file="$state/keys/ca.crt" \
		--bind-address=127.0.0.1 --leader-elect=false
}

server() { # NAME CMD...
	local server=$1
	shift
	{
		printf 'echo $$ >/run/server-%s.pid\nexec' "$server"
		printf ' %q' "$@"
		echo
	} >"$state/servers/$server"
	start_server "$server"
}

start_server() {
	[ -e "$state/servers/$1" ] || die "no server $1: there are $(cd "$state/servers" && echo *)"
	in_node setsid sh "$state/servers/$1" >>"$state/log/$1.log" 2>&1 </dev/null &
	disown $!
}

stop_server() {
	[ -e "$state/servers/$1" ] || die "no server $1: there are $(cd "$state/servers" && echo *)"
	in_node sh -c 'pid=$(cat "/run/server-$1.pid") || exit 0
		kill "$pid" 2>/dev/null
		for try in $(seq 50); do kill -0 "$pid" 2>/dev/null || exit 0; sleep 0.1; done
		kill -KILL "$pid"' sh "$1"
}
