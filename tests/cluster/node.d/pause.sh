# The image of what holds a pod's namespaces: one file.

import_pause_image() {
	local folder=$state/pause
	mkdir -p "$folder/root"
	cp "$programs/holder" "$folder/root/pause"
	tar -C "$folder/root" --owner=0 --group=0 --mtime=@0 -cf "$folder/layer.tar" pause
	printf '{"architecture": "%s", "os": "linux", "config": {"Entrypoint": ["/pause"], "User": "65535"},
		"rootfs": {"type": "layers", "diff_ids": ["sha256:%s"]}}' \
		"$(dpkg --print-architecture)" "$(sha256sum <"$folder/layer.tar" | cut -d' ' -f1)" >"$folder/config.json"
	printf '[{"Config": "config.json", "RepoTags": ["%s"], "Layers": ["layer.tar"]}]' "$pause_image" >"$folder/manifest.json"
	tar -C "$folder" -cf "$folder/image.tar" manifest.json config.json layer.tar
	in_node ctr -n k8s.io images import "$folder/image.tar" >/dev/null
}
