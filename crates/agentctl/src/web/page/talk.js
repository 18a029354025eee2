// One session: its heading, its conversation, its asks, a message to it, its end.

import { ageOf, byId, fill, folder, h, isMeantAgain, linked, mark, newNotice, openDialog, setText, tell } from "./dom.js";
import { stopped } from "./ask.js";
import { Board } from "./inbox.js";
import { groupOf, isLive, keyOf, newest, routeOf, shortId, stateOf, titleOf } from "./list.js";
import { failure, get, post, wordsOf } from "./net.js";
import { leave, showChanges, showFacts } from "./work.js";

const TABS = [["", "Conversation"], ["changes", "Changes"], ["facts", "Facts"]];
// Characters of an error beside its folded call.
const MOST_WORDS = 60;
const BELOW_CALL = ["tool_detail", "tool_output", "tool_error", "fold"];

// Lines of a conversation: messages by author, tool calls folded to one line.
class Lines {
	constructor(element) {
		this.element = element;
	}

	append(lines) {
		for (const { kind, spans } of lines) this.line(kind, spans);
	}

	line(kind, spans) {
		if (kind === "date") {
			this.message = null;
			return this.element.append(h("h2.date", painted(spans)));
		}
		if (kind === "author" || !this.message) {
			this.message = h(`div.message.${spans.find((span) => span.role)?.role ?? "other"}`);
			this.call = null;
			this.element.append(this.message);
		}
		const sign = spans.find(({ style }) => style === "added" || style === "removed")?.style ?? "same";
		const line = () => h(`div.line.${kind}.${sign}`, { dir: kind === "text" ? "auto" : null }, painted(spans));
		if (kind === "tool_call") {
			this.call = h("details.call", h("summary", painted(spans)));
			this.message.append(this.call);
		} else if (this.call && BELOW_CALL.includes(kind)) {
			if (kind === "tool_error" && !this.call.classList.contains(kind)) markFailed(this.call.firstChild, spans);
			this.call.classList.add("full", kind);
			this.call.append(line());
		} else {
			if (kind !== "blank") this.call = null;
			this.message.append(line());
		}
	}
}

// A folded call says in signs and words that it failed, and why: its colour alone tells nobody who cannot see it.
function markFailed(summary, spans) {
	const words = spans.map(({ text }) => text).join("").replace("✗", "").trim();
	summary.prepend(h("span.s-failed", { role: "img", "aria-label": "failed" }, "✗"), " ");
	summary.append(h("span.s-failed.why", `  ${[...words].slice(0, MOST_WORDS).join("")}`));
}

// A line without the indentation and the mark that terminals need.
function painted(spans) {
	const from = spans.findIndex(({ text }) => text.trim());
	return spans.slice(from < 0 ? spans.length : from).filter(({ style }) => style !== "call_mark").map(({ style, text }) => (style === "plain" ? linked(text) : h(`span.s-${style}`, linked(text))));
}

export class Talk {
	constructor(world) {
		this.world = world;
		this.element = byId("session");
		// What was written to each session, with the reason why it was not sent.
		this.drafts = new Map();
	}

	// Shows a session; the tab is "", "changes" or "facts".
	open(key, tab) {
		if (key !== this.key) {
			this.close();
			this.key = key;
			this.row = this.world.session(key);
			this.build();
			if (!this.row) this.lookUp();
		}
		leave(this.work);
		tell(this.notice);
		for (const link of this.tabs.children) mark(link, link.dataset.tab === tab);
		this.talk.hidden = tab !== "";
		this.work.hidden = tab === "";
		(tab ? this.work : this.unsent).before(this.notice);
		if (tab === "changes") showChanges(this.work, key);
		else if (tab === "facts") showFacts(this.work, key);
		else this.toEnd();
	}

	close() {
		if (this.key) leave(this.work);
		this.board = this.key = this.builder = null;
		this.element.replaceChildren();
	}

	build() {
		this.title = h("h1", { id: "session-title", tabindex: -1, dir: "auto" });
		this.state = h("p.state");
		this.meta = h("p.meta");
		this.notice = newNotice();
		this.tabs = h("nav.tabs", { "aria-label": "Views of the session" }, TABS.map(([tab, name]) => h("a", { href: routeOf(this.key, tab), "data-tab": tab }, name)));
		this.stop = h("button.quiet.danger", { onclick: () => this.end() }, "Stop");
		this.earlier = h("button.quiet", { hidden: true, onclick: () => this.readEarlier() });
		this.lines = h("div.lines", { role: "log", "aria-label": "Conversation", "aria-live": "off", tabindex: 0 });
		Object.assign(this, this.drafts.get(this.key) ?? this.draft());
		this.waits = h("p.note", "It waits for an answer; a message is never an answer.");
		const cards = h("div");
		this.talk = h("div.talk", this.earlier, this.lines, cards, this.waits, this.unsent, this.composer);
		this.work = h("div.work");
		fill(this.element, h("header", h("a.back", { href: "#/" }, "‹ All"), h("div.bar", this.title, this.stop), this.state, this.meta, this.tabs), this.talk, this.work);
		this.board = new Board(cards, this.world, (ask) => keyOf(ask) === this.key, "");
		this.board.sizes.observe(this.lines);
		this.look(this.world.asks());
	}

