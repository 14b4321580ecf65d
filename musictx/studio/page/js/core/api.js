/** HTTP requests to the studio's server. A failed request throws a ServerError with the server's message. */

export class ServerError extends Error {
  /** @param {string} message  for the user @param {number} status  the HTTP status; 0 if no complete response came */
  constructor(message, status) {
    super(message);
    this.status = status;
    this.lost = status === 0; // the connection failed, so a retry may help
  }
}

/**
 * Send a request and return the JSON of the response (null for status 204), or a Blob with `file`.
 * @param {string} path  below /api/
 * @param {{method?: string, body?: any, file?: boolean}} [options]  body: a Blob, else sent as JSON
 * @returns {Promise<any>}
 */
export async function request(path, { method = "GET", body, file = false } = {}) {
  const isJson = body !== undefined && !(body instanceof Blob);
  const init = isJson ? { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) } : { method, body };
  const response = await fetch(`/api/${path}`, init).catch(() => {
    throw new ServerError("The studio does not answer. Is musictx studio still running?", 0);
  });
  if (response.status === 204) return null;
  const content = await (file && response.ok ? response.blob() : response.json()).catch(() => undefined);
  if (!response.ok) throw new ServerError(content?.error ?? `The studio refused this (${response.status}).`, response.status);
  if (content === undefined) throw new ServerError("The studio's response was cut off.", 0);
  return content;
}

export const get = (path, options = {}) => request(path, options);
export const post = (path, body) => request(path, { method: "POST", body });
export const remove = (path) => request(path, { method: "DELETE" });

/** Return the path of a session, or of a resource below it. */
export const session = (id, ...rest) => ["sessions", id, ...rest].map(encodeURIComponent).join("/");
