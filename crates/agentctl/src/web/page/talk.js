// One session: its heading, its conversation, its asks, a message to it, its end.

import { ageOf, byId, confirmed, fill, folder, h, linked, say, setText } from "./dom.js";
import { Board } from "./inbox.js";
import { isLive, keyOf, reasonOf, routeOf, shortId, statusWord, titleOf } from "./list.js";
import { get, post, wordsOf } from "./net.js";
import { showChanges, showFacts } from "./work.js";

const TABS = [["", "Conversation"], ["changes", "Changes"], ["facts", "Facts"]];
const BELOW_CALL = new Set(["tool_detail", "tool_output", "tool_error", "fold"]);

/// Builds the elements of conversation lines: messages by author, tool calls folded to one line.
export class Lines {
	constructor(element) {
		this.element = element;
	}

	clear() {
		this.element.replaceChildren();
		this.message = this.call = null;
	}

	append(lines) {
		for (const line of lines) this.line(line);
	}

	line({ kind, spans }) {
		if (kind === "date") {
			this.message = this.call = null;
			this.element.append(h("h2.date", spans.map((span) => span.text).join("").trim()));
			return;
		}
		if (kind === "author") {
			this.call = null;
			const role = spans.find((span) => span.role)?.role ?? "assistant";
			this.message = h(`div.message.${role}`);
			this.element.append(this.message);
		}
		if (!this.message) this.element.append(this.message = h("div.message"));
		if (kind === "tool_call") {
			this.call = h("details.call", h("summary", painted(spans)));
			this.message.append(this.call);
			return;
		}
		if (this.call && BELOW_CALL.has(kind)) {
			this.call.classList.add("full");
			if (kind === "tool_error") this.call.classList.add("failed");
			this.call.append(h("div", { class: `line ${kind} ${signOf(spans)}` }, painted(spans)));
			return;
		}
		if (kind === "blank") {
			if (this.message.lastElementChild?.className.startsWith("line text")) this.message.append(h("div.blank"));
			return;
		}
		this.call = null;
		this.message.append(h("div", { class: `line ${kind} ${signOf(spans)}`, dir: kind === "text" ? "auto" : null }, painted(spans)));
	}
}

/// The class of a whole line that was added or removed.
function signOf(spans) {
	const said = spans.filter((span) => span.text.trim());
	const style = said.find((span) => span.style === "added" || span.style === "removed")?.style;
	return style ?? "";
}

function painted(spans) {
	const first = spans.findIndex((span) => span.text.trim());
	return spans.slice(Math.max(first, 0)).map((span) => {
		if (span.style === "call_mark") return null;
		if (span.style === "plain") return linked(span.text);
		return h(`span.s-${span.style}`, linked(span.text));
	});
}

export class Talk {
	constructor(world) {
		this.world = world;
		this.element = byId("session");
	}

	/// Shows a session; the tab is "", "changes" or "facts".
	open(key, tab) {
		if (key !== this.key) {
			this.close();
			this.key = key;
			this.row = this.world.session(key);
			this.build();
			if (!this.row) this.lookUp();
		}
		this.tab = tab;
		for (const link of this.tabs.children) {
			if (link.dataset.tab === tab) link.setAttribute("aria-current", "page");
			else link.removeAttribute("aria-current");
		}
		this.talkPart.hidden = tab !== "";
		this.workPart.hidden = tab === "";
		if (tab === "changes") showChanges(this.workPart, key);
		if (tab === "facts") showFacts(this.workPart, key);
		if (tab === "") this.toEnd();
	}

	close() {
		this.board?.close();
		this.board = this.key = this.row = null;
		this.before = null;
		this.element.replaceChildren();
	}

	build() {
		this.title = h("h1", { id: "session-title", tabindex: "-1", dir: "auto" });
		this.state = h("p.state");
		this.meta = h("p.meta");
		this.notice = h("p.notice", { role: "status", hidden: true });
		this.tabs = h("nav.tabs", { "aria-label": "Views of the session" }, TABS.map(([tab, name]) => h("a", { href: routeOf(this.key, tab), "data-tab": tab }, name)));
		this.stop = h("button.quiet.danger", { onclick: () => this.end() }, "Stop");
		this.earlier = h("button.quiet", { hidden: true, onclick: () => this.readEarlier() });
		const lines = h("div.lines", { role: "log", "aria-label": "Conversation", "aria-live": "off", tabindex: "0" });
		this.lines = new Lines(lines);
		const cards = h("div.cards");
		this.composer = this.buildComposer();
		this.talkPart = h("div.talk", this.earlier, lines, cards, this.composer);
		this.workPart = h("div.work", { hidden: true });
		fill(this.element,
			h("header", h("a.back", { href: "#/" }, "‹ All"), h("div.bar", this.title, this.stop), this.state, this.meta, this.tabs),
			this.notice, this.talkPart, this.workPart);
		this.board = new Board(cards, { ...this.world, fits: (ask) => keyOf(ask) === this.key, empty: "" });
		this.board.take(this.world.asks());
		this.paint();
	}

