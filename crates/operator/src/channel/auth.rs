//! Who is at the other end of a channel.
//!
//! In a cluster a sidecar shows the token that its kubelet projected for the audience
//! [`TOKEN_AUDIENCE`]; the API server says whether it holds and which pod it is bound to. A token for
//! another audience, or bound to no pod, opens nothing. Operators that work from files have no API
//! server: there one shared token stands for all pods.

use fairtide_api::names::TOKEN_AUDIENCE;
use fairtide_resolve::ObjectKey;
use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::{collections::HashMap, io, path::PathBuf, time::Duration};
use tokio::time::Instant;

/// A review is believed for this long: a reconnect storm asks once per pod, and a deleted pod's
/// token dies soon after.
const REVIEW_LIFE: Duration = Duration::from_secs(60);

/// Below what sidecars wait for an answer of ours.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);

const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Whose token it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A token that all pods share.
    Shared,
    /// The token of one pod.
    Pod {
        /// The pod.
        pod: ObjectKey,
        /// Its uid.
        uid: String,
    },
}

/// Why a token opens nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// It doesn't hold.
    #[error("the token is not valid for the audience {TOKEN_AUDIENCE}: {0}")]
    Invalid(String),
    /// It holds, but is no pod's.
    #[error("the token of {0} is not bound to a pod; use the token that the kubelet projects")]
    NoPod(String),
    /// It can't be checked now.
    #[error("the token can't be checked now: {0}")]
    Unavailable(String),
}

/// Something that knows tokens.
pub trait Tokens: Send + Sync {
    /// Whose token this is.
    fn identify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Identity, AuthError>>;
}

/// The API server, by TokenReview.
pub struct TokenReviews {
    api: Api<TokenReview>,
    /// By the token's hash, so that no token stays in memory.
    known: Mutex<HashMap<[u8; 32], (Instant, Identity)>>,
}

/// One token in a file, read anew for each channel so that it can be changed.
pub struct TokenFile {
    path: PathBuf,
}

// === impl TokenReviews ===

impl TokenReviews {
    /// Reviews by this client, which must be allowed to create tokenreviews.
    pub fn new(client: Client) -> Self {
        Self {
            api: Api::all(client),
            known: Mutex::default(),
        }
    }

    async fn review(&self, token: &str) -> Result<Identity, AuthError> {
        let request = TokenReview {
            spec: TokenReviewSpec {
                audiences: Some(vec![TOKEN_AUDIENCE.to_owned()]),
                token: Some(token.to_owned()),
            },
            ..TokenReview::default()
        };
        let params = PostParams::default();
        let review = self.api.create(&params, &request);
        let review = match tokio::time::timeout(REVIEW_TIMEOUT, review).await {
            Ok(Ok(review)) => review,
            Ok(Err(error)) => return Err(AuthError::Unavailable(error.to_string())),
            Err(_) => {
                let text = "the API server doesn't answer".to_owned();
                return Err(AuthError::Unavailable(text));
            }
        };
        let status = review.status.unwrap_or_default();
        let ours = status
            .audiences
            .is_some_and(|audiences| audiences.iter().any(|a| a == TOKEN_AUDIENCE));
        if status.authenticated != Some(true) || !ours {
            let error = status.error.filter(|error| !error.is_empty());
            return Err(AuthError::Invalid(
                error.unwrap_or_else(|| "the API server doesn't accept it".to_owned()),
            ));
        }
        identity(&status.user.unwrap_or_default())
    }
}

impl Tokens for TokenReviews {
    fn identify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Identity, AuthError>> {
        Box::pin(async move {
            let hash: [u8; 32] = Sha256::digest(token).into();
            let now = Instant::now();
            if let Some((at, identity)) = self.known.lock().get(&hash)
                && now - *at < REVIEW_LIFE
            {
                return Ok(identity.clone());
            }
            let identity = self.review(token).await?;
            let mut known = self.known.lock();
            known.retain(|_, (at, _)| now - *at < REVIEW_LIFE);
            known.insert(hash, (now, identity.clone()));
            Ok(identity)
        })
    }
}

