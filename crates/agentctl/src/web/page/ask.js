// One card for each ask: the whole request, and the decisions that the agent offers as buttons.

import { ageOf, folder, h, linesOf, openDialog, patchLines, setText } from "./dom.js";
import { isLive, keyOf, routeOf, shortId, titleOf } from "./list.js";
import { failure, post } from "./net.js";

// Buttons work when their card has stood still for this long: no tap hits a card that slid under the finger.
const STILL_MS = 600;
const SCOPES = { session: "for the rest of this session", project: "for this project", user: "for everything of this user" };
const DONE = { allow: "Allowed", always: "Allowed, rule stored", deny: "Denied", fields: "Answered", stop: "Turn ended" };

const CLOSED = "No longer open: answered elsewhere, or the agent went on.";

let numbers = 0;

// One ask may have two cards, in the inbox and in its session. An answer from one of them is that of both.
const cards = new Set();
const answered = new Map();
// The keys of sessions that were stopped from this page.
export const stopped = new Set();

export class Card {
	constructor(board, ask) {
		Object.assign(this, { board, ask, state: "open", seen: new Set(), answers: [], id: `ask-${(numbers += 1)}` });
		this.observer = new IntersectionObserver((entries) => {
			for (const { isIntersecting, target } of entries) if (isIntersecting) this.seen.add(target);
			this.arm();
		});
		this.end = this.newEnd();
		// A question is not shown twice.
		const asked = (text) => ask.fields.some((field) => field.text === text);
		this.outcome = h("p.outcome", { role: "status" });
		this.element = h("article.card", { "data-ask": ask.id, "aria-labelledby": this.id, tabindex: -1, onclick: (event) => this.tapped(event), oninput: () => this.state === "open" && this.tell("") },
			this.heading(), ask.parts.filter(({ text }) => !asked(text)).map(partOf), this.body(), this.outcome);
		cards.add(this);
		this.adopt();
	}

	// The place that must have been in view before a button works.
	newEnd() {
		const end = h("i.end");
		this.observer.observe(end);
		return end;
	}

	// Tells all cards of this ask how its answer stands.
	share(state, text, isUnclear) {
		answered.set(this.ask.id, { state, text, isUnclear });
		for (const card of cards) {
			if (card !== this && !card.element.isConnected) cards.delete(card);
			else if (card.ask.id === this.ask.id) card.adopt();
		}
	}

	adopt() {
		const { state, text } = answered.get(this.ask.id) ?? {};
		if (!state || this.state === "settled") return;
		if (state === "settled") return this.settle(text);
		this.state = state;
		this.tell(text);
		this.arm();
	}

	heading() {
		const { ask } = this;
		const row = this.board.session(keyOf(ask));
		return h("header",
			h("p.meta", h("span.kind", ask.kind), ask.since && ageOf(ask.since, " ago")),
			h("h2", { id: this.id, dir: "auto" }, ask.title),
			h("p.meta", h("a", { href: routeOf(keyOf(ask)) }, row ? titleOf(row) : "open the session"), h("span", ask.adapter), h("code", shortId(ask)), folder(ask.cwd)),
			ask.until && h("p.note.where", `Open until ${new Date(ask.until).toLocaleString()}${ask.then ? `, then ${ask.then}` : ""}.`));
	}

	body() {
		const { ask } = this;
		if (!ask.via) return [h("p.note.where", ask.why_not ?? "This cannot be answered from here."), this.offered()];
		if (this.board.control()) return [this.questions(true), this.buttons()];
		return [this.questions(false), this.offered(), h("p.note.where", "How to answer in a terminal: ", h("code", `agentctl asks ${ask.id.slice(0, 8)}`))];
	}

	// The decisions as text, where they are not buttons.
	offered() {
		const { choices: all, fields } = this.ask;
		// Beside the options of a question, the end of the turn is no option.
		if (fields.length) return all.length > 0 && h("p.note", `Also offered: ${all.map(({ label }) => label).join(", ")}.`);
		const choices = all.map(({ label, rule, scope }) => h("li", label, rule && [": ", h("code", rule)], SCOPES[scope] && ` ${SCOPES[scope]}`));
		return choices.length > 0 && h("ul.offered", choices);
	}

