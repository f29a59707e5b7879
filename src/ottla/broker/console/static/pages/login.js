// Logging in: the name and SCRAM password of a user of the broker.

import { post } from "../api.js";
import { field, h, replace } from "../dom.js";

export function showLogin(done) {
  const failure = h("p", { role: "alert" });
  const form = h("form", { class: "card login" },
    h("div", { class: "brand" }, h("img", { src: new URL("../ottla.svg", import.meta.url).href, alt: "" }), "Ottla"),
    h("h1", { class: "hidden" }, "Log in"),
    h("p", { class: "sub" }, "Log in as a user of this broker."),
    field("User", h("input", { name: "user", autocomplete: "username", required: true })),
    field("Password", h("input", { name: "password", type: "password", autocomplete: "current-password", required: true })),
    failure, h("div", { class: "actions" }, h("button", { class: "main-action" }, "Log in")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const sent = new FormData(form);
    try {
      await post("/api/login", { user: sent.get("user"), password: sent.get("password") });
      await done();
    } catch (error) {
      failure.className = "note bad";
      failure.textContent = error.message;
    }
  });
  replace(document.getElementById("app"), h("main", { id: "main" }, form));
  form.querySelector("input").focus();
}
