//! A change of policy: nothing that is queued or running is lost.

use super::{Entry, Scheduler, Settings};
use crate::{
    bucket::{Bucket, reserve_of},
    class::Class,
};
use std::{collections::HashMap, sync::Arc, time::Duration};

impl Scheduler {
    /// Puts another policy in force. Nothing that is queued or running is lost: what a class that
    /// is gone had queued goes to the default class, keeping its arrival time.
    pub fn apply(&mut self, settings: Settings, now: Duration) {
        let mut old: HashMap<Arc<str>, Class> = self
            .classes
            .drain(..)
            .map(|class| (class.settings.name.clone(), class))
            .collect();
        self.classes = settings
            .classes
            .iter()
            .map(|new| match old.remove(&new.name) {
                Some(mut class) => {
                    class.apply(new.clone(), now);
                    class
                }
                None => Class::new(new.clone(), now),
            })
            .collect();
        let names = self.classes.iter().map(|c| c.settings.name.clone());
        let by_name: HashMap<_, _> = names.enumerate().map(|(i, name)| (name, i)).collect();
        let before = std::mem::replace(&mut self.by_name, by_name);
        self.settings = settings;
        self.rehome(&before, old);
        self.observe_headroom(now);
    }

    /// Finds each request's class again, by name, or hands it to the default class.
    fn rehome(&mut self, before: &HashMap<Arc<str>, usize>, mut gone: HashMap<Arc<str>, Class>) {
        let names: HashMap<usize, &Arc<str>> = before.iter().map(|(n, i)| (*i, n)).collect();
        let default = self.class_index(&self.settings.default_class);
        let most = self.settings.max_tenants;
        let mut handed_over = Vec::new();
        for (&id, entry) in &mut self.requests {
            let Some(name) = names.get(&entry.class) else {
                continue;
            };
            if let Some(&index) = self.by_name.get(*name) {
                entry.class = index;
                continue;
            }
            let Some(from) = gone.get(*name) else {
                continue;
            };
            let tenant = from.tenants.name(entry.slot).clone();
            let class = &mut self.classes[default];
            entry.class = default;
            entry.slot = class.tenants.slot(&tenant, most);
            if let Some(running) = entry.running {
                class.served += running.served; // it may yet be refunded
                class.in_flight += 1;
                class.in_flight_ctx += entry.ctx;
                class.tenants.note_running(entry.slot);
            } else {
                self.queued_bytes -= entry.body_bytes;
                handed_over.push((entry.seq, id));
            }
        }
        gone.clear();
        // In arrival order, so that each tenant's queue stays a FIFO.
        handed_over.sort_unstable();
        for (_, id) in handed_over {
            if let Some(entry) = self.requests.remove(&id) {
                let now = self.looked_at;
                self.insert_queued(id, entry, now);
            }
        }
        let class = &mut self.classes[default];
        class.arrivals.make_contiguous().sort_unstable();
        // A class may have changed its tier.
        let batch = self.classes.iter().filter(|c| !c.interactive());
        self.batch_in_flight = batch.map(|c| c.in_flight).sum();
        self.reckon_reserves();
    }

    /// What queued requests will reserve: a bucket may have come, gone, or changed its unit.
    fn reckon_reserves(&mut self) {
        let requests = &self.requests;
        for class in &mut self.classes {
            let unit = class.bucket.as_ref().map(Bucket::unit);
            class.queued_reserve = class.tenants.reckon_reserves(|id| {
                let tokens = requests.get(&id).map_or(0, Entry::tokens);
                reserve_of(unit, tokens)
            });
        }
    }
}
