//! Errors, cuts, delays, odd clients, and the record of them.

use super::*;

#[test]
fn an_error_comes_after_the_tools_before_it() {
    let model = start();
    let prompt = "[[tool:true]] [[error:500]] [[tool:false]]";
    for (done, expected) in [(0, 200), (1, 500), (2, 500)] {
        assert_eq!(post(&model, ANTHROPIC, &anthropic(prompt, done)).status, expected);
    }
}

#[test]
fn an_unknown_model_is_refused_as_the_vendors_do() {
    let model = start();
    let (mut messages, mut items) = (anthropic("[[say:x]]", 0), responses("[[say:x]]", 0));
    messages["model"] = json!("nosuch-1");
    items["model"] = json!("nosuch-1");
    let reply = post(&model, ANTHROPIC, &messages);
    assert_eq!(
        (reply.status, reply.json()["error"]["type"].as_str()),
        (404, Some("not_found_error"))
    );
    let reply = post(&model, RESPONSES, &items);
    assert_eq!(
        (reply.status, reply.json()["error"]["code"].as_str()),
        (400, Some("model_not_found"))
    );
}

#[test]
fn an_error_is_given_as_often_as_scripted() {
    let model = start();
    let prompt = "[[error:429*2]] [[say:carried on]]";
    for expected in [429, 429, 200, 200] {
        let reply = post(&model, ANTHROPIC, &streamed(anthropic(prompt, 0)));
        assert_eq!(reply.status, expected);
        assert_eq!(reply.head.contains("retry-after: 1"), expected == 429);
        if expected == 429 {
            assert_eq!(reply.json()["error"]["type"], "rate_limit_error");
        }
    }
    // Another prompt has its own count; without a number it never ends.
    assert_eq!(post(&model, CHAT, &chat("[[error:429*1]] other", 0)).status, 429);
    for _ in 0..3 {
        let reply = post(&model, RESPONSES, &streamed(responses("[[error:529]]", 0)));
        assert_eq!(
            (reply.status, reply.json()["error"]["code"].as_str()),
            (529, Some("overloaded_error"))
        );
    }
    let statuses: Vec<u16> = model.requests().iter().map(|request| request.status).collect();
    assert_eq!(statuses, [429, 429, 200, 200, 429, 529, 529, 529]);
    assert!(
        model.requests().iter().all(|request| request.usage.is_some() == (request.status == 200))
    );
}

#[test]
fn a_cut_ends_in_the_middle_of_the_final_answer() {
    let model = start();
    let prompt = "[[tool:echo 1]] [[cut]] [[say:one two]]";
    for (path, body) in
        [(ANTHROPIC, anthropic as fn(&str, usize) -> Value), (RESPONSES, responses), (CHAT, chat)]
    {
        let step = post(&model, path, &streamed(body(prompt, 0)));
        assert!(!step.body.contains("two") && step.body.contains("echo 1"), "{step:?}");
        assert!(model.wait_for(PATIENCE, ended));
        assert_eq!(model.requests().last().map(|request| request.end), Some(End::Answered));
        let last = post(&model, path, &streamed(body(prompt, 1)));
        assert_eq!(last.status, 200);
        last.events(); // whole ones, as far as they go
        assert!(last.body.contains("one ") && !last.body.contains("two"), "{last:?}");
        let whole = post(&model, path, &body(prompt, 1));
        let promised: usize = whole
            .head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .and_then(|length| length.parse().ok())
            .expect("a length");
        assert_eq!(whole.body.len(), promised / 2);
    }
    let cut: Vec<Request> =
        model.requests().into_iter().filter(|request| request.end == End::Cut).collect();
    assert_eq!(cut.len(), 6);
    // Only Messages reports usage before the end: the input.
    let reported = |request: &&Request| request.usage.is_some();
    let early: Vec<&Request> = cut.iter().filter(reported).collect();
    assert_eq!(early.len(), 1);
    assert_eq!((early[0].api, early[0].usage.map(|usage| usage.output)), (Api::Anthropic, Some(1)));
}

#[test]
fn a_delay_comes_before_the_first_byte_and_a_drip_between_the_words() {
    let model = start();
    let begun = Instant::now();
    let mut stream = connect(&model);
    let body = streamed(anthropic("[[delay:0.3]] [[drip:0.4]] [[say:a b c d]]", 0));
    stream.write_all(&request(ANTHROPIC, &body)).expect("it reads");
    let mut first = [0; 1];
    stream.read_exact(&mut first).expect("an answer");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    let text = rest(&mut stream);
    assert!(begun.elapsed() >= Duration::from_millis(700));
    assert!(text.contains("message_stop"));
    assert!(model.wait_for(PATIENCE, ended));
    let request = the_only(&model);
    let took = request.ended_ms.expect("an end") - request.at_ms;
    assert!(took >= 700, "{took} ms");
}

