/** HTTP requests to the studio's server. A failed request raises a ServerError with the server's message. */

export class ServerError extends Error {
  /**
   * @param {string} message  for the user
   * @param {number} status  the HTTP status; 0 if no complete answer came
   */
  constructor(message, status) {
    super(message);
    this.status = status;
  }

  /** Did the connection fail? Then a retry may help. */
  get lost() {
    return this.status === 0;
  }
}

/**
 * Send a request and return the JSON of the response (null for status 204), or a Blob with `file`.
 * @param {string} path  below /api/
 * @param {{method?: string, body?: any, file?: boolean}} [options]  body: a Blob, else sent as JSON
 * @returns {Promise<any>}
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
  if (answer.ok && content === undefined) throw new ServerError("The studio's response was cut off.", 0);
  if (answer.ok) return content;
  const message = content?.error ?? `The studio refused this (${answer.status}).`;
  throw new ServerError(message, answer.status);
}

export const get = (path, options = {}) => request(path, options);
export const post = (path, body) => request(path, { method: "POST", body });
export const remove = (path) => request(path, { method: "DELETE" });

/** Return the path of a session, or of a resource below it. */
export const session = (id, ...rest) => ["sessions", id, ...rest].map(encodeURIComponent).join("/");