	questions(control) {
		return this.ask.fields.map((field) => {
			const options = field.options.map(({ label, about }) => control
				? h("label.option", h("input", { type: field.many ? "checkbox" : "radio", name: `${this.id}-${field.id}`, value: label, "data-field": field.id }), h("span", { dir: "auto" }, label, about && h("small", about)))
				: h("p.offered", label, about && h("small", ` ${about}`)));
			const free = control && field.free_text && h("input", {
				type: field.secret ? "password" : "text", "data-free": field.id, autocomplete: "off", "aria-label": `Your own answer: ${field.text}`, placeholder: field.options.length ? "Or in your own words" : "Your answer",
				onkeydown: (event) => event.key === "Enter" && this.element.querySelector(".answer").click(),
			});
			return h("fieldset", h(field.text === this.ask.title ? "legend.unseen" : "legend", { dir: "auto" }, field.header && h("small", field.header, " "), field.text), options, free);
		});
	}

	buttons() {
		const { choices, fields, title } = this.ask;
		const has = (key) => choices.some((choice) => choice.key === key);
		const button = (css, ends, reply, label, ...shown) => {
			const element = h(`button.${css}`, { "aria-label": label, "aria-disabled": true, onclick: () => this.press(ends, reply) }, ...shown);
			this.answers.push([element, ends]);
			return element;
		};
		const message = h("textarea", { rows: 2, "aria-label": "Message that is sent with Deny" });
		const rules = choices.filter(({ key }) => key.startsWith("always")).map(({ key, label, rule, scope }) => {
			const words = label === "always" ? "Always allow" : label.charAt(0).toUpperCase() + label.slice(1);
			const end = rule && this.newEnd();
			const id = `${this.id}-${key}`;
			const store = button("store", [this.end, end], () => ({ always: key }), null, `${words} ${SCOPES[scope] ?? ""}`);
			store.setAttribute("aria-describedby", id);
			return h("div.always", rule && h("p.note", "Rule"), rule && h("pre.rule", { id, dir: "auto" }, rule, end), store);
		});
		return [
			h("div.buttons", this.end,
				has("deny") && button("deny", [], () => ({ deny: { message: message.value.trim() || null } }), `Deny: ${title}`, "Deny"),
				has("allow") && button("allow", [this.end], () => "allow", `Allow: ${title}`, "Allow"),
				fields.length > 0 && button("allow.answer", [this.end], () => this.given(), `Answer: ${title}`, "Answer")),
			...rules,
			h("div.further", has("deny") && h("details", h("summary", "Tell the agent why not"), message), has("stop") && button("quiet", [], endTurn, `End the turn: ${title}`, "End the turn")),
		];
	}

	// The answers to the questions; null if one is missing.
	given() {
		const inputs = [...this.element.querySelectorAll("input")];
		const fields = this.ask.fields.map(({ id, many }) => {
			const chosen = inputs.filter((input) => input.dataset.field === id && input.checked).map((input) => input.value);
			const free = inputs.find((input) => input.dataset.free === id)?.value;
			return { field: id, values: !free?.trim() ? chosen : many ? [...chosen, free] : [free] };
		});
		return fields.every(({ values }) => values.length) ? { fields } : null;
	}

	// Takes note that the card may have moved.
	moved() {
		if (this.state !== "open") return;
		const { top, left, height } = this.element.getBoundingClientRect();
		const place = `${Math.round(top)} ${Math.round(left)} ${Math.round(height)}`;
		if (place === this.place) return;
		this.place = place;
		this.stillAt = performance.now() + STILL_MS;
		this.arm();
	}

	arm() {
		clearTimeout(this.timer);
		const wait = this.stillAt - performance.now();
		for (const [element, ends] of this.answers) element.setAttribute("aria-disabled", this.state !== "open" || this.why(ends) !== "");
		// A refusal says its reason only as long as there is one. Its line stays, so that the card does not move.
		if (this.refused && this.state === "open") {
			const why = this.why(this.refused);
			this.tell(why || "\u00a0", why && this.refused);
		}
		if (this.state !== "open" || !(wait > 0)) return;
		this.timer = setTimeout(() => {
			this.moved();
			this.arm();
		}, wait + 5);
	}

