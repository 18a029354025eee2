//! A Claude Code transcript, line kinds and field order as recorded from 2.1.325; all text is filler.

use super::chance::Chance;
use super::sheet::{Filler, Sheet, Tokens, words};
use super::{Outcome, Written};

/// The properties of a transcript.
pub(super) struct Order<'a> {
    pub(super) id: &'a str,
    pub(super) cwd: &'a str,
    pub(super) start_ms: i64,
    pub(super) bytes: usize,
    pub(super) outcome: Outcome,
    /// The subagent of this file.
    pub(super) agent: Option<&'a str>,
}

// Slots: S session, C directory, E entry point, K side chain, P parent, U this line, T time, Q prompt id,
// X prompt, M message id, R request id, B block, F filler, D digest, L stop reason, and numbers G to J.
const ENVELOPE: &str = r#""userType":"external","entrypoint":"$E","cwd":"$C","sessionId":"$S","version":"2.1.325","gitBranch":"HEAD"}"#;
const TYPED: &str = r#"{"parentUuid":$P,"isSidechain":$K,"promptId":"$Q","type":"user","message":{"role":"user","content":"$X"},"uuid":"$U","timestamp":"$T","permissionMode":"auto","promptSource":"typed","turnOrigin":"human","turnPosition":{"promptIndex":0,"turnIndex":1},"#;
const ATTACHMENT: &str = r#"{"parentUuid":$P,"isSidechain":$K,"attachment":{$B},"type":"attachment","uuid":"$U","timestamp":"$T","rendered":[{"content":"$F"}],"renderedRole":"system","#;
const SNAPSHOT: &str = r#"{"parentUuid":$P,"isSidechain":$K,"attachment":{"type":"prompt_snapshot","systemPrompt":["$F"],"reminderFold":false,"echoWireToolInputs":false,"contextRendering":"announced"},"type":"attachment","uuid":"$U","timestamp":"$T","#;
const SHAPE: &str = r#"{"type":"api-request-shape","sessionId":"$S","shapeHash":"$D","timestamp":"$T","version":"2.1.325","shape":{"system":[{"type":"text","text":"$F"}],"tools":[{"name":"Bash","description":"run a command","input_schema":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}]}}"#;
const BLOB: &str = r#"{"type":"api-request-blob","sessionId":"$S","hash":"$D","message":{"role":"user","content":[{"type":"text","text":"$F"}]}}"#;
const REQUEST: &str = r#"{"type":"api-request","sessionId":"$S","id":"$R","timestamp":"$T","version":"2.1.325","querySource":"sdk","shapeHash":"$D","params":{"model":"claude-opus-5-5","betas":["claude-code-20250219","interleaved-thinking-2025-05-14"],"max_tokens":128000,"thinking":{"type":"adaptive","display":"updates"},"output_config":{"effort":"medium"}},"keep":2,"tail":["$D"],"cacheControl":[{"path":["system",0],"value":{"type":"ephemeral"}}],"requestDigest":"$D"}"#;
const ANSWER: &str = r#"{"parentUuid":$P,"isSidechain":$K,"message":{"id":"$M","type":"message","role":"assistant","model":"claude-opus-5-5","content":[$B],"stop_reason":"$L","stop_sequence":null,"usage":{"input_tokens":$G,"cache_creation_input_tokens":$H,"cache_read_input_tokens":$I,"output_tokens":$J,"output_tokens_details":{"thinking_tokens":0},"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"service_tier":"standard","cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"inference_geo":"","iterations":[],"speed":"standard","fallback_credit":null},"stop_details":null},"apiBlockIndex":0,"requestRef":"$R","requestedModel":"claude-opus-5-5","promptCacheRequested":"5m","type":"assistant","uuid":"$U","timestamp":"$T","effort":"medium","perTurnEffort":"medium","madeBy":"model","#;
const RESULT: &str = r#"{"parentUuid":$P,"isSidechain":$K,"promptId":"$Q","type":"user","message":{"role":"user","content":[{"tool_use_id":"$V","type":"tool_result","content":"$F","is_error":false}]},"uuid":"$U","timestamp":"$T","toolUseResult":{"stdout":"$F","stderr":"","interrupted":false,"isImage":false,"noOutputExpected":false},"sandboxed":false,"sourceToolAssistantUUID":$P,"permissionDecision":{"decision":"accept","source":"config","reasonType":"mode"},"#;
const REJECTED: &str = r#"{"parentUuid":$P,"isSidechain":$K,"promptId":"$Q","type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"$F","is_error":true,"tool_use_id":"$V"}]},"uuid":"$U","timestamp":"$T","toolUseResult":"User rejected tool use","toolDenialKind":"user-rejected","sourceToolAssistantUUID":$P,"#;
const INTERRUPT: &str = r#"{"parentUuid":$P,"isSidechain":$K,"promptId":"$Q","type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user for tool use]"}]},"uuid":"$U","timestamp":"$T","#;
const API_ERROR: &str = r#"{"parentUuid":$P,"isSidechain":$K,"type":"system","subtype":"api_error","level":"error","error":{"message":"Connection error.","formatted":"429 rate limited","connection":null,"isNetworkDown":false,"rateLimits":null,"noResponse":null},"retryInMs":513,"retryAttempt":1,"maxRetries":10,"source":"request_retry","timestamp":"$T","uuid":"$U","#;
const FAILED: &str = r#"{"parentUuid":$P,"isSidechain":$K,"type":"assistant","uuid":"$U","timestamp":"$T","message":{"diagnostics":null,"id":"$U","container":null,"model":"<synthetic>","role":"assistant","stop_details":null,"stop_reason":"stop_sequence","stop_sequence":"","type":"message","usage":{"output_tokens_details":null,"input_tokens":0,"output_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"service_tier":null,"iterations":null,"speed":null,"fallback_credit":null},"content":[{"type":"text","text":"API Error: rate limited"}],"context_management":null},"error":"rate_limit","isApiErrorMessage":true,"apiErrorStatus":429,"perTurnEffort":"medium","madeBy":"model","#;
const TURN_END: &str = r#"{"parentUuid":$P,"isSidechain":$K,"type":"system","subtype":"turn_duration","durationMs":4210,"messageCount":19,"timestamp":"$T","uuid":"$U","isMeta":false,"#;
const COST: &str = r#"{"type":"cost-state","sessionId":"$S","totalCostUSD":$G,"totalAPIDuration":4298,"totalAPIDurationWithoutRetries":4227,"totalToolDuration":3304,"totalLinesAdded":0,"totalLinesRemoved":0,"totalDuration":49185,"startTime":$H,"modelUsage":{"claude-opus-5-5":{"inputTokens":26956,"outputTokens":61,"thinkingTokens":0,"cacheReadInputTokens":14,"cacheCreationInputTokens":22,"webSearchRequests":0,"costUSD":$G}},"hasUnknownModelCost":false}"#;

