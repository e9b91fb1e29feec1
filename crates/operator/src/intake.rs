//! Takes the changes into the world, and what follows from them to the fleet.
//!
//! The one task that writes the world. Changes that come within [`TOGETHER`] are worked out at
//! once: `kubectl apply` of several documents then makes one policy and not one for each. It is
//! short, since every edit waits for it on its way to the sidecars.

use crate::{
    fleet::Fleet,
    metrics::Metrics,
    world::{Change, World},
};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

const TOGETHER: Duration = Duration::from_millis(5);

/// The task that takes changes in.
pub struct Intake {
    /// What is watched.
    pub world: Arc<Mutex<World>>,
    /// What the pods should have.
    pub fleet: Arc<Fleet>,
    /// The changes; those of one item belong together.
    pub changes: mpsc::Receiver<Vec<Change>>,
    /// Told after each change.
    pub wake: Arc<Notify>,
    /// Where things are counted.
    pub metrics: Arc<Metrics>,
}

// === impl Intake ===

impl Intake {
    /// Takes changes in until `stop`, or until nobody sends any more.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let first = tokio::select! {
                () = stop.cancelled() => return,
                first = self.changes.recv() => first,
            };
            let Some(first) = first else { return };
            self.take(first);
            let end = Instant::now() + TOGETHER;
            while let Ok(Some(more)) = tokio::time::timeout_at(end, self.changes.recv()).await {
                self.take(more);
            }
            self.settle();
        }
    }

    fn take(&self, changes: Vec<Change>) {
        let mut world = self.world.lock();
        changes.into_iter().for_each(|change| world.apply(change));
    }

    fn settle(&self) {
        let begun = Instant::now();
        let mut world = self.world.lock();
        let settled = world.settle(begun);
        for pod in &settled.gone {
            self.fleet.remove(pod);
        }
        for name in &settled.namespaces {
            let Some(namespace) = world.namespace(name) else {
                continue;
            };
            for (pod, push) in namespace.assigned() {
                self.fleet.set(&pod.meta.key, pod.uid.as_ref(), push);
            }
        }
        drop(world);
        self.metrics
            .resolve_seconds
            .observe(begun.elapsed().as_secs_f64());
        self.wake.notify_one();
    }
}
