# One authority, a certificate for each server and user (P-256), and their kubeconfigs.

make_keys() {
	local names="IP:127.0.0.1,IP:$node_ip,IP:$node_ip6,IP:10.96.0.1,IP:fd00:96::1,DNS:localhost,DNS:$node_name"
	names+=",DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
	mkdir -p "$state/keys"
	(
		cd "$state/keys"
		new_key ca
		openssl req -x509 -new -key ca.key -days 30 -subj /CN=node-ca -out ca.crt \
			-addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign
		# Of the tokens of ServiceAccounts.
		new_key accounts
		openssl ec -in accounts.key -pubout -out accounts.pub
		certify apiserver /CN=kube-apiserver serverAuth "$names"
		certify kubelet-server "/O=system:nodes/CN=system:node:$node_name" serverAuth "IP:$node_ip,IP:$node_ip6,DNS:$node_name"
		certify front-proxy /CN=front-proxy clientAuth
		certify admin /O=system:masters/CN=admin clientAuth
		certify kubelet "/O=system:nodes/CN=system:node:$node_name" clientAuth
		for name in kube-controller-manager kube-scheduler kube-proxy; do
			certify "$name" "/CN=system:$name" clientAuth
		done
	) >"$state/log/keys.log" 2>&1 || die "openssl failed: $(tail -3 "$state/log/keys.log")"
	for name in admin kubelet kube-controller-manager kube-scheduler kube-proxy; do kubeconfig "$name"; done
}

new_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }

certify() { # NAME SUBJECT USAGE [NAMES]
	new_key "$1"
	printf 'basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=%s\n%s\n' \
		"$3" "${4:+subjectAltName=$4}" >"$1.ext"
	openssl req -new -key "$1.key" -subj "$2" |
		openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile "$1.ext" -out "$1.crt"
}

kubeconfig() { # NAME
	cat >"$state/keys/$1.kubeconfig" <<-YAML
		apiVersion: v1
		kind: Config
		current-context: node
		clusters: [{name: node, cluster: {server: "$api", certificate-authority: $state/keys/ca.crt}}]
		users: [{name: $1, user: {client-certificate: $state/keys/$1.crt, client-key: $state/keys/$1.key}}]
		contexts: [{name: node, context: {cluster: node, user: $1}}]
	YAML
}
