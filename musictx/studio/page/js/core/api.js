/** Requests to the server. Every refusal becomes a ServerError with the sentence of the server. */

export class ServerError extends Error {
  /**
   * @param {string} sentence  for the person at the page
   * @param {number} status  of HTTP; 0: the server did not answer at all
   */
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }

  /** Did the connection fail, so that trying again may help? */
  get lost() {
    return this.status === 0;
  }
}

/**
 * @param {string} path  from /api/ on
 * @param {{method?: string, body?: any, file?: boolean}} [options]  a body that is no Blob goes as JSON
 * @returns {Promise<any>}  the JSON of the answer, null where there is none; of a file its Blob
 */
export async function request(path, { method = "GET", body, file = false } = {}) {
  const blob = body instanceof Blob;
  const headers = body === undefined || blob ? {} : { "Content-Type": "application/json" };
  let answer;
  try {
    answer = await fetch(`/api/${path}`, {
      method,
      headers,
      body: body === undefined || blob ? body : JSON.stringify(body),
    });
  } catch {
    throw new ServerError("The studio does not answer. Is musictx studio still running?", 0);
  }
  if (answer.status === 204) return null;
  const content = await (file && answer.ok ? answer.blob() : answer.json()).catch(() => undefined);
  if (answer.ok && content === undefined) throw new ServerError("The studio's answer broke off.", 0);
  if (answer.ok) return content;
  const sentence = content?.error ?? `The studio refused this (${answer.status}).`;
  throw new ServerError(sentence, answer.status);
}

export const get = (path, options = {}) => request(path, options);
export const post = (path, body) => request(path, { method: "POST", body });
export const remove = (path) => request(path, { method: "DELETE" });

/** Path of a session, or of something in it. */
export const session = (id, ...rest) => ["sessions", id, ...rest].map(encodeURIComponent).join("/");
