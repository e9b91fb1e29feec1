use super::*;

/// As vLLM 0.32 sends it: a role event, then one event per token, one of them inside a character.
const CHAT: &str = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}],\"prompt_token_ids\":null}\n\n\
data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"cond\"},\"finish_reason\":null,\"token_ids\":null}]}\n\n\
data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":null,\"token_ids\":null}]}\n\n\
data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\u{1F600}--\"},\"finish_reason\":\"length\",\"stop_reason\":null}]}\n\n";

const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":14,\"total_tokens\":18,\"completion_tokens\":4}}\n\n";

const DONE: &str = "data: [DONE]\n\n";

fn meter(stream: &str) -> StreamMeter {
    let mut meter = StreamMeter::default();
    meter.push(stream.as_bytes());
    meter
}

#[test]
fn tokens_are_events_and_not_text_or_chunks() {
    let stream = format!("{CHAT}{DONE}");
    for size in [1, 2, 3, 7, 64, stream.len()] {
        let mut meter = StreamMeter::default();
        let counted: u64 = stream.as_bytes().chunks(size).map(|c| meter.push(c)).sum();
        assert_eq!(counted, 3, "chunks of {size} bytes");
        assert_eq!(meter.output_tokens(1.0), 3);
        assert!(meter.is_done());
        assert_eq!(meter.error(), None);
    }
}

#[test]
fn stated_usage_wins_over_counting() {
    let meter = meter(&format!("{CHAT}{USAGE}{DONE}"));
    assert_eq!(meter.output_events(), 3, "the usage event is no token");
    assert_eq!(meter.output_tokens(10.0), 4);
    assert_eq!(meter.usage().prompt, Some(14));
    assert_eq!(meter.tokens_per_event(), Some(4.0 / 3.0));
}

#[test]
fn without_usage_events_count_by_the_learned_ratio() {
    let meter = meter(CHAT);
    assert_eq!(meter.output_tokens(2.0), 6);
    assert_eq!(meter.tokens_per_event(), None);
}

#[test]
fn usage_on_every_event_counts_once() {
    let event = |n: u64| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"a\"}}}}],\"usage\":{{\"prompt_tokens\":5,\"completion_tokens\":{n}}}}}\n\n"
        )
    };
    let mut meter = StreamMeter::default();
    for n in 1..=5 {
        meter.push(event(2 * n).as_bytes());
        assert_eq!(meter.output_tokens(1.0), 2 * n);
    }
    // What comes behind the last statement is counted on top of it.
    meter.push(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"}}]}\n\n");
    assert_eq!(meter.output_tokens(1.0), 11);
}

#[test]
fn usage_beside_an_empty_delta_is_read() {
    let meter = meter(
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n\
         data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"completion_tokens\":3}}\n\n",
    );
    assert_eq!(meter.output_events(), 1);
    assert_eq!(meter.output_tokens(1.0), 3);
}

#[test]
fn several_choices_all_count() {
    let mut stream = String::new();
    for index in 0..2 {
        stream += &format!(
            "data: {{\"choices\":[{{\"index\":{index},\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}}}}]}}\n\n"
        );
    }
    for n in 1..=5 {
        for index in 0..2 {
            let finish = if n == 5 { "\"stop\"" } else { "null" };
            stream += &format!(
                "data: {{\"choices\":[{{\"index\":{index},\"delta\":{{\"content\":\"a\"}},\"finish_reason\":{finish}}}],\"usage\":{{\"completion_tokens\":{n}}}}}\n\n"
            );
        }
    }
    let mut meter = meter(&stream);
    assert_eq!(
        meter.output_tokens(1.0),
        10,
        "a choice's usage isn't the sum"
    );
    assert!(!meter.is_done(), "one choice's end isn't the stream's");
    meter.push(b"data: {\"choices\":[],\"usage\":{\"completion_tokens\":12}}\n\n");
    assert_eq!(meter.output_tokens(1.0), 12);
}

#[test]
fn text_completions_have_no_role_event() {
    let meter = meter(
        "data: {\"object\":\"text_completion\",\"choices\":[{\"index\":0,\"text\":\"cond\",\"finish_reason\":null}]}\n\n\
         data: {\"object\":\"text_completion\",\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n",
    );
    assert_eq!(meter.output_events(), 2);
}

#[test]
fn tool_calls_and_reasoning_are_output() {
    let meter = meter(
        "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"index\":0}]}}]}\n\n\
         data: {\"choices\":[{\"delta\":{\"reasoning\":\"hm\"}}]}\n\n\
         data: {\"choices\":[{\"delta\":{\"role\":null,\"content\":null},\"finish_reason\":\"stop\"}]}\n\n",
    );
    assert_eq!(meter.output_events(), 2);
}

