# The files that containerd, CNI, kubelet and kube-proxy read.

pause_image=fairtide.test/pause:1

write_configs() {
	cat >"$state/etc/containerd.toml" <<-TOML
		version = 2
		root = "$state/containerd"
		state = "/run/containerd"
		disabled_plugins = [
		  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
		  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
		  "io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing",
		  "io.containerd.tracing.processor.v1.otlp",
		]
		[grpc]
		  address = "/run/containerd/containerd.sock"
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "$pause_image"
		  # Some machines don't let root lower an OOM score; runc gives up where it should.
		  restrict_oom_score_adj = true
		  [plugins."io.containerd.grpc.v1.cri".cni]
		    bin_dir = "$packages/usr/lib/cni"
		    conf_dir = "$state/etc/cni"
		  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
		    runtime_type = "io.containerd.runc.v2"
	TOML
	cat >"$state/etc/cni/node.conflist" <<-JSON
		{"cniVersion": "0.4.0", "name": "node", "plugins": [{
		  "type": "bridge", "bridge": "pods0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
		  "ipam": {"type": "host-local", "dataDir": "/run/cni",
		    "ranges": [$(of_families '[{"subnet": "10.244.0.0/24"}]' '[{"subnet": "fd00:244::/64"}]')],
		    "routes": [$(of_families '{"dst": "0.0.0.0/0"}' '{"dst": "::/0"}')]}
		}]}
	JSON
	# Images were imported by hand and can't be pulled again, so none is ever collected; and a
	# full disk of the machine is no reason to evict.
	cat >"$state/etc/kubelet.yaml" <<-YAML
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
		address: "$(has_ipv6 && echo :: || echo 0.0.0.0)"
		cgroupDriver: cgroupfs
		cgroupRoot: /$name
		failCgroupV1: false
		failSwapOn: false
		oomScoreAdj: 0
		makeIPTablesUtilChains: false
		authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $state/keys/ca.crt}}
		authorization: {mode: Webhook}
		tlsCertFile: $state/keys/kubelet-server.crt
		tlsPrivateKeyFile: $state/keys/kubelet-server.key
		clusterDNS: [$node_ip]
		clusterDomain: cluster.local
		resolvConf: $state/etc/resolv.conf
		podLogsDir: $state/pod-logs
		volumePluginDir: $state/volume-plugins
		imageGCHighThresholdPercent: 100
		imageGCLowThresholdPercent: 99
		evictionHard: {memory.available: 100Mi, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}
		serializeImagePulls: false
		nodeStatusUpdateFrequency: 5s
	YAML
	# Connection tracking is the machine's: its sizes are left alone.
	cat >"$state/etc/proxy.yaml" <<-YAML
		apiVersion: kubeproxy.config.k8s.io/v1alpha1
		kind: KubeProxyConfiguration
		clientConnection: {kubeconfig: $state/keys/kube-proxy.kubeconfig}
		mode: nftables
		hostnameOverride: $node_name
		oomScoreAdj: 0
		healthzBindAddress: 127.0.0.1:10256
		metricsBindAddress: 127.0.0.1:10249
		conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
		nftables: {minSyncPeriod: 0s}
	YAML
}
