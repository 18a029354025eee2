// The page: pairing, routes, the live state, keys.

import { Stream, canKeep, get, isPaired, pair, pendingCode, takeCode, whenUnpaired, wordsOf } from "./net.js";
import { byId, fill, h, openDialog, refreshAges, say, setHome, setText } from "./dom.js";
import { Board } from "./inbox.js";
import { SessionList, titleOf } from "./list.js";
import { Talk } from "./talk.js";
import { showBegin } from "./begin.js";

const KEYS = [
	["?", "this help"], ["/", "filter the sessions"], ["i", "inbox"], ["j  k", "next and previous card or session"], ["Enter", "open the session"],
	["1  2  3", "conversation, changes, facts"], ["m", "message to the agent"], ["n", "new session"], ["Tab  Space", "reach and press the buttons of a card"], ["Esc", "back"],
];
const KEYS_OFF = "agentctl.keys-off";

const state = { asks: [], control: false, connected: false, looked: false };
const list = new SessionList();
const world = {
	session: (key) => list.get(key),
	asks: () => state.asks,
	control: () => state.control,
	connected: () => state.connected,
	counted: () => paintCount(),
};
const inbox = new Board(byId("cards"), { ...world, fits: () => true, empty: "Nothing waits for you." });
const talk = new Talk(world);
const stream = new Stream({ look: takeLook, said: (event) => talk.said(event), lost });

// --- pairing

function showStart(...children) {
	stream.close();
	document.body.dataset.view = "start";
	byId("actions").hidden = byId("banner").hidden = byId("read-only").hidden = true;
	setText(byId("count"), "");
	document.title = "agentctl";
	const title = h("h1", { id: "start-title", tabindex: "-1" }, "agentctl");
	fill(byId("start"), title, ...children);
	title.focus();
}

function showUnpaired(...why) {
	showStart(...why,
		h("p", "This browser is not paired with ", h("code", "agentctl web"), "."),
		h("p", "Run this on the machine of the agents and open the link that it prints:"),
		h("pre.command", "agentctl web --link"),
		h("p.note", "A link works once, for 10 minutes. ", h("code", "--qr"), " shows it to the camera of a phone."));
}

async function takeLink(code) {
	if (!canKeep) return exchange(code, false);
	const keep = h("input", { type: "checkbox" });
	const button = h("button.primary", { onclick: () => exchange(code, keep.checked) }, "Pair this browser");
	showStart(h("p", "Pair this browser with ", h("code", "agentctl web"), " on ", location.host, "?"), h("label.check", keep, " Keep on this device for 30 days"), button);
}

async function exchange(code, keep) {
	try {
		await pair(code, keep);
	} catch (refusal) {
		if (isPaired()) return enter();
		const words = refusal.status ? `The link was refused: ${wordsOf(refusal)}` : wordsOf(refusal);
		return showUnpaired(h("p.notice.bad", { role: "alert" }, words));
	}
	enter();
}

async function enter() {
	byId("actions").hidden = false;
	byId("notify").hidden = !("Notification" in window && Notification.permission === "default");
	route();
	stream.connect();
	learnControl();
}

/// Asks what this server allows; `/api/begin` says it after a reload too.
async function learnControl() {
	try {
		const known = await get("/api/begin");
		setHome(known.home ?? null);
		state.known = true;
		state.control = known.control;
		byId("begin-link").hidden = !state.control;
		byId("read-only").hidden = state.control;
		inbox.renew(state.asks);
		list.repaint();
		const open = talk.key;
		if (open) {
			talk.close();
			route();
			stream.connect();
		}
	} catch {
		// The stream says that the server is away, and this is asked again when it is back.
	}
}

// --- the live state

function takeLook(look) {
	const began = performance.now();
	if (!state.connected) {
		state.connected = true;
		byId("banner").hidden = true;
		if (!state.known) learnControl();
	}
	state.asks = look.asks;
	const changed = list.take(look);
	const added = inbox.take(look.asks);
	inbox.rearm();
	talk.look(look.asks);
	talk.board?.rearm();
	paintCount();
	paintFaults(look.faults ?? []);
	if (added.length && state.looked) announce(added);
	else if (changed.length) say(changed.length === 1 ? `${titleOf(changed[0])}: ${changed[0].status}` : `${changed.length} sessions changed their status`);
	if (look.gone.length && byId("ended").checked) readEnded();
	if (!state.looked) byId("rows-note").hidden = false;
	state.looked = true;
	if (state.wanted && inbox.focus(state.wanted)) state.wanted = null;
	performance.clearMeasures("look");
	performance.measure("look", { start: began });
}

function paintCount() {
	const open = [...inbox.cards.values()].filter((card) => card.state !== "settled").length;
	document.title = open ? `(${open}) agentctl` : "agentctl";
	setText(byId("count"), open === 0 ? "" : open === 1 ? "1 ask" : `${open} asks`);
}

function paintFaults(faults) {
	byId("faults").hidden = !faults.length;
	fill(byId("faults"), faults.map((fault) => h("span", `${fault.adapter}: ${fault.message} `)));
}

