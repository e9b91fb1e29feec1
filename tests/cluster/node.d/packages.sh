# Debian's containerd, runc and so on: fetched and unpacked beside the built programs,
# never installed, so that no service starts and none of the machine's files change.

package_names="containerd runc containernetworking-plugins nftables
	libnftables1 libnftnl11 libmnl0 libxtables12 libjansson4 libseccomp2
	libedit2 libbsd0 libmd0 libtinfo6 libgmp10"

# Prints the folder that has them.
packages() {
	local system stamp folder half fetched file
	system=$(. /etc/os-release && echo "$ID$VERSION_ID") 2>/dev/null || system=unknown
	stamp=$(echo "$system $package_names" | cat - "$here/node.d/packages.sh" | sha256sum | cut -c1-12)
	folder=$cache/packages-$system-$stamp
	if [ ! -d "$folder" ]; then
		command -v apt-get >/dev/null && command -v dpkg >/dev/null || die "needs apt-get and dpkg, that is Debian or Ubuntu"
		exec 8>"$cache/.packages.lock"
		flock 8
	fi
	if [ ! -d "$folder" ]; then
		echo "fetching containerd and runc into $folder" >&2
		half=$folder.half
		rm -rf "$half"
		fetched=$half/fetched
		mkdir -p "$fetched"
		fetch "$fetched" 2>/dev/null || {
			apt-get -qq update >&2
			fetch "$fetched" >&2
		}
		for file in "$fetched"/*.deb; do dpkg -x "$file" "$half"; done
		rm -rf "$fetched"
		wrap "$half" "$folder"
		mv -T "$half" "$folder"
	fi
	echo "$folder"
}

fetch() {
	# shellcheck disable=SC2086
	(cd "$1" && apt-get -qq download $package_names)
}

# Small scripts in bin/ that let the unpacked programs find their unpacked libraries.
wrap() {
	local half=$1 folder=$2 libraries program path missing
	libraries=$(cd "$half" && find . -name '*.so*' -printf "$folder/%h\n" | sort -u | sed 's#/\./#/#' | paste -sd:)
	mkdir "$half/bin.new"
	for program in containerd containerd-shim-runc-v2 ctr runc nft; do
		path=$(cd "$half" && find . -type f -name "$program" -path '*bin/*' | head -1)
		[ -n "$path" ] || die "Debian's packages have no $program"
		missing=$(LD_LIBRARY_PATH=${libraries//$folder/$half} ldd "$half/$path" 2>/dev/null | grep 'not found' || true)
		[ -z "$missing" ] || die "$program lacks a library; add its package to node.d/packages.sh: $missing"
		printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$libraries" "$folder/${path#./}" >"$half/bin.new/$program"
		chmod +x "$half/bin.new/$program"
	done
	# Debian's own bin/ isn't used.
	rm -rf "$half/bin"
	mv "$half/bin.new" "$half/bin"
}
