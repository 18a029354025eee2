// The page: pairing, the live state, routes, keys.

import { Stream, canKeep, code, get, hasEnded, isPaired, pair, takeCode, whenUnpaired, wordsOf } from "./net.js";
import { byId, fill, h, openDialog, refreshAges, say, setHome, setText, visible } from "./dom.js";
import { showBegin } from "./begin.js";
import { Board } from "./inbox.js";
import { SessionList, keyOf, routeOf, titleOf } from "./list.js";
import { Talk } from "./talk.js";

const { body } = document;
const state = { asks: [], control: false, connected: false, looked: false };
const list = new SessionList();
const world = { session: (key) => list.get(key), asks: () => state.asks, control: () => state.control, connected: () => state.connected, counted: paintCount, renamed };
const inbox = new Board(byId("cards"), world, () => true, "Nothing waits for you.");
const talk = new Talk(world);
const stream = new Stream({ hello, look: takeLook, said: (event) => talk.said(event), lost });

// --- pairing

function showStart(...children) {
	stream.close();
	body.dataset.view = "start";
	for (const id of ["actions", "banner", "read-only", "count"]) byId(id).hidden = true;
	fill(byId("start"), h("h1", { id: "start-title" }, "agentctl"), children);
}

function showUnpaired(why) {
	showStart(why && h("p.notice.bad", { role: "alert" }, why),
		h("p", "This browser is not paired. Run this on the machine of the agents, and open the link that it prints:"),
		h("pre.command", "agentctl web --link"),
		h("p.note", "A link works once, for 10 minutes. ", h("code", "--qr"), " shows it to the camera of a phone."));
}

const ENDED = "The pairing has ended: its time is over, or the key of the server was replaced.";

function takeLink(code) {
	if (!canKeep) return exchange(code, false);
	const keep = h("input", { type: "checkbox" });
	showStart(h("p", `Pair this browser with agentctl web on ${location.host}?`), h("p", h("label.check", keep, " Keep on this device for 30 days")),
		h("button.primary", { onclick: () => exchange(code, keep.checked) }, "Pair this browser"));
}

async function exchange(code, keep) {
	try {
		await pair(code, keep);
	} catch (refusal) {
		if (!isPaired()) return showUnpaired(`The link was refused: ${wordsOf(refusal)}`);
	}
	enter();
}

function enter() {
	byId("actions").hidden = false;
	byId("notify").hidden = globalThis.Notification?.permission !== "default";
	stream.connect();
}

// Learns what this server allows, which may be something else after a restart.
function hello({ control, home }) {
	if (state.looked && control !== state.control) location.reload();
	state.control = list.control = control;
	setHome(home);
	byId("begin-link").hidden = !state.control;
	byId("read-only").hidden = state.control;
	if (body.dataset.view === "start") route();
}

// --- the live state

function takeLook(look) {
	const start = performance.now();
	state.connected = true;
	byId("banner").hidden = true;
	state.asks = look.asks ?? [];
	const begun = look.rows.map(keyOf).filter((key) => !list.live.has(key));
	const changed = list.take(look);
	talk.begun(begun);
	const added = inbox.take(state.asks);
	talk.look(state.asks);
	paintCount();
	paintFaults(look.faults ?? []);
	if (added.length && state.looked) announce(added);
	else if (changed.length) say(changed.length === 1 ? `${titleOf(changed[0])}: ${changed[0].status}` : `${changed.length} sessions changed their status`);
	// Rows of ended sessions are in no look; a name that was given may be one of theirs.
	const named = state.looked && look.names !== state.names;
	if ((look.gone.length || named) && byId("ended").checked) readEnded();
	if (named) talk.lookUpEnded();
	Object.assign(state, { looked: true, names: look.names });
	showWanted();
	performance.clearMeasures();
	performance.measure("look", { start });
}

function paintCount() {
	const open = [...inbox.cards.values()].filter((card) => card.state !== "settled").length;
	document.title = open ? `(${open}) agentctl` : "agentctl";
	byId("count").hidden = !open;
	setText(byId("count"), open === 1 ? "1 ask" : `${open} asks`);
}

function paintFaults(faults) {
	byId("faults").hidden = !faults.length;
	setText(byId("faults"), faults.map(({ adapter, message }) => `${adapter}: ${message}`).join(" "));
}

function announce([first, ...others]) {
	const text = `${first.adapter} asks: ${first.title}${others.length ? ` (and ${others.length} more)` : ""}`;
	say(text, true);
	if (globalThis.Notification?.permission !== "granted") return;
	try {
		new Notification("agentctl", { body: visible(text), tag: first.id }).onclick = () => {
			focus();
			location.hash = `#/ask/${first.id}`;
		};
	} catch {
		// Some phones refuse it.
	}
}

function lost(refusal, wait) {
	state.connected = false;
	inbox.each((card) => card.arm());
	talk.board?.each((card) => card.arm());
	byId("banner").hidden = false;
	const why = refusal?.status ? wordsOf(refusal) : "agentctl web does not answer";
	fill(byId("banner"), `Not connected: ${why}. What is shown may be old. Trying again ${wait < 1000 ? "now" : `in ${wait / 1000} s`}.`, h("button.quiet", { onclick: () => stream.connect() }, "Try now"));
}

// Only the last reading counts: a box that was cleared meanwhile shows nothing.
async function readEnded() {
	const turn = (state.turn = {});
	try {
		const rows = byId("ended").checked ? (await get("/api/sessions", { all: true, since: "7d" })).sessions : [];
		if (turn === state.turn) list.takeEnded(rows);
	} catch (refusal) {
		if (turn === state.turn) paintFaults([{ adapter: "ended sessions", message: wordsOf(refusal) }]);
	}
}