#[test]
fn a_pace_is_a_pause_behind_each_block_and_before_the_final_usage() {
    let model = start();
    let begun = Instant::now();
    let mut stream = connect(&model);
    let body = streamed(anthropic("[[pace:0.3]] [[think:hm]] [[say:done]]", 0));
    stream.write_all(&request(ANTHROPIC, &body)).expect("it reads");
    let text = rest(&mut stream);
    // Two blocks.
    assert!(begun.elapsed() >= Duration::from_millis(600), "{:?}", begun.elapsed());
    assert!(text.contains("message_stop"), "{text}");
}

#[test]
fn waiting_requests_end_when_the_model_is_dropped() {
    let log = tempfile::NamedTempFile::new().expect("a file");
    let model = Model::start(Options { log: Some(log.path().to_owned()), ..Options::default() })
        .expect("a port on loopback");
    let prompts = ["[[hang]]", &format!("[[delay:{LONG}]]"), &format!("[[drip:{LONG}]] a b")];
    let mut waiting: Vec<TcpStream> = Vec::new();
    for prompt in prompts {
        let mut stream = connect(&model);
        stream.write_all(&request(RESPONSES, &streamed(responses(prompt, 0)))).expect("it reads");
        waiting.push(stream);
    }
    waiting.push(connect(&model)); // and one that says nothing
    assert!(model.wait_for(PATIENCE, |requests| requests.len() == 3));
    assert!(!model.wait_for(Duration::from_millis(50), ended));
    let address = model.url().strip_prefix("http://").expect("an address").to_owned();
    let (dropped, done) = mpsc::channel();
    thread::spawn(move || {
        drop(model);
        dropped.send(()).expect("the test waits");
    });
    done.recv_timeout(PATIENCE).expect("the model stops");
    for mut stream in waiting {
        let text = rest(&mut stream);
        assert!(!text.contains("response.completed"), "{text}");
    }
    TcpStream::connect(address).expect_err("nobody listens any more");
    let lines = std::fs::read_to_string(log.path()).expect("the log");
    let mut ends: Vec<String> = Vec::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        ends.push(format!("{} {}", line["prompt"].as_str().unwrap_or("?"), line["end"]));
    }
    ends.sort();
    let expected = [
        format!("[[delay:{LONG}]] \"stopped\""),
        format!("[[drip:{LONG}]] a b \"stopped\""),
        "[[hang]] \"open\"".to_owned(), // it was logged when it began to hang, and only then
    ];
    assert_eq!(ends, expected);
}

#[test]
fn a_client_that_leaves_a_hanging_request_is_noticed() {
    let model = start();
    let mut stream = connect(&model);
    stream.write_all(&request(ANTHROPIC, &anthropic("[[hang]]", 0))).expect("it reads");
    assert!(model.wait_for(PATIENCE, |requests| requests.len() == 1));
    assert_eq!(the_only(&model).end, End::Open);
    drop(stream);
    assert!(model.wait_for(PATIENCE, ended));
    let request = the_only(&model);
    assert_eq!((request.end, request.status, request.usage), (End::Gone, 0, None));
}

#[test]
fn a_body_may_come_in_chunks_and_in_pieces() {
    let model = start();
    let body = anthropic("[[say:é in chunks]]", 0).to_string();
    let mut bytes = Vec::new();
    // Twice: the second is only found where the first has ended, behind its trailer.
    for connection in ["keep-alive", "close"] {
        let head = "POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n";
        bytes.extend(format!("{head}Connection: {connection}\r\n\r\n").as_bytes());
        for chunk in body.as_bytes().chunks(7) {
            bytes.extend(format!("{:x};x=y\r\n", chunk.len()).as_bytes());
            bytes.extend(chunk);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"0\r\nTrailer: x\r\n\r\n");
    }
    let mut stream = connect(&model);
    stream.set_nodelay(true).expect("a socket");
    for piece in bytes.chunks(11) {
        stream.write_all(piece).expect("it reads");
    }
    let text = rest(&mut stream);
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2, "{text}");
    assert_eq!(text.matches("\"é in chunks\"").count(), 2, "{text}");
}

#[test]
fn a_connection_is_kept_and_may_run_ahead() {
    let model = start();
    let mut bytes = Vec::new();
    for say in ["one", "two", "three"] {
        let mut next = request(CHAT, &chat(&format!("[[say:{say}]]"), 0));
        if say != "three" {
            let text = String::from_utf8(next).expect("text");
            next = text.replace("Connection: close\r\n", "").into_bytes();
        }
        bytes.extend(next);
    }
    let mut stream = connect(&model);
    stream.write_all(&bytes).expect("it reads");
    let text = rest(&mut stream);
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 3);
    let at = ["one", "two", "three"].map(|say| text.find(&format!("\"{say}\"")));
    assert!(at.is_sorted() && at[0].is_some(), "{at:?}");
}

