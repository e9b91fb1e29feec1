use super::*;
use fairtide_testkit::TempDir;
use std::time::SystemTime;

const MINUTE: Duration = Duration::from_secs(60);

fn pair(name: &str, authority: Option<&str>) -> Pair {
    Pair {
        chain: name.into(),
        key: name.into(),
        authority: authority.map(str::to_owned),
        life: Life::starting(SystemTime::now(), MINUTE * 60),
    }
}

fn state(shown: Pair) -> State {
    State {
        shown,
        old: None,
        waiting: None,
    }
}

fn entries(bundle: &str) -> Entries {
    Entries::Seen([bundle.as_bytes().to_vec()].into())
}

#[tokio::test(start_paused = true)]
async fn another_authority_is_told_first_and_the_old_one_forgotten_last() {
    let (first, second) = (pair("1", Some("A\n")), pair("2", Some("B\n")));
    let mut state = state(first);
    state.found(second);
    assert_eq!(state.trusted().as_deref(), Some("A\nB\n"));
    for bundle in [Entries::Unknown, entries("A\n")] {
        tokio::time::advance(MINUTE * 5).await;
        assert!(!state.takes_over(&bundle, MINUTE, false), "{bundle:?}");
    }
    let both = entries("A\nB\n");
    assert!(
        !state.takes_over(&both, MINUTE, false),
        "API servers take a moment"
    );
    tokio::time::advance(MINUTE).await;
    assert!(state.takes_over(&both, MINUTE, false));
    assert_eq!(state.shown.chain, b"2");
    let again = || pair("2", Some("B\n"));
    state.found(Pair {
        life: state.shown.life,
        ..again()
    });
    assert_eq!(state.trusted().as_deref(), Some("A\nB\n"));
    assert!(!state.takes_over(&both, MINUTE, false), "nothing waits");
    tokio::time::advance(KEEP_OLD + MINUTE).await;
    state.found(Pair {
        life: state.shown.life,
        ..again()
    });
    assert_eq!(state.trusted().as_deref(), Some("B\n"));
}

#[tokio::test(start_paused = true)]
async fn the_same_authority_or_one_that_others_tell_of_waits_for_nobody() {
    for (before, after) in [
        (Some("A\n"), Some("A\n")),
        (Some("A\n"), None),
        (None, None),
    ] {
        let mut state = state(pair("1", before));
        state.found(pair("2", after));
        assert!(
            state.takes_over(&Entries::Unknown, MINUTE, false),
            "{before:?} {after:?}"
        );
        assert_eq!(state.trusted().as_deref(), after);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_shown_and_over_is_replaced_at_once() {
    let mut state = state(pair("1", Some("A\n")));
    state.found(pair("2", Some("B\n")));
    assert!(state.takes_over(&entries("A\n"), MINUTE, true));
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let dir = TempDir::new("cert-dir").unwrap();
    let says = |text: &str| {
        let error = Pair::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains(text), "{text}: {error}");
    };
    says("tls.crt");
    dir.write("tls.crt", "no certificate").unwrap();
    says("tls.crt");
    let made = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
    let other = rcgen::KeyPair::generate().unwrap();
    dir.write("tls.crt", made.cert.pem()).unwrap();
    says("tls.key");
    dir.write("tls.key", other.serialize_pem()).unwrap();
    says("tls.key");
    dir.write("tls.key", made.signing_key.serialize_pem())
        .unwrap();
    assert_eq!(Pair::read(dir.path()).unwrap().authority(), None);
    dir.write("ca.crt", "no certificate").unwrap();
    says("ca.crt");
    dir.write("ca.crt", " \n").unwrap();
    assert_eq!(Pair::read(dir.path()).unwrap().authority(), None);
}