/// Attachments before the first answer: kind, and bytes of text.
const ATTACHMENTS: &[(&str, usize)] = &[
    (
        r#""type":"environment","snapshot":{"workingDirectory":"$C","isWorktree":false,"isGitRepo":true,"additionalWorkingDirectories":[],"platform":"linux","shell":"bash","osVersion":"Linux"}"#,
        400,
    ),
    (
        r#""type":"model","identity":{"modelId":"claude-opus-5-5","marketingName":"Opus 5.5"},"text":"model""#,
        300,
    ),
    (
        r#""type":"deferred_tools_delta","addedNames":["Monitor","WebFetch"],"addedLines":["Monitor","WebFetch"],"removedNames":[],"pendingMcpServers":[],"failedMcpServers":[]"#,
        900,
    ),
    (
        r#""type":"agent_listing_delta","addedTypes":["claude","Explore"],"addedLines":[],"builtInTypes":["claude","Explore"],"removedTypes":[],"isInitial":true,"showConcurrencyNote":true"#,
        1200,
    ),
    (
        r#""type":"auto_mode","autoModeConsentFlow":false,"finishExposedWork":false,"bashFirst":true,"steerOnly":true,"bypass":true"#,
        1000,
    ),
    (r#""type":"date","date":"2026-11-15""#, 64),
];

struct Transcript<'a> {
    sheet: Sheet<'a>,
    outcome: Outcome,
    tokens: Tokens,
    /// In a terminal; otherwise headless.
    interactive: bool,
    title: Option<String>,
    prompt: String,
}

