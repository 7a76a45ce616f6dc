/*
 * A list on the page. It has a node for each of the first items, and makes more when the end of the list is seen. It
 * writes and moves only what differs. It owns the nodes of its list. It does not know what the items mean.
 */

const NODES = 100;

export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function mark(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

export class Pane {
  items = [];
  selected = '';
  nodes = new Map(); /* by id, of the first items */
  #limit = NODES;

  /* rules: id(item); make(item) returns a node; fill(node, item) writes to it. */
  constructor(list, rules) {
    const end = document.createElement('div');
    this.list = list;
    this.rules = rules;
    list.after(end);
    new IntersectionObserver(([{ isIntersecting }]) => {
      if (isIntersecting && this.#limit < this.items.length) this.#extend(this.#limit);
    }).observe(end);
  }

  show(items) {
    const wanted = items.slice(0, this.#limit), ids = new Set(wanted.map(this.rules.id)), active = document.activeElement;
    this.items = items;
    for (const [id, node] of this.nodes) {
      if (ids.has(id)) continue;
      node.remove();
      this.nodes.delete(id);
    }
    let next = this.list.firstChild;
    for (const item of wanted) {
      const node = this.#node(item);
      /* One item has moved down: the others stay. */
      if (node !== next && next?.nextSibling === node) {
        next.remove();
        next = node;
      }
      if (node === next) next = next.nextSibling;
      else this.list.insertBefore(node, next);
    }
    /* A node that moves loses the focus. */
    if (document.activeElement !== active && this.list.contains(active)) active.focus({ preventScroll: true });
  }

  select(id, focus = false) {
    const index = this.#index(id);
    this.selected = id;
    if (index >= this.#limit) this.#extend(index);
    this.nodes.forEach((node) => this.#choose(node));
    if (!focus) return;
    this.nodes.get(id)?.focus({ preventScroll: true });
    this.nodes.get(id)?.scrollIntoView({ block: 'nearest' });
  }

  /* The id of the item that is so many items away from the selected one. */
  away(by) {
    const last = this.items.length - 1, index = this.#index(this.selected);
    const from = index >= 0 ? index : by > 0 ? -1 : last + 1;
    return last < 0 ? '' : this.rules.id(this.items[Math.max(0, Math.min(last, from + by))]);
  }

  #index(id) {
    return this.items.findIndex((item) => this.rules.id(item) === id);
  }

  #extend(index) {
    this.#limit = index + NODES;
    this.show(this.items);
  }

  #node(item) {
    const id = this.rules.id(item), node = this.nodes.get(id) ?? this.rules.make(item);
    this.nodes.set(id, node);
    node.item = item;
    this.rules.fill(node, item);
    this.#choose(node);
    return node;
  }

  /* The keys reach the selected item, and Tab its buttons. */
  #choose(node) {
    const chosen = this.rules.id(node.item) === this.selected;
    if (node.ariaSelected === String(chosen)) return;
    node.ariaSelected = String(chosen);
    [node, ...node.querySelectorAll('button, input')].forEach((one) => (one.tabIndex = chosen ? 0 : -1));
  }
}