#[test]
fn an_expect_continue_header_is_answered() {
    let model = start();
    let text = String::from_utf8(request(CHAT, &chat("[[say:x]]", 0))).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let mut stream = connect(&model);
    stream
        .write_all(format!("{head}\r\nExpect: 100-continue\r\n\r\n").as_bytes())
        .expect("it reads");
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).expect("it asks");
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).expect("it reads");
    assert_eq!(Reply::of(&rest(&mut stream)).status, 200);
}

#[test]
fn an_invalid_request_is_refused_and_the_server_continues() {
    let model = start();
    let head = "POST /v1/messages HTTP/1.1\r\n";
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let cases = [
        (400, "\x16\x03\x01\x02 not http at all\r\n\r\n".to_owned()),
        (400, "GET / HTTP/1.1\r\nbroken".to_owned()),
        (400, format!("{head}Content-Length: -1\r\n\r\n")),
        (400, format!("{head}Content-Length: 1\r\nContent-Length: 2\r\n\r\n{{}}")),
        (400, format!("{head}Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n")),
        (400, format!("{head}Content-Length: 9\r\n\r\n{{}}")),
        (400, format!("{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n")),
        (400, format!("{head}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}xx0\r\n\r\n")),
        (413, format!("{head}Content-Length: 67108865\r\n\r\n")),
        (413, format!("{head}Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n")),
        (415, format!("{head}Content-Encoding: zstd\r\nContent-Length: 2\r\n\r\n{{}}")),
        (431, long),
    ];
    for (status, text) in &cases {
        let mut stream = connect(&model);
        // The server may have refused it before the end.
        let sent = stream.write_all(text.as_bytes());
        let shut = stream.shutdown(Shutdown::Write);
        let reply = Reply::of(&rest(&mut stream));
        assert_eq!(reply.status, *status, "{text:.80?} {sent:?} {shut:?} {reply:?}");
        assert_eq!(reply.json()["type"], "error");
    }
    assert_eq!(model.requests().len(), cases.len());
    let not_json = exchange(
        &model,
        format!("{head}Connection: close\r\nContent-Length: 1\r\n\r\n{{").as_bytes(),
    );
    assert_eq!(not_json.status, 400);
    let bad_script = post(&model, CHAT, &chat("[[delay:soon]]", 0));
    assert_eq!(bad_script.status, 400);
    assert!(bad_script.body.contains("bad script: `delay` wants seconds"), "{bad_script:?}");
    assert_eq!(post(&model, "/v1/nowhere", &json!({})).status, 404);
    assert_eq!(get(&model, ANTHROPIC).status, 404);
    assert_eq!(post(&model, CHAT, &chat("still there", 0)).status, 200);
}

