// The server: a call with the key, and a stream of events that ends with a result.

/** What is written as a whole number, as one. */
export const wholeNumber = (text, otherwise) => (/^\d{1,15}$/.test(text ?? "") ? Number(text) : otherwise);

/** What a browser keeps; null if it keeps nothing. */
export function stored(storage, name) {
  try {
    return storage.getItem(name);
  } catch {
    return null;
  }
}

/** Something went wrong, in words for the reader. */
class Failure extends Error {
  constructor(message, { status = 0, wait = null } = {}) {
    super(message);
    Object.assign(this, { status, wait });
  }
}

export const key = () => stored(sessionStorage, "sdlg.key") ?? "";

const brokenBy = (message) => (error) => {
  throw error.name === "AbortError" ? error : new Failure(message);
};

export async function call(path, options = {}) {
  const headers = { "Content-Type": "application/json", ...(key() ? { Authorization: `Bearer ${key()}` } : {}) };
  const unreachable = brokenBy("The server cannot be reached. Is `sdlg serve` still running?");
  const response = await fetch(path, { ...options, headers }).catch(unreachable);
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  const message = body?.error?.message ?? `The server said ${response.status} ${response.statusText}`;
  throw new Failure(message, { status: response.status, wait: wholeNumber(response.headers.get("Retry-After"), null) });
}

/** Ask, hand every event on, return the result. */
export async function fetchResult({ context, draws, ...asked }, signal, onEvent) {
  const options = draws === undefined ? {} : { options: { draws } };
  const body = JSON.stringify({ ...asked, ...options, context: context || null, stream: true });
  const response = await call("v1/uncertainty", { method: "POST", body, signal });
  for await (const event of eventsOf(response)) {
    if (event.type === "result") return { ...event.result, said: event.said };
    if (event.type === "error") throw new Failure(event.error?.message ?? "The server could not answer.");
    onEvent(event);
  }
  throw new Failure("The connection ended before the result was there.");
}

async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch(brokenBy("The connection broke before the result was there."));
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const data = line.startsWith("data:") ? line.slice(5).trim() : ""; // others are heartbeats
      if (data && data !== "[DONE]") yield JSON.parse(data);
    }
  }
}
