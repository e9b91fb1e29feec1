//! How a request ended, and which rule decided it: two closed lists.
//!
//! The words of [`Outcome`] are the header `x-fairtide-outcome`, the metric label, the log field
//! and the CLI's word; those of [`Reason`] are the header `x-fairtide-reason`. Both are part of the
//! product's interface: add, never rename.

use std::fmt;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident => $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The word that stands for this value in headers, labels and logs.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }

            /// The value that a word stands for.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some($name::$variant),)+ _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.as_str()) }
        }
    };
}

words! {
    /// The one way in which a request ended.
    Outcome {
        /// The engine answered and the client got all of it.
        Completed => "completed",
        /// The client left while the request was queued.
        CancelledQueued => "cancelled_queued",
        /// The client left after the request had been started.
        CancelledRunning => "cancelled_running",
        /// The class's token or request bucket can't pay within the queue's TTL.
        BucketEmpty => "bucket_empty",
        /// A bound of the class's queue was reached.
        QueueFull => "queue_full",
        /// It waited its whole TTL in the queue.
        QueueTimeout => "queue_timeout",
        /// At the present drain rate it would have missed its TTL; refused at arrival.
        WaitTooLong => "wait_too_long",
        /// Its class is paused.
        ClassPaused => "class_paused",
        /// Larger than the body limit, the context window or the KV cache can hold.
        TooLarge => "too_large",
        /// It can never be served as it is: what to change is in the message.
        BadRequest => "bad_request",
        /// The sidecar's own memory for queued bodies is used up.
        MemoryPressure => "memory_pressure",
        /// New batch work dropped while the pod is overloaded.
        Shed => "shed",
        /// The pod is going away and takes no new work.
        Draining => "draining",
        /// The engine can't be reached, or isn't ready yet.
        EngineUnavailable => "engine_unavailable",
        /// The engine answered with an error status of its own, which was passed on.
        EngineRejected => "engine_rejected",
        /// The engine began and then broke off, or sent an error inside its stream.
        EngineFailed => "engine_failed",
        /// Aborted in favour of interactive work, too often to be queued again.
        Preempted => "preempted",
    }
}

impl Outcome {
    /// The HTTP status of Fairtide's own answer; `None` where the engine's answer, or none, is sent.
    ///
    /// 429 for all that is about a class or a tenant; 503 only when the pod can serve nobody,
    /// because meshes retry and eject on 503.
    pub const fn status(self) -> Option<u16> {
        match self {
            Outcome::Completed
            | Outcome::CancelledQueued
            | Outcome::CancelledRunning
            | Outcome::EngineRejected => None,
            Outcome::BadRequest => Some(400),
            Outcome::TooLarge => Some(413),
            Outcome::BucketEmpty
            | Outcome::QueueFull
            | Outcome::QueueTimeout
            | Outcome::WaitTooLong
            | Outcome::ClassPaused
            | Outcome::MemoryPressure
            | Outcome::Shed
            | Outcome::Preempted => Some(429),
            Outcome::EngineFailed => Some(502),
            Outcome::Draining | Outcome::EngineUnavailable => Some(503),
        }
    }

    /// Whether Fairtide itself refused the request.
    pub const fn is_refusal(self) -> bool {
        matches!(
            self,
            Outcome::BucketEmpty
                | Outcome::QueueFull
                | Outcome::QueueTimeout
                | Outcome::WaitTooLong
                | Outcome::ClassPaused
                | Outcome::TooLarge
                | Outcome::BadRequest
                | Outcome::MemoryPressure
                | Outcome::Shed
                | Outcome::Draining
                | Outcome::EngineUnavailable
                | Outcome::Preempted
        )
    }
}

words! {
    /// The limit or rule that decided a refusal, or by which a request was started.
    Reason {
        /// `queue.maxRequests` of the class.
        QueueRequests => "queue_requests",
        /// `queue.maxTokens` of the class.
        QueueTokens => "queue_tokens",
        /// `queue.maxBytes` of the class.
        QueueBytes => "queue_bytes",
        /// `queue.perTenant` of the class.
        QueueTenant => "queue_tenant",
        /// `queue.ttl` of the class.
        QueueTtl => "queue_ttl",
        /// `bucket` of the class: it is in debt for longer than the TTL.
        Bucket => "bucket",
        /// `bucket` of the class, even when full, can't hold the request.
        BucketCapacity => "bucket_capacity",
        /// The model's context window.
        ContextWindow => "context_window",
        /// The engine's KV cache.
        KvCache => "kv_cache",
        /// The limit on a request's body.
        BodyLimit => "body_limit",
        /// The pod's memory for queued bodies.
        PodMemory => "pod_memory",
        /// The pod drains.
        Drain => "drain",
        /// The engine refused or reset the connection before it answered.
        EngineConnect => "engine_connect",
        /// The engine answered with an error status.
        EngineStatus => "engine_status",
        /// The engine's stream broke off or carried an error.
        EngineStream => "engine_stream",
        /// The client closed its connection.
        ClientLeft => "client_left",
        /// Started: the class waited `atLeastEvery` without a start.
        AtLeastEvery => "at_least_every",
        /// Started: the class is owed part of its `minShare`.
        MinShare => "min_share",
        /// Started: interactive work within the limit.
        Interactive => "interactive",
        /// Started: batch work within the limit, beside the seats that are kept free.
        SpareCapacity => "spare_capacity",
        /// Started: nothing else was in flight on the pod.
        EmptyPod => "empty_pod",
        /// Passed by without queueing: the pool's mode is `Bypass`, or the path never queues.
        PassThrough => "pass_through",
    }
}
