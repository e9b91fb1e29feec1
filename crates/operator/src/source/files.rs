//! Objects from a folder of manifests, followed as it changes.
//!
//! Any event below the folder makes it read anew as a whole, after a pause of [`SETTLE`] so that a
//! file that is being written is read once. What can't be read keeps its last good form, as in a
//! cluster, where the API server refuses a broken edit.

use crate::causes::causes;
use crate::world::{Change, Delta, Pod};
use fairtide_resolve::{ManifestProblem, Manifests, Unreadable, read_manifests};
use notify::{RecursiveMode, Watcher};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Editors write a file in several steps, a moment apart.
const SETTLE: Duration = Duration::from_millis(10);

/// A folder that can't be read is tried again this often.
const RETRY: Duration = Duration::from_secs(1);

/// Why a folder can't be followed.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// It can't be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// Its changes can't be noticed.
    #[error("changes of {} can't be noticed", path.display())]
    Unwatchable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: notify::Error,
    },
}

/// A folder of manifests.
pub struct Folder {
    path: PathBuf,
    changes: mpsc::Sender<Vec<Change>>,
    present: Manifests,
    /// Holds one: that something changed is all there is to know.
    events: mpsc::Receiver<()>,
    /// Ends the notices when it is dropped.
    _watcher: notify::RecommendedWatcher,
}

// === impl Folder ===

impl Folder {
    /// Reads the folder and begins to notice its changes.
    ///
    /// # Errors
    /// It can't be read, or the system has no watch left.
    pub fn open(path: PathBuf, changes: mpsc::Sender<Vec<Change>>) -> Result<Self, FilesError> {
        let (event, events) = mpsc::channel(1);
        let unwatchable = |path: &Path| {
            let path = path.to_owned();
            move |source| FilesError::Unwatchable { path, source }
        };
        let mut watcher =
            notify::recommended_watcher(move |result: notify::Result<notify::Event>| {
                if result.is_ok_and(|event| !event.kind.is_access()) {
                    let _ = event.try_send(());
                }
            })
            .map_err(unwatchable(&path))?;
        // A file that is replaced by another of its name is only noticed in its folder.
        let folder = match path.parent() {
            Some(parent) if !path.is_dir() => parent,
            _ => &path,
        };
        watcher
            .watch(folder, RecursiveMode::NonRecursive)
            .map_err(unwatchable(folder))?;
        // Watched before it is read, so that no change falls between.
        let present = read_manifests(&path)?;
        Ok(Self {
            path,
            changes,
            present,
            events,
            _watcher: watcher,
        })
    }

    /// Sends what the folder holds, now and after each change, until `stop`.
    pub async fn follow(mut self, stop: CancellationToken) {
        report(&self.present, &Manifests::default());
        if !self.send().await {
            return;
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                event = self.events.recv() => if event.is_none() { return },
            }
            tokio::time::sleep(SETTLE).await;
            while self.events.try_recv().is_ok() {}
            while !self.read_again().await {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(RETRY) => {}
                }
            }
            if !self.send().await {
                return;
            }
        }
    }

    /// Whether the folder could be read.
    async fn read_again(&mut self) -> bool {
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || read_manifests(&path)).await;
        match read {
            Ok(Ok(read)) => {
                report(&read, &self.present);
                self.present = with_pods(read.or_last_good(&self.present), &self.present);
                true
            }
            Ok(Err(error)) => {
                tracing::warn!(
                    error = causes(&error),
                    "manifests not read; what they said before stays in force"
                );
                false
            }
            Err(error) => {
                tracing::error!(%error, "reading the manifests broke");
                false
            }
        }
    }

    async fn send(&self) -> bool {
        let manifests = &self.present;
        let pod = |meta: &fairtide_resolve::PodMeta| Pod {
            meta: meta.clone(),
            uid: None,
            injected: false,
            owner: None,
            leaving: false,
        };
        // Together, so that nobody sees one without the others.
        let changes = vec![
            Change::Pods(Delta::Replace(manifests.pods().map(pod).collect())),
            Change::Classes(Delta::Replace(
                manifests.classes().cloned().map(Ok).collect(),
            )),
            Change::Pools(Delta::Replace(manifests.pools().cloned().map(Ok).collect())),
        ];
        self.changes.send(changes).await.is_ok()
    }
}

/// Keeps the pods of a file that can't be read any more: their sidecars go on.
fn with_pods(mut manifests: Manifests, before: &Manifests) -> Manifests {
    let unreadable = |file: &str| {
        manifests.errors.iter().any(|error| {
            matches!(error.problem, ManifestProblem::Syntax(_)) && error.origin.file == file
        })
    };
    let kept: Vec<_> = before
        .pods
        .iter()
        .filter(|(origin, pod)| {
            unreadable(&origin.file) && manifests.pods().all(|there| there.key != pod.key)
        })
        .cloned()
        .collect();
    manifests.pods.extend(kept);
    manifests
}

/// Logs the refused documents that are new.
fn report(manifests: &Manifests, before: &Manifests) {
    for error in &manifests.errors {
        if !before.errors.contains(error) {
            tracing::warn!(error = %error, "document refused; what it said before stays in force");
        }
    }
    for note in &manifests.notes {
        if !before.notes.contains(note) {
            tracing::info!("{note}");
        }
    }
}
