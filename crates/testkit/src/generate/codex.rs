//! A Codex rollout, line kinds and field order as recorded from 0.166.0; all text is filler.

use super::chance::Chance;
use super::sheet::{Filler, Sheet, Tokens, words};
use super::{Outcome, Written};

/// The properties of a rollout.
pub(super) struct Order<'a> {
    pub(super) id: &'a str,
    pub(super) cwd: &'a str,
    pub(super) start_ms: i64,
    pub(super) bytes: usize,
    pub(super) outcome: Outcome,
    /// The thread that spawned this one.
    pub(super) parent: Option<&'a str>,
}

// Slots: S thread, C directory, T time, O ordinal, N turn, X prompt, F filler, A originator, E source,
// I item id, V call id, W command, R response id, Z moment in seconds, Y in milliseconds; D, G, H usages.
const START: &str = r#"{"timestamp":"$T","ordinal":$O,"type":"$K","payload":"#;
const META: &str = r#"{"session_id":"$P","id":"$S","timestamp":"$T","cwd":"$C","runtime_workspace_roots":["$C"],"originator":"$A","cli_version":"0.166.0","source":$E,"thread_source":"$L","model_provider":"openai","base_instructions":{"text":"$F","provenance":{"type":"model","model":"gpt-6-codex"}},"history_mode":"paginated","context_window":{"window_id":"$S"}}}"#;
const STARTED: &str = r#"{"type":"task_started","turn_attribution":{"turn_id":"$N","turn_trigger":"exec","parent_turn_id":null,"initiating_agent_path":null,"root_turn_id":"$N"},"turn_id":"$N","root_turn_id":"$N","started_at":$Z,"model_context_window":258400,"collaboration_mode_kind":"default"}}"#;
const DEVELOPER: &str = r#"{"type":"message","id":"msg_$I","role":"developer","content":[{"type":"input_text","text":"<skills_instructions>\n$F"}],"internal_chat_message_metadata_passthrough":{"turn_id":"$N","create_time":$Z.339647,"content_item_kinds":["host_skills.instructions"],"content_item_metadata":[{"provenance":{"type":"skills"}}]}},"metadata":{"client_authored":false,"mcp_attribution":{"status":"none"}}}"#;
const ENVIRONMENT: &str = r#"{"type":"message","id":"msg_$I","role":"user","content":[{"type":"input_text","text":"<environment_context>\n  <cwd>$C</cwd>\n$F"}],"internal_chat_message_metadata_passthrough":{"turn_id":"$N","create_time":$Z.339656,"content_item_kinds":["environments.environment_context"],"content_item_metadata":[{"provenance":{"type":"harness","hook":false}}]}}}"#;
const WORLD: &str = r#"{"full":true,"state":{"agents_md":{},"apps_instructions":false,"collaboration_mode":{"mode":"default","model":"gpt-6-codex"},"context_window_guidance":"","environments":{"environments":{"local":{"cwd":"$C","status":"available","shell":"bash"}},"current_date":"2026-11-15","timezone":"Etc/UTC"},"host_skills":{"body":"$F","includeInstructions":true},"model":"gpt-6-codex","realtime":{"active":false},"skills":{"includeInstructions":true}}}}"#;
const CONTEXT: &str = r#"{"turn_id":"$N","root_turn_id":"$N","disabled_plugin_ids":[],"cwd":"$C","approval_policy":"never","approvals_reviewer":"user","sandbox_policy":{"type":"danger-full-access"},"permission_profile":{"type":"disabled"},"model":"gpt-6-codex","collaboration_mode":{"mode":"default","settings":{"model":"gpt-6-codex","reasoning_effort":null,"developer_instructions":null}},"multi_agent_version":"v1","realtime_active":false,"summary":"none"}}"#;
const SETTINGS: &str = r#"{"type":"thread_settings_applied","thread_id":"$S","thread_settings":{"model":"gpt-6-codex","model_provider_id":"openai","approval_policy":"never","approvals_reviewer":"user","permission_profile":{"type":"disabled"},"cwd":"$C","runtime_workspace_roots":["$C"],"collaboration_mode":{"mode":"default","settings":{"model":"gpt-6-codex","reasoning_effort":null,"developer_instructions":null}},"disabled_plugin_ids":[]}}}"#;
const PROMPT: &str = r#"{"type":"message","id":"msg_$I","role":"user","content":[{"type":"input_text","text":"$X"}],"internal_chat_message_metadata_passthrough":{"turn_id":"$N","create_time":$Z.350822,"content_item_kinds":["user.text"],"content_item_metadata":[{"provenance":{"type":"user"}}]}},"metadata":{"retained_source":{"id":{"message_id":"msg_$I","turn_id":"$N","role":"user"},"revision":"retained_$I","complete":true},"client_authored":false,"user_input_order":0,"mcp_attribution":{"status":"none"}}}"#;
const PROMPTED: &str = r#"{"type":"item_completed","thread_id":"$S","turn_id":"$N","item":{"type":"UserMessage","id":"$I","content":[{"type":"text","text":"$X","text_elements":[]}]},"started_at_ms":$Y,"completed_at_ms":$Y}}"#;
const THOUGHT: &str = r#"{"type":"item_completed","thread_id":"$S","turn_id":"$N","item":{"type":"Reasoning","id":"rs_$R","summary_text":["$F"],"raw_content":[]},"started_at_ms":$Y,"completed_at_ms":$Y}}"#;
const REASONING: &str = r#"{"type":"reasoning","id":"rs_$R","summary":[{"type":"summary_text","text":"$F"}],"content":null,"encrypted_content":null,"internal_chat_message_metadata_passthrough":{"turn_id":"$N"}}}"#;
const CALL: &str = r#"{"type":"function_call","status":"completed","id":"fc_$R","name":"exec_command","arguments":"{\"cmd\": \"$W\"}","call_id":"call_$V","internal_chat_message_metadata_passthrough":{"turn_id":"$N"}},"metadata":{"client_authored":false,"user_input_order":1}}"#;
const USAGE: &str = r#"{"thread_id":"$S","turn_id":"$N","session_id":"$P","root_turn_id":"$N","response_id":"resp_$R","usage":$D,"turn_token_usage":$G,"thread_token_usage":$H}}"#;
const RAN: &str = r#"{"type":"item_completed","thread_id":"$S","turn_id":"$N","item":{"type":"CommandExecution","id":"call_$V","process_id":"19576","command":["/bin/bash","-lc","$W"],"cwd":"file://$C","parsed_cmd":[{"type":"unknown","cmd":"$W"}],"source":"unified_exec_startup","status":"completed","aggregated_output":"$F","exit_code":0,"duration":{"secs":2,"nanos":673506367}},"started_at_ms":$Y,"completed_at_ms":$Y}}"#;
const OUTPUT: &str = r#"{"type":"function_call_output","id":"fco_$I","call_id":"call_$V","output":"$F","internal_chat_message_metadata_passthrough":{"turn_id":"$N","create_time":$Z.210370}},"metadata":{"client_authored":false,"fallback_token_limit_override":3000}}"#;
const COUNT: &str = r#"{"type":"token_count","info":{"total_token_usage":$H,"last_token_usage":$D,"last_usage_includes_reasoning":false,"model_context_window":258400},"rate_limits":{"limit_id":"codex","limit_name":null,"primary":null,"secondary":null,"credits":null,"individual_limit":null,"spend_control_reached":null,"plan_type":null,"rate_limit_reached_type":null}}}"#;
const SAID: &str = r#"{"type":"item_completed","thread_id":"$S","turn_id":"$N","item":{"type":"AgentMessage","id":"msg_$R","content":[{"type":"Text","text":"$F"}]},"started_at_ms":$Y,"completed_at_ms":$Y}}"#;
const MESSAGE: &str = r#"{"type":"message","status":"completed","id":"msg_$R","role":"assistant","content":[{"type":"output_text","text":"$F","annotations":[]}],"internal_chat_message_metadata_passthrough":{"turn_id":"$N","content_item_kinds":["unknown"]}},"metadata":{"retained_source":{"id":{"message_id":"msg_$R","turn_id":"$N","role":"assistant"},"revision":"retained_$I","complete":true},"client_authored":false,"user_input_order":2}}"#;
const COMPLETE: &str = r#"{"type":"task_complete","root_turn_id":"$N","turn_id":"$N","last_agent_message":"$F","started_at":$Z,"completed_at":$Z,"duration_ms":6149,"time_to_first_token_ms":57}}"#;
const FAILED: &str = r#"{"type":"task_complete","root_turn_id":"$N","turn_id":"$N","last_agent_message":null,"error":{"message":"exceeded retry limit, last status: 429 Too Many Requests","codex_error_info":{"response_too_many_failed_attempts":{"http_status_code":429}}},"started_at":$Z,"completed_at":$Z,"duration_ms":1216}}"#;
const ABORTED: &str = r#"{"type":"turn_aborted","root_turn_id":"$N","turn_id":"$N","reason":"interrupted","started_at":$Z,"completed_at":$Z,"duration_ms":2884}}"#;