function announce(added) {
	const text = added.length === 1 ? `${added[0].adapter} asks: ${added[0].title}` : `${added.length} new asks`;
	say(text, true);
	if (!("Notification" in window) || Notification.permission !== "granted") return;
	try {
		const shown = new Notification("agentctl", { body: text, tag: added[0].id });
		shown.onclick = () => {
			focus();
			location.hash = `#/ask/${added[0].id}`;
		};
	} catch {
		// Some phones show notifications of installed pages only.
	}
}

function lost(refusal, wait) {
	state.connected = false;
	state.known = false;
	inbox.rearm();
	talk.board?.rearm();
	const why = refusal?.status ? wordsOf(refusal) : "agentctl web does not answer.";
	byId("banner").hidden = false;
	fill(byId("banner"), h("span", `Not connected: ${why} What is shown may be old. Trying again ${wait < 1000 ? "now" : `in ${wait / 1000} s`}.`), h("button.quiet", { onclick: () => stream.connect() }, "Try now"));
}

async function readEnded() {
	if (!byId("ended").checked) return list.takeEnded([]);
	try {
		const found = await get("/api/sessions", { all: true, since: "7d" });
		list.takeEnded(found.sessions);
	} catch (refusal) {
		paintFaults([{ adapter: "ended sessions", message: wordsOf(refusal) }]);
	}
}

// --- routes

function route() {
	const code = takeCode();
	if (code) return takeLink(code);
	if (!isPaired()) return showUnpaired();
	const [, place = "", name = "", tab = ""] = /^#\/(session|ask|begin)?\/?([^/]*)\/?(.*)$/.exec(location.hash) ?? [];
	const key = decoded(name);
	const view = place === "session" && key ? "session" : place === "begin" && state.control ? "begin" : "home";
	const before = document.body.dataset.view;
	document.body.dataset.view = view;
	list.select(view === "session" ? key : null);
	if (view === "session") {
		const isOther = talk.key !== key;
		talk.open(key, tab === "changes" || tab === "facts" ? tab : "");
		stream.follow(key);
		if (isOther) talk.title.focus({ preventScroll: true });
		return;
	}
	const left = talk.key;
	talk.close();
	stream.follow(null);
	if (view === "begin") return showBegin();
	if (place === "ask" && !inbox.focus(key)) state.wanted = key;
	// The focus goes back to the row that was opened.
	if (before === "session" && left && place !== "ask") list.items.get(left)?.firstElementChild.focus();
	inbox.moved();
}

function decoded(text) {
	try {
		return decodeURIComponent(text);
	} catch {
		return text;
	}
}

// --- keys

function showHelp() {
	const off = h("input", { type: "checkbox", checked: localStorage.getItem(KEYS_OFF) === null, onchange: () => (off.checked ? localStorage.removeItem(KEYS_OFF) : localStorage.setItem(KEYS_OFF, "1")) });
	openDialog("Keys", h("dl.keys", KEYS.map(([key, does]) => [h("dt", h("kbd", key)), h("dd", does)])),
		h("label.check", off, " Keys of one letter"),
		h("div.buttons", h("button", { autofocus: true, onclick: () => byId("dialog").close() }, "Close")));
}

/// Moves the focus to the next or previous card or row that is shown.
function step(by) {
	const stops = [...document.querySelectorAll(".card, a.row")].filter((one) => one.getClientRects().length);
	const at = stops.indexOf(document.activeElement.closest(".card, a.row"));
	const next = stops[at < 0 ? (by > 0 ? 0 : stops.length - 1) : at + by];
	next?.focus();
	next?.scrollIntoView({ block: "nearest" });
}

function goBack() {
	const filter = byId("filter");
	if (filter.value && (document.activeElement === filter || document.body.dataset.view === "home")) {
		filter.value = "";
		filter.dispatchEvent(new Event("input"));
	} else if (document.activeElement.matches("input, textarea, select")) document.activeElement.blur();
	else if (document.body.dataset.view !== "home") location.hash = "#/";
}

function pressed(event) {
	if (event.ctrlKey || event.metaKey || event.altKey || byId("dialog").open || !isPaired()) return;
	if (event.key === "Escape") return goBack();
	if (event.target.matches("input, textarea, select") || localStorage.getItem(KEYS_OFF) !== null) return;
	const tab = (name) => () => talk.key && byId("session").querySelector(`[data-tab="${name}"]`).click();
	const actions = {
		"?": showHelp, "/": () => byId("filter").focus(), i: () => (location.hash = "#/", byId("cards").querySelector(".card")?.focus()), j: () => step(1), k: () => step(-1),
		1: tab(""), 2: tab("changes"), 3: tab("facts"), m: () => byId("message")?.focus(), n: () => state.control && (location.hash = "#/begin"),
	};
	const action = Object.hasOwn(actions, event.key) ? actions[event.key] : null;
	if (!action) return;
	event.preventDefault();
	action();
}

// --- beginning

whenUnpaired(() => showUnpaired());
addEventListener("hashchange", route);
addEventListener("keydown", pressed);
byId("help").addEventListener("click", showHelp);
byId("ended").addEventListener("change", readEnded);
byId("skip").addEventListener("click", (event) => {
	event.preventDefault();
	byId("main").focus();
});
byId("notify").addEventListener("click", async () => {
	await Notification.requestPermission();
	byId("notify").hidden = true;
});
setInterval(() => document.visibilityState === "visible" && refreshAges(), 10_000);

const code = pendingCode();
if (code) takeLink(code);
else if (isPaired()) enter();
else showUnpaired();
