/* One stream of server-sent events, which begins again when it ends. It owns its timers. */
import { Model } from './model.js';

const FIRST_RETRY_MS = 500, LAST_RETRY_MS = 30000;
/* The server sends a patch at least every 5 s. */
const SILENCE_MS = 20000;

export class Stream {
  model = new Model();
  #source = null;
  #timer = 0;
  #failures = 0;

  /* tell(patch, went): for each patch, after the model has it. went: rows that went by themselves. */
  constructor(tell) {
    this.tell = tell;
  }

  open() {
    if (this.#source || this.#timer) return;
    this.#source = new EventSource('v1/events');
    this.#source.addEventListener('patch', (event) => this.#heard(event));
    this.#source.onerror = () => this.#lost('lockbroker-web does not answer');
  }

  close() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
    this.#timer = 0;
  }

  #receive(patch) {
    this.tell(patch, this.model.apply(patch));
  }

  #heard(event) {
    this.#failures = 0;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#lost('lockbroker-web is silent'), SILENCE_MS);
    this.heard = Date.now();
    this.#receive(JSON.parse(event.data));
  }

  #lost(why) {
    const pause = Math.min(FIRST_RETRY_MS * 2 ** this.#failures++, LAST_RETRY_MS);
    this.close();
    this.#receive({ link: { up: false, why, heard: this.heard ?? null } });
    this.#timer = setTimeout(() => {
      this.#timer = 0;
      this.open();
    }, pause * (0.5 + Math.random() / 2));
  }
}

/*
 * The stream that all pages of this browser share, because a browser has about six connections to one address. If it
 * has no SharedWorker, the page has a stream of its own. A hidden page takes no part.
 */
export function share(name, tell) {
  const own = new Stream(tell);
  let port = null;
  const follow = () => {
    const visible = document.visibilityState === 'visible';
    if (port) port.postMessage(visible);
    else if (visible) own.open();
    else own.close();
  };
  try {
    const worker = new SharedWorker('worker.js', { type: 'module', name });
    worker.onerror = () => {
      port = null;
      follow();
    };
    port = worker.port;
    port.onmessage = (event) => tell(event.data, own.model.apply(event.data));
  } catch {
    port = null;
  }
  document.addEventListener('visibilitychange', follow);
  window.addEventListener('pagehide', () => (port ? port.postMessage(false) : own.close()));
  window.addEventListener('pageshow', follow);
  follow();
  return own.model;
}