fn identity(user: &UserInfo) -> Result<Identity, AuthError> {
    let username = user.username.clone().unwrap_or_default();
    let claim = |name: &str| match user.extra.as_ref()?.get(name)?.as_slice() {
        [one] if !one.is_empty() => Some(one.clone()),
        _ => None,
    };
    let namespace = username
        .strip_prefix(SERVICE_ACCOUNT)
        .and_then(|rest| rest.split_once(':'))
        .map(|(namespace, _)| namespace.to_owned());
    match (namespace, claim(POD_NAME), claim(POD_UID)) {
        (Some(namespace), Some(name), Some(uid)) => Ok(Identity::Pod {
            pod: ObjectKey::new(namespace, name),
            uid,
        }),
        _ => Err(AuthError::NoPod(username)),
    }
}

// === impl TokenFile ===

impl TokenFile {
    /// The token in this file.
    ///
    /// # Errors
    /// There is no such file, or it holds no token.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        let file = Self { path };
        match std::fs::read_to_string(&file.path)?.trim() {
            "" => Err(io::Error::other("the file is empty; write a token into it")),
            _ => Ok(file),
        }
    }
}

impl Tokens for TokenFile {
    fn identify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Identity, AuthError>> {
        Box::pin(async move {
            let text = tokio::fs::read_to_string(&self.path)
                .await
                .map_err(|error| AuthError::Unavailable(error.to_string()))?;
            match text.trim() {
                "" => Err(AuthError::Unavailable("the token file is empty".to_owned())),
                right if same(right, token) => Ok(Identity::Shared),
                _ => Err(AuthError::Invalid(
                    "it is not the one in the operator's --channel-token file".to_owned(),
                )),
            }
        })
    }
}

/// Compares hashes, all bytes of them, so that the time says nothing about the right token.
fn same(right: &str, given: &str) -> bool {
    let (right, given) = (Sha256::digest(right), Sha256::digest(given));
    let difference = right
        .iter()
        .zip(&given)
        .fold(0, |acc, (a, b)| acc | (a ^ b));
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn user(username: &str, extra: &[(&str, &str)]) -> UserInfo {
        let extra = extra
            .iter()
            .map(|(name, value)| ((*name).to_owned(), vec![(*value).to_owned()]));
        UserInfo {
            username: Some(username.to_owned()),
            extra: Some(extra.collect::<BTreeMap<_, _>>()),
            ..UserInfo::default()
        }
    }

    #[test]
    fn a_bound_token_names_its_pod_in_the_namespace_of_its_service_account() {
        let user = user(
            "system:serviceaccount:chat:vllm",
            &[(POD_NAME, "vllm-0"), (POD_UID, "u-1")],
        );
        assert_eq!(
            identity(&user),
            Ok(Identity::Pod {
                pod: ObjectKey::new("chat", "vllm-0"),
                uid: "u-1".to_owned()
            })
        );
    }

    #[test]
    fn tokens_of_people_and_unbound_tokens_are_no_pods() {
        for user in [
            user("alice", &[(POD_NAME, "vllm-0"), (POD_UID, "u-1")]),
            user("system:serviceaccount:chat:vllm", &[]),
            user("system:serviceaccount:chat:vllm", &[(POD_NAME, "vllm-0")]),
            user(
                "system:serviceaccount:chat:vllm",
                &[(POD_NAME, "vllm-0"), (POD_UID, "")],
            ),
        ] {
            assert!(matches!(identity(&user), Err(AuthError::NoPod(_))));
        }
    }

    #[test]
    fn only_the_whole_token_is_the_same() {
        assert!(same("secret", "secret"));
        assert!(!same("secret", "secre"));
        assert!(!same("secret", "secret "));
        assert!(!same("secret", ""));
    }
}
