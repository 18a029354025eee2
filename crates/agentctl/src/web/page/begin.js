// The form that starts a session.

import { byId, fill, h, isMeantAgain, longPath, newNotice, shortPath, tell } from "./dom.js";
import { keyOf, routeOf } from "./list.js";
import { failure, get, post, wordsOf } from "./net.js";

const field = (label, input) => h("label.field", h("span", label), input);
const check = (name, label, checked) => h("label.check", h("input", { type: "checkbox", name, checked }), label);
const text = (name, more) => h("input", { name, autocomplete: "off", spellcheck: "false", ...more });

// A hint names fields as the server knows them; a person knows their labels.
const labelled = (form, words) => words.replace(/\x60(\w+)\x60/g, (all, name) => {
	const label = form.elements.namedItem(name)?.closest("label");
	return label ? `“${(label.querySelector("span") ?? label).textContent}”` : all;
});

export async function showBegin() {
	// What was typed stays until it is launched.
	if (byId("begin").querySelector("form")) return byId("begin-title").focus();
	const title = h("h1", { id: "begin-title", tabindex: -1 }, "New session");
	const body = h("div", h("p.empty", "Reading…"));
	fill(byId("begin"), h("a.back", { href: "#/" }, "‹ All"), title, body);
	title.focus();
	const known = await get("/api/begin").catch((refusal) => fill(body, h("p.note", wordsOf(refusal))));
	if (known) fill(body, form(known));
}

function form({ adapters, directories, permissions }) {
	const agents = adapters.filter((one) => one.installed && one.can_launch);
	const missing = adapters.filter((one) => !one.installed).map((one) => one.name);
	const absent = missing.length > 0 && h("p.note", `Not found on the PATH of this server: ${missing.join(", ")}.`);
	if (!agents.length) return [h("p.note", "This server finds no agent that it can start."), absent];
	const notice = newNotice();
	const button = h("button.primary", "Launch");
	const options = (names, words = {}) => names.map((name) => h("option", { value: name }, words[name] ?? name));
	const rights = { "": `as configured (${permissions === "bypass" ? "bypass; from here: default" : permissions})`, default: "the agent’s own setting" };
	let perhaps = null;
	const launch = async (event) => {
		event.preventDefault();
		const given = Object.fromEntries([...new FormData(event.target)].filter(([, value]) => value));
		given.cwd = longPath(given.cwd);
		for (const name of ["worktree", "ask", "keep"]) if (given[name]) given[name] = true;
		if (!agents.find((one) => one.name === given.adapter).can_ask) delete given.ask;
		const order = JSON.stringify(given);
		if (order === perhaps && !(await isMeantAgain("Launch"))) return;
		button.disabled = true;
		perhaps = null;
		try {
			const begun = await post("/api/launch", given);
			fill(byId("begin"));
			location.hash = routeOf(keyOf(begun));
		} catch (refusal) {
			if (refusal.isUnclear) perhaps = order;
			tell(notice, labelled(event.target, failure(refusal, "launched")), true);
		}
		button.disabled = false;
	};
	return h("form.begin", { onsubmit: launch },
		field("Agent", h("select", { name: "adapter" }, options(agents.map((one) => one.name)))), absent,
		field("Prompt", h("textarea", { name: "prompt", rows: 6, required: true })),
		field("Directory", text("cwd", { required: true, list: "directories", value: directories[0] ?? "" })),
		h("datalist", { id: "directories" }, directories.map((one) => h("option", { value: one }, shortPath(one)))),
		h("details", h("summary", "Further options"),
			field("Permissions", h("select", { name: "permissions" }, options(["", "default", "edits"], rights))),
			field("Model", text("model")), field("Name", text("name")),
			check("worktree", "In a git worktree of its own")),
		check("ask", "Ask here for permissions", true), check("keep", "Stay for further messages"),
		button, notice);
}