/// Space kept free for the last turn's end.
const END: usize = 5 << 10;

struct Rollout<'a> {
    sheet: Sheet<'a>,
    outcome: Outcome,
    ordinal: u64,
    turn: Tokens,
    thread: Tokens,
}

/// Writes one rollout; the second value is its first prompt.
pub(super) fn rollout(order: &Order, mut chance: Chance, filler: &Filler) -> (Written, String) {
    let interactive = order.parent.is_none() && chance.percent(40);
    let count = chance.between(3, 30);
    let prompt = words(&mut chance, count);
    let mut sheet = Sheet::new(filler, chance, order.start_ms, order.bytes);
    sheet.set(b'S', order.id);
    sheet.set(b'P', order.parent.unwrap_or(order.id));
    sheet.set(b'C', order.cwd);
    sheet.set(b'X', &prompt);
    sheet.set(b'A', if interactive { "codex-tui" } else { "codex_exec" });
    sheet.set(b'L', if order.parent.is_some() { "subagent" } else { "user" });
    sheet.set(b'E', source(order.parent, interactive));
    let mut rollout = Rollout {
        sheet,
        outcome: order.outcome,
        ordinal: 0,
        turn: Tokens::default(),
        thread: Tokens::default(),
    };
    rollout.head(interactive);
    rollout.turns();
    let Rollout { sheet, thread, .. } = rollout;
    (Written { end_ms: sheet.clock_ms() + 1, bytes: sheet.bytes, tokens: thread }, prompt)
}