	buildComposer() {
		this.text = h("textarea", { rows: "2", id: "message", placeholder: "Message to the agent", "aria-label": "Message to the agent" });
		const form = h("form.composer", this.text, h("button.primary", "Send"));
		form.addEventListener("submit", (event) => {
			event.preventDefault();
			this.send();
		});
		this.text.addEventListener("keydown", (event) => {
			if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
		});
		this.waits = h("p.note", "It waits for an answer; a message is never an answer.");
		return h("div", { hidden: true }, form, this.waits);
	}

	async lookUp() {
		const key = this.key;
		try {
			const row = await get("/api/session", { id: key });
			if (key !== this.key) return;
			this.row = row;
			this.paint();
		} catch (refusal) {
			if (key === this.key) this.tell(wordsOf(refusal), true);
		}
	}

	/// Takes a look: the row and the asks of this session.
	look(asks) {
		if (!this.key) return;
		const row = this.world.session(this.key);
		if (row) this.row = row;
		else if (this.row && isLive(this.row)) this.lookUp();
		this.paint();
		const added = this.board.take(asks);
		if (added.length && this.isAtEnd) this.toEnd();
	}

	paint() {
		const { row } = this;
		const control = this.world.control();
		setText(this.title, row ? titleOf(row) : this.key);
		fill(this.state, row && [statusWord(row), reasonOf(row) && h("span.reason", { dir: "auto" }, reasonOf(row))]);
		fill(this.meta, row && [
			h("span", row.adapter), h("code", shortId(row)), row.name && h("span", row.name), row.model && h("span", row.model),
			folder(row.cwd),
			ageOf(row.last_activity_at ?? row.started_at, "", " ago"),
		]);
		this.stop.hidden = !(control && row && isLive(row));
		const waits = row?.status === "waiting";
		this.composer.hidden = !(control && row?.id);
		this.composer.firstElementChild.hidden = waits;
		this.waits.hidden = !waits;
	}

	/// Takes lines of the conversation.
	said(event) {
		if (event.id !== this.key) return;
		const atEnd = this.isAtEnd;
		if (event.reset) {
			this.lines.clear();
			this.setEarlier(event.before, event.earlier);
		}
		this.lines.append(event.lines);
		if (!this.lines.element.childElementCount) this.lines.element.append(h("p.empty", "Nothing was said yet."));
		else if (this.lines.element.childElementCount > 1) this.lines.element.querySelector(":scope > .empty")?.remove();
		this.board.moved();
		if (event.reset || atEnd) this.toEnd();
	}

	setEarlier(before, count) {
		this.before = before ?? null;
		this.earlier.hidden = this.before === null;
		setText(this.earlier, count ? `Show earlier messages (${count})` : "Show earlier messages");
	}

	async readEarlier() {
		const key = this.key;
		this.earlier.disabled = true;
		try {
			const page = await get("/api/talk", { id: key, n: 40, before: this.before });
			if (key !== this.key) return;
			const scroller = this.scroller();
			const below = scroller.scrollHeight - scroller.scrollTop;
			const box = h("div.earlier");
			new Lines(box).append(page.lines);
			this.lines.element.prepend(box);
			this.setEarlier(page.before, page.earlier);
			scroller.scrollTop = scroller.scrollHeight - below;
		} catch (refusal) {
			this.tell(wordsOf(refusal), true);
		}
		this.earlier.disabled = false;
	}

	scroller() {
		return getComputedStyle(this.element).overflowY === "auto" ? this.element : document.scrollingElement;
	}

	get isAtEnd() {
		const scroller = this.scroller();
		return scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 80;
	}

	toEnd() {
		const scroller = this.scroller();
		scroller.scrollTop = scroller.scrollHeight;
	}

	tell(text, isBad = false) {
		this.notice.hidden = !text;
		this.notice.className = isBad ? "notice bad" : "notice";
		setText(this.notice, text);
		if (text) this.notice.scrollIntoView({ block: "nearest" });
	}

	async send() {
		const text = this.text.value;
		if (!text.trim()) return;
		const button = this.composer.querySelector("button");
		button.disabled = true;
		try {
			await post("/api/send", { session: this.key, text });
			this.text.value = "";
			this.tell("");
			say("Sent");
		} catch (refusal) {
			this.tell(`Not sent: ${wordsOf(refusal)}`, true);
		}
		button.disabled = false;
		this.text.focus();
	}

	async end() {
		const { row, key } = this;
		const agreed = await confirmed("Stop this session?", `${row.adapter} ${shortId(row)}, “${titleOf(row)}”, and every process that it has started are ended.`, "Stop");
		if (!agreed) return;
		this.stop.disabled = true;
		try {
			const done = await post("/api/stop", { id: key });
			const failed = done.failed?.[0];
			const left = done.survivors?.length ? ` ${done.survivors.length} processes live on.` : "";
			this.tell(failed ? `Not stopped: ${failed.message ?? failed.why ?? failed.code}` : `Stopped.${left}`, Boolean(failed));
			if (key === this.key) this.lookUp();
		} catch (refusal) {
			this.tell(`Not stopped: ${wordsOf(refusal)}`, true);
		}
		this.stop.disabled = false;
	}
}
