/*
 * A sorted list on the page. It has the items that pass a filter, and a node for each of the first ones; it makes more
 * when the last of them is seen. A change of an item writes to its node alone, and only what differs. It owns the nodes
 * of its list. It does not know what the items mean.
 */
import { indexIn, order } from './model.js';

const NODES = 300;

export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function mark(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

export class Pane {
  entries = new Map(); /* id to {id, item, shown, node} */
  shown = []; /* those that pass the filter, in order */
  inSight = new Set(); /* those that the window shows */
  selected = '';
  #limit = NODES;

  /* rules: make(entry) returns a node; fill(entry) writes to it; passes(item); compare(a, b) of items. */
  constructor(list, rules) {
    this.list = list;
    this.rules = rules;
    this.sight = new IntersectionObserver((seen) => seen.forEach((one) => this.#see(one)));
  }

  put(id, item) {
    const entry = this.entries.get(id) ?? { id, shown: false, node: null }, passes = this.rules.passes(item);
    this.entries.set(id, entry);
    if (entry.shown && passes && this.#compare(entry, { id, item }) === 0) {
      entry.item = item;
      if (entry.node) this.rules.fill(entry);
      return;
    }
    if (entry.shown) this.#take(entry, passes);
    entry.item = item;
    entry.shown = passes;
    if (!passes) return;
    const index = this.#index(entry);
    this.shown.splice(index, 0, entry);
    this.#draw(index);
    this.#erase(this.shown[this.#limit]);
  }

  drop(id) {
    const entry = this.entries.get(id);
    this.entries.delete(id);
    if (entry?.shown) this.#take(entry, false);
  }

  /* After another filter or another order. */
  renew() {
    const before = this.shown;
    this.shown = [...this.entries.values()].filter((entry) => (entry.shown = this.rules.passes(entry.item)));
    this.shown.sort((a, b) => this.#compare(a, b));
    this.#limit = NODES;
    before.forEach((entry) => entry.shown || this.#erase(entry));
    this.shown.slice(NODES).forEach((entry) => this.#erase(entry));
    for (let index = Math.min(NODES, this.shown.length) - 1; index >= 0; index--) this.#draw(index);
  }

  select(id, focus = false) {
    const was = this.entries.get(this.selected), now = this.entries.get(id);
    this.selected = id;
    if (was?.node && was !== now) this.#choose(was);
    if (now?.shown) this.#extend(this.#index(now));
    if (now?.node) this.#choose(now);
    if (now?.node && focus) {
      now.node.focus({ preventScroll: true });
      now.node.scrollIntoView({ block: 'nearest' });
    }
  }

  /* The id of the item that is so many items away from the selected one. */
  away(by) {
    const entry = this.entries.get(this.selected), last = this.shown.length - 1;
    const from = entry?.shown ? this.#index(entry) : by > 0 ? -1 : last + 1;
    return this.shown[Math.max(0, Math.min(last, from + by))]?.id ?? '';
  }

  #compare(a, b) {
    return this.rules.compare(a.item, b.item) || order(a.id, b.id);
  }

  #index(entry) {
    return indexIn(this.shown, entry, (a, b) => this.#compare(a, b));
  }

  /* Out of the order. Its node stays if it comes back at once, elsewhere. */
  #take(entry, again) {
    this.shown.splice(this.#index(entry), 1);
    if (!again) this.#erase(entry);
    this.#draw(this.#limit - 1);
  }

  /* A node that moves would lose the focus. */
  #draw(index) {
    const entry = this.shown[index], next = this.shown[index + 1]?.node ?? null;
    if (!entry || index >= this.#limit) return;
    if (!entry.node) {
      entry.node = this.rules.make(entry);
      entry.node.entry = entry;
      this.#choose(entry);
      this.sight.observe(entry.node);
    }
    this.rules.fill(entry);
    if (entry.node.parentNode === this.list && entry.node.nextSibling === next) return;
    const active = document.activeElement, had = entry.node.contains(active);
    this.list.insertBefore(entry.node, next);
    if (had) active.focus({ preventScroll: true });
  }

  #erase(entry) {
    if (!entry?.node) return;
    this.sight.unobserve(entry.node);
    this.inSight.delete(entry);
    entry.node.remove();
    entry.node = null;
  }

  #extend(index) {
    while (this.#limit <= index) this.#draw(this.#limit++);
  }

  #see({ target, isIntersecting }) {
    const { entry } = target;
    if (entry.node !== target) return;
    if (!isIntersecting) this.inSight.delete(entry);
    else {
      this.inSight.add(entry);
      this.rules.fill(entry);
      if (!target.nextSibling) this.#extend(Math.min(this.shown.length, this.#limit + NODES) - 1);
    }
  }

  /* The keys reach the selected item, and Tab its buttons. */
  #choose({ id, node }) {
    const chosen = id === this.selected;
    mark(node, 'aria-selected', String(chosen));
    node.tabIndex = chosen ? 0 : -1;
    node.querySelectorAll('button, input').forEach((one) => (one.tabIndex = chosen ? 0 : -1));
  }
}
