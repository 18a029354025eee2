// The inbox: one card for each ask. A card shows the whole request; its buttons are what the agent offers.

import { ageOf, fill, folder, h, patchLines, setText } from "./dom.js";
import { keyOf, routeOf, shortId, titleOf } from "./list.js";
import { post, wordsOf } from "./net.js";

/// A button works only when its card has not moved for this long: a tap never hits a card that slid under the finger.
const STILL_MS = 600;
const SCOPES = { once: "once", session: "for the rest of this session", project: "for this project", user: "for everything of this user" };
const DONE = { allow: "Allowed", always: "Allowed, rule stored", deny: "Denied", fields: "Answered", stop: "Turn ended" };

let numbers = 0;

/// The card of one ask.
export class Card {
	constructor(board, ask) {
		this.board = board;
		this.ask = ask;
		this.state = "open";
		this.endSeen = false;
		this.number = (numbers += 1);
		this.end = h("div.end", { "aria-hidden": "true" });
		this.outcome = h("p.outcome", { role: "status" });
		this.element = h("article.card", { "data-ask": ask.id, "aria-labelledby": `ask-${this.number}`, tabindex: "-1" });
		this.answers = [];
		fill(this.element, this.heading(), ask.parts.map(partOf), this.body(), this.outcome, this.end);
		this.element.addEventListener("click", (event) => this.tapped(event));
		this.watch();
	}

	heading() {
		const { ask } = this;
		const row = this.board.session(keyOf(ask));
		return h("header", null,
			h("p.meta", h("span.kind", ask.kind), ask.since && ageOf(ask.since, "", " ago")),
			h("h2", { id: `ask-${this.number}`, dir: "auto" }, ask.title),
			h("p.meta.from",
				h("a", { href: routeOf(keyOf(ask)) }, row ? titleOf(row) : "open the session"),
				h("span", ask.adapter), h("code", shortId(ask)),
				folder(ask.cwd)),
			ask.until && h("p.until", `Open until ${new Date(ask.until).toLocaleString()}${ask.then ? `, then ${ask.then}` : ""}.`));
	}

	body() {
		const { ask } = this;
		if (!ask.via) return [h("p.why-not", ask.why_not ?? "This cannot be answered from here."), this.offered()];
		if (!this.board.control()) {
			const words = ask.fields.length ? "" : " --allow";
			return [this.questions(true), this.offered(), h("p.why-not", "Answer in a terminal: ", h("code", `agentctl answer ${ask.id.slice(0, 8)}${words}`))];
		}
		return [this.questions(false), this.buttons()];
	}

	/// The decisions as text, where they are not buttons.
	offered() {
		const choices = this.ask.choices.map((choice) => h("li", choice.label, choice.rule && [": ", h("code", choice.rule)], choice.scope !== "once" && ` (${SCOPES[choice.scope]})`));
		return choices.length > 0 && h("ul.offered", { "aria-label": "Offered decisions" }, choices);
	}

	questions(readOnly) {
		return this.ask.fields.map((field) => {
			const name = `ask-${this.number}-${field.id}`;
			const options = field.options.map((option) => {
				const about = option.about && h("small", option.about);
				if (readOnly) return h("li", option.label, about && [" ", about]);
				const type = field.many ? "checkbox" : "radio";
				return h("label.option", h("input", { type, name, value: option.label, "data-field": field.id }), h("span", { dir: "auto" }, option.label, about));
			});
			const text = !readOnly && field.free_text && h("input", { type: field.secret ? "password" : "text", class: "free", "data-free": field.id, autocomplete: "off", "aria-label": `Your own answer: ${field.text}`, placeholder: field.options.length ? "Or in your own words" : "Your answer" });
			if (text) text.addEventListener("keydown", (event) => event.key === "Enter" && this.element.querySelector(".answer")?.click());
			return h("fieldset", h("legend", { dir: "auto" }, field.header && h("small", field.header, " "), field.text), readOnly ? h("ul.offered", options) : options, text);
		});
	}

	buttons() {
		const { ask } = this;
		const title = ask.title;
		const has = (key) => ask.choices.find((choice) => choice.key === key);
		const button = (text, label, css, reply, needsEnd) => {
			const element = h("button", { class: css, "aria-label": label, "aria-disabled": "true" }, text);
			element.addEventListener("click", () => this.press(element, reply));
			this.answers.push({ element, needsEnd });
			return element;
		};
		const message = has("deny") && h("textarea", { rows: "2", "aria-label": "Message that is sent with Deny" });
		const deny = () => ({ deny: { message: message.value.trim() || null } });
		const main = h("div.buttons",
			has("deny") && button("Deny", `Deny: ${title}`, "deny", deny, false),
			has("allow") && button("Allow", `Allow: ${title}`, "allow", () => "allow", true),
			ask.fields.length > 0 && button("Answer", `Answer: ${title}`, "allow answer", () => this.given(), true));
		const rules = ask.choices.filter((choice) => choice.key.startsWith("always")).map((choice) => {
			const words = choice.label.charAt(0).toUpperCase() + choice.label.slice(1);
			const label = /^allow/i.test(words) ? words : `Allow ${choice.label}`;
			const element = button("", `${label}: ${choice.rule ?? ""} ${SCOPES[choice.scope]}`, "rule", () => ({ always: choice.key }), true);
			fill(element, h("span", label), choice.rule && h("code", choice.rule), h("small", SCOPES[choice.scope]));
			return element;
		});
		const stop = has("stop") && button("Deny and end the turn", `End the turn: ${title}`, "quiet", () => "stop", false);
		return [
			main,
			rules.length > 0 && h("div.rules", rules),
			(message || stop) && h("div.further", message && h("details", h("summary", "Tell the agent why not"), message), stop),
		];
	}

