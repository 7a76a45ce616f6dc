/*
 * The locks and rows that the server has told, by name and by id. It merges patches and knows neither the page nor the
 * network. It also keeps the local queue of each host in order, because a row's own position is as old as the row.
 */

/* The first index whose item does not come before this one. */
export function indexIn(array, item, compare) {
  let low = 0, high = array.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compare(array[middle], item) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

export const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/* As the daemon serves them. Ids of one daemon count up. */
const servedFirst = (a, b) => b.priority - a.priority || order(a.since, b.since) || a.serial - b.serial;

/* Holders by slot, then waiters by host and turn. */
export function rowOrder(a, b) {
  return order(a.name, b.name) || a.rank - b.rank || (a.rank === 0 ? (a.slot ?? Infinity) - (b.slot ?? Infinity) || 0 : 0) ||
    order(a.host, b.host) || servedFirst(a, b) || order(a.waiter, b.waiter);
}

const KNOWN = ['waiting', 'busy', 'granted', 'cancelled'];

function stateOf(row) {
  if (row.unknown || !KNOWN.includes(row.state)) return 'unknown';
  return row.revoked ? 'revoked' : row.state;
}

function readRow(row) {
  const state = stateOf(row);
  return { ...row, state, rank: state === 'waiting' || state === 'cancelled' ? 1 : 0,
    priority: row.priority ?? 0, since: row.since ?? '', serial: Number(/\d*$/.exec(row.waiter)[0]),
    born: row.born ?? (row.age == null ? null : Date.now() - row.age * 1000) };
}

const heardAt = ({ heard, age }) => (heard !== undefined ? heard : age == null ? null : Date.now() - age * 1000);

export class Model {
  locks = new Map();
  rows = new Map();
  head = {}; /* link, broker, silent_hosts, more */
  #whole = new Set(); /* lists that the server has not sent since the reset */
  #queues = new Map();
  #named = new Map(); /* busy slots of a lock that a row explains */

  /* Returns the ids that changed. */
  apply(patch) {
    const gone = { locks: patch.locks_gone ?? [], rows: patch.rows_gone ?? [] };
    const changed = { locks: [], rows: [], gone, reset: patch.reset === true, whole: false };
    if (patch.reset) this.head = {};
    if (patch.reset) this.#whole = new Set(['locks', 'rows']);
    /* The first list after a reset has all. Until then the old ones stay, so that the page does not flicker. */
    for (const [key, id] of [['locks', 'name'], ['rows', 'waiter']]) {
      if (!patch[key] || !this.#whole.delete(key)) continue;
      const now = new Set(patch[key].map((one) => one[id]));
      gone[key] = [...this[key].keys()].filter((one) => !now.has(one));
      changed.whole = true;
    }
    for (const lock of patch.locks ?? []) {
      this.locks.set(lock.name, lock);
      changed.locks.push(lock.name);
    }
    for (const row of patch.rows ?? []) {
      this.#forget(row.waiter);
      this.#keep(readRow(row));
      changed.rows.push(row.waiter);
    }
    gone.last = gone.rows.map((id) => this.rows.get(id)).filter((row) => row);
    gone.rows.forEach((id) => this.#forget(id));
    gone.locks.forEach((id) => this.locks.delete(id));
    if (patch.link) this.head.link = { ...patch.link, heard: heardAt(patch.link) };
    for (const key of ['broker', 'silent_hosts', 'more']) if (key in patch) this.head[key] = patch[key];
    return changed;
  }

  /* All of it as one patch, for a page that joins. */
  snapshot() {
    return { reset: true, locks: [...this.locks.values()], rows: [...this.rows.values()], ...this.head };
  }

  /* Its place in the queue of its host; null: it does not wait. */
  position(row) {
    if (row.state !== 'waiting') return null;
    if (this.head.more > 0) return row.position;
    return indexIn(this.#queues.get(`${row.name} ${row.host}`), row, servedFirst) + 1;
  }

  /* Busy slots that no row explains. */
  unexplained(name) {
    const lock = this.locks.get(name);
    return lock && lock.kind !== 'mutex' ? Math.max(0, (lock.busy ?? 0) - (this.#named.get(name) ?? 0)) : 0;
  }

  #keep(row) {
    this.rows.set(row.waiter, row);
    this.#count(row, 1);
    if (row.state !== 'waiting') return;
    const key = `${row.name} ${row.host}`;
    if (!this.#queues.has(key)) this.#queues.set(key, []);
    const queue = this.#queues.get(key);
    queue.splice(indexIn(queue, row, servedFirst), 0, row);
  }

  #forget(id) {
    const row = this.rows.get(id), key = row && `${row.name} ${row.host}`;
    if (!row) return;
    this.rows.delete(id);
    this.#count(row, -1);
    if (row.state !== 'waiting') return;
    const queue = this.#queues.get(key);
    queue.splice(indexIn(queue, row, servedFirst), 1);
    if (queue.length === 0) this.#queues.delete(key);
  }

  #count(row, by) {
    if (row.state === 'busy' && row.slot != null) this.#named.set(row.name, (this.#named.get(row.name) ?? 0) + by);
  }
}
