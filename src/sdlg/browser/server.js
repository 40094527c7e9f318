// The server: a call with the key, and a stream of events that ends with a result.

import { stored } from "./history.js";
import { wholeNumber } from "./numbers.js";

/** Something went wrong, in words for the reader. */
class Failure extends Error {
  constructor(message, { status = 0, wait = null } = {}) {
    super(message);
    this.status = status;
    this.wait = wait;
  }
}

export const key = () => stored(sessionStorage, "sdlg.key") ?? "";

export async function call(path, options = {}) {
  const headers = { "Content-Type": "application/json", ...(key() ? { Authorization: `Bearer ${key()}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The server cannot be reached. Is `sdlg serve` still running?");
  }
  if (!response.ok) throw await failureOf(response);
  return response;
}

async function failureOf(response) {
  const body = await response.json().catch(() => null);
  const message = body?.error?.message ?? `The server said ${response.status} ${response.statusText}`;
  return new Failure(message, { status: response.status, wait: wholeNumber(response.headers.get("Retry-After"), null) });
}

/** Ask, hand every event on, return the result. */
export async function fetchResult({ context, ...asked }, signal, tell) {
  const body = JSON.stringify({ ...asked, context: context || null, stream: true });
  const response = await call("v1/uncertainty", { method: "POST", body, signal });
  for await (const event of eventsOf(response)) {
    if (event.type === "result") return event.result;
    if (event.type === "error") throw new Failure(event.error?.message ?? "The server could not answer.");
    tell(event);
  }
  throw new Failure("The connection ended before the result was there.");
}

async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new Failure("The connection broke before the result was there.");
    });
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const data = line.startsWith("data:") ? line.slice(5).trim() : ""; // others are heartbeats
      if (data && data !== "[DONE]") yield JSON.parse(data);
    }
  }
}
