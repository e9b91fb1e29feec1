//! AdmissionReview v1, in and out, as JSON. No typed pod: a field that our structs don't know
//! would be lost from everybody's pods.

use fairtide_inject::{Injection, Outcome, Refusal};
use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// What the API server asks.
#[derive(Debug)]
pub(super) struct Review {
    pub uid: String,
    pub namespace: String,
    pub pod: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    api_version: String,
    kind: String,
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    uid: String,
    #[serde(default)]
    namespace: String,
    object: Value,
}

/// What it is answered.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    api_version: &'static str,
    kind: &'static str,
    response: Response,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    uid: String,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    /// Base64, as everything of bytes in Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    audit_annotations: BTreeMap<&'static str, String>,
}

#[derive(Debug, Serialize)]
struct Status {
    code: u16,
    reason: &'static str,
    message: String,
}

// === impl Review ===

impl Review {
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let asked: Asked = serde_json::from_slice(body)
            .map_err(|error| format!("this takes an AdmissionReview of {API_VERSION}: {error}"))?;
        if asked.api_version != API_VERSION || asked.kind != KIND {
            return Err(format!(
                "this takes an AdmissionReview of {API_VERSION}, not {} of {}",
                asked.kind, asked.api_version
            ));
        }
        if asked.request.uid.is_empty() {
            return Err("an AdmissionReview has a request.uid; this one's is empty".to_owned());
        }
        Ok(Self {
            uid: asked.request.uid,
            namespace: asked.request.namespace,
            pod: asked.request.object,
        })
    }

    /// Its name, or the beginning of the name that it will get.
    pub fn pod_name(&self) -> &str {
        ["/metadata/name", "/metadata/generateName"]
            .into_iter()
            .find_map(|at| self.pod.pointer(at)?.as_str())
            .unwrap_or_default()
    }
}

// === impl Answer ===

impl Answer {
    /// The pod may be created, with the patch.
    pub(super) fn allowed(uid: String, injection: &Injection) -> Self {
        let patch = (!injection.patch.is_empty()).then(|| {
            let json = serde_json::to_vec(&injection.patch);
            ByteString(json.expect("a patch has only string keys"))
        });
        let result = match &injection.outcome {
            Outcome::Injected(_) => "injected".to_owned(),
            Outcome::Kept(_) => "kept".to_owned(),
            Outcome::Skipped(skip) => format!("skipped: {skip}"),
        };
        Self::of(Response {
            uid,
            allowed: true,
            status: None,
            patch_type: patch.is_some().then_some("JSONPatch"),
            patch,
            warnings: injection
                .warnings
                .iter()
                .map(|warning| format!("fairtide: {warning}"))
                .collect(),
            audit_annotations: BTreeMap::from([("result", result)]),
        })
    }

    /// The pod may not be created.
    pub(super) fn refused(uid: String, refusal: &Refusal) -> Self {
        Self::of(Response {
            uid,
            allowed: false,
            status: Some(Status {
                code: 403,
                reason: "Forbidden",
                message: format!("fairtide: {refusal}"),
            }),
            patch_type: None,
            patch: None,
            warnings: Vec::new(),
            audit_annotations: BTreeMap::from([("result", refusal.reason().to_owned())]),
        })
    }

    fn of(response: Response) -> Self {
        Self {
            api_version: API_VERSION,
            kind: KIND,
            response,
        }
    }
}