#[test]
fn line_ends_spaces_and_comments_are_all_valid() {
    for stream in [
        "data:{\"choices\":[{\"text\":\"a\"}]}\n\ndata:[DONE]\n\n",
        "data: {\"choices\":[{\"text\":\"a\"}]}\r\n\r\ndata: [DONE]\r\n\r\n",
        "data: {\"choices\":[{\"text\":\"a\"}]}\r\rdata: [DONE]\r\r",
        ": warm\n\nid: 5\nretry: 10\n\nevent: x\ndata: {\"choices\":\ndata: [{\"text\":\"a\"}]}\n\n: x\ndata: [DONE]\n\n",
    ] {
        for size in [1, stream.len()] {
            let mut meter = StreamMeter::default();
            for chunk in stream.as_bytes().chunks(size) {
                meter.push(chunk);
            }
            assert_eq!(meter.output_events(), 1, "{stream:?} by {size}");
            assert!(meter.is_done(), "{stream:?} by {size}");
        }
    }
}

#[test]
fn an_error_inside_a_200_stream_is_seen() {
    let tail = "data: {\"error\": {\"message\": \"EngineCore encountered an issue.\", \"type\": \"InternalServerError\", \"param\": null, \"code\": 500}}\n\n";
    let meter = meter(&format!("{CHAT}{tail}{DONE}"));
    assert_eq!(meter.error(), Some("EngineCore encountered an issue."));
    assert_eq!(meter.output_events(), 3, "an error is no token");
    assert!(
        super::tests::meter("data: {\"error\":\"busy\"}\n\n")
            .error()
            .is_some()
    );
    let old = "data: {\"object\":\"error\",\"message\":\"busy\",\"code\":503}\n\n";
    assert!(super::tests::meter(old).error().is_some());
    let null = "data: {\"error\":null,\"choices\":[{\"text\":\"a\"}]}\n\n";
    assert_eq!(super::tests::meter(null).error(), None);
}

#[test]
fn an_abort_by_the_engine_is_an_error() {
    let meter = meter(
        "data: {\"choices\":[{\"delta\":{\"content\":\"\"},\"finish_reason\":\"abort\"}]}\n\n",
    );
    assert!(meter.error().is_some());
}

#[test]
fn a_huge_event_is_counted_without_growing_memory() {
    let mut meter = StreamMeter::default();
    meter.push(b"data: {\"choices\":[{\"delta\":{\"content\":\"");
    for _ in 0..1200 {
        meter.push(&[b'x'; 1024]);
        assert!(meter.events.held() < 1 << 20);
    }
    meter.push(b"\"}}]}\n\n");
    assert_eq!(meter.output_events(), 1);
    assert!(meter.events.held() < 32 << 10, "and is given back");
    meter.push(USAGE.as_bytes());
    assert_eq!(meter.output_tokens(1.0), 4, "what follows is still read");
}

#[test]
fn events_that_are_no_json_count_as_one_each() {
    assert_eq!(meter("data: hello\n\ndata: {\"a\":\n\n").output_events(), 2);
}

#[test]
fn a_last_event_without_its_blank_line_counts_if_it_is_whole() {
    let mut whole = meter("data: {\"choices\":[{\"text\":\"a\"}]}");
    whole.finish();
    assert_eq!(whole.output_events(), 1);
    let mut cut = meter("data: {\"choices\":[{\"text");
    cut.finish();
    assert_eq!(cut.output_events(), 0);
    let mut done = meter("data: [DONE]");
    done.finish();
    assert!(done.is_done());
}

#[test]
fn the_messages_api_is_counted() {
    let stream = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":14,\"output_tokens\":1}}}\n\n\
        event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
        event: ping\ndata: {\"type\":\"ping\"}\n\n\
        event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n\
        event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"b\"}}\n\n";
    let mut meter = meter(stream);
    assert_eq!(meter.output_tokens(1.0), 2);
    assert_eq!(meter.usage().prompt, Some(14));
    meter.push(b"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":5}}\n\n");
    assert_eq!(meter.output_tokens(1.0), 5);
    assert_eq!(meter.usage().prompt, Some(14));
}

#[test]
fn the_responses_api_is_counted() {
    let meter = meter(
        "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"usage\":null}}\n\n\
         data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n\
         data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":2}}}\n\n",
    );
    assert_eq!(meter.output_events(), 1);
    assert_eq!(meter.output_tokens(1.0), 2);
}
