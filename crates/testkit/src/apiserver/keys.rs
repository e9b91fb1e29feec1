//! The keys of one API server: its authority, its own certificate, the admin's, and the key that
//! signs ServiceAccount tokens.

use anyhow::Context;
use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The names by which clients call the API server; 10.96.0.1 is the first of its service range.
const SERVER_NAMES: [&str; 6] = [
    "127.0.0.1",
    "10.96.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
];

#[derive(Debug)]
pub(super) struct Keys {
    folder: PathBuf,
    ca: String,
    admin: String,
    admin_key: String,
}

// === impl Keys ===

impl Keys {
    /// Makes them, and writes those that the API server reads into `folder`.
    pub(super) fn generate(folder: &Path) -> anyhow::Result<Self> {
        let ca_key = KeyPair::generate()?;
        let mut ca_params = CertificateParams::default();
        ca_params
            .distinguished_name
            .push(DnType::CommonName, "test-ca");
        ca_params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca_params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let ca = ca_params.self_signed(&ca_key)?.pem();
        let issuer = Issuer::new(ca_params, ca_key);

        let mut server = CertificateParams::new(SERVER_NAMES.map(str::to_owned))?;
        server
            .distinguished_name
            .push(DnType::CommonName, "kube-apiserver");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server_key = KeyPair::generate()?;

        let mut admin = CertificateParams::default();
        admin.distinguished_name.push(DnType::CommonName, "admin");
        // The group that RBAC never refuses.
        admin
            .distinguished_name
            .push(DnType::OrganizationName, "system:masters");
        admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let admin_key = KeyPair::generate()?;

        let accounts = KeyPair::generate()?;
        for (name, content) in [
            ("ca.crt", ca.clone()),
            (
                "apiserver.crt",
                server.signed_by(&server_key, &issuer)?.pem(),
            ),
            ("apiserver.key", server_key.serialize_pem()),
            ("accounts.key", accounts.serialize_pem()),
            ("accounts.pub", accounts.public_key_pem()),
        ] {
            fs::write(folder.join(name), content).with_context(|| format!("write {name}"))?;
        }
        Ok(Self {
            folder: folder.to_owned(),
            ca,
            admin: admin.signed_by(&admin_key, &issuer)?.pem(),
            admin_key: admin_key.serialize_pem(),
        })
    }

    /// The flags that name the files.
    pub(super) fn api_server_flags(&self) -> Vec<String> {
        [
            ("tls-cert-file", "apiserver.crt"),
            ("tls-private-key-file", "apiserver.key"),
            ("client-ca-file", "ca.crt"),
            ("service-account-signing-key-file", "accounts.key"),
            ("service-account-key-file", "accounts.pub"),
        ]
        .map(|(flag, file)| format!("--{flag}={}", self.folder.join(file).display()))
        .to_vec()
    }

    pub(super) fn ca_base64(&self) -> serde_json::Value {
        base64(&self.ca)
    }

    /// The admin, as the `user` of a kubeconfig.
    pub(super) fn admin_user(&self) -> serde_json::Value {
        json!({
            "client-certificate-data": base64(&self.admin),
            "client-key-data": base64(&self.admin_key),
        })
    }
}

fn base64(text: &str) -> serde_json::Value {
    json!(ByteString(text.as_bytes().to_vec()))
}
