//! Injection as its callers see it.

mod it {
    mod damaged;
    mod fixtures;
    mod generated;
    mod golden;
    mod laws;
    mod repair;
}