// --- routes: #/, #/session/KEY, #/session/KEY/changes, #/session/KEY/facts, #/ask/ID, #/begin

function route() {
	const link = takeCode();
	if (link) return takeLink(link);
	if (!isPaired()) return showUnpaired();
	const [, place, name = "", tab = ""] = location.hash.split("/");
	const given = new URLSearchParams(`k=${name.replaceAll("+", "%2B").replaceAll("&", "%26")}`).get("k");
	const key = list.whole(given);
	if (key !== given) return renamed(key);
	const before = talk.key;
	state.wanted = place === "ask" && key;
	byId("stale").hidden = true;
	const view = place === "session" && key ? "session" : place === "begin" && state.control ? "begin" : "home";
	body.dataset.view = view;
	list.select(view === "session" ? key : null);
	if (view === "session") {
		talk.open(key, tab);
		stream.follow(key);
		if (before !== key) talk.title.focus({ preventScroll: true });
		return;
	}
	talk.close();
	stream.follow(null);
	if (view === "begin") return showBegin();
	showWanted();
	// The focus goes back to the row that was opened.
	if (before && place !== "ask") list.items.get(before)?.firstChild.focus();
	inbox.moved();
}

// Shows a session under its own key, which its address did not name.
function renamed(key) {
	history.replaceState(null, "", routeOf(key, location.hash.split("/")[3]));
	route();
}

// Shows the ask that the address names, once there was a look.
function showWanted() {
	const { wanted } = state;
	const found = !wanted || inbox.focus(wanted);
	const stale = byId("stale");
	const wasHidden = stale.hidden;
	stale.hidden = found || !state.looked;
	if (wasHidden && !stale.hidden) stale.scrollIntoView({ block: "nearest" });
	if (found) state.wanted = null;
}

// --- keys

const KEYS_OFF = "agentctl.keys-off";
const tab = (index) => () => talk.key && talk.tabs.children[index].click();
const ACTIONS = {
	"?": ["this help", showHelp],
	"/": ["filter the sessions", () => byId("filter").focus()],
	i: ["inbox", goToInbox],
	j: ["next card or session", () => step(1)],
	k: ["previous card or session", () => step(-1)],
	1: ["conversation", tab(0)],
	2: ["changes", tab(1)],
	3: ["facts", tab(2)],
	m: ["message to the agent", () => byId("message")?.focus()],
	n: ["new session", () => state.control && (location.hash = "#/begin")],
};

function showHelp() {
	const toggle = ({ target }) => (target.checked ? localStorage.removeItem(KEYS_OFF) : localStorage.setItem(KEYS_OFF, "1"));
	const rows = [...Object.entries(ACTIONS).map(([key, [does]]) => [key, does]), ["Enter", "open the session"], ["Tab, Space", "reach and press the buttons of a card"], ["Esc", "back"]];
	openDialog("Keys", [h("dl", rows.map(([key, does]) => [h("dt", h("kbd", key)), h("dd", does)])), h("label.check", h("input", { type: "checkbox", checked: !localStorage.getItem(KEYS_OFF), onchange: toggle }), " Keys of one letter")], ["Close"]);
}

function goToInbox() {
	history.replaceState(null, "", "#/");
	route();
	byId("cards").querySelector(".card")?.focus();
}

function step(by) {
	const stops = [...document.querySelectorAll(".card, .row")].filter((one) => one.checkVisibility());
	const at = stops.indexOf(document.activeElement.closest(".card, .row"));
	stops[at < 0 ? (by > 0 ? 0 : stops.length - 1) : at + by]?.focus();
}

function goBack() {
	const filter = byId("filter");
	const { activeElement } = document;
	if (filter.value && (activeElement === filter || body.dataset.view === "home")) {
		filter.value = "";
		filter.dispatchEvent(new Event("input"));
	} else if (activeElement.matches("input, textarea, select")) activeElement.blur();
	else location.hash = "#/";
}

addEventListener("keydown", (event) => {
	if (event.ctrlKey || event.metaKey || event.altKey || byId("dialog").open || !isPaired()) return;
	if (event.key === "Escape") return goBack();
	if (event.target.matches("input:not([type=radio], [type=checkbox]), textarea, select") || (event.key !== "?" && localStorage.getItem(KEYS_OFF))) return;
	if (!Object.hasOwn(ACTIONS, event.key)) return;
	event.preventDefault();
	ACTIONS[event.key][1]();
});

// --- beginning

whenUnpaired(() => {
	// Nothing of what was shown stays.
	Object.assign(state, { asks: [], connected: false, looked: false, turn: null });
	list.take({ full: true, rows: [], gone: [], order: [] });
	list.takeEnded([]);
	inbox.clear();
	talk.close();
	talk.drafts.clear();
	fill(byId("begin"));
	paintCount();
	showUnpaired(ENDED);
});
addEventListener("hashchange", route);
const moved = () => {
	inbox.moved();
	talk.board?.moved();
};
addEventListener("scroll", moved, { capture: true, passive: true });
const head = new CSSStyleSheet();
document.adoptedStyleSheets = [head];
const sizes = new ResizeObserver(() => {
	// What is scrolled into view is not below the head. No element has a style of its own.
	head.replaceSync(`:root{--head:${byId("head").offsetHeight}px}`);
	moved();
});
for (const id of ["main", "head", "stale"]) sizes.observe(byId(id));
byId("help").onclick = showHelp;
byId("ended").onchange = readEnded;
byId("skip").onclick = (event) => {
	event.preventDefault();
	byId("main").focus();
};
byId("notify").onclick = async () => {
	await Notification.requestPermission();
	byId("notify").hidden = true;
};
setInterval(() => document.hidden || refreshAges(), 10_000);

if (code) takeLink(code);
else if (isPaired()) enter();
else showUnpaired(hasEnded && ENDED);
