//! An OCI image of one program as one archive, as `ctr images import`, `docker load`, `podman load`
//! and `skopeo copy oci-archive:` take it.
//!
//! The same bytes in, the same bytes out: all times are 0, and nothing of the machine gets in.

use anyhow::Result;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

/// Of nobody else in a container; not root, told by number, so that `runAsNonRoot` can check it.
const USER: &str = "65532:65532";

/// The kubelet hands on the number of the user and drops that of the group. Runtimes then look the
/// group up here, and take root's where they don't find it.
const ACCOUNTS: [(&str, &[u8]); 2] = [
    ("etc/group", b"nonroot:x:65532:\n"),
    (
        "etc/passwd",
        b"nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n",
    ),
];

/// What an image holds.
pub(super) struct Image<'a> {
    /// Its whole name, registry and tag too.
    pub(super) name: &'a str,
    /// The file name of its program, at the root.
    pub(super) program: &'a str,
    pub(super) bytes: &'a [u8],
    /// Paths without a leading slash that lead to the program too.
    pub(super) links: &'a [&'a str],
}

/// A finished image.
pub(super) struct Archive {
    pub(super) bytes: Vec<u8>,
    /// Of the manifest: what a registry calls it.
    pub(super) digest: String,
}

// === impl Image ===

impl Image<'_> {
    /// Puts it together.
    pub(super) fn archive(&self) -> Result<Archive> {
        let mut blobs = Vec::new();
        let layer = self.layer()?;
        let layer = put(&mut blobs, "layer.v1.tar", layer);
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": {
                "User": USER,
                "Entrypoint": [format!("/{}", self.program)],
                "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
                "WorkingDir": "/",
            },
            "rootfs": { "type": "layers", "diff_ids": [layer["digest"]] },
        });
        let config = put(&mut blobs, "config.v1+json", serde_json::to_vec(&config)?);
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": media("manifest.v1+json"),
            "config": config,
            "layers": [layer],
        });
        let manifest = serde_json::to_vec(&manifest)?;
        let mut manifest = put(&mut blobs, "manifest.v1+json", manifest);
        let digest = manifest["digest"].as_str().unwrap_or_default().to_owned();
        manifest["platform"] = json!({ "architecture": architecture(), "os": "linux" });
        manifest["annotations"] = json!({
            "io.containerd.image.name": self.name,
            "org.opencontainers.image.ref.name": self.name,
        });
        let index = json!({
            "schemaVersion": 2,
            "mediaType": media("index.v1+json"),
            "manifests": [manifest],
        });
        let mut tar = Builder::new(Vec::new());
        file(
            &mut tar,
            "oci-layout",
            br#"{"imageLayoutVersion":"1.0.0"}"#,
            0o644,
        )?;
        file(&mut tar, "index.json", &serde_json::to_vec(&index)?, 0o644)?;
        for (digest, bytes) in &blobs {
            file(&mut tar, &format!("blobs/sha256/{digest}"), bytes, 0o644)?;
        }
        Ok(Archive {
            bytes: tar.into_inner()?,
            digest,
        })
    }

    fn layer(&self) -> Result<Vec<u8>> {
        let mut tar = Builder::new(Vec::new());
        file(&mut tar, self.program, self.bytes, 0o755)?;
        folders(&mut tar, "etc/")?;
        for (path, bytes) in ACCOUNTS {
            file(&mut tar, path, bytes, 0o644)?;
        }
        for link in self.links {
            folders(&mut tar, link)?;
            let mut header = header(EntryType::Symlink, 0, 0o777);
            tar.append_link(&mut header, link, format!("/{}", self.program))?;
        }
        Ok(tar.into_inner()?)
    }
}

/// Keeps a blob, and gives its descriptor.
fn put(blobs: &mut Vec<(String, Vec<u8>)>, kind: &str, bytes: Vec<u8>) -> Value {
    let digest = hex(&Sha256::digest(&bytes));
    let descriptor = json!({
        "mediaType": media(kind),
        "digest": format!("sha256:{digest}"),
        "size": bytes.len(),
    });
    blobs.push((digest, bytes));
    descriptor
}

