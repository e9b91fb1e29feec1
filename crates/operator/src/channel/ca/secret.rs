//! The authorities in a Secret. Each change is one write of the whole object, refused when somebody
//! else has written meanwhile: whoever is killed leaves a state that the next start goes on from.

use super::{Authorities, Authority, CaError, Cert};
use fairtide_api::names::CHANNEL_CA_SECRET;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Asks for the next authority at once. Gone when it has taken over.
pub const ROTATE_ANNOTATION: &str = "fairtide.dev/rotate";

const CURRENT: [&str; 2] = ["ca.crt", "ca.key"];
const NEXT: [&str; 2] = ["next.crt", "next.key"];
const PREVIOUS: &str = "previous.crt";

/// The Secret.
pub struct CaSecret {
    api: Api<Secret>,
    namespace: String,
}

/// What was last read or written.
pub struct Stored {
    object: Secret,
    /// What it holds.
    pub authorities: Arc<Authorities>,
    /// Somebody wants the next authority now.
    pub asked: bool,
}

// === impl CaSecret ===

impl CaSecret {
    /// The one in `namespace`.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
        }
    }

    /// Reads it; `None`: there is none.
    ///
    /// # Errors
    /// The API server refuses, or it holds something else.
    pub async fn read(&self) -> Result<Option<Stored>, CaError> {
        let object = self.api.get_opt(CHANNEL_CA_SECRET).await.map_err(failed)?;
        object.map(|object| self.stored(object)).transpose()
    }

    /// Reads it, or makes it with a new authority that is good for `life` from `now` on.
    ///
    /// # Errors
    /// The API server refuses, or it holds something else.
    pub async fn read_or_make(&self, now: SystemTime, life: Duration) -> Result<Stored, CaError> {
        match self.read().await? {
            Some(stored) => Ok(stored),
            None => {
                let new = Arc::new(Authority::make(now, life)?);
                self.create(&Authorities::new(new, None, None)).await
            }
        }
    }

    /// Makes it. Replicas that start together agree: one creates it, the others read that one.
    ///
    /// # Errors
    /// The API server refuses, or another made it and it holds something else.
    pub async fn create(&self, authorities: &Authorities) -> Result<Stored, CaError> {
        let new = Secret {
            metadata: ObjectMeta {
                name: Some(CHANNEL_CA_SECRET.to_owned()),
                ..ObjectMeta::default()
            },
            type_: Some("Opaque".to_owned()),
            data: Some(with(BTreeMap::new(), authorities)),
            ..Secret::default()
        };
        let object = match self.api.create(&PostParams::default(), &new).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.api.get(CHANNEL_CA_SECRET).await
            }
            created => created,
        };
        self.stored(object.map_err(failed)?)
    }

    /// Replaces what was read; `answered`: nobody asks for a next one any more.
    ///
    /// # Errors
    /// The API server refuses, or the Secret was changed meanwhile: read it again.
    pub async fn write(
        &self,
        old: &Stored,
        new: &Authorities,
        answered: bool,
    ) -> Result<Stored, CaError> {
        let mut object = old.object.clone();
        object.data = Some(with(object.data.unwrap_or_default(), new));
        if let Some(annotations) = object.metadata.annotations.as_mut().filter(|_| answered) {
            annotations.remove(ROTATE_ANNOTATION);
        }
        let params = PostParams::default();
        let written = self.api.replace(CHANNEL_CA_SECRET, &params, &object).await;
        self.stored(written.map_err(failed)?)
    }

    fn stored(&self, object: Secret) -> Result<Stored, CaError> {
        let data = object.data.clone().unwrap_or_default();
        let text = |key: &str| {
            let bytes = data.get(key).map(|bytes| bytes.0.clone());
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            text.ok_or_else(|| format!("no {key}"))
        };
        let pair = |[cert, key]: [&str; 2]| Authority::from_pem(&text(cert)?, &text(key)?);
        let current = pair(CURRENT).map_err(|reason| CaError::Unusable {
            place: format!("Secret {}/{CHANNEL_CA_SECRET}", self.namespace),
            reason,
        })?;
        // Of these two a damaged one is as good as none: it is made anew, or nobody needs it.
        let known = |key: &str| data.contains_key(key);
        let next =
            known(NEXT[0]).then(|| pair(NEXT).inspect_err(|reason| damaged(NEXT[0], reason)));
        let previous = known(PREVIOUS).then(|| {
            let read = text(PREVIOUS).and_then(|text| Cert::read(&text));
            read.inspect_err(|reason| damaged(PREVIOUS, reason))
        });
        let annotations = object.metadata.annotations.as_ref();
        Ok(Stored {
            asked: annotations.is_some_and(|all| all.contains_key(ROTATE_ANNOTATION)),
            authorities: Arc::new(Authorities::new(
                Arc::new(current),
                next.and_then(Result::ok).map(Arc::new),
                previous.and_then(Result::ok),
            )),
            object,
        })
    }
}

fn failed(error: kube::Error) -> CaError {
    CaError::Secret(Box::new(error))
}

fn damaged(key: &str, reason: &str) {
    tracing::warn!(key, reason, "Secret {CHANNEL_CA_SECRET}: passed over");
}

/// What else is in the Secret stays there.
fn with(
    mut data: BTreeMap<String, ByteString>,
    authorities: &Authorities,
) -> BTreeMap<String, ByteString> {
    let Authorities {
        current,
        next,
        previous,
        ..
    } = authorities;
    let pair =
        |authority: &Authority| [authority.cert().pem.clone(), authority.key_pem().to_owned()];
    let [cert, key] = pair(current);
    let next = next.as_deref().map(pair);
    let [next_cert, next_key] = next.map_or([None, None], |pair| pair.map(Some));
    for (name, text) in [
        (CURRENT[0], Some(cert)),
        (CURRENT[1], Some(key)),
        (NEXT[0], next_cert),
        (NEXT[1], next_key),
        (PREVIOUS, previous.as_ref().map(|cert| cert.pem.clone())),
    ] {
        match text {
            Some(text) => data.insert(name.to_owned(), ByteString(text.into_bytes())),
            None => data.remove(name),
        };
    }
    data
}