	// Says why a button does not work that needs these ends; "" if it does.
	why(ends) {
		if (!this.board.connected()) return "Not connected.";
		const unseen = ends.find((end) => end && !this.seen.has(end));
		if (unseen) return `Read ${unseen === this.end ? "what is asked" : "the rule"} to its end first.`;
		return this.stillAt <= performance.now() ? "" : "The card has just moved. Press again.";
	}

	async press(ends, reply) {
		this.moved();
		if (this.state !== "open") return;
		const why = this.why(ends);
		if (why) return this.refuse(why, ends);
		const given = await reply();
		if (this.state !== "open") return;
		if (!given) return this.refuse(given === null ? "Choose an answer first." : "");
		this.share("busy", "Sending…");
		try {
			const answer = await post("/api/answer", { ask: this.ask.id, reply: given });
			// The card stays: what was seen then may be over when it is read.
			const moved = answer.moved?.says.replace(/^it is/, "then it was").replace(/^it waits (.*) now$/, "then it waited $1") ?? "delivered; the agent was not seen to move";
			const lost = answer.words_lost ? " This agent has no field for the message." : "";
			const after = /^then it was (stopped|error)/.test(moved) ? "; the session has ended since" : `: ${moved}`;
			this.share("settled", `${DONE[given] ?? DONE[Object.keys(given)[0]]} here${after}.${lost}`);
		} catch (refusal) {
			if (refusal.status === 404) return this.share("settled", CLOSED);
			this.share(this.gone ? "settled" : "open", failure(refusal, "taken"), refusal.isUnclear);
		}
	}

	// Says how the ask stands; with ends, as long as a button that needs them does not work.
	tell(text, ends) {
		setText(this.outcome, text);
		this.refused = ends;
	}

	// Says why a press did nothing, where it can be read.
	refuse(text, ends) {
		this.tell(text, ends);
		this.outcome.scrollIntoView({ block: "nearest" });
	}

	vanish() {
		this.gone = true;
		// An ask that is opened again is a new one.
		if (this.state === "settled") answered.delete(this.ask.id);
		if (this.state !== "open") return;
		const key = keyOf(this.ask);
		const row = this.board.session(key);
		const why = answered.get(this.ask.id)?.isUnclear ? "No longer open: answered here, perhaps, or elsewhere." : CLOSED;
		this.settle(row && isLive(row) && !stopped.has(key) ? `${why} Then the session was ${row.status}.` : "No longer open: the session has ended.");
	}

	// The card turns grey, says what became of the ask and stays until it is tapped.
	settle(text) {
		this.state = "settled";
		this.observer.disconnect();
		clearTimeout(this.timer);
		const hadFocus = this.element.contains(document.activeElement);
		this.element.classList.add("settled");
		for (const part of this.element.querySelectorAll(".buttons, .always, .further, .where")) part.remove();
		for (const input of this.element.querySelectorAll("input")) input.disabled = true;
		setText(this.outcome, text);
		const dismiss = h("button.quiet.dismiss", { "aria-label": `Dismiss: ${this.ask.title}` }, "Dismiss");
		this.outcome.after(dismiss);
		if (hadFocus) dismiss.focus();
		this.board.counted();
	}

	tapped(event) {
		// A link or selected text in the card is not a tap on the card.
		if (this.state === "settled" && !event.target.closest("a") && !String(getSelection())) this.board.dismiss(this);
	}
}

async function endTurn() {
	const choice = await openDialog("End the turn?", h("p", "The agent stops its work without an answer."), ["Cancel", "End the turn"]);
	return choice === "End the turn" && "stop";
}

function partOf(part) {
	const cut = part.cut && h("p.note", "The text goes on; only its beginning is shown.");
	if (part.kind === "diff") return [h("p.path", h("bdi", part.path)), patchLines(linesOf(part.unified)), cut];
	const text = part.text ?? part.markdown ?? (typeof part.value === "string" ? part.value : JSON.stringify(part.value, null, 2));
	return [h(`pre.${part.kind}`, { dir: "auto" }, text), cut];
}
