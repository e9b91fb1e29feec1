//! Injection as its callers see it.

mod it {
    mod fixtures;
    mod golden;
    mod laws;
    mod repair;
}