	/// The answers to the questions; null if one is missing.
	given() {
		const fields = [];
		for (const field of this.ask.fields) {
			const inputs = [...this.element.querySelectorAll("input")];
			const values = inputs.filter((input) => input.dataset.field === field.id && input.checked).map((input) => input.value);
			const free = inputs.find((input) => input.dataset.free === field.id)?.value ?? "";
			if (free.trim() && (field.many || !values.length)) values.push(free);
			else if (free.trim()) values.splice(0, 1, free);
			if (!values.length) return null;
			fields.push({ field: field.id, values });
		}
		return { fields };
	}

	// --- when the buttons work

	watch() {
		const seen = (entries) => {
			if (!entries.some((entry) => entry.isIntersecting)) return;
			this.endSeen = true;
			this.rearm();
		};
		this.observer = new IntersectionObserver(seen);
		this.observer.observe(this.end);
		this.moved();
	}

	place() {
		const { top, left, height } = this.element.getBoundingClientRect();
		return `${Math.round(top)} ${Math.round(left)} ${Math.round(height)}`;
	}

	/// Takes note that the card may have moved.
	moved() {
		if (this.state !== "open") return;
		const place = this.place();
		if (place === this.lastPlace) return;
		this.lastPlace = place;
		this.stillSince = performance.now();
		this.rearm();
	}

	rearm() {
		clearTimeout(this.timer);
		const wait = this.stillSince + STILL_MS - performance.now();
		const still = wait <= 0 && this.state === "open" && this.board.connected();
		for (const { element, needsEnd } of this.answers) {
			element.setAttribute("aria-disabled", String(!(still && (!needsEnd || this.endSeen))));
		}
		if (wait > 0 && this.state === "open") {
			this.timer = setTimeout(() => {
				this.moved();
				this.rearm();
			}, wait + 5);
		}
	}

	async press(button, reply) {
		this.moved();
		if (button.getAttribute("aria-disabled") === "true") {
			if (this.state === "open") setText(this.outcome, this.board.connected() ? (this.endSeen ? "The card has just moved: once more, please." : "Read to the end of the card first.") : "Not connected.");
			return;
		}
		const given = reply();
		if (given === null) {
			setText(this.outcome, "Choose an answer first.");
			return;
		}
		this.state = "busy";
		this.rearm();
		setText(this.outcome, "Sending…");
		this.element.classList.add("busy");
		try {
			const answer = await post("/api/answer", { ask: this.ask.id, reply: given });
			const lost = answer.words_lost ? " The message was not delivered: this agent has no field for it." : "";
			const moved = answer.moved?.says ?? "delivered; the agent was not seen to move within 2 seconds";
			this.settle(`${DONE[typeof given === "string" ? given : Object.keys(given)[0]]} here: ${moved}.${lost}`);
		} catch (refusal) {
			this.element.classList.remove("busy");
			this.state = "open";
			if (this.gone || refusal.status === 404) return this.settle(`Not taken: ${wordsOf(refusal)}`);
			setText(this.outcome, `Not taken: ${wordsOf(refusal)}`);
			this.rearm();
		}
	}

	/// The ask is no longer open.
	vanish() {
		this.gone = true;
		if (this.state !== "open") return;
		const row = this.board.session(keyOf(this.ask));
		this.settle(`No longer open: answered elsewhere, or the agent went on.${row ? ` The session is ${row.status}.` : " The session is no longer listed."}`);
	}

	settle(text) {
		this.state = "settled";
		this.observer.disconnect();
		clearTimeout(this.timer);
		const hadFocus = this.element.contains(document.activeElement);
		this.element.classList.remove("busy");
		this.element.classList.add("settled");
		for (const part of this.element.querySelectorAll(".buttons, .rules, .further, .why-not")) part.remove();
		for (const input of this.element.querySelectorAll("input")) input.disabled = true;
		setText(this.outcome, text);
		const dismiss = h("button.quiet.dismiss", { "aria-label": `Dismiss: ${this.ask.title}` }, "Dismiss");
		this.outcome.after(dismiss);
		if (hadFocus) dismiss.focus();
		this.board.counted();
	}

	/// A settled card is taken away by a tap; a link or selected text in it is not a tap on the card.
	tapped(event) {
		if (this.state !== "settled" || event.target.closest("a") || String(getSelection())) return;
		this.board.dismiss(this);
	}
}

function partOf(part) {
	const cut = part.cut && h("p.note", "The text goes on; only its beginning is shown.");
	const text = (value, css) => h("pre", { class: css, dir: "auto" }, value);
	switch (part.kind) {
		case "command": return [text(part.text, "command"), cut];
		case "diff": return [h("p.path", h("bdi", part.path)), patchLines(part.unified), cut];
		case "plan": return [text(part.markdown, "plan"), cut];
		case "text": return [text(part.text, "plain"), cut];
		default: return [text(typeof part.value === "string" ? part.value : JSON.stringify(part.value, null, 2), "command"), cut];
	}
}