	draft() {
		const text = h("textarea", { rows: 2, id: "message", placeholder: "Message to the agent", "aria-label": "Message to the agent", onkeydown: (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && this.send(event) });
		const composer = h("form.composer", { onsubmit: (event) => this.send(event) }, text, h("button.primary", "Send"));
		const draft = { text, composer, unsent: newNotice() };
		this.drafts.set(this.key, draft);
		return draft;
	}

	async lookUp() {
		const { key } = this;
		try {
			const row = await get("/api/session", { id: key });
			if (key !== this.key) return;
			if (row.id && keyOf(row) !== key) return this.world.renamed(keyOf(row));
			this.row = row;
			this.paint();
		} catch (refusal) {
			if (key === this.key) tell(this.notice, wordsOf(refusal), true);
		}
	}

	// Sessions that run, or run again: what was said about their end is over.
	begun(keys) {
		for (const key of keys) stopped.delete(key);
		if (keys.includes(this.key)) tell(this.notice);
	}

	lookUpEnded() {
		if (this.row && !isLive(this.row)) this.lookUp();
	}

	look(asks) {
		if (!this.key) return;
		const row = this.world.session(this.key);
		if (!row && this.row && isLive(this.row)) this.lookUp();
		this.row = row ?? this.row;
		this.paint();
		const atEnd = this.isAtEnd;
		if (this.board.take(asks).length && atEnd) this.toEnd();
	}

	paint() {
		const { row } = this;
		const control = this.world.control();
		setText(this.title, row ? titleOf(row) : this.key);
		fill(this.state, row && stateOf(row));
		fill(this.meta, row && [groupOf(row), h("span", row.adapter), h("code", shortId(row)), row.model && h("span", row.model), folder(row.cwd), ageOf(newest(row), " ago")]);
		this.stop.hidden = !(control && row && isLive(row));
		this.composer.hidden = !(control && row?.id && row.status !== "waiting");
		this.waits.hidden = !(control && row?.status === "waiting");
	}

	said({ id, reset, lines, before, earlier }) {
		if (id !== this.key) return;
		const atEnd = reset || this.isAtEnd;
		if (reset || !this.builder) {
			this.lines.replaceChildren();
			this.builder = new Lines(this.lines);
			this.setEarlier(before, earlier);
		}
		this.builder.append(lines);
		this.board.moved();
		if (atEnd) this.toEnd();
	}

	setEarlier(before, count) {
		this.before = before;
		this.earlier.hidden = !before;
		setText(this.earlier, count ? `Show earlier messages (${count})` : "Show earlier messages");
	}

	async readEarlier() {
		const { key, earlier } = this;
		earlier.disabled = true;
		try {
			const page = await get("/api/talk", { id: key, n: 40, before: this.before });
			if (earlier !== this.earlier) return;
			const below = this.scroller.scrollHeight - this.scroller.scrollTop;
			const box = h("div");
			new Lines(box).append(page.lines);
			this.lines.prepend(box);
			this.setEarlier(page.before, page.earlier);
			this.scroller.scrollTop = this.scroller.scrollHeight - below;
		} catch (refusal) {
			setText(earlier, `Not read: ${wordsOf(refusal)}. Try again`);
		}
		earlier.disabled = false;
	}

	get scroller() {
		return getComputedStyle(this.element).overflowY === "auto" ? this.element : document.scrollingElement;
	}

	get isAtEnd() {
		const { scrollHeight, scrollTop, clientHeight } = this.scroller;
		return scrollHeight - scrollTop - clientHeight < 80;
	}

	toEnd() {
		this.scroller.scrollTop = this.scroller.scrollHeight;
	}

	async send(event) {
		event.preventDefault();
		// Another session may be shown when the answer comes.
		const { key, text: field, unsent } = this;
		const text = field.value;
		if (!text.trim() || field.isSending) return;
		if (text === field.perhapsSent && !(await isMeantAgain("Send"))) return;
		field.isSending = true;
		field.perhapsSent = null;
		try {
			await post("/api/send", { session: key, text });
			if (field.value === text) field.value = "";
			tell(unsent);
			if (key === this.key) tell(this.notice);
		} catch (refusal) {
			if (refusal.isUnclear) field.perhapsSent = text;
			tell(unsent, failure(refusal, "sent"), true);
		}
		field.isSending = false;
	}

	async end() {
		const { row, key } = this;
		const say = (...words) => key === this.key && tell(this.notice, ...words);
		const text = `It ends ${row.adapter} ${shortId(row)} and every process that it has started: ${titleOf(row)}`;
		if (await openDialog("Stop this session?", h("p", text), ["Cancel", "Stop"]) !== "Stop") return;
		say("Stopping…");
		stopped.add(key);
		try {
			const { failed, survivors } = await post("/api/stop", { id: key });
			const left = survivors.length ? ` ${survivors.length} processes live on.` : "";
			say(failed.length ? `Not stopped: ${failed[0].message}` : `Stopped.${left}`, failed.length);
			if (failed.length) stopped.delete(key);
			if (key === this.key) this.lookUp();
		} catch (refusal) {
			if (!refusal.isUnclear) stopped.delete(key);
			say(failure(refusal, "stopped"), true);
		}
	}
}
