use super::*;

fn body(text: &str) -> JsonBody<'_> {
    JsonBody::parse(text.as_bytes()).expect("a JSON object")
}

fn tokens(text: &str) -> u64 {
    body(text).prompt().tokens(0.25)
}

#[test]
fn the_usual_facts_are_read() {
    let body = body(r#"{"model":"ti\u006ey","stream":true,"max_tokens":50,"messages":[]}"#);
    assert_eq!(body.model().as_deref(), Some("tiny"));
    assert!(body.is_streamed());
    assert_eq!(body.output_cap(), Some(50));
}

#[test]
fn what_is_no_json_object_has_no_facts() {
    for text in [
        "",
        "[]",
        "null",
        "\"x\"",
        "5",
        "{",
        "{\"a\":1} x",
        "<html>",
        "a=b",
    ] {
        assert!(JsonBody::parse(text.as_bytes()).is_none(), "{text}");
    }
    assert!(JsonBody::parse(b"{\"a\":\"\xff\xfe\"}").is_none());
}

#[test]
fn strange_fields_are_unknown() {
    for text in [
        r#"{}"#,
        r#"{"model":5,"stream":"yes","max_tokens":null}"#,
        r#"{"model":null,"stream":1,"max_tokens":-1}"#,
        r#"{"model":["a"],"max_tokens":[5],"max_completion_tokens":"many"}"#,
    ] {
        let body = body(text);
        assert_eq!(body.model(), None, "{text}");
        assert!(!body.is_streamed(), "{text}");
        assert_eq!(body.output_cap(), None, "{text}");
        assert_eq!(body.prompt().tokens(0.25), 1, "{text}");
    }
}

#[test]
fn the_largest_cap_counts_for_every_answer() {
    for (text, cap) in [
        (r#"{"max_tokens":1,"max_completion_tokens":5000}"#, 5000),
        (r#"{"n":4,"max_tokens":100}"#, 400),
        (r#"{"n":2,"best_of":5,"max_tokens":100}"#, 500),
        (r#"{"n":0,"max_tokens":100}"#, 100),
        (r#"{"max_tokens":0}"#, 0),
        (r#"{"max_tokens":1e9}"#, 1_000_000_000),
        (r#"{"max_tokens":"50"}"#, 50),
        (r#"{"max_output_tokens":7}"#, 7),
        (r#"{"prompt":["a","b","c"],"max_tokens":10}"#, 30),
        (r#"{"prompt":["a"],"max_tokens":10}"#, 10),
        (r#"{"prompt":[1,2,3],"max_tokens":10}"#, 10),
        (r#"{"prompt":[[1,2],[3]],"n":3,"max_tokens":10}"#, 60),
        (
            r#"{"messages":[[{"content":"a"}],[{"content":"b"}]],"max_tokens":10}"#,
            20,
        ),
        (
            r#"{"messages":[{"content":"a"},{"content":"b"}],"max_tokens":10}"#,
            10,
        ),
        (r#"{"n":18446744073709551615,"max_tokens":9}"#, u64::MAX),
        (r#"{"n":1e300,"max_tokens":9}"#, u64::MAX),
    ] {
        assert_eq!(body(text).output_cap(), Some(cap), "{text}");
    }
}

#[test]
fn of_a_field_given_twice_the_last_counts_as_in_the_engine() {
    assert_eq!(
        body(r#"{"model":"a","model":"b"}"#).model().as_deref(),
        Some("b")
    );
}

#[test]
fn prompt_tokens_follow_text_ids_and_all_inputs() {
    let forty = "x".repeat(40);
    assert_eq!(tokens(&format!(r#"{{"prompt":"{forty}"}}"#)), 10);
    assert_eq!(tokens(&format!(r#"{{"input":["{forty}","{forty}"]}}"#)), 20);
    assert_eq!(tokens(r#"{"prompt":[1,2,3]}"#), 3);
    assert_eq!(tokens(r#"{"prompt":[[1,2],[3]]}"#), 3);
    assert_eq!(tokens(r#"{"input":[[1,2,3]]}"#), 3);
    let parts = format!(
        r#"{{"messages":[{{"content":[{{"text":"{forty}"}}]}},{{"content":"{forty}"}}],"temperature":1}}"#
    );
    assert_eq!(tokens(&parts), 20);
    assert_eq!(
        tokens(&format!(r#"{{"tools":[{{"source":"{forty}","max":5}}]}}"#)),
        10
    );
}

#[test]
fn a_picture_is_not_megabytes_of_prompt() {
    let data = "A".repeat(4 << 20);
    let text = format!(
        r#"{{"messages":[{{"role":"u","content":[{{"type":"t","text":"abc"}},{{"type":"i","image_url":{{"url":"data:image/png;base64,{data}"}}}}]}}]}}"#
    );
    let size = body(&text).prompt();
    assert_eq!(size.media, 1);
    assert!(size.text_bytes < 20, "{size:?}");
}

#[test]
fn a_prompt_that_is_nested_too_deep_counts_as_text() {
    let text = format!(r#"{{"prompt":{}{}}}"#, "[".repeat(5000), "]".repeat(5000));
    assert_eq!(tokens(&text), 2500);
    assert_eq!(tokens(r#"{"prompt":"\ud83d"}"#), 2);
}

#[test]
fn any_field_is_found_by_its_path() {
    let body = body(
        r#"{"metadata":{"job":"nightly","deep":{"n":1.50}},"user":"a\"b","ok":true,"no":null,"list":[1]}"#,
    );
    let text = |path| body.text(path).map(|text| text.into_owned());
    assert_eq!(text("metadata.job").as_deref(), Some("nightly"));
    assert_eq!(text("metadata.deep.n").as_deref(), Some("1.50"));
    assert_eq!(text("user").as_deref(), Some("a\"b"));
    assert_eq!(text("ok").as_deref(), Some("true"));
    for absent in [
        "no",
        "list",
        "metadata",
        "metadata.x",
        "user.x",
        "",
        ".",
        "x",
    ] {
        assert_eq!(text(absent), None, "{absent}");
    }
}

#[test]
fn a_body_of_countless_fields_is_not_looked_into() {
    let fields: Vec<_> = (0..300).map(|n| format!("\"{n}\":0")).collect();
    assert!(JsonBody::parse(format!("{{{}}}", fields.join(",")).as_bytes()).is_none());
}
