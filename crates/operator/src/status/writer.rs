//! Where a status goes: to the API server, or to the log of an operator that works from files.

use super::{Standing, assess::Assessment, events::Notice};
use fairtide_api::{InferencePool, TrafficClass, names};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, Status as ApiStatus},
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use std::time::Duration;

/// A status write that takes longer is tried again. Shorter than what is left of the lease when a
/// holder that can't renew stops.
const WRITE_TIMEOUT: Duration = Duration::from_secs(4);

/// The API takes no longer note.
const MAX_NOTE_BYTES: usize = 1_000;

/// Why a status wasn't written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object is gone, or another has its name: there is nothing to write to.
    #[error("the object is gone")]
    Gone,
    /// The API server refuses, or can't be reached.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// Another replica is to write it.
    #[error("the lease is not held any more")]
    NotOurs,
    /// The API server doesn't answer.
    #[error("no answer in {WRITE_TIMEOUT:?}")]
    Slow,
}

/// Where statuses go.
pub enum Writer {
    /// To the API server.
    Cluster(Box<ApiWriter>),
    /// To the log.
    Log,
}

/// Writes to the API server: by server-side apply, and to `/status` alone.
pub struct ApiWriter {
    client: Client,
    recorder: Recorder,
}

// === impl Writer ===

impl Writer {
    /// Writes by this client, which may patch the status of both kinds and create Events.
    /// `instance` is named in Events.
    pub fn cluster(client: Client, instance: &str) -> Self {
        let reporter = Reporter {
            controller: names::FIELD_MANAGER.to_owned(),
            instance: Some(instance.to_owned()),
        };
        Self::Cluster(Box::new(ApiWriter {
            recorder: Recorder::new(client.clone(), reporter),
            client,
        }))
    }

    /// Writes the status of an object. Gives its new `resourceVersion`, where there is one.
    ///
    /// # Errors
    /// It wasn't written.
    pub async fn write(
        &self,
        assessment: &Assessment,
        standing: &Standing,
    ) -> Result<Option<String>, WriteError> {
        match self {
            Self::Cluster(api) => {
                match tokio::time::timeout(WRITE_TIMEOUT, api.write(assessment, standing)).await {
                    Err(_) => Err(WriteError::Slow),
                    Ok(written) => written,
                }
            }
            Self::Log => {
                log(assessment, standing);
                Ok(None)
            }
        }
    }

    /// Tells the users of an object.
    pub async fn tell(&self, notice: &Notice) {
        match self {
            // An Event is news, not state: it is not tried again.
            Self::Cluster(api) => match tokio::time::timeout(WRITE_TIMEOUT, api.tell(notice)).await
            {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, object = %notice.key, "Event not written"),
                Err(_) => tracing::warn!(object = %notice.key, "Event not written in time"),
            },
            Self::Log => tracing::warn!(
                kind = notice.kind,
                object = %notice.key,
                reason = notice.reason,
                "{}",
                notice.note
            ),
        }
    }
}

// === impl ApiWriter ===

impl ApiWriter {
    async fn write(
        &self,
        assessment: &Assessment,
        standing: &Standing,
    ) -> Result<Option<String>, WriteError> {
        let resource = resource(assessment.kind);
        let namespace = &assessment.key.namespace;
        let objects: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &resource);
        // The uid keeps a status from landing on another object of the same name.
        let patch = Patch::Apply(serde_json::json!({
            "apiVersion": names::API_VERSION,
            "kind": assessment.kind,
            "metadata": { "name": assessment.key.name, "uid": assessment.uid },
            "status": standing.to_json(),
        }));
        let params = PatchParams::apply(names::FIELD_MANAGER).force();
        match objects
            .patch_status(&assessment.key.name, &params, &patch)
            .await
        {
            Ok(written) => Ok(written.metadata.resource_version),
            Err(kube::Error::Api(status)) if is_gone(&status) => Err(WriteError::Gone),
            Err(error) => Err(error.into()),
        }
    }

    async fn tell(&self, notice: &Notice) -> kube::Result<()> {
        let event = Event {
            type_: EventType::Warning,
            reason: notice.reason.clone(),
            note: Some(bounded(&notice.note)),
            action: notice.action.to_owned(),
            secondary: None,
        };
        let object = ObjectReference {
            api_version: Some(names::API_VERSION.to_owned()),
            kind: Some(notice.kind.to_owned()),
            namespace: Some(notice.key.namespace.clone()),
            name: Some(notice.key.name.clone()),
            uid: notice.uid.clone(),
            ..ObjectReference::default()
        };
        self.recorder.publish(&event, &object).await
    }
}

/// Gone, or the uid is another one's.
fn is_gone(status: &ApiStatus) -> bool {
    status.code == 404 || (status.code == 409 && status.message.contains("uid"))
}

fn resource(kind: &str) -> ApiResource {
    match kind {
        names::INFERENCE_POOL => ApiResource::erase::<InferencePool>(&()),
        _ => ApiResource::erase::<TrafficClass>(&()),
    }
}

fn log(assessment: &Assessment, standing: &Standing) {
    for condition in &standing.conditions {
        let old = assessment
            .old
            .as_ref()
            .and_then(|old| old.condition(&condition.type_));
        let same = old.is_some_and(|old| {
            (&old.status, &old.reason, &old.message)
                == (&condition.status, &condition.reason, &condition.message)
        });
        if !same {
            tracing::info!(
                kind = assessment.kind,
                object = %assessment.key,
                condition = condition.type_,
                status = condition.status,
                reason = condition.reason,
                "{}",
                condition.message
            );
        }
    }
}

fn bounded(note: &str) -> String {
    let mut end = note.len().min(MAX_NOTE_BYTES);
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    note[..end].to_owned()
}
