/* Runs once for all pages of a browser. It gives each patch to all that are visible, and to a new one the whole state. */
import { Stream } from './stream.js';

const LINGER_MS = 3000;
const ports = new Set();
let timer = 0;
const stream = new Stream((patch) => ports.forEach((port) => port.postMessage(patch)));

function leave() {
  stream.close();
  stream.heard = null;
}

function follow(port, visible) {
  clearTimeout(timer);
  if (!visible) {
    ports.delete(port);
    if (ports.size === 0) timer = setTimeout(leave, LINGER_MS);
    return;
  }
  if (ports.has(port)) return;
  ports.add(port);
  if (stream.heard) port.postMessage(stream.model.snapshot());
  stream.open();
}

self.onconnect = (event) => {
  const port = event.ports[0];
  port.onmessage = (message) => follow(port, message.data);
};
