// The HTTP API of the broker. Changes carry the token of this session; an answer that is an error is thrown.

export const session = { token: "", user: "", readOnly: false, loginNeeded: false, isKnown: false };

export class ApiError extends Error {
  constructor(status, name, message) {
    super(message);
    this.status = status;
    this.name = name;
  }
}

export async function refreshSession() {
  const found = await get("/api/session");
  Object.assign(session, { token: found.token ?? "", user: found.user ?? "", readOnly: Boolean(found.read_only), loginNeeded: found.login_needed, isKnown: found.is_known });
  return session;
}

async function ask(method, path, body) {
  const headers = { Accept: "application/json" };
  if (method !== "GET") { headers["Content-Type"] = "application/json"; headers["X-Ottla-Token"] = session.token; }
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin" });
  } catch {
    throw new ApiError(0, "NO_ANSWER", "The broker does not answer.");
  }
  const value = await answer.json().catch(() => ({}));
  if (answer.ok) return value;
  if (answer.status === 401 && value.error === "LOGIN_NEEDED") window.dispatchEvent(new Event("ottla-login"));
  throw new ApiError(answer.status, value.error ?? "ERROR", value.message ?? answer.statusText);
}

/** GET with parameters; those that are empty are left out. */
export function get(path, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined && value !== null));
  return ask("GET", query.size ? `${path}?${query}` : path);
}

export const post = (path, body) => ask("POST", path, body);
export const remove = (path) => ask("DELETE", path);
export const part = encodeURIComponent;