/// Writes one transcript.
pub(super) fn transcript(order: &Order, mut chance: Chance, filler: &Filler) -> Written {
    let interactive = order.agent.is_none() && chance.percent(30);
    let title = (interactive && chance.percent(60)).then(|| words(&mut chance, 4));
    let count = chance.between(3, 30);
    let prompt = words(&mut chance, count);
    let mut sheet = Sheet::new(filler, chance, order.start_ms, order.bytes);
    sheet.set(b'S', order.id);
    sheet.set(b'C', order.cwd);
    sheet.set(b'E', if interactive { "cli" } else { "sdk-cli" });
    let chain = order.agent.map(|agent| format!(r#"true,"agentId":"{agent}""#));
    sheet.set(b'K', chain.as_deref().unwrap_or("false"));
    sheet.tick(50);
    let digest = sheet.chance.hex(64);
    sheet.set(b'D', digest);
    let mut transcript = Transcript {
        sheet,
        outcome: order.outcome,
        tokens: Tokens::default(),
        interactive,
        title,
        prompt,
    };
    transcript.head(order);
    transcript.turns();
    let Transcript { sheet, tokens, .. } = transcript;
    Written { end_ms: sheet.clock_ms() + 1, bytes: sheet.bytes, tokens }
}

impl Transcript<'_> {
    /// Writes a line with an id of its own, hung below the one before.
    fn linked(&mut self, template: &str) {
        self.sheet.tick(800);
        let uuid = self.sheet.chance.uuid4();
        self.sheet.set(b'U', uuid);
        self.sheet.write(template);
        self.sheet.line(ENVELOPE);
        self.sheet.quote(b'U', b'P');
    }

    fn head(&mut self, order: &Order) {
        self.sheet.set(b'P', "null");
        let prompt = self.prompt.clone();
        self.sheet.set(b'X', prompt);
        if self.interactive {
            self.sheet.line(r#"{"type":"mode","mode":"normal","sessionId":"$S"}"#);
            self.sheet
                .line(r#"{"type":"permission-mode","permissionMode":"auto","sessionId":"$S"}"#);
            self.sheet.line(r#"{"type":"atis-latch","atis":"","sessionId":"$S"}"#);
            self.file_history();
        } else if order.agent.is_none() {
            self.queue("enqueue", r#","content":"$X""#);
            self.queue("dequeue", "");
        }
        self.prompted();
        for (kind, bytes) in ATTACHMENTS {
            self.sheet.fill(b'F', *bytes);
            let line = ATTACHMENT.replace("$B", kind);
            self.linked(&line);
        }
        // The lines before the first answer are 80 to 140 kB, if the whole is not smaller.
        let bulk = usize::try_from(self.sheet.chance.between(80 << 10, 140 << 10)).expect("small");
        let bulk = bulk.min(self.sheet.room(0) / 2);
        self.sheet.fill(b'F', bulk / 10);
        self.linked(&ATTACHMENT.replace("$B", r#""type":"skill_listing","skillCount":13"#));
        self.sheet.fill(b'F', bulk / 3);
        self.linked(SNAPSHOT);
        self.sheet.fill(b'F', bulk / 2);
        self.sheet.line(SHAPE);
    }

    fn queue(&mut self, operation: &str, content: &str) {
        self.sheet.tick(5);
        let line = format!(
            r#"{{"type":"queue-operation","operation":"{operation}","timestamp":"$T","sessionId":"$S"{content}}}"#
        );
        self.sheet.line(&line);
    }

    fn file_history(&mut self) {
        let id = self.sheet.chance.uuid4();
        self.sheet.set(b'U', id);
        self.sheet.line(r#"{"type":"file-history-snapshot","messageId":"$U","snapshot":{"messageId":"$U","trackedFileBackups":{},"timestamp":"$T"},"isSnapshotUpdate":false}"#);
    }

    fn prompted(&mut self) {
        let id = self.sheet.chance.uuid4();
        self.sheet.set(b'Q', id);
        self.linked(TYPED);
    }

    /// Writes turn after turn until the wanted size is near, then the last one.
    fn turns(&mut self) {
        const END: usize = 9 << 10;
        loop {
            let steps = self.sheet.chance.between(1, 10);
            for _ in 0..steps {
                if self.sheet.room(END) > 4 << 10 {
                    self.step(END);
                }
            }
            if self.sheet.room(END) <= 4 << 10 {
                return self.last();
            }
            self.answered();
            self.turn_ended();
            self.next_prompt();
        }
    }

    /// One call of the model that asks for a tool, and the tool's result.
    fn step(&mut self, end: usize) {
        self.request();
        self.tool_call();
        let most = u64::try_from(self.sheet.room(end) / 3).expect("small").min(200 << 10);
        let bytes = self.sheet.chance.log_normal(900.0, 1.6).min(most);
        self.sheet.fill(b'F', usize::try_from(bytes).expect("small"));
        self.linked(RESULT);
        if self.sheet.chance.percent(10) {
            self.sheet.fill(b'F', 300);
            self.linked(&ATTACHMENT.replace("$B", r#""type":"todo_reminder","count":3"#));
        }
    }

    fn request(&mut self) {
        self.sheet.tick(50);
        if self.sheet.chance.percent(50) {
            self.sheet.fill(b'F', 200);
            self.sheet.line(BLOB);
        }
        let id = self.sheet.chance.uuid4();
        self.sheet.set(b'R', id);
        self.sheet.line(REQUEST);
        let id = format!("msg_{}", self.sheet.chance.hex(24));
        self.sheet.set(b'M', id);
        let chance = &mut self.sheet.chance;
        let used = Tokens {
            input: chance.between(2, 400),
            output: chance.between(8, 1500),
            cache_read: chance.between(7, 150_000),
            cache_write: chance.between(11, 4000),
        };
        self.tokens.add(used);
        self.sheet.set(b'G', used.input.to_string());
        self.sheet.set(b'H', used.cache_write.to_string());
        self.sheet.set(b'I', used.cache_read.to_string());
        self.sheet.set(b'J', used.output.to_string());
    }

    fn tool_call(&mut self) {
        self.sheet.set(b'L', "tool_use");
        if self.sheet.chance.percent(30) {
            self.sheet.fill(b'F', 400);
            self.linked(&ANSWER.replace(
                "$B",
                r#"{"type":"thinking","thinking":"$F","signature":"c2lnbmF0dXJl"}"#,
            ));
        }
        self.sheet.fill(b'F', 150);
        self.linked(&ANSWER.replace("$B", r#"{"type":"text","text":"$F"}"#));
        let id = format!("toolu_{}", self.sheet.chance.hex(24));
        self.sheet.set(b'V', id);
        let command = words(&mut self.sheet.chance, 5);
        self.sheet.set(b'W', command);
        self.linked(&ANSWER.replace("$B", r#"{"type":"tool_use","id":"$V","name":"Bash","input":{"command":"$W","description":"run it"}}"#));
    }

    fn answered(&mut self) {
        self.request();
        self.sheet.set(b'L', "end_turn");
        self.sheet.fill(b'F', 600);
        self.linked(&ANSWER.replace("$B", r#"{"type":"text","text":"$F"}"#));
    }

    fn turn_ended(&mut self) {
        if self.interactive {
            self.linked(TURN_END);
        }
        self.state();
        self.cost();
    }

    fn state(&mut self) {
        self.sheet
            .line(r#"{"type":"last-prompt","lastPrompt":"$X","leafUuid":"$U","sessionId":"$S"}"#);
        if let Some(title) = self.title.clone() {
            self.sheet.set(b'F', title);
            self.sheet.line(r#"{"type":"ai-title","aiTitle":"$F","sessionId":"$S"}"#);
        }
        self.sheet.line(r#"{"type":"atis-latch","atis":"","sessionId":"$S"}"#);
    }

    fn cost(&mut self) {
        let cents = self.sheet.chance.between(1, 900);
        self.sheet.set(b'G', format!("{}.{:02}", cents / 100, cents % 100));
        let start = self.sheet.clock_ms().to_string();
        self.sheet.set(b'H', start);
        self.sheet.line(COST);
    }

    fn next_prompt(&mut self) {
        self.sheet.tick(60_000);
        let count = self.sheet.chance.between(3, 30);
        let prompt = words(&mut self.sheet.chance, count);
        self.sheet.set(b'X', prompt);
        if self.interactive {
            self.file_history();
        } else {
            self.queue("enqueue", r#","content":"$X""#);
            self.queue("dequeue", "");
        }
        self.prompted();
    }

    fn last(&mut self) {
        match self.outcome {
            Outcome::Finished => {
                self.answered();
                self.turn_ended();
            }
            Outcome::Failed => {
                self.linked(API_ERROR);
                self.request_unanswered();
                self.linked(FAILED);
                self.state();
                self.cost();
            }
            Outcome::Interrupted => {
                self.request();
                self.tool_call();
                self.sheet.fill(b'F', 200);
                self.linked(REJECTED);
                self.linked(INTERRUPT);
                self.state();
            }
            Outcome::Killed => {
                self.request();
                self.tool_call();
                self.state();
            }
        }
    }

    fn request_unanswered(&mut self) {
        let before = self.tokens;
        self.request();
        self.tokens = before;
    }
}
