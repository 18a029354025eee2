// The form that starts a session.

import { byId, fill, h, setText, shortPath } from "./dom.js";
import { routeOf } from "./list.js";
import { get, post, wordsOf } from "./net.js";

const field = (label, input, help) => h("label.field", h("span", label), input, help && h("small", help));

/// Shows the form, with the agents that this server can start and the directories that were used last.
export async function showBegin() {
	const section = byId("begin");
	const title = h("h1", { id: "begin-title", tabindex: "-1" }, "New session");
	fill(section, h("a.back", { href: "#/" }, "‹ All"), title, h("p.empty", "Reading…"));
	title.focus({ preventScroll: true });
	try {
		const known = await get("/api/begin");
		section.lastElementChild.replaceWith(formOf(known));
	} catch (refusal) {
		setText(section.lastElementChild, wordsOf(refusal));
	}
}

function formOf(known) {
	const agents = known.adapters.filter((one) => one.installed && one.can_launch);
	if (!agents.length) return h("p.note", "No agent that can be started was found in the environment of this server.");
	const adapter = h("select", { name: "adapter", required: true }, agents.map((one) => h("option", { value: one.name }, one.name)));
	const prompt = h("textarea", { name: "prompt", rows: "6", required: true });
	const cwd = h("input", { name: "cwd", required: true, list: "directories", autocomplete: "off", spellcheck: "false", value: known.directories[0] ?? "" });
	const permissions = h("select", { name: "permissions" }, ["", "read", "edits", "auto", "bypass"].map((one) => h("option", { value: one }, one || "the agent’s own setting")));
	const notice = h("p.notice.bad", { role: "status", hidden: true });
	const send = h("button.primary", "Launch");
	const form = h("form.begin",
		field("Agent", adapter, "The agents that are found in the environment of this server."),
		field("Prompt", prompt),
		field("Directory", cwd), h("datalist", { id: "directories" }, known.directories.map((one) => h("option", { value: one }, shortPath(one)))),
		h("details", h("summary", "Further options"),
			field("Permissions", permissions), field("Model", h("input", { name: "model", autocomplete: "off" })), field("Name", h("input", { name: "name", autocomplete: "off" })),
			h("label.check", h("input", { type: "checkbox", name: "worktree" }), " In a git worktree of its own")),
		notice, send);
	form.addEventListener("submit", async (event) => {
		event.preventDefault();
		send.disabled = true;
		notice.hidden = true;
		const given = new FormData(form);
		const body = { adapter: given.get("adapter"), prompt: given.get("prompt"), cwd: given.get("cwd") };
		for (const name of ["permissions", "model", "name"]) if (given.get(name)) body[name] = given.get(name);
		if (given.get("worktree")) body.worktree = true;
		try {
			const begun = await post("/api/launch", body);
			location.hash = routeOf(`${begun.adapter}:${begun.id}`);
		} catch (refusal) {
			notice.hidden = false;
			setText(notice, `Not launched: ${wordsOf(refusal)}`);
		}
		send.disabled = false;
	});
	return form;
}