fn media(kind: &str) -> String {
    format!("application/vnd.oci.image.{kind}")
}

fn file(tar: &mut Builder<Vec<u8>>, path: &str, bytes: &[u8], mode: u32) -> Result<()> {
    let mut header = header(EntryType::Regular, bytes.len() as u64, mode);
    Ok(tar.append_data(&mut header, path, bytes)?)
}

/// The folders above a path; itself too, where it ends with a slash.
fn folders(tar: &mut Builder<Vec<u8>>, path: &str) -> Result<()> {
    for (end, _) in path.match_indices('/') {
        let mut header = header(EntryType::Directory, 0, 0o755);
        tar.append_data(&mut header, &path[..=end], &[][..])?;
    }
    Ok(())
}

/// Owned by root, so that the program can't change itself.
fn header(kind: EntryType, size: u64, mode: u32) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name by which container runtimes know this machine's kind.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeMap, io::Read};

    fn image(bytes: &[u8]) -> Archive {
        let image = Image {
            name: "docker.io/library/x:dev",
            program: "x",
            bytes,
            links: &["usr/bin/y"],
        };
        image.archive().expect("an archive")
    }

    fn entries(tar: &[u8]) -> BTreeMap<String, (Header, Vec<u8>)> {
        let mut archive = tar::Archive::new(tar);
        let entries = archive.entries().expect("a tar");
        let entries = entries.map(|entry| {
            let mut entry = entry.expect("an entry");
            let path = entry.path().expect("a path").display().to_string();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("its bytes");
            (path, (entry.header().clone(), bytes))
        });
        entries.collect()
    }

    fn json_of(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).expect("JSON")
    }

    #[test]
    fn same_bytes_in_same_bytes_out() {
        assert_eq!(image(b"program").bytes, image(b"program").bytes);
        assert_ne!(image(b"program").digest, image(b"another").digest);
    }

    #[test]
    fn each_blob_is_called_by_its_digest_and_leads_to_the_program() {
        let outer = entries(&image(b"program").bytes);
        for (path, (_, bytes)) in &outer {
            if let Some(name) = path.strip_prefix("blobs/sha256/") {
                assert_eq!(name, hex(&Sha256::digest(bytes)));
            }
        }
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().expect("a digest");
            let (_, bytes) = &outer[&digest.replace("sha256:", "blobs/sha256/")];
            assert_eq!(descriptor["size"], bytes.len());
            bytes.clone()
        };
        let index = json_of(&outer["index.json"].1);
        let named = &index["manifests"][0];
        assert_eq!(
            named["annotations"]["io.containerd.image.name"],
            "docker.io/library/x:dev"
        );
        let manifest = json_of(&blob(named));
        let config = json_of(&blob(&manifest["config"]));
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"], json!(["/x"]));
        let layer = blob(&manifest["layers"][0]);
        assert_eq!(
            config["rootfs"]["diff_ids"][0],
            manifest["layers"][0]["digest"]
        );
        let inner = entries(&layer);
        let names: Vec<_> = inner.keys().map(String::as_str).collect();
        let wanted = [
            "etc/",
            "etc/group",
            "etc/passwd",
            "usr/",
            "usr/bin/",
            "usr/bin/y",
            "x",
        ];
        assert_eq!(names, wanted);
        let passwd = String::from_utf8_lossy(&inner["etc/passwd"].1);
        assert_eq!(passwd.split(':').nth(2), Some("65532"), "{passwd}");
        assert_eq!(passwd.split(':').nth(3), Some("65532"), "{passwd}");
        let (program, bytes) = &inner["x"];
        assert_eq!(bytes, b"program");
        assert_eq!(program.mode().expect("a mode"), 0o755);
        let (link, _) = &inner["usr/bin/y"];
        let to = link.link_name().expect("a link").expect("its target");
        assert_eq!(to.display().to_string(), "/x");
    }
}
