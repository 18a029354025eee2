// A board holds the cards of open asks: of all in the inbox, or of the session that is shown.

import { Card } from "./ask.js";
import { byId, h } from "./dom.js";

export class Board {
	constructor(element, world, fits, empty) {
		Object.assign(this, world, { element, fits, cards: new Map(), done: new Set(), empty: h("p.empty", empty) });
		// A card that grows, or that something above pushes down, moves without a scroll.
		this.sizes = new ResizeObserver(() => this.moved());
		this.sizes.observe(element);
	}

	each(call) {
		for (const card of this.cards.values()) call(card);
	}

	moved() {
		this.each((card) => card.moved());
	}

	// Takes all open asks. Returns those that are new here.
	take(asks) {
		const open = new Map(asks.filter(this.fits).map((ask) => [ask.id, ask]));
		this.each((card) => open.has(card.ask.id) || card.vanish());
		const added = [];
		for (const [id, ask] of open) {
			const known = this.cards.get(id);
			// A look may be older than the answer.
			if (this.done.has(id) || (known && !(known.state === "settled" && known.gone))) continue;
			known?.element.remove();
			const card = new Card(this, ask);
			this.cards.set(id, card);
			this.element.append(card.element);
			added.push(ask);
		}
		this.paintEmpty();
		return added;
	}

	clear() {
		this.cards.clear();
		this.element.replaceChildren();
	}

	dismiss(card) {
		const next = card.element.nextElementSibling ?? card.element.previousElementSibling ?? byId("main");
		card.element.remove();
		if (!card.gone) this.done.add(card.ask.id);
		this.cards.delete(card.ask.id);
		this.paintEmpty();
		next.focus({ preventScroll: true });
	}

	paintEmpty() {
		if (this.cards.size) this.empty.remove();
		else this.element.append(this.empty);
		this.each((card) => {
			card.moved();
			card.arm();
		});
	}

	focus(id) {
		const card = [...this.cards.values()].find((one) => id && one.ask.id.startsWith(id));
		card?.element.scrollIntoView();
		card?.element.focus({ preventScroll: true });
		return Boolean(card);
	}
}
