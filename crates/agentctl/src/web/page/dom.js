// Elements and short texts. Every text becomes a text node: no string is ever parsed as HTML.

// Makes an element: h("a.class", { href, onclick }, child, "text", …). The attributes may be left out.
export function h(selector, attributes, ...children) {
	const [name, ...classes] = selector.split(".");
	const element = document.createElement(name);
	if (classes.length) element.className = classes.join(" ");
	if (attributes?.constructor !== Object) children.unshift(attributes);
	else for (const [key, value] of Object.entries(attributes)) {
		if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
		else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true && !key.startsWith("aria") ? "" : value);
	}
	add(element, children);
	return element;
}

function add(element, children) {
	element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
}

export function fill(element, ...children) {
	element.replaceChildren();
	add(element, children);
}

// A text that has not changed is not laid out or read aloud again.
export function setText(element, text) {
	if (element.textContent !== text) element.textContent = text;
}

export function mark(link, isCurrent) {
	if (isCurrent) link.setAttribute("aria-current", "page");
	else link.removeAttribute("aria-current");
}

export const byId = (id) => document.getElementById(id);

const LINK = /https?:\/\/[^\s<>"'\x60\u200b-\u200f\u2028-\u202f\u2060-\u206f]+/gi;

// Makes links of http and https addresses. A link shows the whole address that it opens.
export function linked(text) {
	const nodes = [];
	let end = 0;
	for (const { 0: found, index } of text.matchAll(LINK)) {
		const address = found.replace(/[.,;:!?*_~\]]+$/, "").replace(/^([^(]*)\)+[^)]*$/, "$1");
		if (!URL.canParse(address)) continue;
		const { href } = new URL(address);
		nodes.push(text.slice(end, index), h("a", { href, rel: "noreferrer noopener", target: "_blank" }, href === `${address}/` ? address : href));
		end = index + address.length;
	}
	return [...nodes, text.slice(end)];
}

const SIGNS = { "+": "added", "-": "removed", "@": "head" };

// The lines of a patch below a heading that names its file: the lines that name it again are left out.
export function patchLines(text) {
	let isHead = /^@@/m.test(text);
	return h("div.patch", { tabindex: 0, role: "group", "aria-label": "Changed lines" }, text.replace(/\n$/, "").split("\n").map((line) => {
		if (line.startsWith("@@")) isHead = false;
		else if (line.startsWith("diff --git ")) isHead = true;
		if (isHead && /^(diff --git |index |--- |\+\+\+ )/.test(line)) return null;
		const kind = isHead ? "head" : SIGNS[line[0]] ?? (/^(diff |index |new |deleted |old |similarity |rename |Binary )/.test(line) ? "head" : "same");
		return h(`div.line.${kind}`, kind === "removed" ? `−${line.slice(1)}` : line || " ");
	}));
}

let home;
export const setHome = (directory) => (home = directory);

export const shortPath = (path) => (home && `${path}/`.startsWith(`${home}/`) ? `~${path.slice(home.length)}` : path ?? "");

export const folder = (path) => path && h("span.directory", { title: path }, h("bdi", shortPath(path)));

export function span(seconds) {
	const [size, unit] = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]].find(([least]) => seconds >= least) ?? [1, "s"];
	return `${Math.floor(seconds / size)}${unit}`;
}

export function ageOf(moment, after = "") {
	if (!moment) return null;
	const element = h("time", { datetime: moment, title: new Date(moment).toLocaleString() });
	element.refresh = () => setText(element, span(Math.max(0, (Date.now() - Date.parse(moment)) / 1000)) + after);
	element.refresh();
	return element;
}

export function refreshAges() {
	for (const element of document.querySelectorAll("time")) element.refresh();
}

export function say(text, urgent) {
	setText(byId(urgent ? "say-assertive" : "say-polite"), text);
}

// Shows a dialog. The browser gives the focus back at its end. Resolves to the name of the pressed button.
export function openDialog(title, children, buttons) {
	const dialog = byId("dialog");
	return new Promise((resolve) => {
		dialog.returnValue = "";
		fill(dialog, h("h2", { id: "dialog-title" }, title), children, h("div.buttons", buttons.map((name, index) => h(index ? "button.danger" : "button", { onclick: () => dialog.close(name) }, name))));
		dialog.onclose = () => resolve(dialog.returnValue);
		dialog.showModal();
	});
}