/// Returns where a thread came from, as its record and the index say it.
pub(super) fn source(parent: Option<&str>, interactive: bool) -> String {
    match parent {
        Some(parent) => format!(
            r#"{{"subagent":{{"thread_spawn":{{"parent_thread_id":"{parent}","depth":1,"agent_path":null,"agent_nickname":"Faraday","agent_role":null}}}}}}"#
        ),
        None if interactive => r#""cli""#.to_owned(),
        None => r#""exec""#.to_owned(),
    }
}

impl Rollout<'_> {
    fn line(&mut self, kind: &str, payload: &str) {
        self.sheet.tick(600);
        let at = self.sheet.clock_ms();
        self.sheet.set(b'Y', at.to_string());
        self.sheet.set(b'Z', (at / 1000).to_string());
        self.sheet.set(b'O', self.ordinal.to_string());
        self.sheet.set(b'K', kind);
        let item = self.sheet.chance.uuid7(at);
        self.sheet.set(b'I', item);
        self.ordinal += 1;
        self.sheet.write(START);
        self.sheet.line(payload);
    }

    fn head(&mut self, interactive: bool) {
        self.sheet.fill(b'F', 21_207);
        self.line("session_meta", META);
        self.begin_turn();
        self.sheet.fill(b'F', if interactive { 7_470 } else { 2_344 });
        self.line("response_item", DEVELOPER);
        self.sheet.fill(b'F', if interactive { 934 } else { 384 });
        self.line("response_item", ENVIRONMENT);
        self.sheet.fill(b'F', if interactive { 5_000 } else { 1_939 });
        self.line("world_state", WORLD);
        self.line("turn_context", CONTEXT);
        self.line("event_msg", SETTINGS);
        self.prompted();
    }

    fn begin_turn(&mut self) {
        let turn = self.sheet.chance.uuid7(self.sheet.clock_ms());
        self.sheet.set(b'N', turn);
        self.turn = Tokens::default();
        self.line("event_msg", STARTED);
    }

    fn prompted(&mut self) {
        self.line("response_item", PROMPT);
        self.line("event_msg", PROMPTED);
    }

    fn turns(&mut self) {
        loop {
            let steps = self.sheet.chance.between(1, 10);
            for _ in 0..steps {
                if self.sheet.room(END) > 3 << 10 {
                    self.step();
                }
            }
            if self.sheet.room(END) <= 3 << 10 {
                return self.last();
            }
            self.answered();
            self.line("event_msg", COMPLETE);
            self.sheet.tick(60_000);
            let count = self.sheet.chance.between(3, 30);
            let prompt = words(&mut self.sheet.chance, count);
            self.sheet.set(b'X', prompt);
            self.line("event_msg", SETTINGS);
            self.begin_turn();
            self.line("turn_context", CONTEXT);
            self.prompted();
        }
    }

    /// One call of the model that asks for a command, and the command's output.
    fn step(&mut self) {
        self.call();
        let most = u64::try_from(self.sheet.room(END) / 3).expect("small").min(200 << 10);
        let bytes = self.sheet.chance.log_normal(900.0, 1.6).min(most);
        self.sheet.fill(b'F', usize::try_from(bytes).expect("small"));
        self.line("event_msg", RAN);
        self.line("response_item", OUTPUT);
        self.line("event_msg", COUNT);
    }

    fn call(&mut self) {
        self.respond();
        if self.sheet.chance.percent(50) {
            self.sheet.fill(b'F', 200);
            self.line("event_msg", THOUGHT);
            self.line("response_item", REASONING);
        }
        let call = self.sheet.chance.hex(20);
        self.sheet.set(b'V', call);
        let command = words(&mut self.sheet.chance, 5);
        self.sheet.set(b'W', command);
        self.line("response_item", CALL);
        self.line("token_usage_record", USAGE);
    }

    /// Draws the next response of the model and its tokens.
    fn respond(&mut self) {
        let response = self.sheet.chance.hex(24);
        self.sheet.set(b'R', response);
        let chance = &mut self.sheet.chance;
        let used = Tokens {
            input: chance.between(100, 4000),
            output: chance.between(8, 1500),
            cache_read: chance.between(7, 150_000),
            cache_write: 0,
        };
        self.turn.add(used);
        self.thread.add(used);
        self.sheet.set(b'D', usage(used));
        self.sheet.set(b'G', usage(self.turn));
        self.sheet.set(b'H', usage(self.thread));
    }

    fn answered(&mut self) {
        self.respond();
        self.sheet.fill(b'F', 600);
        self.line("event_msg", SAID);
        self.line("response_item", MESSAGE);
        self.line("token_usage_record", USAGE);
        self.line("event_msg", COUNT);
    }

    fn last(&mut self) {
        match self.outcome {
            Outcome::Finished => {
                self.answered();
                self.line("event_msg", COMPLETE);
            }
            Outcome::Failed => self.line("event_msg", FAILED),
            Outcome::Interrupted => {
                self.call();
                self.sheet.set(b'F', "aborted by user");
                self.line("response_item", OUTPUT);
                self.line("event_msg", COUNT);
                self.line("event_msg", ABORTED);
                self.line("event_msg", RAN);
            }
            Outcome::Killed => self.call(),
        }
    }
}

/// A usage as Codex writes it: cached input is a part of the input.
fn usage(t: Tokens) -> String {
    let input = t.input + t.cache_read;
    format!(
        r#"{{"input_tokens":{input},"cached_input_tokens":{},"cache_write_input_tokens":{},"output_tokens":{},"reasoning_output_tokens":0,"total_tokens":{}}}"#,
        t.cache_read,
        t.cache_write,
        t.output,
        input + t.output
    )
}