#[test]
fn models_token_counts_and_health_checks_are_answered() {
    let model = start();
    let models = get(&model, "/v1/models?limit=1000").json();
    assert!(models["data"].as_array().is_some_and(|data| data.len() == 2), "{models}");
    let counted = post(&model, "/v1/messages/count_tokens?beta=true", &anthropic("x", 0)).json();
    assert!(counted["input_tokens"].as_u64().is_some_and(|tokens| tokens > 10), "{counted}");
    let head = exchange(&model, b"HEAD / HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let apis: Vec<Api> = model.requests().iter().map(|request| request.api).collect();
    assert_eq!(apis, [Api::Models, Api::CountTokens, Api::Other]);
}

#[test]
fn a_title_is_asked_for_without_tools_and_does_not_run_the_script() {
    let model = start();
    let prompt = "[[error:500*1]] [[tool:echo 1]] [[say:x]]";
    for (path, mut body) in [
        (ANTHROPIC, anthropic(prompt, 0)),
        (RESPONSES, responses(prompt, 0)),
        (CHAT, chat(prompt, 0)),
    ] {
        body["tools"] = json!([]);
        let reply = post(&model, path, &body);
        assert_eq!(reply.status, 200);
        assert!(reply.body.contains("\"Scripted title\""), "{reply:?}");
    }
    let mut body = anthropic(prompt, 0);
    body["tools"] = Value::Null;
    body["output_config"] = json!({"format": {"type": "json_schema"}});
    let title = post(&model, ANTHROPIC, &body).json();
    assert_eq!(title["content"][0]["text"], r#"{"title":"Scripted title"}"#);
    assert!(model.requests().iter().all(|request| request.side && request.prompt == prompt));
    // None of these has used up the error.
    assert_eq!(post(&model, CHAT, &chat(prompt, 0)).status, 500);
    assert_eq!(model.requests().last().map(|request| request.side), Some(false));
}

#[test]
fn requests_are_recorded_as_they_were_received() {
    let log = tempfile::NamedTempFile::new().expect("a file");
    let options = Options { log: Some(log.path().to_owned()), usage: Some((123, 45)), port: 0 };
    let model = Model::start(options).expect("a port on loopback");
    let prompt = "do [[tool:echo 1]] [[say:ok]]";
    let before = jiff::Timestamp::now().as_millisecond();
    let step = post(&model, ANTHROPIC, &streamed(anthropic(prompt, 0))).events();
    let spoken = post(&model, RESPONSES, &responses(prompt, 1)).json()["usage"].clone();
    let chatted = post(&model, CHAT, &streamed(chat(prompt, 0))).events();
    assert!(model.wait_for(PATIENCE, |requests| requests.len() == 3 && ended(requests)));
    let after = jiff::Timestamp::now().as_millisecond();

    let requests = model.requests();
    let [first, second, third] = &requests[..] else { panic!("{requests:?}") };
    let names = |r: &Request| {
        (r.api, r.model.clone().unwrap_or_default(), r.key.clone().unwrap_or_default())
    };
    assert_eq!(names(first), (Api::Anthropic, "claude-x".to_owned(), "s1".to_owned()));
    assert_eq!(names(second), (Api::Responses, "gpt-x".to_owned(), "k1".to_owned()));
    assert_eq!(names(third), (Api::Chat, "chat-x".to_owned(), "k2".to_owned()));
    let counts = |r: &Request| (r.steps_done, r.tools, r.side, r.stream, r.status);
    assert_eq!(counts(first), (0, 2, false, true, 200));
    assert_eq!(counts(second), (1, 1, false, false, 200));
    assert_eq!(counts(third), (0, 1, false, true, 200));
    for request in &requests {
        assert_eq!((request.prompt.as_str(), request.end), (prompt, End::Answered));
        let end = request.ended_ms.expect("an end");
        assert!(before <= request.at_ms && request.at_ms <= end && end <= after, "{request:?}");
    }
    assert_eq!((first.method.as_str(), first.path.as_str()), ("POST", "/v1/messages"));

    // The same numbers, read from the client's answers.
    let number =
        |data: &Value, place: &str| data.pointer(place).and_then(Value::as_u64).expect("a number");
    let (_, told) = step.iter().find(|(name, _)| name == "message_delta").expect("usage");
    let told = Usage {
        input: number(told, "/usage/input_tokens"),
        output: number(told, "/usage/output_tokens"),
        cache_read: number(told, "/usage/cache_read_input_tokens"),
        cache_write: number(told, "/usage/cache_creation_input_tokens"),
        reasoning: 0,
    };
    assert_eq!(first.usage, Some(told));
    assert_eq!((told.input, told.output), (123, 45));
    let told = Usage {
        input: number(&spoken, "/input_tokens"),
        output: number(&spoken, "/output_tokens"),
        cache_read: number(&spoken, "/input_tokens_details/cached_tokens"),
        cache_write: 0,
        reasoning: number(&spoken, "/output_tokens_details/reasoning_tokens"),
    };
    assert_eq!(second.usage, Some(told));
    let (_, chatted) = chatted.iter().find(|(_, data)| data["usage"].is_object()).expect("usage");
    let told = Usage {
        input: number(chatted, "/usage/prompt_tokens"),
        output: number(chatted, "/usage/completion_tokens"),
        cache_read: number(chatted, "/usage/prompt_tokens_details/cached_tokens"),
        cache_write: 0,
        reasoning: number(chatted, "/usage/completion_tokens_details/reasoning_tokens"),
    };
    assert_eq!(third.usage, Some(told));

    // The log agrees with memory; a line is written just after the record has ended.
    drop(model);
    let lines = std::fs::read_to_string(log.path()).expect("the log");
    let lines: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(json!(lines), json!(requests));
}

#[test]
fn the_program_says_where_it_listens_and_ends_by_a_signal() {
    let dir = tempfile::tempdir().expect("a folder");
    let port_file = dir.path().join("port");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_model"))
        .arg("--port-file")
        .arg(&port_file)
        .args(["--usage", "7,8"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program");
    let mut line = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut out, &mut line).expect("a line");
    let port = std::fs::read_to_string(&port_file).expect("the port's file");
    assert_eq!(line, format!("http://127.0.0.1:{port}\n"));
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
    stream.write_all(&request(CHAT, &chat("[[say:x]]", 0))).expect("it reads");
    let usage = Reply::of(&rest(&mut stream)).json()["usage"].clone();
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(7), &json!(8)));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("our own child");
    assert!(child.wait().expect("it ends").success());
}
